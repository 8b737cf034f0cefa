"""Tasks and Frameworks that end at once and are retried without end: in virtual time."""

import asyncio
from typing import Any

import pytest

from framework.kube.resources import EVENTS, PODS
from tests.support.builders import FAIL_FAST, NAMESPACE, build_role_wire
from tests.support.simulator.shell import Shell

pytestmark = pytest.mark.looptime

STEP_SECONDS = 0.5


def open_failing(retry_count: int = -1, tasks: int = 1, **spec: Any) -> Shell:
    shell = Shell()
    role = build_role_wire("worker", tasks)
    role["task"]["retryPolicy"] = {"maxRetryCount": retry_count}
    role["frameworkAttemptCompletionPolicy"] = FAIL_FAST
    shell.create_framework(taskRoles=[role], **spec)
    return shell


async def run(shell: Shell, seconds: float, run_seconds: float = 0.0) -> None:
    """Run for so long; each Pod fails ``run_seconds`` after it was seen first."""
    loop = asyncio.get_running_loop()
    seen: dict[str, float] = {}

    async def fail_pods() -> None:
        while True:
            for pod in shell.storage.list(shell.type(PODS), NAMESPACE).items:
                started = seen.setdefault(pod["metadata"]["uid"], loop.time())
                if loop.time() - started >= run_seconds and pod["status"]["phase"] != "Failed":
                    terminated = {"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"}
                    container = {"name": "main", "state": {"terminated": terminated}}
                    name = pod["metadata"]["name"]
                    shell.patch_pod(name, phase="Failed", containerStatuses=[container])
            while shell.storage.collect_garbage():
                pass
            shell.show()
            await asyncio.sleep(STEP_SECONDS)

    failing = asyncio.create_task(fail_pods())
    await shell.run(seconds)
    failing.cancel()
    await asyncio.gather(failing, return_exceptions=True)


def count_attempts(shell: Shell) -> int:
    return int(shell.tasks[0]["attemptStatus"]["id"]) + 1


async def test_task_that_fails_at_once_is_retried_less_and_less_often() -> None:
    shell = open_failing()
    await run(shell, 60)
    first = count_attempts(shell)
    assert 5 <= first <= 9
    await run(shell, 600)
    assert 2 <= count_attempts(shell) - first <= 5
    assert shell.tasks[0]["retryPolicyStatus"]["retryDelaySec"] in (128, 256, 300)


async def test_pause_is_reported_by_the_condition_blocked_and_one_event() -> None:
    shell = open_failing()
    await run(shell, 60)
    blocked = shell.find_condition()
    assert (blocked["status"], blocked["reason"]) == ("True", "RetryBackoff")
    assert blocked["message"].startswith("worker/0: its last ")
    assert "so the next one starts at 20" in blocked["message"]
    remedy = "read the logs of the Pods, and correct the program or the spec"
    assert blocked["message"].endswith(f"Z: {remedy}")
    events = shell.storage.list(shell.type(EVENTS), NAMESPACE).items
    pauses = [event for event in events if event["reason"] == "RetryBackoff"]
    assert pauses
    assert all(event["message"].endswith(f"300 s at most: {remedy}") for event in pauses)


async def test_long_attempt_resets_the_count() -> None:
    shell = open_failing()
    await run(shell, 60)
    assert shell.tasks[0]["retryPolicyStatus"]["quickEndCount"] >= 5
    await run(shell, 120, run_seconds=20)
    assert "quickEndCount" not in shell.tasks[0]["retryPolicyStatus"]
    assert shell.find_condition()["status"] == "False"


@pytest.mark.parametrize(
    ("tasks", "others"),
    [(2, "1 more Task waits for its retry"), (3, "2 more Tasks wait for their retry")],
)
async def test_pause_of_several_tasks_has_their_number(tasks: int, others: str) -> None:
    shell = open_failing(tasks=tasks)
    await run(shell, 60)
    assert f"Z; {others}: read the logs" in shell.find_condition()["message"]


async def test_framework_whose_attempts_end_at_once_pauses_too() -> None:
    shell = open_failing(retry_count=0, retryPolicy={"maxRetryCount": -1})
    await run(shell, 60)
    status = shell.status
    assert 4 <= status["attemptStatus"]["id"] <= 9
    await run(shell, 300)
    blocked = shell.find_condition()
    assert blocked["message"].startswith("Framework: its last ")
    later = shell.status["attemptStatus"]["id"]
    assert later - status["attemptStatus"]["id"] <= 3


async def test_stop_ends_a_pause() -> None:
    shell = open_failing(retry_count=0, retryPolicy={"maxRetryCount": -1})
    await run(shell, 120)
    shell.edit(executionType="Stop")
    await run(shell, 5)
    assert shell.status["state"] == "Completed"
