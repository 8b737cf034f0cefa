"""A gang rescaled by its controller, with an agent in every Pod: who is told what, and when."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from framework.api import constants
from framework.kube.resources import FRAMEWORKS, PODS, Object
from tests.support.gang import (
    MEMBER_SCRIPT,
    Change,
    GangCluster,
    build_gang,
    build_role,
    find_container,
    list_tasks,
)

pytestmark = [pytest.mark.local, pytest.mark.timeout(90)]

AGENT = "rendezvous"
DRAIN_SECONDS = 60
TOLD = "cat >>/gate/told-$FC_POD_NAME"


def build_agent(*arguments: str, **env: str) -> Object:
    variables = {"FB_DEBOUNCE_SEC": "0", "FB_NOTIFY_COMMAND": TOLD, **env}
    return {
        "name": AGENT,
        "image": "frameworkbarrier/framework-rendezvous",
        "args": list(arguments),
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "volumeMounts": [
            {"name": "barrier", "mountPath": constants.WORKING_DIR},
            {"name": "gate", "mountPath": "/gate"},
        ],
    }


def build_watched_role(count: int, *, is_native: bool) -> Object:
    """Workers with a sidecar, native or as an ordinary container, whose role drains."""
    role = build_role("worker", count)
    role["drain"] = {"timeoutSec": DRAIN_SECONDS}
    spec = role["task"]["pod"]["spec"]
    if is_native:
        spec["initContainers"].append(build_agent("watch") | {"restartPolicy": "Always"})
    else:
        spec["containers"].append(build_agent("watch"))
    return role


def list_running(world: GangCluster) -> list[int]:
    """List the indexes of the Tasks that run and do not leave."""
    framework = [c for c in world.changes if c.resource is FRAMEWORKS][-1].body
    tasks = list_tasks(framework).values()
    return [
        task["index"]
        for task in tasks
        if task["state"] == "AttemptRunning" and not task["deletionPending"]
    ]


async def scale(world: GangCluster, count: int) -> None:
    path = "/spec/taskRoles/0/taskNumber"
    await world.patch_spec("gang", {"op": "replace", "path": path, "value": count})


async def wait_until_acknowledged(world: GangCluster, *indexes: int) -> None:
    """Wait until these Pods have acknowledged one generation, the newest of them all."""
    wanted = [f"gang-worker-{index}" for index in indexes]

    def is_agreed(_: Change) -> bool:
        newest: dict[str, int] = {}
        for change in world.changes:
            annotations = change.body["metadata"].get("annotations") or {}
            if change.resource is PODS and change.name in wanted:
                key = constants.ACKNOWLEDGED_GENERATION_ANNOTATION
                newest[change.name] = int(annotations.get(key, 0))
        last = max((int(g) for g in list_generations(world)), default=0)
        return len(newest) == len(wanted) and set(newest.values()) == {last} and last > 0

    await world.wait_for(f"acknowledgement of {wanted}", is_agreed)


def list_generations(world: GangCluster) -> list[str]:
    return [
        change.body["metadata"]["annotations"][constants.GENERATION_ANNOTATION]
        for change in world.changes
        if constants.GENERATION_ANNOTATION in (change.body["metadata"].get("annotations") or {})
    ]


def read_told(tmp_path: Path) -> dict[str, list[dict[str, Any]]]:
    return {
        path.name.removeprefix("told-"): list(map(json.loads, path.read_text().splitlines()))
        for path in sorted((tmp_path / "gate").glob("told-*"))
    }


def is_deleted(name: str) -> Callable[[Change], bool]:
    return lambda change: change.type == "DELETED" and change.name == name


async def wait_for_scale(world: GangCluster, count: int) -> None:
    await world.wait_for(
        f"{count} running Tasks", lambda _: list_running(world) == list(range(count))
    )


@pytest.mark.parametrize("is_native", [True, False], ids=["native", "ordinary"])
async def test_rescaled_gang_is_told_in_order_and_drains_by_acknowledgement(
    world: GangCluster,
    tmp_path: Path,
    is_native: bool,  # noqa: FBT001
) -> None:
    await world.create(build_gang(build_watched_role(4, is_native=is_native)))
    await wait_for_scale(world, 4)
    await wait_until_acknowledged(world, *range(4))
    await scale(world, 6)
    await wait_for_scale(world, 6)
    await wait_until_acknowledged(world, *range(6))
    await scale(world, 3)
    for index in (3, 4, 5):
        # Long before the drain's deadline: everybody has acknowledged.
        await world.wait_for(
            f"end of worker/{index}",
            is_deleted(f"gang-worker-{index}"),
        )
    await wait_until_acknowledged(world, *range(3))
    for index in range(3):
        world.end_task("worker", index)
    done = await world.wait_for_state("Completed")

    status = done["status"]["attemptStatus"]["completionStatus"]
    assert status["type"]["name"] == "Succeeded", status
    told = read_told(tmp_path)
    assert len(told) == 6
    for pod, changes in told.items():
        generations = [(c["previousGeneration"], c["generation"]) for c in changes]
        # In order and none twice; one in which nobody came or went is not told.
        flat = [number for pair in generations for number in pair]
        assert flat == sorted(flat), f"{pod}: {generations}"
        numbers = [generation for _, generation in generations]
        assert len(set(numbers)) == len(numbers), f"{pod}: {generations}"
    for index in (3, 4, 5):
        (leaving,) = [c for c in told[f"gang-worker-{index}"] if c["event"] == "leaving"]
        assert leaving["deadline"]
    for index in range(3):
        members: set[int] = set()
        sizes = []
        for change in told[f"gang-worker-{index}"]:
            members |= {peer["index"] for peer in change["added"]}
            members -= {peer["index"] for peer in change["removed"]}
            sizes.append(len(members))
        assert sizes[0] == 4
        assert {4, 6, 3} <= set(sizes)
    for seen in (c for c in world.changes if c.resource is PODS):
        agent = find_container(seen.body, AGENT)
        assert agent.get("terminated", {}).get("exitCode", 0) == 0, seen.status
        if seen.name in {f"gang-worker-{i}" for i in range(3)}:
            assert seen.status.get("phase") != "Failed"


async def test_wrapper_of_a_completing_attempt_ends_its_command(world: GangCluster) -> None:
    """The chief succeeds, so the attempt completes; the worker's wrapper is told by the roster."""
    worker = build_role("worker", 1, has_barrier=False)
    pod = worker["task"]["pod"]
    pod["metadata"] = {"annotations": {constants.WRAPPER_ANNOTATION: "true"}}
    pod["spec"]["initContainers"] = [build_agent("install")]
    agent = f"{constants.WORKING_DIR}/agent/rendezvous.pyz"
    script = MEMBER_SCRIPT.replace("exit 143", "exit 5")
    pod["spec"]["containers"][0]["command"] = ["python3", agent, "run", "--", "sh", "-c", script]
    pod["spec"]["terminationGracePeriodSeconds"] = 20
    chief = build_role("chief", 1)
    chief["frameworkAttemptCompletionPolicy"] = {
        "minFailedTaskCount": 1,
        "minSucceededTaskCount": 1,
    }
    gang = build_gang(chief, worker)
    gang["spec"]["completedPodPolicy"] = "Retain"
    await world.create(gang)
    await world.wait_for_log("gang-worker-0", "started worker/0", container="main")
    world.end_task("chief", 0)
    await world.wait_for_state("Completed")
    assert "terminated" in await world.read_log("gang-worker-0")
    last = [c for c in world.changes if c.resource is PODS and c.name == "gang-worker-0"][-1]
    assert find_container(last.body, "main")["terminated"]["exitCode"] == 5
