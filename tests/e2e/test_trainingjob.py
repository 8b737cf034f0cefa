"""TrainingJobs on a local cluster: when the launcher starts, and which workers outlive it."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from framework.kube.resources import FRAMEWORKS, PODS, TRAININGJOBS, Object
from tests.support.servers.gang import (
    MAIN,
    NAMESPACE,
    Change,
    GangCluster,
    find_container,
    open_gang_cluster,
)
from tests.support.waiting import wait_until_async

# Each of them runs a cluster with its controller.
pytestmark = [pytest.mark.local, pytest.mark.slow]

JOB = "elastic"
LAUNCHER = f"{JOB}-launcher-0"
FIRST, SECOND = f"{JOB}-worker-0", f"{JOB}-worker-1"
WORK = "while :; do echo tick >>/gate/ticks-$FC_TASK_INDEX; sleep 0.1; done"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[GangCluster]:
    async with open_gang_cluster(tmp_path, with_kinds=True) as world:
        yield world


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


def build_template(gate: Path, script: str) -> Object:
    mounts = [{"name": "gate", "mountPath": "/gate"}]
    main = {"name": MAIN, "image": "busybox", "command": ["sh", "-c", script]}
    spec = {
        "containers": [{**main, "volumeMounts": mounts}],
        "volumes": [{"name": "gate", "hostPath": {"path": str(gate)}}],
        "terminationGracePeriodSeconds": 1,
    }
    return {"spec": spec}


def build_job(launcher: Object, worker: Object, **spec: Any) -> Object:
    """Build a job of a launcher and two workers."""
    roles = {
        "launcher": {"replicas": 1, "template": launcher},
        "worker": {"replicas": 2, "template": worker},
    }
    return {
        "apiVersion": "kai.alibabacloud.com/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": JOB},
        "spec": {**spec, "etReplicaSpecs": roles},
    }


def build_held_job(gate: Path, script: str) -> Object:
    """Build a job whose workers have addresses, and run when the test lets each of them."""
    worker = build_template(gate, script)
    hold = "until [ -e /gate/run-$FC_TASK_INDEX ]; do sleep 0.1; done"
    mounts = worker["spec"]["containers"][0]["volumeMounts"]
    init = {"name": "hold", "image": "busybox", "command": ["sh", "-c", hold]}
    worker["spec"]["initContainers"] = [{**init, "volumeMounts": mounts}]
    return build_job(build_template(gate, "exit 0"), worker)


async def wait_for_phase(world: GangCluster, phase: str) -> Object:
    """Return the status of the job when it has reached a phase."""

    def is_reached(change: Change) -> bool:
        return change.resource is TRAININGJOBS and change.status.get("phase") == phase

    return (await world.wait_for(f"phase {phase}", is_reached)).status


def is_running(change: Change, pod: str) -> bool:
    is_it = change.resource is PODS and change.name == pod
    return is_it and change.status.get("phase") == "Running"


def is_launched(change: Change) -> bool:
    """Return whether the container of the launcher has started."""
    is_it = change.resource is PODS and change.name == LAUNCHER
    return is_it and bool({"running", "terminated"} & set(find_container(change.body, MAIN)))


def has_started(world: GangCluster) -> bool:
    return any(is_launched(change) for change in world.changes)


def read_size(file: Path) -> int:
    return file.stat().st_size


async def wait_for_growth(file: Path) -> None:
    size = read_size(file)
    await wait_until_async(lambda: read_size(file) > size)


async def test_workers_run_on_with_clean_pod_policy_none_until_the_job_is_deleted(
    world: GangCluster, gate: Path
) -> None:
    launcher, worker = build_template(gate, "exit 0"), build_template(gate, WORK)
    job = build_job(launcher, worker, cleanPodPolicy="None")
    await world.client.create(TRAININGJOBS, NAMESPACE, job)
    status = await wait_for_phase(world, "Succeeded")
    assert status["currentWorkers"] == [FIRST, SECOND]
    framework = await world.client.get(FRAMEWORKS, NAMESPACE, JOB)
    assert framework["status"]["state"] == "Completed"
    for index, name in enumerate((FIRST, SECOND)):
        assert (await world.client.get(PODS, NAMESPACE, name))["status"]["phase"] == "Running"
        await wait_for_growth(gate / f"ticks-{index}")
    await world.client.delete(TRAININGJOBS, NAMESPACE, JOB, propagation="Foreground")
    await world.wait_until_no_process(framework["metadata"]["uid"])

    def is_deleted(change: Change) -> bool:
        return change.resource is TRAININGJOBS and change.type == "DELETED"

    await world.wait_for("deletion of the job", is_deleted)
    assert (await world.client.list(PODS, NAMESPACE))["items"] == []


async def test_launcher_is_held_until_all_workers_run_at_the_same_time(
    world: GangCluster, gate: Path
) -> None:
    await world.client.create(TRAININGJOBS, NAMESPACE, build_held_job(gate, WORK))
    (gate / "run-0").touch()
    await world.wait_for_log(LAUNCHER, "3/3 ready", "worker is not running yet")
    await wait_until_async((gate / "ticks-0").exists)
    assert not has_started(world)
    (gate / "run-1").touch()
    await wait_for_phase(world, "Succeeded")
    running = [number for number, change in enumerate(world.changes) if is_running(change, SECOND)]
    started = [number for number, change in enumerate(world.changes) if is_launched(change)]
    assert running[0] < started[0]


async def test_launcher_fails_if_a_worker_has_ended_before_all_run(
    world: GangCluster, gate: Path
) -> None:
    await world.client.create(TRAININGJOBS, NAMESPACE, build_held_job(gate, "exit 3"))
    (gate / "run-0").touch()
    status = await wait_for_phase(world, "Failed")
    conditions = {condition["type"]: condition for condition in status["conditions"]}
    assert not has_started(world)
    assert "main exited with 3" in conditions["WorkersFailed"]["message"]
    failure = conditions["Failed"]["message"]
    assert "launcher/0 failed: its container barrier exited with 1" in failure
    assert "worker=all-running cannot be met: worker/0 has failed" in failure
