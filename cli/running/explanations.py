"""Explains in words why a Framework or a Task waits, and how it ended. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from cli.running.views import FrameworkObjects
from cli.texts.diagnostics import explain_diagnostics
from cli.texts.reasons import explain_blocked, explain_no_tasks, explain_pod, explain_restarts
from framework.api import constants
from framework.api.completion import (
    DELETE_TASK_REQUESTED,
    FRAMEWORK_ATTEMPT_COMPLETION,
    POD_LEFT_RUNNING,
    RETRY_TASK_REQUESTED,
    STOP_FRAMEWORK_REQUESTED,
    SUSPEND_FRAMEWORK_REQUESTED,
)
from framework.api.endings import INHERITED_CODES, describe_framework_end
from framework.api.naming import TaskKey, build_pod_name
from framework.api.states import TASK_ALIVE, FrameworkState, TaskState
from framework.api.types import (
    FrameworkAttemptCompletionStatus,
    FrameworkStatus,
    TaskAttemptCompletionStatus,
    TaskStatus,
)
from framework.kube.resources import Object

Completion = FrameworkAttemptCompletionStatus | TaskAttemptCompletionStatus
INHERITED_ENDS: Mapping[int, str] = {
    STOP_FRAMEWORK_REQUESTED: "stopped on request",
    FRAMEWORK_ATTEMPT_COMPLETION: "ended with its Framework",
    POD_LEFT_RUNNING: "left running at the end of its Framework",
    DELETE_TASK_REQUESTED: "removed by scaling down",
    SUSPEND_FRAMEWORK_REQUESTED: "suspended on request",
    RETRY_TASK_REQUESTED: "retried on request",
}
"""Ends of Tasks with the gang or on request, not by themselves: codes, each with its words."""
_SHOWN_MISSING = 3
_NOTE_LIMIT = 200
# The original's phrase for an exit code that no rule names.
_UNNAMED_PHRASE = "ContainerUnrecognizedFailed"
# Reasons of a Task whose Pod is about to be created.
_NOT_CREATED = frozenset({"", constants.POD_NOT_CREATED})
_RESUME = "waits until a user resumes it: set spec.suspend to false"


@dataclass(frozen=True, slots=True)
class ViewContext:
    """The facts that are the same for all Tasks of a view."""

    objects: FrameworkObjects
    """The known objects of the Framework."""
    gang: str
    """The missing Tasks, for an init container that waits for the gang."""
    missing: Mapping[TaskKey, str]
    """The reasons why Tasks are missing, as far as the controller has published them."""
    is_ending: bool
    """Whether the attempt is over, and its Tasks are being deleted."""
    is_suspended: bool
    """Whether the Tasks wait only for a user who resumes the Framework."""
    now: datetime | None
    """The time for countdowns and for counts of restarts; None for words that do not change."""

    def find_pod(self, key: TaskKey) -> Object | None:
        """Find the Pod of a Task; None if it does not exist, or is not known."""
        return (self.objects.pods or {}).get(build_pod_name(self.objects.name, key.role, key.index))


def explain_end(completion: Completion) -> str:
    """Explain why something ended."""
    inherited = INHERITED_ENDS.get(completion.code)
    if inherited is not None:
        return inherited
    cause = explain_diagnostics(completion.diagnostics)
    if not cause:
        return f"{completion.phrase} ({completion.code})"
    is_complete = completion.phrase == _UNNAMED_PHRASE or completion.code < 0
    return cause if is_complete else f"{completion.phrase}: {cause}"


def explain_task(key: TaskKey, task: TaskStatus, context: ViewContext) -> str:
    """Explain why a Task waits, or how it ended; "" if there is nothing to say."""
    completion = task.attempt_status.completion_status
    ended = "" if completion is None else explain_end(completion)
    match task.state:
        case TaskState.ATTEMPT_CREATION_PENDING:
            reason = context.missing.get(key, "")
            return "waits for its Pod to be created" if reason in _NOT_CREATED else reason
        case TaskState.ATTEMPT_CREATION_REQUESTED | TaskState.ATTEMPT_PREPARING:
            return _explain_waiting(key, context)
        case TaskState.ATTEMPT_RUNNING:
            return _explain_leaving(task) or _explain_restarts(key, context)
        case TaskState.COMPLETED:
            return "" if completion is None or completion.type.is_succeeded else ended
        case TaskState.ATTEMPT_COMPLETED:
            return f"{ended}; {_explain_next(task, context.now)}"
        case _:
            is_failure = completion is not None and completion.type.is_failed
            return (
                f"{ended}; its Pod is being deleted" if is_failure else "its Pod is being deleted"
            )


def _explain_leaving(task: TaskStatus) -> str:
    """Explain why a Task leaves; "" if it stays."""
    leaving = task.attempt_status.leaving
    if task.deletion_pending or leaving is None:
        return "leaves the gang" if task.deletion_pending else ""
    return f"leaves: {leaving.message}"


def _explain_waiting(key: TaskKey, context: ViewContext) -> str:
    if context.objects.pods is None:
        return context.gang
    pod = context.find_pod(key)
    if pod is None:
        return "waits for its Pod"
    warning = (context.objects.warnings or {}).get(str(pod["metadata"].get("uid")))
    return _explain_restarts(key, context) or explain_pod(pod, context.gang, warning)


def _explain_restarts(key: TaskKey, context: ViewContext) -> str:
    pod = context.find_pod(key)
    return "" if pod is None else explain_restarts(pod, counts=context.now is not None)


def explain_gang(reported: Mapping[TaskKey, str], total: int, status: FrameworkStatus) -> str:
    """Name the missing Tasks, for an init container that waits for the gang.

    Args:
        reported: the missing Tasks with their reasons, as the controller published them.
        total: number of all Tasks in the same publication.
        status: counted instead if the controller has published none.
    """
    missing = dict(reported)
    if not missing:
        tasks = [
            (TaskKey(role.name, task.index), task)
            for role, task in status.attempt_status.walk_tasks()
            if not task.deletion_pending
        ]
        total = len(tasks)
        missing = {
            key: ""
            for key, task in tasks
            if task.state in TASK_ALIVE | {TaskState.ATTEMPT_CREATION_PENDING}
            and not task.attempt_status.pod_ip
        }
    if not missing:
        return ""
    shown = [
        f"{key} ({reason})" if reason else str(key)
        for key, reason in list(missing.items())[:_SHOWN_MISSING]
    ]
    more = f" and {len(missing) - _SHOWN_MISSING} more" if len(missing) > _SHOWN_MISSING else ""
    return f"the gang of {total} lacks {', '.join(shown)}{more}"


def explain_framework(status: FrameworkStatus, wire: Object, now: datetime | None) -> str:
    """Explain why a Framework waits, or how its attempt ended; "" if there is nothing to say."""
    completion = status.attempt_status.completion_status
    if (wire.get("metadata") or {}).get("deletionTimestamp"):
        return "is being deleted"
    blocked = explain_obstacle(status, wire)
    if blocked:
        return shorten(blocked)
    if is_suspended(status):
        return _explain_suspended(completion)
    if completion is None:
        # The status lists the Tasks when the ConfigMap exists.
        is_pending = status.state is FrameworkState.ATTEMPT_CREATION_PENDING
        return "" if is_pending else explain_no_tasks(wire)
    if completion.type.is_succeeded:
        return ""
    cause = _name_cause(completion, status)
    if status.state is FrameworkState.ATTEMPT_COMPLETED:
        return shorten(f"{cause}; {_explain_next(status, now)}")
    return shorten(cause)


def _explain_suspended(completion: FrameworkAttemptCompletionStatus | None) -> str:
    """Explain the wait of a suspended Framework, and how its attempt failed, if by itself."""
    if completion is None or completion.code in INHERITED_ENDS:
        return _RESUME
    return shorten(f"{explain_end(completion)}; {_RESUME}")


def explain_failure(status: FrameworkStatus) -> str:
    """Explain why the attempt of the Framework failed by itself; "" if it did not."""
    completion = status.attempt_status.completion_status
    is_failed = completion is not None and completion.type.is_failed
    if completion is None or not is_failed or completion.code in INHERITED_CODES:
        return ""
    return describe_framework_end(status)


def _name_cause(completion: FrameworkAttemptCompletionStatus, status: FrameworkStatus) -> str:
    """Name the Task that decided the end of the attempt, and how it ended."""
    ended = explain_end(completion)
    trigger = completion.trigger
    if trigger is None or not trigger.task_role_name:
        return ended
    key = TaskKey(trigger.task_role_name, trigger.task_index)
    return f"decided by {key}: {_explain_trigger(key, status) or ended}"


def explain_obstacle(status: FrameworkStatus, wire: Object) -> str:
    """Explain why the controller cannot continue; "" if it can."""
    if status.state is FrameworkState.COMPLETED:
        return ""
    return explain_blocked(wire, creates=status.attempt_status.completion_status is None)


def _explain_trigger(key: TaskKey, status: FrameworkStatus) -> str:
    """Explain why the Task that decided has ended; "" if it succeeded or no longer exists."""
    for role, task in status.attempt_status.walk_tasks():
        completion = task.attempt_status.completion_status
        if TaskKey(role.name, task.index) == key and completion is not None:
            return "" if completion.type.is_succeeded else explain_end(completion)
    return ""


def _explain_next(status: FrameworkStatus | TaskStatus, now: datetime | None) -> str:
    """Explain when the next attempt starts, and why there may be more than maxRetryCount."""
    retries = status.retry_policy_status
    delay = retries.retry_delay_seconds or 0
    text = f"next attempt {_name_next(status.transition_time, delay, now)}"
    uncounted = retries.total_retried_count - retries.accountable_retried_count
    if uncounted <= 0:
        return text
    total = retries.total_retried_count
    return f"{text}; {uncounted} of {total} retries were Transient and do not count"


def _name_next(since: datetime, delay_seconds: float, now: datetime | None) -> str:
    at = since + timedelta(seconds=delay_seconds)
    if now is None:
        return f"at {at:%H:%M:%S} UTC" if delay_seconds >= 1 else "now"
    seconds = (at - now).total_seconds()
    return f"in {seconds:.0f} s" if seconds >= 1 else "now"


def shorten(text: str) -> str:
    """Cut a note to one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= _NOTE_LIMIT else line[: _NOTE_LIMIT - 1] + "…"


def is_suspended(status: FrameworkStatus) -> bool:
    """Return whether the controller has reported that the Framework is suspended, without Pods."""
    kind = constants.SUSPENDED_CONDITION
    return any((c.type, c.status) == (kind, "True") for c in status.conditions or ())
