"""Stop, delete and rescale a gang that runs: on a local cluster, as processes."""

import pytest

from framework.kube.errors import NotFoundError
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object
from tests.e2e.steps import scale, wait_until_deleted, wait_until_succeeded
from tests.support.servers.gang import (
    BARRIER,
    MADE_BY_TESTS,
    MAIN,
    NAMESPACE,
    Change,
    GangCluster,
    build_gang,
    build_role,
    list_tasks,
)

pytestmark = pytest.mark.local

TASKS = (("ps", 0), ("worker", 0), ("worker", 1))
PODS_OF_GANG = ["gang-ps-0", "gang-worker-0", "gang-worker-1"]
SUSPEND = {"op": "add", "path": "/spec/suspend", "value": True}
STOP = {"op": "replace", "path": "/spec/executionType", "value": "Stop"}


async def run_gang(world: GangCluster) -> Object:
    """Run a gang until all its Tasks run; give it as created."""
    created = await world.create(build_gang(build_role("ps", 1), build_role("worker", 2)))
    for pod in PODS_OF_GANG:
        await world.wait_for_log(pod, "workers", container=MAIN)
    for role, index in TASKS:
        await world.wait_for_task(role, index, "AttemptRunning")
    return created


async def check_nothing_left(world: GangCluster, framework: Object) -> None:
    """Check that every program was asked to end, and that it did."""
    await world.wait_until_no_process(framework["metadata"]["uid"])
    for pod in PODS_OF_GANG:
        assert "terminated" in await world.read_log(pod), f"{pod} got no SIGTERM"
    assert (await world.client.list(PODS, NAMESPACE))["items"] == []
    left = await world.client.list(CONFIGMAPS, NAMESPACE, field_selector=MADE_BY_TESTS)
    assert left["items"] == []


async def test_gang_stopped_while_running_leaves_nothing(world: GangCluster) -> None:
    created = await run_gang(world)
    await world.patch_spec("gang", STOP)
    done = await world.wait_for_state("Completed")
    completion = done["status"]["attemptStatus"]["completionStatus"]
    assert completion["phrase"] == "StopFrameworkRequested"
    await check_nothing_left(world, created)


@pytest.mark.slow
async def test_gang_suspended_while_running_leaves_nothing_and_is_started_again(
    world: GangCluster,
) -> None:
    created = await run_gang(world)
    since = len(world.changes)
    await world.patch_spec("gang", SUSPEND)

    def is_suspended(change: Change) -> bool:
        conditions = (change.body.get("status") or {}).get("conditions") or ()
        return any((c["type"], c["status"]) == ("Suspended", "True") for c in conditions)

    suspended = await world.wait_for("suspended gang", is_suspended, since=since)
    assert suspended.body["status"]["attemptStatus"]["completionStatus"]["code"] == -250
    await check_nothing_left(world, created)

    # The barriers of the next attempt wait for its own members, and pass.
    since = len(world.changes)
    await world.patch_spec("gang", {**SUSPEND, "op": "replace", "value": False})

    def is_running(change: Change) -> bool:
        status = change.body.get("status") or {}
        tasks = list_tasks(change.body).values() if change.resource is FRAMEWORKS else ()
        is_new = status.get("attemptStatus", {}).get("id") == 1 if tasks else False
        return is_new and all(task["state"] == "AttemptRunning" for task in tasks)

    await world.wait_for("next attempt", is_running, since=since)
    for role, index in TASKS:
        world.end_task(role, index, attempt="1-0")
    done = await wait_until_succeeded(world)
    assert done["status"]["retryPolicyStatus"]["accountableRetriedCount"] == 0
    await world.wait_until_no_process(created["metadata"]["uid"])


def is_configmap_deleted(change: Change) -> bool:
    return change.type == "DELETED" and change.resource is CONFIGMAPS


def read_version(change: Change) -> int:
    return int(change.body["metadata"]["resourceVersion"])


@pytest.mark.slow
async def test_gang_deleted_in_the_foreground_leaves_nothing(world: GangCluster) -> None:
    created = await run_gang(world)
    await world.client.delete(FRAMEWORKS, NAMESPACE, "gang", propagation="Foreground")
    await wait_until_deleted(world, "gang")
    for pod in PODS_OF_GANG:
        await wait_until_deleted(world, pod)
    await world.wait_for("deletion of the ConfigMap", is_configmap_deleted)
    # By version: the watches of the three kinds are apart.
    changes = sorted((c for c in world.changes if c.type == "DELETED"), key=read_version)
    deleted = [change.name for change in changes]
    assert deleted[-1] == "gang", "the Framework was deleted before its dependents"
    assert sorted(deleted[:-2]) == PODS_OF_GANG
    with pytest.raises(NotFoundError):
        await world.client.get(FRAMEWORKS, NAMESPACE, "gang")
    await check_nothing_left(world, created)


@pytest.mark.slow
async def test_gang_scaled_while_running_keeps_the_other_pods(
    world: GangCluster,
) -> None:
    created = await run_gang(world)
    before = world.list_pods()

    await scale(world, 3, role=1)
    line = await world.wait_for_log("gang-worker-2", "passed: 4/4")
    assert "generation 1," not in line, line
    assert "generation" in line, line
    # What injector.sh exported.
    line = await world.wait_for_log("gang-worker-2", "workers", container=MAIN)
    assert len(line.split()[-1].split(",")) == 3, line
    await world.wait_for_task("worker", 2, "AttemptRunning")

    since = len(world.changes)
    await scale(world, 2, role=1)
    await wait_until_deleted(world, "gang-worker-2")

    def is_dropped(change: Change) -> bool:
        return change.resource is FRAMEWORKS and sorted(list_tasks(change.body)) == PODS_OF_GANG

    await world.wait_for("status without worker/2", is_dropped, since=since)
    assert "terminated" in await world.read_log("gang-worker-2")

    # The others have the same Pods, were started once and still run.
    assert {pod: world.list_pods()[pod] for pod in PODS_OF_GANG} == before
    assert [c.name for c in world.changes if c.type == "DELETED"] == ["gang-worker-2"]
    for pod in PODS_OF_GANG:
        log = await world.read_log(pod)
        assert log.count("started") == 1
        assert "terminated" not in log
        assert (await world.read_log(pod, BARRIER)).count("passed") == 1

    for role, index in TASKS:
        world.end_task(role, index)
    done = await wait_until_succeeded(world)
    assert done["status"]["attemptStatus"]["id"] == 0
    await world.wait_until_no_process(created["metadata"]["uid"])
