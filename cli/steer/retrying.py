"""Computes a retry of a Task: which Pod is deleted, and how the attempt is counted. Pure.

A Pod that another client deletes ends its attempt with -101 (PodExternalDeleted, Transient). The
retry policy of the role then decides, as after any failure. A Pod is deleted only if it decides for
a retry: otherwise the Task, and maybe the whole Framework, would fail.

Rules: docs/design/failure-handling.md, "Retry policy".
"""

from dataclasses import dataclass

from cli.exitcodes import CliError, ExitCode
from cli.invocation import build_command
from cli.steer.changes import Gang
from cli.steer.scaling import check_resizable, find_role
from controller.core.policies.retry_policy import decide_retry
from framework.api.completion import POD_EXTERNAL_DELETED, complete_task
from framework.api.naming import TaskKey
from framework.api.states import TASK_ALIVE, TaskState
from framework.api.types import ExecutionType, TaskRoleSpec, TaskStatus
from framework.api.wire import format_time


@dataclass(frozen=True, slots=True)
class Retry:
    """The retry of one Task."""

    task: TaskKey
    """The Task."""
    pod_name: str = ""
    """Pod to delete; "" if the next attempt comes without that."""
    pod_uid: str = ""
    """UID of the Pod: no other Pod of this name is deleted."""
    attempt: int = 0
    """Number of the attempt that ends."""
    note: str = ""
    """What follows."""


def compute_retry(gang: Gang, key: TaskKey) -> Retry:
    """Compute the retry of a Task.

    Raises:
        CliError: there is no such Task, or it would not be retried.
    """
    check_resizable(gang)
    position, role = find_role(gang, key.role)
    title = f"{gang.name}: {key}"
    if gang.spec.execution_type is ExecutionType.STOP or gang.is_completing:
        raise CliError(ExitCode.USAGE, f"{title}: its attempt of the Framework is being ended")
    task = _find_task(gang, key)
    if task is None or task.deletion_pending:
        raise CliError(ExitCode.FAILED, f"{title}: there is no such Task now")
    attempt = task.attempt_status
    if task.state is TaskState.COMPLETED:
        raise CliError(ExitCode.USAGE, f"{title}: {_explain_completed(gang, task, key)}")
    if task.state is TaskState.ATTEMPT_COMPLETED:
        return Retry(key, attempt=attempt.id, note=_explain_waiting(task))
    if task.state not in TASK_ALIVE or attempt.pod_uid is None:
        note = "its Pod is being created" if _is_new(task) else "its attempt ends already"
        return Retry(key, attempt=attempt.id, note=f"{note}: no Pod is deleted")
    note = _explain_count(title, position, role, task)
    return Retry(key, attempt.pod_name, attempt.pod_uid, attempt.id, note)


def _find_task(gang: Gang, key: TaskKey) -> TaskStatus | None:
    role = None if gang.status is None else gang.status.attempt_status.find_role(key.role)
    tasks = () if role is None else role.tasks
    return tasks[key.index] if key.index < len(tasks) else None


def _is_new(task: TaskStatus) -> bool:
    return task.state in {TaskState.ATTEMPT_CREATION_PENDING, TaskState.ATTEMPT_CREATION_REQUESTED}


def _explain_completed(gang: Gang, task: TaskStatus, key: TaskKey) -> str:
    ended = task.attempt_status.completion_status
    how = "" if ended is None else f" ({ended.type.name}: {ended.phrase})"
    remove, undo = (
        build_command("remove", gang.name, str(key)),
        build_command("remove", "--undo", gang.name, str(key)),
    )
    return (
        f"has ended{how}, and a Task that has ended is not retried; to replace it by a new Task, "
        f"use `{remove}` and then `{undo}`"
    )


def _explain_waiting(task: TaskStatus) -> str:
    delay = task.retry_policy_status.retry_delay_seconds
    if not delay:
        return "its attempt has ended, and the retry policy decides about the next one"
    since = format_time(task.transition_time)
    return (
        f"its next attempt begins {delay} s after {since}, because its last ones ended at once; "
        "the controller does not begin it earlier"
    )


def _explain_count(title: str, position: int, role: TaskRoleSpec, task: TaskStatus) -> str:
    """Explain how the retry counts.

    Raises:
        CliError: there would be no retry.
    """
    policy, retries = role.task.retry_policy, task.retry_policy_status
    completion = complete_task(POD_EXTERNAL_DELETED, "")
    decision = decide_retry(policy, retries, completion.code, completion.type)
    used, limit = retries.accountable_retried_count, policy.max_retry_count
    path = f"spec.taskRoles[{position}].task.retryPolicy"
    if not decision.should_retry:
        raise CliError(
            ExitCode.USAGE,
            f"{title}: would not be retried: {used} of {limit} retries are used, and without its "
            f"Pod the Task would fail; raise {path}.maxRetryCount, or set fancyRetryPolicy there",
        )
    attempt = f"attempt {task.attempt_status.id} ends with -101 (PodExternalDeleted)"
    if not decision.is_accountable:
        return f"{attempt}; with fancyRetryPolicy, this retry does not count"
    if limit < 0:
        return f"{attempt}; maxRetryCount {limit} is no limit"
    return f"{attempt}; this is retry {used + 1} of {limit} ({path}.maxRetryCount)"
