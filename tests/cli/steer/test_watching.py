"""Waiting for goals: reached, never, too late, not allowed."""

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest

from cli.exitcodes import CliError, ExitCode
from cli.steer.conditions import parse_wanted
from cli.steer.effects import Goal, Stopped, Verdict
from cli.steer.watching import Wait, Waiter
from framework.api.completion import POD_LEFT_RUNNING
from framework.api.constants import FRAMEWORK_NAME
from framework.api.states import FrameworkState, TaskState
from framework.api.wire import format_time
from framework.clock import SystemRandom
from framework.kube.errors import ForbiddenError
from framework.kube.resources import FRAMEWORKS, PODS, Object, Resource
from localcluster.apiserver.model.errors import StatusError
from tests.support.builders import (
    build_pod_wire,
    build_role_status,
    build_role_wire,
    build_status_wire,
    build_submission,
    build_task,
    end_task,
)
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

STOP = "stop"


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
    """One wait, for a condition or (STOP) as `stop --wait` does, and what it reported."""

    def __init__(self, client: StorageClient, wanted: str, *names: str) -> None:
        self.client = client
        build_goal = Stopped if wanted == STOP else parse_wanted(wanted).build_goal
        self.goals: Sequence[Goal] = [build_goal(name, create(client, name)) for name in names]
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


async def test_framework_that_cannot_be_read_does_not_hide_the_end_of_another(
    client: StorageClient,
) -> None:
    waiting = Waiting(client, "condition=Succeeded", "a", "b")
    rt = find_type(client.storage, FRAMEWORKS)
    body = client.storage.get(rt, "default", "b") | {"status": {"state": "Unknown"}}
    client.storage.update(rt, "default", "b", body, subresource="status")
    write_condition(client, "a", "Succeeded")
    with pytest.raises(CliError, match="b: "):
        await waiting.wait()
    assert set(waiting.reported) == {"a"}


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


def leave_pod(client: StorageClient, name: str) -> None:
    """Let a Framework end with its Pod left running."""
    frameworks, pods = (find_type(client.storage, each) for each in (FRAMEWORKS, PODS))
    left = end_task(build_task(TaskState.COMPLETED), POD_LEFT_RUNNING)
    pod = build_pod_wire()
    # Without a node, its deletion waits for no kubelet.
    del pod["spec"]["nodeName"]
    pod["metadata"] = {"name": "left", "labels": {FRAMEWORK_NAME: name}}
    stored = client.storage.create(pods, "default", pod)
    ended = replace(left.attempt_status, pod_uid=str(stored["metadata"]["uid"]))
    role = build_role_status(tasks=(replace(left, attempt_status=ended),))
    body: Object = client.storage.get(frameworks, "default", name)
    body["status"] = build_status_wire(role, state=FrameworkState.COMPLETED)
    client.storage.update(frameworks, "default", name, body, subresource="status")


@pytest.mark.parametrize("names", [["a"], ["a", "b"]], ids=["one", "several"])
async def test_stop_waits_for_the_pods_that_were_left_running(
    client: StorageClient, names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    waiting = Waiting(client, STOP, *names)
    leave_pod(client, "a")
    for name in names[1:]:
        write_condition(client, name, "Failed")

    async def delete_pod() -> None:
        await asyncio.sleep(100)
        client.storage.delete(find_type(client.storage, PODS), "default", "left")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(delete_pod())
        assert await waiting.wait(1000) is ExitCode.SUCCEEDED
    assert asyncio.get_running_loop().time() == pytest.approx(100, abs=1)
    assert waiting.reported["a"].text == "the Pods that were left running have ended"
    missing = "a: waits for 1 Pods that were left running: worker/0\n"
    assert capsys.readouterr().err == missing


async def test_stop_of_many_frameworks_waits_for_their_pods(client: StorageClient) -> None:
    names = ["a", *(f"{number:040}" for number in range(250))]
    waiting = Waiting(client, STOP, *names)
    leave_pod(client, "a")
    for name in names[1:]:
        write_condition(client, name, "Failed")
    delete = partial(client.storage.delete, find_type(client.storage, PODS), "default", "left")
    asyncio.get_running_loop().call_later(100, delete)
    assert await waiting.wait(1000) is ExitCode.SUCCEEDED
    assert asyncio.get_running_loop().time() == pytest.approx(100, abs=1)


class Refusal(Network):
    """Refuses to list a resource."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource

    def draw_fate(self, request: Request) -> Fate:
        if request.verb == "list" and request.resource is self.resource:
            return Fate(error=StatusError(403, "Forbidden", "no right", {}))
        return Fate()


async def test_missing_right_to_list_pods_ends_only_a_wait_for_pods(client: StorageClient) -> None:
    client.network = Refusal(PODS)
    waiting = Waiting(client, STOP, "a")
    write_condition(client, "a", "Succeeded")
    assert await waiting.wait(1000) is ExitCode.SUCCEEDED
    waiting = Waiting(client, STOP, "b")
    leave_pod(client, "b")
    with pytest.raises(ForbiddenError):
        await waiting.wait(1000)


async def test_missing_right_to_list_ends_the_wait(client: StorageClient) -> None:
    waiting = Waiting(client, "condition=Succeeded", "a")
    client.network = Refusal(FRAMEWORKS)
    with pytest.raises(ForbiddenError):
        await waiting.wait()
