"""A gang rescaled by its controller, with an agent in each Pod: notifications in their order."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from framework.api import constants
from framework.kube.resources import FRAMEWORKS, PODS, Object
from tests.e2e.steps import (
    AGENT,
    build_agent,
    find_agent,
    scale,
    wait_until_deleted,
    wait_until_ended,
    wait_until_succeeded,
    wrap_command,
)
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
    list_tasks,
)
from tests.support.servers.watching import wait_for_event
from tests.support.slow import keep_first
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.local

DRAIN_SECONDS = 60
# Appends each notification to the Pod's own file.
NOTIFIED = "cat >>/gate/notified-$FC_POD_NAME"
# Ends as a file says: with a code, or by a signal. A Pod's command has `$$` for `$`.
ENDING_SCRIPT = """
while [ ! -e /gate/end-$FC_POD_NAME ]; do sleep 0.1; done
how=$(cat /gate/end-$FC_POD_NAME)
[ "$how" != kill ] || kill -9 $$$$
exit "$how"
"""
HOW = ("0", "kill", "3")
CODES = (0, 137, 3)
# The wrapper turns each into an exit code of its own; the other ends only see a failure.
SERVED = {"native": 2, "pod": 2, "wrapper": 3}
NEVER = {"minFailedTaskCount": -1, "minSucceededTaskCount": -1}


def build_watched_role(
    count: int,
    *,
    is_native: bool = True,
    notify: str = NOTIFIED,
    drain_seconds: int = DRAIN_SECONDS,
) -> Object:
    """Workers with a sidecar, native or as an ordinary container, whose role drains."""
    role = build_role("worker", count)
    role["drain"] = {"timeoutSec": drain_seconds}
    spec = role["task"]["pod"]["spec"]
    agent = build_agent("watch", FB_DEBOUNCE_SEC="0", FB_NOTIFY_COMMAND=notify)
    if is_native:
        spec["initContainers"].append(agent | {"restartPolicy": "Always"})
    else:
        spec["containers"].append(agent)
    return role


async def wait_for_scale(world: GangCluster, count: int) -> None:
    """Wait until these Tasks, and no others, run and stay; and all have acknowledged."""

    def is_running(_: Change) -> bool:
        framework = [c for c in world.changes if c.resource is FRAMEWORKS][-1].body
        tasks = list_tasks(framework).values()
        staying = [t for t in tasks if t["state"] == "AttemptRunning" and not t["deletionPending"]]
        return [task["index"] for task in staying] == list(range(count))

    def read_generation(change: Change, annotation: str) -> int:
        return int((change.body["metadata"].get("annotations") or {}).get(annotation, 0))

    def is_acknowledged(_: Change) -> bool:
        """Return whether the newest acknowledgement of each Pod is of the newest generation."""
        last = max(read_generation(c, constants.GENERATION_ANNOTATION) for c in world.changes)
        key = constants.ACKNOWLEDGED_GENERATION_ANNOTATION
        pods = [c for c in world.changes if c.resource is PODS]
        newest = {pod.name: read_generation(pod, key) for pod in pods}
        return last > 0 and all(newest.get(f"gang-worker-{i}") == last for i in range(count))

    await world.wait_for(f"{count} running Tasks", is_running)
    await world.wait_for(f"acknowledgement of {count} Pods", is_acknowledged)


def check_notifications(tmp_path: Path) -> None:
    """Check what the Pods of a gang of 4, then 6, then 3 were notified of."""
    notified: dict[str, list[dict[str, Any]]] = {
        path.name.removeprefix("notified-"): list(map(json.loads, path.read_text().splitlines()))
        for path in sorted((tmp_path / "gate").glob("notified-*"))
    }
    assert len(notified) == 6
    for pod, changes in notified.items():
        generations = [(c["previousGeneration"], c["generation"]) for c in changes]
        # In order and none twice; a generation without a change of members is not notified.
        flat = [number for pair in generations for number in pair]
        assert flat == sorted(flat), f"{pod}: {generations}"
        numbers = [generation for _, generation in generations]
        assert len(set(numbers)) == len(numbers), f"{pod}: {generations}"
    for index in (3, 4, 5):
        (leaving,) = [c for c in notified[f"gang-worker-{index}"] if c["event"] == "leaving"]
        assert leaving["deadline"]
    for index in range(3):
        members: set[int] = set()
        sizes = []
        for change in notified[f"gang-worker-{index}"]:
            members |= {peer["index"] for peer in change["added"]}
            members -= {peer["index"] for peer in change["removed"]}
            sizes.append(len(members))
        assert sizes[0] == 4
        assert {4, 6, 3} <= set(sizes)


@pytest.mark.parametrize("is_native", keep_first([True, False]), ids=["native", "ordinary"])
async def test_rescaled_gang_is_notified_in_order_and_drains_by_acknowledgement(
    world: GangCluster, tmp_path: Path, *, is_native: bool
) -> None:
    await world.create(build_gang(build_watched_role(4, is_native=is_native)))
    await wait_for_scale(world, 4)
    await scale(world, 6)
    await wait_for_scale(world, 6)
    await scale(world, 3)
    for index in (3, 4, 5):
        # Long before the drain's deadline: all have acknowledged.
        await wait_until_deleted(world, f"gang-worker-{index}")
    await wait_for_scale(world, 3)
    for index in range(3):
        world.end_task("worker", index)
    await wait_until_succeeded(world)

    check_notifications(tmp_path)
    for seen in (c for c in world.changes if c.resource is PODS):
        agent = find_container(seen.body, AGENT)
        assert agent.get("terminated", {}).get("exitCode", 0) == 0, seen.status
        if seen.name in {f"gang-worker-{i}" for i in range(3)}:
            assert seen.status.get("phase") != "Failed"


@pytest.mark.slow
async def test_wrapper_of_a_completing_attempt_ends_its_command(world: GangCluster) -> None:
    """The chief succeeds, so the attempt completes; the worker's wrapper reads it in the roster."""
    script = MEMBER_SCRIPT.replace("exit 143", "exit 5")
    worker = build_role("worker", 1, script, has_barrier=False)
    wrap_command(worker)
    chief = build_role("chief", 1)
    policy = {"minFailedTaskCount": 1, "minSucceededTaskCount": 1}
    chief["frameworkAttemptCompletionPolicy"] = policy
    gang = build_gang(chief, worker)
    gang["spec"]["completedPodPolicy"] = "Retain"
    await world.create(gang)
    await world.wait_for_log("gang-worker-0", "started worker/0", container=MAIN)
    world.end_task("chief", 0)
    await world.wait_for_state("Completed")
    assert "terminated" in await world.read_log("gang-worker-0")
    ended = await wait_until_ended(world, "gang-worker-0")
    assert find_container(ended.body, MAIN)["terminated"]["exitCode"] == 5


def build_served_role(end: str) -> Object:
    """Tasks whose sidecar ends in this way."""
    role = build_role(end, SERVED[end], ENDING_SCRIPT, has_barrier=False)
    role["frameworkAttemptCompletionPolicy"] = NEVER
    spec = role["task"]["pod"]["spec"]
    agent = build_agent("watch", FB_DEBOUNCE_SEC="0", FB_SIDECAR_END=end)
    if end == "native":
        spec["initContainers"] = [agent | {"restartPolicy": "Always"}]
        return role
    if end == "wrapper":
        wrap_command(role)
        spec["initContainers"][0]["name"] = "install"
    spec["containers"].append(agent)
    return role


@pytest.mark.slow
async def test_pods_end_as_their_programs_do_whatever_ends_their_agents(
    world: GangCluster, tmp_path: Path
) -> None:
    # "shared" needs a process namespace of the Pod, which the local cluster has not:
    # tests/rendezvous/test_sidecar.py has it.
    gang = build_gang(*map(build_served_role, SERVED))
    gang["spec"]["completedPodPolicy"] = "Retain"
    await world.create(gang)
    pods = {f"gang-{end}-{i}": i for end, count in SERVED.items() for i in range(count)}
    for pod in pods:
        await world.wait_for_log(pod, "is current", container=AGENT)
    for pod, index in pods.items():
        (tmp_path / "gate" / f".{pod}").write_text(HOW[index])
        (tmp_path / "gate" / f".{pod}").rename(tmp_path / "gate" / f"end-{pod}")
    # Also where all Pods have ended before the attempt does.
    await world.wait_for_state("Completed")

    for pod, index in pods.items():
        ended = await wait_until_ended(world, pod)
        code = find_container(ended.body, MAIN)["terminated"]["exitCode"]
        assert code == CODES[index], ended.status
        agent = find_container(ended.body, AGENT)
        assert agent["terminated"]["exitCode"] == 0, await world.read_log(pod, AGENT)
        assert ended.status["phase"] == ("Succeeded" if code == 0 else "Failed"), pod


@pytest.mark.slow
async def test_settings_are_read_from_annotations_of_the_pod(
    world: GangCluster, tmp_path: Path
) -> None:
    files = {"hosts.hydra": "hosts", "tf_config.json": "tf"}
    copies = (
        f"cp {constants.WORKING_DIR}/current/{name} /gate/{copy}-$FC_POD_NAME"
        for name, copy in files.items()
    )
    role = build_role("worker", 2, "; ".join(copies), has_barrier=False)
    pod = role["task"]["pod"]
    settings = {
        "ports": "worker=4000+index",
        "slots": "3",
        "notify-command": "cat >/gate/never",
        "sluts": "9",
    }
    prefixed = {f"{constants.ANNOTATION_PREFIX}{name}": text for name, text in settings.items()}
    pod["metadata"] = {"annotations": prefixed}
    item = {"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}}
    pod["spec"]["volumes"].append({"name": "podinfo", "downwardAPI": {"items": [item]}})
    agent = build_agent("render", FB_DEBOUNCE_SEC="0", FB_NOTIFY_COMMAND=NOTIFIED, FB_SLOTS="5")
    agent["volumeMounts"].append({"name": "podinfo", "mountPath": "/etc/podinfo"})
    pod["spec"]["initContainers"] = [agent]
    await world.create(build_gang(role))
    await world.wait_for_state("Completed")
    hosts = (tmp_path / "gate" / "hosts-gang-worker-1").read_text().splitlines()
    # A variable takes precedence over an annotation.
    assert [line.rpartition(":")[2] for line in hosts] == ["5", "5"]
    cluster = json.loads((tmp_path / "gate" / "tf-gang-worker-1").read_text())["cluster"]
    assert [address.rpartition(":")[2] for address in cluster["worker"]] == ["4000", "4001"]
    log = await world.read_log("gang-worker-0", AGENT)
    assert "frameworkbarrier.io/sluts: there is no such setting" in log


@pytest.mark.slow
async def test_drain_waits_for_the_checkpoint_of_the_pod_that_leaves(
    world: GangCluster, tmp_path: Path
) -> None:
    notify = f'{NOTIFIED}; [ "$FB_EVENT" != leaving ] || {{ sleep 1; touch /gate/saved; }}'
    await world.create(build_gang(build_watched_role(3, notify=notify)))
    await wait_for_scale(world, 3)
    saved = tmp_path / "gate" / "saved"
    early: list[Change] = []

    def watch(change: Change) -> None:
        deleted_at = change.body["metadata"].get("deletionTimestamp")
        if change.name == "gang-worker-2" and deleted_at and not saved.exists():
            early.append(change)

    world.on_change = watch
    await scale(world, 2)
    await wait_until_deleted(world, "gang-worker-2")
    assert saved.exists()
    assert early == []


@pytest.mark.slow
async def test_drain_without_an_answer_ends_at_its_deadline_and_names_the_pod(
    world: GangCluster,
) -> None:
    # Time enough for the Pod that does answer.
    seconds = stretch(3)
    await world.create(build_gang(build_watched_role(3, drain_seconds=seconds)))
    await wait_for_scale(world, 3)
    silent = find_agent(world, "gang-worker-0")
    os.kill(silent, signal.SIGSTOP)
    try:
        started = time.monotonic()
        await scale(world, 2)
        deleted = await wait_until_deleted(world, "gang-worker-2", seconds=seconds + HANG_SECONDS)
        assert deleted.at - started >= seconds - 1
        event = await wait_for_event(world.client, NAMESPACE, "DrainTimedOut")
        assert "worker/2" in event["message"] or "[worker][2]" in event["message"], event
        assert "gang-worker-0" in event["message"]
        assert "gang-worker-1" not in event["message"]
    finally:
        os.kill(silent, signal.SIGCONT)
