"""The Events about jobs: one for each problem, not for each status write, in virtual time."""

import asyncio

import pytest

from framework.kube.resources import Object
from tests.controller.kinds.jobworlds import (
    KINDS,
    REST_SECONDS,
    Jobs,
    edit,
    end,
    list_events,
    open_jobs,
    run,
)
from tests.controller.kinds.test_failed_trainingjobs import LAUNCHER, OUTPUT, fail, find_condition
from tests.framework.kinds.jobs import Change, build_template
from tests.framework.kinds.jobs import edit as change

pytestmark = pytest.mark.looptime

PODS_THAT_END = {"TfJob": "job-worker-1", "TrainingJob": "elastic-worker-1"}
PROBLEMS: dict[tuple[str, str], Change] = {
    ("TfJob", "InvalidSpec"): change("spec", replicaSpecs=[{"template": build_template("other")}]),
    ("TfJob", "SpecChanged"): change("spec", runtimeId="abcd"),
    ("TrainingJob", "InvalidSpec"): change("spec", backoffLimit=-3),
    ("TrainingJob", "SpecChanged"): change("spec", slotsPerWorker=7),
}


def find_events(jobs: Jobs, reason: str) -> list[Object]:
    return [event for event in list_events(jobs) if event["reason"] == reason]


def count_events(jobs: Jobs, reason: str) -> int:
    return sum(event["count"] for event in find_events(jobs, reason))


async def wait_for_restart(jobs: Jobs, count: int) -> None:
    await jobs.world.wait_for("restart", lambda: jobs.read_status().get("restartCount") == count)


@pytest.mark.parametrize(("kind", "problem"), PROBLEMS)
async def test_problem_of_the_spec_has_one_event_while_the_status_changes(
    kind: str, problem: str
) -> None:
    async with open_jobs(kind) as jobs:
        await run(jobs)
        await edit(jobs, jobs.resource, PROBLEMS[kind, problem])
        await asyncio.sleep(REST_SECONDS)
        before = jobs.read_status()
        await fail(jobs, PODS_THAT_END[kind])
        await asyncio.sleep(REST_SECONDS)
        assert jobs.read_status() != before
        assert problem in jobs.read_conditions()
        assert count_events(jobs, problem) == 1
        await end(jobs)
        assert count_events(jobs, problem) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_problem_that_comes_again_has_another_event(kind: str) -> None:
    spec = PROBLEMS[kind, "SpecChanged"]
    async with open_jobs(kind) as jobs:
        await run(jobs)
        for number in (1, 2):
            await edit(jobs, jobs.resource, spec)
            await asyncio.sleep(REST_SECONDS)
            assert count_events(jobs, "SpecChanged") == number
            await edit(jobs, jobs.resource, lambda job: job.update(spec=jobs.build()["spec"]))
            await asyncio.sleep(REST_SECONDS)


async def test_failed_worker_has_one_event_while_the_status_changes() -> None:
    async with open_jobs("TrainingJob") as jobs:
        await run(jobs)
        await fail(jobs, "elastic-worker-1")
        await asyncio.sleep(REST_SECONDS)
        (event,) = find_events(jobs, "WorkersFailed")
        assert event["type"] == "Warning"
        assert event["message"].startswith("TrainingJobWorkerFailed: 1 failed")
        assert event["message"].endswith(f"; elastic-worker-1 {OUTPUT}")
        before = jobs.read_status()
        await edit(jobs, jobs.resource, change("spec", backoffLimit=-3))
        await asyncio.sleep(REST_SECONDS)
        assert jobs.read_status() != before
        assert count_events(jobs, "WorkersFailed") == 1
        await end(jobs)
        assert count_events(jobs, "WorkersFailed") == 1


async def test_workers_that_fail_later_change_the_condition_without_another_event() -> None:
    async with open_jobs("TrainingJob") as jobs:
        await run(jobs)
        for worker in (1, 0):
            await fail(jobs, f"elastic-worker-{worker}")
            await asyncio.sleep(REST_SECONDS)
        told = find_condition(jobs, "WorkersFailed")
        assert told["message"].startswith("2 failed")
        assert count_events(jobs, "WorkersFailed") == 1


async def test_each_failed_attempt_has_one_event() -> None:
    async with open_jobs("TrainingJob") as jobs:
        jobs.world.start()
        await jobs.create(restartPolicy="OnFailure")
        for attempt in (0, 1):
            await jobs.wait_for_phase("Running")
            await asyncio.sleep(REST_SECONDS)
            await fail(jobs, LAUNCHER)
            await wait_for_restart(jobs, attempt + 1)
        await jobs.wait_for_phase("Running")
        await end(jobs)
        told = [(event["message"], event["count"]) for event in find_events(jobs, "AttemptFailed")]
        text = f"launcher/0 {OUTPUT}"
        assert sorted(told) == [
            (f"TrainingJobFailed: attempt {number}: {text}", 1) for number in (0, 1)
        ]
