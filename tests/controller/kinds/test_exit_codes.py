"""Exit codes of a TfJob: which replicas are started again, and which end the job."""

import asyncio

import pytest

from framework.kube.resources import PODS, Object
from tests.controller.kinds.jobworlds import REST_SECONDS, Jobs, open_jobs, run
from tests.support.builders import NAMESPACE
from tests.support.slow import keep_first

pytestmark = pytest.mark.looptime

MASTER, WORKER = "job-master-0", "job-worker-1"


async def fail(jobs: Jobs, pod: str, code: int, reason: str = "Error") -> str:
    """End the container ``tensorflow`` of a Pod; return the UID of the Pod."""
    ended = {"exitCode": code, "reason": reason}
    containers = [{"name": "tensorflow", "state": {"terminated": ended}}]
    status = {"phase": "Failed", "containerStatuses": containers}
    await jobs.world.user.patch(PODS, NAMESPACE, pod, {"status": status}, subresource="status")
    found = jobs.find(PODS, pod)
    assert found is not None
    uid = str(found["metadata"]["uid"])
    await asyncio.sleep(REST_SECONDS)
    return uid


def find_replica(jobs: Jobs, kind: str) -> Object:
    statuses: list[Object] = jobs.read_status()["replicaStatuses"]
    return next(each for each in statuses if each["tf_replica_type"] == kind)


def is_replaced(jobs: Jobs, pod: str, uid: str) -> bool:
    found = jobs.find(PODS, pod)
    assert found is not None
    return bool(found["metadata"]["uid"] != uid)


@pytest.mark.parametrize("code", keep_first([128, 202, 255, 139, 200, 201, 210, 220], 3))
@pytest.mark.parametrize("pod", [MASTER, WORKER])
async def test_replica_with_a_code_from_128_on_is_started_again(pod: str, code: int) -> None:
    async with open_jobs("TfJob") as jobs:
        await run(jobs)
        uid = await fail(jobs, pod, code)
        assert is_replaced(jobs, pod, uid)
        assert jobs.read_status()["phase"] == "Running"
        assert "Recovering" in jobs.read_conditions()
        jobs.is_ending = True
        await jobs.wait_for_phase("Done")
        assert jobs.read_status()["state"] == "Succeeded"


@pytest.mark.parametrize(("code", "reason"), [(1, "Error"), (127, "Error"), (137, "OOMKilled")])
async def test_permanent_failure_of_the_master_fails_the_job(code: int, reason: str) -> None:
    async with open_jobs("TfJob") as jobs:
        await run(jobs)
        uid = await fail(jobs, MASTER, code, reason)
        await jobs.wait_for_phase("Done")
        status = jobs.read_status()
        assert status["state"] == "Failed"
        said = "OOMKilled" if reason == "OOMKilled" else f"ended with exit code {code}"
        assert said in status["reason"]
        assert not is_replaced(jobs, MASTER, uid)
        assert find_replica(jobs, "MASTER")["state"] == "Failed"


async def test_permanent_failure_of_a_worker_is_shown_and_the_job_goes_on() -> None:
    async with open_jobs("TfJob") as jobs:
        await run(jobs)
        uid = await fail(jobs, WORKER, 1)
        assert not is_replaced(jobs, WORKER, uid)
        worker = find_replica(jobs, "WORKER")
        assert worker["state"] == "Failed"
        assert worker["ReplicasStates"] == {"Failed": 1, "Running": 1}
        status = jobs.read_status()
        assert (status["phase"], status["state"]) == ("Running", "Running")
        jobs.is_ending = True
        await jobs.wait_for_phase("Done")
        assert jobs.read_status()["state"] == "Succeeded"
