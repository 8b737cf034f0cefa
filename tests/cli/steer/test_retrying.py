"""retry: which Pod is deleted, what counts, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest

from cli.exitcodes import CliError, ExitCode
from cli.steer.changes import Gang
from cli.steer.retrying import compute_retry
from framework.api.completion import POD_EXTERNAL_DELETED
from framework.api.naming import TaskKey
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    ExecutionType,
    RetryPolicySpec,
    RetryPolicyStatus,
    TaskSpec,
    TaskStatus,
)
from tests.cli.steer.gangs import build_gang
from tests.support.builders import (
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_task,
    end_task,
    pod_uid,
)

KEY = TaskKey("worker", 0)
RUNNING = TaskState.ATTEMPT_RUNNING


def build(
    task: TaskStatus | None = None, policy: RetryPolicySpec | None = None, **spec: Any
) -> Gang:
    role = build_role("worker", 1, task=TaskSpec(retry_policy=policy or RetryPolicySpec()))
    status = build_role_status(tasks=(task or build_task(RUNNING),))
    return build_gang(build_spec(role, **spec), build_status(status))


def build_retried(accountable: int) -> TaskStatus:
    retries = RetryPolicyStatus(accountable, accountable)
    return build_task(RUNNING, retry_policy_status=retries)


@pytest.mark.parametrize(
    ("policy", "used", "note"),
    [
        (RetryPolicySpec(fancy_retry_policy=True), 0, "does not count"),
        (RetryPolicySpec(max_retry_count=3), 1, "retry 2 of 3"),
        (RetryPolicySpec(max_retry_count=-1), 7, "no limit"),
        (RetryPolicySpec(max_retry_count=-2), 7, "no limit"),
    ],
    ids=["fancy", "counted", "failures", "all"],
)
def test_running_task_is_retried_by_the_deletion_of_its_pod(
    policy: RetryPolicySpec, used: int, note: str
) -> None:
    retry = compute_retry(build(build_retried(used), policy), KEY)
    assert (retry.pod_name, retry.pod_uid) == ("gang-worker-0", pod_uid("worker", 0))
    assert note in retry.note


@pytest.mark.parametrize("used", [0, 2])
def test_task_without_a_retry_left_keeps_its_pod(used: int) -> None:
    gang = build(build_retried(used), RetryPolicySpec(max_retry_count=used))
    with pytest.raises(CliError, match=r"taskRoles\[0\].task.retryPolicy.maxRetryCount") as caught:
        compute_retry(gang, KEY)
    assert caught.value.exit_code is ExitCode.USAGE


WAITING = replace(
    end_task(build_task(TaskState.ATTEMPT_COMPLETED), POD_EXTERNAL_DELETED),
    retry_policy_status=RetryPolicyStatus(retry_delay_seconds=8),
)


@pytest.mark.parametrize(
    ("task", "note"),
    [
        (build_task(TaskState.ATTEMPT_CREATION_PENDING), "being created"),
        (build_task(TaskState.ATTEMPT_CREATION_REQUESTED), "being created"),
        (build_task(TaskState.ATTEMPT_DELETION_PENDING), "ends already"),
        (build_task(TaskState.ATTEMPT_DELETING), "ends already"),
        (WAITING, "8 s after 2026-01-01T00:00:00Z"),
    ],
)
def test_task_between_two_attempts_needs_no_deletion(task: TaskStatus, note: str) -> None:
    retry = compute_retry(build(task), KEY)
    assert retry.pod_uid == ""
    assert note in retry.note


def test_task_that_has_ended_is_replaced_and_not_retried() -> None:
    task = end_task(build_task(TaskState.COMPLETED), 0)
    with pytest.raises(CliError, match=r"remove gang worker/0.*remove --undo gang worker/0"):
        compute_retry(build(task), KEY)


@pytest.mark.parametrize(
    ("gang", "key", "fault"),
    [
        (build(), TaskKey("worker", 1), "no such Task"),
        (build(), TaskKey("ps", 0), "no role 'ps'"),
        (build(build_task(RUNNING, deletion_pending=True)), KEY, "no such Task"),
        (build(execution_type=ExecutionType.STOP), KEY, "being ended"),
        (
            build_gang(None, build_status(state=FrameworkState.ATTEMPT_DELETION_PENDING)),
            KEY,
            "being ended",
        ),
        (build_gang(None, build_status(state=FrameworkState.COMPLETED)), KEY, "has ended"),
        (build_gang(None, None), KEY, "no such Task"),
    ],
    ids=["index", "role", "leaving", "stopped", "ending", "ended", "new"],
)
def test_task_that_cannot_be_retried_is_refused(gang: Gang, key: TaskKey, fault: str) -> None:
    with pytest.raises(CliError, match=fault):
        compute_retry(gang, key)
