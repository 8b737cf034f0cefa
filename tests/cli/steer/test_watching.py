"""Waiting for goals: reached, never, too late, not allowed."""

import asyncio
import os
import signal
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from cli.exitcodes import ExitCode
from cli.steer.conditions import parse_wanted
from cli.steer.effects import Goal, Verdict
from cli.steer.watching import Wait, Waiter
from framework.api.states import FrameworkState
from framework.api.wire import format_time
from framework.clock import SystemRandom
from framework.kube.errors import ForbiddenError
from framework.kube.resources import FRAMEWORKS, Object
from localcluster.apiserver.model.errors import StatusError
from tests.support.builders import build_role_wire, build_status_wire, build_submission
from tests.support.fakes.storageclient import (
    Fate,
    LoopClock,
    Network,
    Request,
    StorageClient,
    find_type,
    open_storage,
)

pytestmark = pytest.mark.looptime


@pytest.fixture
async def client() -> StorageClient:
    return StorageClient(open_storage(LoopClock()))


def create(client: StorageClient, name: str) -> str:
    rt = find_type(client.storage, FRAMEWORKS)
    body = build_submission(name, build_role_wire("worker", 1))
    return str(client.storage.create(rt, "default", body)["metadata"]["uid"])


def write_condition(client: StorageClient, name: str, condition: str) -> None:
    rt = find_type(client.storage, FRAMEWORKS)
    body: Object = client.storage.get(rt, "default", name)
    at = format_time(datetime(2026, 1, 1, tzinfo=UTC))
    state = FrameworkState.COMPLETED
    body["status"] = build_status_wire(state=state) | {
        "observedGeneration": 1,
        "conditions": [{"type": condition, "status": "True", "lastTransitionTime": at}],
    }
    client.storage.update(rt, "default", name, body, subresource="status")


class Waiting:
    """One wait, and what it reported."""

    def __init__(self, client: StorageClient, wanted: str, *names: str) -> None:
        self.client = client
        goal = parse_wanted(wanted)
        self.goals: Sequence[Goal] = [goal.build_goal(name, create(client, name)) for name in names]
        self.reported: dict[str, Verdict] = {}

    async def wait(self, timeout_seconds: float | None = None) -> ExitCode:
        def report(goal: Goal, verdict: Verdict) -> None:
            self.reported[goal.name] = verdict

        waiter = Waiter(self.client, "default", LoopClock(), SystemRandom())
        return await waiter.wait(Wait(self.goals, timeout_seconds, "the change stays", report))


async def act_after(seconds: float, client: StorageClient, name: str, condition: str) -> None:
    await asyncio.sleep(seconds)
    write_condition(client, name, condition)


@pytest.mark.parametrize("names", [["a"], ["a", "b"]], ids=["one", "several"])
async def test_wait_ends_when_all_have_the_condition(
    client: StorageClient, names: list[str]
) -> None:
    waiting = Waiting(client, "condition=Succeeded", *names)
    async with asyncio.TaskGroup() as tasks:
        for number, name in enumerate(names, start=1):
            tasks.create_task(act_after(100 * number, client, name, "Succeeded"))
        assert await waiting.wait() is ExitCode.SUCCEEDED
    assert set(waiting.reported) == set(names)
    assert asyncio.get_running_loop().time() == pytest.approx(100 * len(names), abs=1)


async def test_condition_that_can_never_come_ends_the_wait_with_an_error(
    client: StorageClient,
) -> None:
    waiting = Waiting(client, "condition=Succeeded", "a")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(act_after(100, client, "a", "Failed"))
        assert await waiting.wait(1000) is ExitCode.FAILED
    assert "can never come" in waiting.reported["a"].failure


async def test_timeout_ends_the_wait_and_says_what_is_missing(
    client: StorageClient, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting = Waiting(client, "condition=Succeeded", "a")
    assert await waiting.wait(30) is ExitCode.TIMEOUT
    assert asyncio.get_running_loop().time() == pytest.approx(30, abs=1)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "error: a: timeout of 30 s passed: is New; the change stays"


async def test_progress_is_a_line_for_each_change_of_what_is_missing(
    client: StorageClient, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting = Waiting(client, "condition=Succeeded", "a")
    await waiting.wait(60)
    assert capsys.readouterr().err.splitlines()[:-1] == ["a: is New"]


async def test_interrupt_ends_the_wait_and_says_that_the_change_stays(
    client: StorageClient, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting = Waiting(client, "condition=Succeeded", "a")
    loop = asyncio.get_running_loop()
    loop.call_later(1, os.kill, os.getpid(), signal.SIGINT)
    assert await waiting.wait(60) is ExitCode.INTERRUPTED
    assert capsys.readouterr().err.splitlines()[-1] == "no longer waiting; the change stays"


class Refusal(Network):
    """Refuses to list Frameworks."""

    def draw_fate(self, request: Request) -> Fate:
        if request.verb == "list":
            return Fate(error=StatusError(403, "Forbidden", "no right", {}))
        return Fate()


async def test_missing_right_to_list_ends_the_wait(client: StorageClient) -> None:
    waiting = Waiting(client, "condition=Succeeded", "a")
    client.network = Refusal()
    with pytest.raises(ForbiddenError):
        await waiting.wait()
