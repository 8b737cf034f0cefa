"""Tasks and Frameworks that end at once and are retried without end: in virtual time."""

import asyncio
import contextlib
from typing import Any

import pytest

from controller.core.settings import Settings
from framework.kube.resources import EVENTS, FRAMEWORKS, PODS, Object
from tests.support.builders import FRAMEWORK, NAMESPACE, build_role_wire
from tests.support.simulator.shell import Shell

pytestmark = pytest.mark.looptime

MERGE = "application/merge-patch+json"
STEP_SECONDS = 0.25


def open_failing(settings: Settings | None = None, retry_count: int = -1, **spec: Any) -> Shell:
    shell = Shell(settings)
    role = build_role_wire("worker", 1)
    role["task"]["retryPolicy"] = {"maxRetryCount": retry_count}
    role["frameworkAttemptCompletionPolicy"] = {
        "minFailedTaskCount": 1,
        "minSucceededTaskCount": -1,
    }
    shell.create_framework(taskRoles=[role], **spec)
    return shell


async def live(shell: Shell, seconds: float, run_seconds: float = 0.0) -> None:
    """Let each Pod fail ``run_seconds`` after it was seen first, for so long."""
    loop = asyncio.get_running_loop()
    seen: dict[str, float] = {}

    async def play() -> None:
        while True:
            for pod in shell.storage.list(shell.type(PODS), NAMESPACE).items:
                meta = pod["metadata"]
                started = seen.setdefault(meta["uid"], loop.time())
                if loop.time() - started >= run_seconds and pod["status"]["phase"] != "Failed":
                    fail(shell, meta["name"])
            collect(shell)
            shell.show()
            await asyncio.sleep(STEP_SECONDS)

    player = asyncio.create_task(play())
    recorder = asyncio.create_task(shell.recorder.run())
    await shell.run(seconds)
    for task in (player, recorder):
        task.cancel()
    await asyncio.gather(player, recorder, return_exceptions=True)


def fail(shell: Shell, name: str) -> None:
    terminated = {"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}
    container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
    status = {
        "phase": "Failed",
        "containerStatuses": [{**container, "state": {"terminated": terminated}}],
    }
    with contextlib.suppress(Exception):
        shell.storage.patch(
            shell.type(PODS), NAMESPACE, name, {"status": status}, MERGE, subresource="status"
        )


def collect(shell: Shell) -> None:
    """Carry out what the garbage collector does."""
    while shell.storage.collect_garbage():
        pass


def get_task(shell: Shell) -> Object:
    status = shell.get(FRAMEWORKS, FRAMEWORK)["status"]
    task: Object = status["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][0]
    return task


def count_attempts(shell: Shell) -> int:
    return int(get_task(shell)["attemptStatus"]["id"]) + 1


def get_blocked(shell: Shell) -> Object:
    conditions = shell.get(FRAMEWORKS, FRAMEWORK)["status"]["conditions"]
    (blocked,) = (c for c in conditions if c["type"] == "Blocked")
    return dict(blocked)


async def test_task_that_fails_at_once_is_retried_less_and_less_often() -> None:
    shell = open_failing()
    await live(shell, 60)
    first = count_attempts(shell)
    assert 5 <= first <= 9
    await live(shell, 600)
    assert 2 <= count_attempts(shell) - first <= 5
    assert get_task(shell)["retryPolicyStatus"]["retryDelaySec"] in (128, 256, 300)


async def test_pause_is_told_in_the_condition_blocked_and_by_one_event() -> None:
    shell = open_failing()
    await live(shell, 60)
    blocked = get_blocked(shell)
    assert (blocked["status"], blocked["reason"]) == ("True", "RetryBackoff")
    assert blocked["message"].startswith("worker/0: its last ")
    assert "so the next one starts at 20" in blocked["message"]
    remedy = "look at the Pods' logs, and mend the program or the spec"
    assert blocked["message"].endswith(f"Z: {remedy}")
    events = shell.storage.list(shell.type(EVENTS), NAMESPACE).items
    told = [event for event in events if event["reason"] == "RetryBackoff"]
    assert told
    assert all(event["message"].endswith(f"300 s at most: {remedy}") for event in told)


async def test_three_retries_are_made_at_once() -> None:
    shell = open_failing(retry_count=2)
    await live(shell, 10)
    status = shell.get(FRAMEWORKS, FRAMEWORK)["status"]
    assert status["state"] == "Completed"
    assert get_task(shell)["attemptStatus"]["id"] == 2


async def test_an_attempt_that_lasts_begins_the_count_anew() -> None:
    shell = open_failing()
    await live(shell, 60)
    assert get_task(shell)["retryPolicyStatus"]["quickEndCount"] >= 5
    await live(shell, 120, run_seconds=20)
    assert "quickEndCount" not in get_task(shell)["retryPolicyStatus"]
    assert get_blocked(shell)["status"] == "False"


async def test_a_new_controller_goes_on_with_the_pauses() -> None:
    shell = open_failing()
    await live(shell, 120)
    before = count_attempts(shell)
    following = Shell()
    following.storage = shell.storage
    following.client.storage = shell.storage
    following.show()
    await live(following, 60)
    assert count_attempts(following) - before <= 2


async def test_switched_off_it_is_retried_at_once_without_end() -> None:
    shell = open_failing(Settings(max_pause_seconds=0))
    await live(shell, 60)
    assert count_attempts(shell) > 20
    assert get_blocked(shell)["status"] == "False"


async def test_framework_whose_attempts_end_at_once_waits_too() -> None:
    shell = open_failing(retry_count=0, retryPolicy={"maxRetryCount": -1})
    await live(shell, 60)
    status = shell.get(FRAMEWORKS, FRAMEWORK)["status"]
    assert 4 <= status["attemptStatus"]["id"] <= 9
    await live(shell, 300)
    blocked = get_blocked(shell)
    assert blocked["message"].startswith("Framework: its last ")
    later = shell.get(FRAMEWORKS, FRAMEWORK)["status"]["attemptStatus"]["id"]
    assert later - status["attemptStatus"]["id"] <= 3


async def test_stop_ends_a_pause() -> None:
    shell = open_failing(retry_count=0, retryPolicy={"maxRetryCount": -1})
    await live(shell, 120)
    wire = shell.get(FRAMEWORKS, FRAMEWORK)
    wire["spec"]["executionType"] = "Stop"
    shell.storage.update(shell.type(FRAMEWORKS), NAMESPACE, FRAMEWORK, wire)
    await live(shell, 5)
    assert shell.get(FRAMEWORKS, FRAMEWORK)["status"]["state"] == "Completed"
