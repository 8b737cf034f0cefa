"""The controller is killed at each write for a job of another kind, in turn.

Whether or not it had the answer, the end is the same, nothing runs twice, and no object is left.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from framework.kube.resources import FRAMEWORKS, Object
from tests.controller.kinds.jobworlds import ENDING_PODS, KINDS, Jobs, open_jobs
from tests.support.builders import NAMESPACE
from tests.support.crashmoments import (
    HEARD,
    PAUSE_SECONDS,
    at_each_moment,
    build_fate,
    crash,
)
from tests.support.fakes.storageclient import Fate, Request
from tests.support.simulator.controllers import Program

REST_SECONDS = 8.0
# Writes of the engine, which tests/simulation/test_crash_matrix.py covers.
ENGINE = {"configmaps", "events"}
# At least as many as a job takes; a test asserts it.
WRITES = {"TfJob": 20, "TrainingJob": 24}
# The same with cleanPodPolicy None, which deletes neither workers nor Services.
LEFT_WRITES = 20
CASES = [(kind, write) for kind in KINDS for write in range(1, WRITES[kind] + 1)]


def is_for_job(request: Request) -> bool:
    """Whether a write is one for the job, and not for its running Framework."""
    if request.verb in {"get", "list"} or request.resource.plural in ENGINE:
        return False
    if request.resource is FRAMEWORKS:
        return request.subresource is None
    return request.resource.plural != "pods" or request.verb == "delete"


class Crashes:
    """Kills the controller at one of its writes for the job, and starts another one."""

    def __init__(self, jobs: Jobs, at: int, when: str) -> None:
        self.jobs = jobs
        self.at = at
        self.when = when
        self.writes = 0
        self.created: list[str] = []

    def start(self) -> None:
        program = self.jobs.world.start(f"controller-{len(self.jobs.world.programs)}")
        program.link.draw = lambda request: self._draw(program, request)

    def is_counted(self, request: Request) -> bool:
        """Whether this is one of the writes at which the controller may be killed."""
        return is_for_job(request)

    def _draw(self, program: Program, request: Request) -> Fate:
        if request.is_dry_run:
            return build_fate()
        if request.verb == "create" and request.resource.plural in {"pods", "frameworks"}:
            self.created.append(str(request))
        if not self.is_counted(request):
            return build_fate()
        self.writes += 1
        if self.writes != self.at:
            return build_fate()
        return crash(self.when, program.kill, self.start)


@asynccontextmanager
async def open_story(kind: str, at: int, when: str) -> AsyncGenerator[tuple[Jobs, Crashes]]:
    async with open_jobs(kind) as jobs:
        crashes = Crashes(jobs, at, when)
        crashes.start()
        yield jobs, crashes


async def rest() -> None:
    await asyncio.sleep(PAUSE_SECONDS + REST_SECONDS)


def edit_workers(framework: Object) -> None:
    for role in framework["spec"]["taskRoles"]:
        if role["name"] == "worker":
            role["taskNumber"] += 1


def shape(jobs: Jobs) -> object:
    """Summarize a job at its end, without times and UIDs."""
    status = jobs.read_status()
    return (
        status["phase"],
        status.get("restartCount"),
        count_retries(jobs.read_framework()["status"]),
        status.get("state"),
        sorted(jobs.read_conditions()),
        status["replicaStatuses"],
        sorted(jobs.list_owned()),
    )


def count_retries(status: Object) -> list[int]:
    """Count the retries of a Framework, and then those of its Tasks."""
    tasks = [
        task
        for role in status["attemptStatus"]["taskRoleStatuses"]
        for task in role["taskStatuses"]
    ]
    return [each["retryPolicyStatus"]["totalRetriedCount"] for each in (status, *tasks)]


async def play(jobs: Jobs, **spec: str) -> object:
    """Create a job, edit its Framework, end it and delete it; return its end."""
    await jobs.create(**spec)
    await rest()
    framework = jobs.read_framework()
    edit_workers(framework)
    await jobs.world.user.replace(FRAMEWORKS, NAMESPACE, jobs.name, framework)
    await rest()
    assert jobs.read_framework()["metadata"]["uid"] == framework["metadata"]["uid"]
    jobs.is_ending = True
    await rest()
    end = shape(jobs)
    assert sum(count_retries(jobs.read_framework()["status"])) == 0
    assert len(jobs.seen_pods[ENDING_PODS[jobs.kind]]) == 1
    await jobs.world.user.delete(jobs.resource, NAMESPACE, jobs.name, propagation="Foreground")
    await rest()
    await rest()
    assert jobs.find(jobs.resource, jobs.name) is None
    assert list(jobs.list_owned()) == []
    return end


ENDS: dict[tuple[str, int], object] = {}


async def find_end(kind: str, most_writes: int, **spec: str) -> object:
    """Find the end of a job whose controller is never killed."""
    key = (kind, most_writes)
    if key not in ENDS:
        async with open_story(kind, 0, HEARD) as (jobs, crashes):
            ENDS[key] = await play(jobs, **spec)
            assert most_writes - 4 < crashes.writes <= most_writes
    return ENDS[key]


@pytest.mark.looptime
@at_each_moment("kind,write", CASES, share=4)
async def test_crash_at_a_write_for_a_job_changes_neither_end_nor_count(
    kind: str, write: int, when: str
) -> None:
    async with open_story(kind, write, when) as (jobs, crashes):
        end = await play(jobs)
    assert end == await find_end(kind, WRITES[kind])
    frameworks = [text for text in crashes.created if "frameworks" in text]
    # A create whose answer was lost is sent again, and finds its Framework.
    assert len(frameworks) <= 1 + (write > 0)
    creates = [text for text in crashes.created if ENDING_PODS[kind] in text]
    assert len(creates) == 1, creates


@pytest.mark.looptime
@pytest.mark.parametrize("kind", KINDS)
async def test_job_without_a_crash_takes_as_many_writes_as_the_matrix_has(kind: str) -> None:
    await find_end(kind, WRITES[kind])


@pytest.mark.looptime
@at_each_moment("write", range(1, LEFT_WRITES + 1), share=4)
async def test_crash_at_a_write_for_a_job_that_leaves_its_workers_changes_nothing(
    write: int, when: str
) -> None:
    async with open_story("TrainingJob", write, when) as (jobs, crashes):
        end = await play(jobs, cleanPodPolicy="None")
    assert end == await find_end("TrainingJob", LEFT_WRITES, cleanPodPolicy="None")
    for pod in (ENDING_PODS["TrainingJob"], "elastic-worker-0", "elastic-worker-1"):
        creates = [text for text in crashes.created if pod in text]
        assert len(creates) == 1, creates


@pytest.mark.looptime
async def test_workers_of_a_job_that_leaves_them_run_at_its_end() -> None:
    end = await find_end("TrainingJob", LEFT_WRITES, cleanPodPolicy="None")
    assert isinstance(end, tuple)
    assert {"Launcher": {"succeeded": 1}, "Worker": {"active": 2}} in end
    assert {("Pod", "elastic-worker-0"), ("Pod", "elastic-worker-1")} <= set(end[-1])
