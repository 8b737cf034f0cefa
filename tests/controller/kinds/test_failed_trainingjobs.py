"""TrainingJobs whose launcher or workers fail: what the status says, in virtual time."""

import asyncio
from typing import Any

import pytest

from framework.kube.resources import PODS
from tests.controller.kinds.jobworlds import REST_SECONDS, Jobs, end, open_jobs, run
from tests.support.builders import NAMESPACE

pytestmark = pytest.mark.looptime

LAUNCHER = "elastic-launcher-0"
OUTPUT = "exited with 3: last output: no data"


async def fail(jobs: Jobs, pod: str) -> None:
    """Let the container of a Pod exit with 3."""
    terminated = {"exitCode": 3, "reason": "Error", "message": "starting\nno data\n"}
    containers = [{"name": "train", "state": {"terminated": terminated}}]
    status = {"phase": "Failed", "containerStatuses": containers}
    body = {"status": status}
    await jobs.world.user.patch(PODS, NAMESPACE, pod, body, subresource="status")


def find_condition(jobs: Jobs, type_: str) -> Any:
    conditions = jobs.read_status().get("conditions") or ()
    return next((c for c in conditions if c["type"] == type_), None)


async def test_job_that_is_started_again_says_why() -> None:
    async with open_jobs("TrainingJob") as jobs:
        jobs.world.start()
        await jobs.create(restartPolicy="OnFailure")
        await jobs.wait_for_phase("Running")
        await fail(jobs, LAUNCHER)
        await jobs.world.wait_for("restart", lambda: jobs.read_status().get("restartCount") == 1)
        await jobs.wait_for_phase("Running")
        told = find_condition(jobs, "AttemptFailed")
        assert told["message"] == f"attempt 0: launcher/0 {OUTPUT}"
        await end(jobs)
        assert find_condition(jobs, "AttemptFailed") is None


async def test_failed_job_names_the_output_of_its_launcher() -> None:
    async with open_jobs("TrainingJob") as jobs:
        await run(jobs)
        await fail(jobs, LAUNCHER)
        await jobs.wait_for_phase("Failed")
        failed = find_condition(jobs, "Failed")
        assert failed["message"] == f"job elastic has failed: launcher/0 {OUTPUT}"


async def test_failed_worker_is_a_condition_of_the_job_that_goes_on() -> None:
    async with open_jobs("TrainingJob") as jobs:
        await run(jobs)
        await fail(jobs, "elastic-worker-1")
        await asyncio.sleep(REST_SECONDS)
        told = find_condition(jobs, "WorkersFailed")
        assert told["message"].endswith(f"; elastic-worker-1 {OUTPUT}")
        assert jobs.read_status()["phase"] == "Running"
        await end(jobs)
