"""How an attempt of a Task ended, in words. Pure.

The words name containers, exit codes, signals and reasons. They never quote a message of a
container, which may hold a secret.

Examples: "exited with 7"; "was killed by SIGKILL (exit code 137, OOMKilled)"; "was removed by
scaling down".

Rules: docs/design/failure-handling.md, "Words for an end".
"""

import signal

from framework.api.completion import (
    CONFIGMAP_EXTERNAL_DELETED,
    CONFIGMAP_LOCAL_CACHE_CREATION_TIMEOUT,
    DELETE_TASK_REQUESTED,
    EPOCH_START_TIMEOUT,
    FRAMEWORK_ATTEMPT_COMPLETION,
    FRAMEWORK_DEADLINE_EXCEEDED,
    POD_CREATION_PERMANENT_ERROR,
    POD_CREATION_UNKNOWN_ERROR,
    POD_EXTERNAL_DELETED,
    POD_LEFT_RUNNING,
    POD_LOCAL_CACHE_CREATION_TIMEOUT,
    RETRY_TASK_REQUESTED,
    STOP_FRAMEWORK_REQUESTED,
    SUCCEEDED,
    SUSPEND_FRAMEWORK_REQUESTED,
    TASK_LEFT_NODE,
)
from framework.api.constants import HUNG_EXIT_CODE
from framework.api.recovery import (
    BUDGET_USED_UP,
    NOT_IN_PLACE,
    PERMANENT_FAILURE,
    RESTARTED,
    RecoveryStatus,
)
from framework.api.types import (
    ContainerCompletionStatus,
    FrameworkAttemptCompletionStatus,
    FrameworkStatus,
    TaskAttemptCompletionStatus,
)

INHERITED_CODES = frozenset(
    {
        STOP_FRAMEWORK_REQUESTED,
        FRAMEWORK_ATTEMPT_COMPLETION,
        POD_LEFT_RUNNING,
        DELETE_TASK_REQUESTED,
        SUSPEND_FRAMEWORK_REQUESTED,
        RETRY_TASK_REQUESTED,
        TASK_LEFT_NODE,
    }
)
"""Codes of attempts that ended with the gang or on request, not by themselves."""
PLAIN_REASONS = frozenset({"", "Error", "Completed"})
"""Reasons of the kubelet that say only that the container ended."""

_EPOCH_EFFECTS = {
    RESTARTED: "all processes start again in their Pods",
    NOT_IN_PLACE: "a failed process has no recovery.inPlace, so its Pod ends",
    PERMANENT_FAILURE: "a code is permanent, so its Pod ends",
    BUDGET_USED_UP: "recovery.inPlace allows no more restarts now, so a Pod ends",
}

_REFUSED = "has no Pod: the API server refused it"
_LOST_CONFIGMAP = "lost its ConfigMap: another client deleted it"
_WORDS = {
    SUCCEEDED: "succeeded",
    POD_EXTERNAL_DELETED: "lost its Pod: another client deleted it, or its node is gone",
    POD_LOCAL_CACHE_CREATION_TIMEOUT: "lost its Pod before it was seen",
    POD_CREATION_PERMANENT_ERROR: _REFUSED,
    POD_CREATION_UNKNOWN_ERROR: _REFUSED,
    CONFIGMAP_EXTERNAL_DELETED: _LOST_CONFIGMAP,
    CONFIGMAP_LOCAL_CACHE_CREATION_TIMEOUT: "lost its ConfigMap before it was seen",
    STOP_FRAMEWORK_REQUESTED: "was stopped by a user",
    FRAMEWORK_ATTEMPT_COMPLETION: "was ended with its Framework",
    POD_LEFT_RUNNING: "was left running at the end of its Framework",
    DELETE_TASK_REQUESTED: "was removed by scaling down",
    FRAMEWORK_DEADLINE_EXCEEDED: "was active for longer than its activeDeadlineSeconds",
    SUSPEND_FRAMEWORK_REQUESTED: "was suspended by a user",
    RETRY_TASK_REQUESTED: "was retried by a user",
    TASK_LEFT_NODE: "left its node",
    EPOCH_START_TIMEOUT: "did not come to the start barrier in time",
}
# A shell reports the end of a process by signal N as 128 + N; so does the kubelet.
_SIGNAL_BASE = 128
# The signals from here on are for real-time programs; a code that high is a program's own.
_END_OF_SIGNALS = 32


def describe_task_end(completion: TaskAttemptCompletionStatus) -> str:
    """Describe how an attempt of a Task ended, to be put after the name of the Task."""
    words = _WORDS.get(completion.code)
    if words is not None:
        return words
    pod = completion.pod
    container = find_failed_container(completion)
    if container is not None:
        others = len(pod.containers) > 1 if pod is not None else False
        text = describe_container_end(container.code, container.signal, container.reason)
        text = f"failed: its container {container.name} {text}" if others else text
        is_named = completion.code == container.code
        return text if is_named else f"{text}: code {completion.code} ({completion.phrase})"
    if pod is not None and pod.reason:
        return f"failed: {pod.reason}"
    return _name_code(completion)


def find_failed_container(
    completion: TaskAttemptCompletionStatus,
) -> ContainerCompletionStatus | None:
    """Find the container that gave the code, or else the first that failed; None if none did."""
    containers = completion.pod.containers if completion.pod is not None else ()
    failed = [c for c in containers if c.code != 0 or c.signal != 0]
    return next((c for c in failed if c.code == completion.code), failed[0] if failed else None)


def describe_container_end(code: int, signal_number: int = 0, reason: str = "") -> str:
    """Describe how a container ended, to be put after its name.

    Args:
        code: its exit code.
        signal_number: the signal that ended it, 0 if the runtime names none.
        reason: the reason of the kubelet, or other details.
    """
    shown = [] if reason in PLAIN_REASONS else [reason]
    number = signal_number or code - _SIGNAL_BASE
    if not signal_number and not 0 < number < _END_OF_SIGNALS:
        return f"exited with {code}" + (f" ({reason})" if shown else "")
    details = ([f"exit code {code}"] if code else []) + shown
    text = f"was killed by {_name_signal(number)}"
    return f"{text} ({', '.join(details)})" if details else text


def describe_process_end(code: int) -> str:
    """Describe how the process of a member ended, by the code that its agent reported."""
    if code == HUNG_EXIT_CODE:
        return f"was killed, because the gang stood still (code {code})"
    return describe_container_end(code)


def describe_epoch(recovery: RecoveryStatus) -> str:
    """Describe why the current epoch began; "" before the first failure.

    Example: "the process of worker/1 was killed by SIGKILL (exit code 137); all processes start
    again in their Pods".
    """
    failed = _describe_first_failed(recovery)
    effect = _EPOCH_EFFECTS.get(recovery.reason, "its Pod ends")
    return f"{failed}; {effect}" if failed else ""


def describe_restarts(recovery: RecoveryStatus | None) -> str:
    """Describe that processes restarted in place, to be put after other words; "" if not."""
    failed = _describe_first_failed(recovery) if recovery is not None else ""
    if recovery is None or not failed or recovery.reason != RESTARTED:
        return ""
    last = "" if recovery.epoch == 1 else ", the last time"
    return f"its processes restarted in place (epoch {recovery.epoch}){last} because {failed}"


def _describe_first_failed(recovery: RecoveryStatus) -> str:
    failed = recovery.first_failed
    if failed is None:
        return ""
    return f"the process of {failed.role}/{failed.index} {describe_process_end(failed.code)}"


def describe_framework_end(status: FrameworkStatus) -> str:
    """Describe why the attempt of a Framework ended; "" if it has not ended.

    If a Task caused the end, the text names the Task.
    """
    completion = status.attempt_status.completion_status
    if completion is None:
        return ""
    trigger = _find_trigger(status, completion)
    if trigger is not None and not completion.type.is_succeeded:
        task, end = trigger
        return f"{task} {describe_task_end(end)}"
    return f"it {_WORDS.get(completion.code) or _name_code(completion)}"


def _find_trigger(
    status: FrameworkStatus, completion: FrameworkAttemptCompletionStatus
) -> tuple[str, TaskAttemptCompletionStatus] | None:
    """Find the Task that ended the attempt, with its completion."""
    trigger = completion.trigger
    if trigger is None:
        return None
    for role in status.attempt_status.task_roles:
        if role.name != trigger.task_role_name:
            continue
        for task in role.tasks:
            end = task.attempt_status.completion_status
            if task.index == trigger.task_index and end is not None:
                return f"{role.name}/{task.index}", end
    return None


def _name_code(completion: TaskAttemptCompletionStatus | FrameworkAttemptCompletionStatus) -> str:
    return f"failed with code {completion.code} ({completion.phrase})"


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
