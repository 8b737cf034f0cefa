"""A gang rescaled by its controller, with an agent in every Pod: who is told what, and when."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from framework.api import constants
from framework.kube.resources import EVENTS, FRAMEWORKS, PODS, Object
from tests.support.measuring.pace import stretch
from tests.support.servers.gang import (
    MAIN,
    MEMBER_SCRIPT,
    NAMESPACE,
    Change,
    GangCluster,
    build_gang,
    build_role,
    find_container,
    find_processes,
    list_tasks,
)
from tests.support.slow import keep_first
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.local

AGENT = "rendezvous"
DRAIN_SECONDS = 60
TOLD = "cat >>/gate/told-$FC_POD_NAME"


# Ends as a file says: with a code, or by a signal.
ENDING_SCRIPT = """
while [ ! -e /gate/end-$FC_POD_NAME ]; do sleep 0.1; done
how=$(cat /gate/end-$FC_POD_NAME)
[ "$how" != kill ] || kill -9 $$
exit "$how"
"""
HOW = ("0", "kill", "3")
CODES = (0, 137, 3)
# The wrapper makes a code of its own of each; to the others a failure is a failure.
SERVED = {"native": 2, "pod": 2, "wrapper": 3}


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


@pytest.mark.parametrize("is_native", keep_first([True, False]), ids=["native", "ordinary"])
async def test_rescaled_gang_is_told_in_order_and_drains_by_acknowledgement(
    world: GangCluster,
    tmp_path: Path,
    *,
    is_native: bool,
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


def build_served_role(end: str, tmp_path: Path) -> Object:
    """Tasks whose sidecar learns in this way that it is no longer needed."""
    role = build_role(end, SERVED[end], has_barrier=False)
    role["frameworkAttemptCompletionPolicy"] = {
        "minFailedTaskCount": -1,
        "minSucceededTaskCount": -1,
    }
    pod = role["task"]["pod"]
    spec = pod["spec"]
    script = tmp_path / "gate" / f"train_{end}.sh"
    script.write_text(ENDING_SCRIPT)
    (main,) = spec["containers"]
    main["command"] = ["sh", f"/gate/{script.name}"]
    agent = build_agent("watch", FB_NOTIFY_COMMAND="", FB_SIDECAR_END=end)
    if end == "wrapper":
        spec["initContainers"] = [build_agent("install") | {"name": "install"}]
        zipapp = f"{constants.WORKING_DIR}/agent/rendezvous.pyz"
        main["command"] = ["python3", zipapp, "run", "--", *main["command"]]
    if end == "native":
        spec["initContainers"] = [agent | {"restartPolicy": "Always"}]
    else:
        spec["containers"].append(agent)
    return role


def is_ended(name: str) -> Callable[[Change], bool]:
    return lambda change: (
        change.name == name and change.status.get("phase") in {"Succeeded", "Failed"}
    )


@pytest.mark.slow
async def test_pods_end_as_their_programs_do_whatever_ends_their_agents(
    world: GangCluster, tmp_path: Path
) -> None:
    # "shared" needs a process namespace of the Pod, which the local cluster has none of:
    # tests/rendezvous/test_sidecar_ends.py has it.
    gang = build_gang(*(build_served_role(end, tmp_path) for end in SERVED))
    gang["spec"]["completedPodPolicy"] = "Retain"
    await world.create(gang)
    pods = {f"gang-{end}-{i}": i for end, count in SERVED.items() for i in range(count)}
    for pod in pods:
        await world.wait_for_log(pod, "is in force", container=AGENT)
    for pod, index in pods.items():
        (tmp_path / "gate" / f".{pod}").write_text(HOW[index])
        (tmp_path / "gate" / f".{pod}").rename(tmp_path / "gate" / f"end-{pod}")
    # Also where all Pods have ended before the attempt does.
    await world.wait_for_state("Completed")
    for pod, index in pods.items():
        ended = await world.wait_for(f"end of {pod}", is_ended(pod))
        code = find_container(ended.body, MAIN)["terminated"]["exitCode"]
        assert code == CODES[index], ended.status
        agent = find_container(ended.body, AGENT)
        assert agent["terminated"]["exitCode"] == 0, await world.read_log(pod, AGENT)
        assert ended.status["phase"] == ("Succeeded" if code == 0 else "Failed"), pod


@pytest.mark.slow
async def test_settings_are_read_from_annotations_of_the_pod(
    world: GangCluster, tmp_path: Path
) -> None:
    role = build_role("worker", 2, "sleep 0", has_barrier=False)
    pod = role["task"]["pod"]
    pod["metadata"] = {
        "annotations": {
            "frameworkbarrier.io/ports": "worker=4000+index",
            "frameworkbarrier.io/slots": "3",
            "frameworkbarrier.io/notify-command": "cat >/gate/never",
            "frameworkbarrier.io/sluts": "9",
        }
    }
    spec = pod["spec"]
    item = {"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}}
    spec["volumes"].append({"name": "podinfo", "downwardAPI": {"items": [item]}})
    agent = build_agent("render", FB_SLOTS="5")
    agent["volumeMounts"].append({"name": "podinfo", "mountPath": "/etc/podinfo"})
    spec["initContainers"] = [agent]
    copy = f"cp {constants.WORKING_DIR}/current/hosts.hydra /gate/hosts-$FC_POD_NAME"
    ports = f"cat {constants.WORKING_DIR}/current/tf_config.json >/gate/tf-$FC_POD_NAME"
    spec["containers"][0]["command"] = ["sh", "-c", f"{copy}; {ports}"]
    await world.create(build_gang(role))
    await world.wait_for_state("Completed")
    hosts = (tmp_path / "gate" / "hosts-gang-worker-1").read_text().splitlines()
    # A variable is nearer than an annotation.
    assert [line.rpartition(":")[2] for line in hosts] == ["5", "5"]
    cluster = json.loads((tmp_path / "gate" / "tf-gang-worker-1").read_text())["cluster"]
    assert [address.rpartition(":")[2] for address in cluster["worker"]] == ["4000", "4001"]
    log = await world.read_log("gang-worker-0", AGENT)
    assert "frameworkbarrier.io/sluts: there is no such setting" in log


def find_agent(world: GangCluster, pod: str) -> int:
    """Find the agent's process of a Pod: other tests that run now have Pods of the same name."""
    (uid,) = world.list_pods()[pod]
    marker = f"{constants.POD_UID}={uid}\0"
    found = [pid for pid, command in find_processes(marker) if "rendezvous" in command]
    # A command that it starts looks like itself for a moment.
    (agent,) = [pid for pid in found if read_parent(pid) not in {None, *found}]
    return agent


def read_parent(pid: int) -> int | None:
    """Read the parent's id; None if the process has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


@pytest.mark.slow
async def test_drain_waits_for_the_checkpoint_of_the_one_that_leaves(
    world: GangCluster, tmp_path: Path
) -> None:
    role = build_watched_role(3, is_native=True)
    script = f'{TOLD}; [ "$FB_EVENT" != leaving ] || {{ sleep 1; touch /gate/saved; }}'
    (agent,) = [c for c in role["task"]["pod"]["spec"]["initContainers"] if c["name"] == AGENT]
    next(v for v in agent["env"] if v["name"] == "FB_NOTIFY_COMMAND")["value"] = script
    await world.create(build_gang(role))
    await wait_for_scale(world, 3)
    await wait_until_acknowledged(world, *range(3))
    saved = tmp_path / "gate" / "saved"
    early: list[Change] = []

    def watch(change: Change) -> None:
        deleted_at = change.body["metadata"].get("deletionTimestamp")
        if change.name == "gang-worker-2" and deleted_at and not saved.exists():
            early.append(change)

    world.on_change = watch
    await scale(world, 2)
    await world.wait_for("end of worker/2", is_deleted("gang-worker-2"))
    assert saved.exists()
    assert early == []


@pytest.mark.slow
async def test_drain_without_an_answer_ends_at_its_deadline_and_tells_who(
    world: GangCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Time enough for the one that does answer.
    seconds = stretch(3)
    monkeypatch.setattr("tests.e2e.test_rendezvous.DRAIN_SECONDS", seconds)
    await world.create(build_gang(build_watched_role(3, is_native=True)))
    await wait_for_scale(world, 3)
    await wait_until_acknowledged(world, *range(3))
    silent = find_agent(world, "gang-worker-0")
    os.kill(silent, signal.SIGSTOP)
    try:
        started = time.monotonic()
        await scale(world, 2)
        deleted = await world.wait_for(
            "end of worker/2", is_deleted("gang-worker-2"), seconds=seconds + HANG_SECONDS
        )
        assert deleted.at - started >= seconds - 1
        events = await world.client.list(EVENTS, NAMESPACE)
        (event,) = [e for e in events["items"] if e["reason"] == "DrainTimedOut"]
        assert "worker/2" in event["message"] or "[worker][2]" in event["message"], event
        assert "gang-worker-0" in event["message"]
        assert "gang-worker-1" not in event["message"]
    finally:
        os.kill(silent, signal.SIGCONT)
