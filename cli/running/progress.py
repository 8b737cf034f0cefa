"""The state of a Framework for users, with the reason why each Task waits. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cli.reasons import (
    explain_blocked,
    explain_no_tasks,
    explain_pod,
    explain_restarts,
    find_running_init,
    is_paused,
    read_progress,
)
from cli.running.restarts import describe_restart
from cli.trainingwords import describe_training
from cli.words import explain_diagnostics, find_cut_message
from framework.api import constants
from framework.api.codec import decode_status
from framework.api.completion import (
    DELETE_TASK_REQUESTED,
    FRAMEWORK_ATTEMPT_COMPLETION,
    RETRY_TASK_REQUESTED,
    STOP_FRAMEWORK_REQUESTED,
    SUSPEND_FRAMEWORK_REQUESTED,
)
from framework.api.endings import (
    INHERITED_CODES,
    describe_epoch,
    describe_framework_end,
    describe_task_end,
)
from framework.api.fielderrors import FieldErrors
from framework.api.naming import TaskKey, build_pod_name
from framework.api.states import TASK_ALIVE, FrameworkState, TaskState
from framework.api.types import (
    FrameworkAttemptCompletionStatus,
    FrameworkStatus,
    TaskAttemptCompletionStatus,
    TaskStatus,
)
from framework.kube.resources import Object

_Completion = FrameworkAttemptCompletionStatus | TaskAttemptCompletionStatus
_SHOWN_MISSING = 3
_NOTE_LIMIT = 200


@dataclass(frozen=True, slots=True)
class FrameworkObjects:
    """The objects of one Framework seen so far. Missing objects are None or absent."""

    name: str
    namespace: str
    framework: Object | None = None
    configmap: Object | None = None
    pods: Mapping[str, Object] | None = None
    """By name; None while they are not known, or may not be read."""
    warnings: Mapping[str, str] | None = None
    """Message of the newest Warning event of a Pod, by the Pod's UID."""


@dataclass(frozen=True, slots=True)
class TaskLine:
    """One Task, as a line of progress shows it."""

    key: TaskKey
    state: str
    """Its state, or its result when it is Completed."""
    attempt: int
    note: str
    """Why it waits, or how it ended; "" if there is nothing to say."""
    code: int | None = None
    """Completion code of its last attempt."""
    end: str = ""
    """How its attempt ended, without what it printed; "" if it has not ended."""
    diagnostics: str = ""
    message: tuple[str, Sequence[str]] | None = None
    """A container and the lines it left at its end, if ``diagnostics`` has not all of them."""
    is_own_failure: bool = False
    """It failed by itself, not because the gang ended."""
    is_waiting: bool = False
    """Its Pod's containers have not run yet."""
    is_in_init: bool = False
    """It waits in an init container, as the barrier is one."""
    is_running: bool = False
    is_restarting: bool = False
    """One of its containers ended and was started again; ``note`` says how it ended."""
    is_retrying: bool = False
    """Its attempt is over, and the next one has not begun."""


@dataclass(frozen=True, slots=True)
class GangView:
    """One Framework, as progress shows it."""

    name: str
    state: str
    attempt: int
    note: str
    tasks: tuple[TaskLine, ...]
    end: str = ""
    """Why its attempt failed; "" if it has not failed."""
    is_completed: bool = False
    is_succeeded: bool = False
    is_blocked: bool = False
    """The controller cannot go on, and not for a pause only; ``note`` says why."""
    is_retrying: bool = False
    """Its attempt is over, and the next one has not begun."""
    is_suspended: bool = False
    """It has no Pods until a user resumes it."""
    unguarded_roles: frozenset[str] = frozenset()
    """Roles whose failed Tasks fail no Framework, without the explicit -1 that allows it."""
    epoch: str = ""
    """The epoch of its processes and why it began; "" if they have not restarted in place."""
    training: str = ""
    """How far its training is, or was when its attempt ended; "" if no agent has reported it."""
    has_ended: bool = False
    """Its attempt is over."""
    restart: tuple[TaskKey, str] | None = None
    """The Task whose process failed before the last restart in place, and a note of it."""


@dataclass(frozen=True, slots=True)
class _ViewContext:
    """The facts that are the same for all Tasks of a view."""

    objects: FrameworkObjects
    gang: str
    """The missing Tasks, for an init container that waits for the gang."""
    missing: Mapping[TaskKey, str]
    """Why Tasks are not in their place, as the controller says it of the first ones."""
    is_ending: bool
    """The attempt is over, and its Tasks go."""
    is_suspended: bool
    """The Tasks wait for a user, and for nothing else."""
    now: datetime | None

    def find_pod(self, key: TaskKey) -> Object | None:
        """Find the Pod of a Task; None if it is not there, or not known."""
        return (self.objects.pods or {}).get(build_pod_name(self.objects.name, key.role, key.index))


_CHECK_CONTROLLER = "waits for a controller: check that framework-controller runs"
# Codes of Tasks that ended with the gang or on request, not by themselves.
_INHERITED_CODES = {
    STOP_FRAMEWORK_REQUESTED: "stopped on request",
    FRAMEWORK_ATTEMPT_COMPLETION: "ended with its Framework",
    DELETE_TASK_REQUESTED: "removed by scaling down",
    SUSPEND_FRAMEWORK_REQUESTED: "suspended on request",
    RETRY_TASK_REQUESTED: "retried on request",
}
# The original's phrase for an exit code that no rule names.
_UNNAMED_PHRASE = "ContainerUnrecognizedFailed"
# Reasons of a Task whose Pod is about to be created.
_NOT_CREATED = frozenset({"", constants.POD_NOT_CREATED})
_RESULTS = {True: "Succeeded", False: "Failed"}
PENDING = "Pending"
"""The state of an attempt that is not there yet."""
SUSPENDED = "Suspended"
"""The state of a Framework that waits for a user."""
_RESUME = "waits until a user resumes it: set spec.suspend to false"
# States as users see them; Completed shows its result instead.
_WORDS = {
    "AttemptCreationPending": PENDING,
    "AttemptCreationRequested": PENDING,
    "AttemptPreparing": "Waiting",
    "AttemptRunning": "Running",
    "AttemptDeletionPending": "Ending",
    "AttemptDeletionRequested": "Ending",
    "AttemptDeleting": "Ending",
    "AttemptCompleted": "Retrying",
}
_WAITING = frozenset(
    {
        TaskState.ATTEMPT_CREATION_PENDING,
        TaskState.ATTEMPT_CREATION_REQUESTED,
        TaskState.ATTEMPT_PREPARING,
    }
)


def build_view(
    objects: FrameworkObjects, now: datetime | None = None, *, expects_controller: bool = False
) -> GangView:
    """Build the view of a Framework from the objects seen so far.

    Args:
        objects: the objects of the Framework that are known.
        now: count down to the next attempt from here, and count restarts; None for the time of
            day at which it comes, and for words that stay the same at every restart.
        expects_controller: a controller will see the Framework soon: because its cluster starts
            the controller, or because the Framework was created a moment ago.
    """
    wire = objects.framework
    if wire is None:
        return GangView(objects.name, "Unknown", 0, "not seen yet", ())
    try:
        status = decode_status(wire.get("status"))
    except FieldErrors as e:
        note = explain_blocked(wire) or f"its status cannot be read: {e}"
        return GangView(objects.name, "Unreadable", 0, _shorten(note), ())
    if status is None:
        note = explain_blocked(wire) or ("" if expects_controller else _CHECK_CONTROLLER)
        return GangView(objects.name, "New", 0, _shorten(note), ())
    context = _build_context(objects, status, now)
    tasks = tuple(
        _build_line(TaskKey(role.name, task.index), task, context)
        for role in status.attempt_status.task_roles
        for task in role.tasks
        if not (task.deletion_pending and task.state is TaskState.COMPLETED)
    )
    completion = status.attempt_status.completion_status
    is_completed = status.state is FrameworkState.COMPLETED
    is_succeeded = is_completed and completion is not None and completion.type.is_succeeded
    state = _name_state(status.state.value, completion if is_completed else None)
    return GangView(
        name=objects.name,
        state=SUSPENDED if context.is_suspended else state,
        attempt=status.attempt_status.id,
        note=_explain_framework(status, wire, now),
        tasks=tasks,
        end=_explain_failure(status, completion),
        is_completed=is_completed,
        is_succeeded=is_succeeded,
        is_blocked=bool(_explain_blocked(status, wire)) and not is_paused(wire),
        is_retrying=status.state is FrameworkState.ATTEMPT_COMPLETED and not context.is_suspended,
        is_suspended=context.is_suspended,
        unguarded_roles=_list_unguarded(wire),
        epoch=_describe_epoch(status),
        training=describe_training(status.attempt_status.training, has_ended=bool(completion)),
        has_ended=bool(completion),
        restart=describe_restart(status),
    )


def _describe_epoch(status: FrameworkStatus) -> str:
    recovery = status.attempt_status.recovery
    if recovery is None or recovery.first_failed is None:
        return ""
    return f"epoch {recovery.epoch}: {describe_epoch(recovery)}"


def _name_state(state: str, completion: _Completion | None) -> str:
    if completion is None:
        return _WORDS.get(state, state)
    if completion.code in _INHERITED_CODES:
        return "Stopped"
    return _RESULTS[completion.type.is_succeeded]


def _list_unguarded(wire: Object) -> frozenset[str]:
    unguarded = set()
    for role in (wire.get("spec") or {}).get("taskRoles") or ():
        policy = role.get("frameworkAttemptCompletionPolicy") or {}
        if not policy.get("minFailedTaskCount"):
            unguarded.add(str(role.get("name")))
    return frozenset(unguarded)


def _build_context(
    objects: FrameworkObjects, status: FrameworkStatus, now: datetime | None
) -> _ViewContext:
    missing, total = read_progress(objects.configmap)
    is_over = status.attempt_status.completion_status is not None
    return _ViewContext(
        objects=objects,
        gang=_explain_gang(missing, total, status),
        missing=missing,
        is_ending=is_over and status.state is not FrameworkState.COMPLETED,
        is_suspended=_is_suspended(status),
        now=now,
    )


def _is_suspended(status: FrameworkStatus) -> bool:
    """Return whether the controller says that the Framework is suspended and has no Pods."""
    kind = constants.SUSPENDED_CONDITION
    return any((c.type, c.status) == (kind, "True") for c in status.conditions or ())


def _build_line(key: TaskKey, task: TaskStatus, context: _ViewContext) -> TaskLine:
    completion = task.attempt_status.completion_status
    is_completed = task.state is TaskState.COMPLETED
    is_own_failure = (
        completion is not None
        and completion.type.is_failed
        and completion.code not in _INHERITED_CODES
    )
    is_waiting, is_running = task.state in _WAITING, task.state is TaskState.ATTEMPT_RUNNING
    is_passive = context.is_ending or context.is_suspended
    ends_with_gang = is_passive and (is_waiting or is_running)
    completed_as = completion if is_completed else None
    pod = context.find_pod(key) or {}
    return TaskLine(
        key=key,
        state="Ending"
        if ends_with_gang and context.is_ending
        else _name_state(task.state.value, completed_as),
        attempt=task.attempt_status.id,
        note="" if ends_with_gang else _shorten(_explain_task(key, task, context)),
        code=None if completion is None else completion.code,
        end="" if completion is None else describe_task_end(completion),
        diagnostics="" if completion is None else explain_diagnostics(completion.diagnostics),
        message=None if completion is None else find_cut_message(completion.diagnostics),
        is_own_failure=is_own_failure,
        is_waiting=is_waiting and not ends_with_gang,
        is_in_init=find_running_init(pod) is not None,
        is_running=is_running,
        is_restarting=is_running
        and not ends_with_gang
        and bool(explain_restarts(pod, counts=False)),
        is_retrying=task.state is TaskState.ATTEMPT_COMPLETED,
    )


def _explain_end(completion: _Completion) -> str:
    """Explain why something ended."""
    inherited = _INHERITED_CODES.get(completion.code)
    if inherited is not None:
        return inherited
    cause = explain_diagnostics(completion.diagnostics)
    if not cause:
        return f"{completion.phrase} ({completion.code})"
    is_told = completion.phrase == _UNNAMED_PHRASE or completion.code < 0
    return cause if is_told else f"{completion.phrase}: {cause}"


def _explain_task(key: TaskKey, task: TaskStatus, context: _ViewContext) -> str:
    completion = task.attempt_status.completion_status
    ended = "" if completion is None else _explain_end(completion)
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


def _explain_waiting(key: TaskKey, context: _ViewContext) -> str:
    if context.objects.pods is None:
        return context.gang
    pod = context.find_pod(key)
    if pod is None:
        return "waits for its Pod"
    warning = (context.objects.warnings or {}).get(str(pod["metadata"].get("uid")))
    return _explain_restarts(key, context) or explain_pod(pod, context.gang, warning)


def _explain_restarts(key: TaskKey, context: _ViewContext) -> str:
    pod = context.find_pod(key)
    return "" if pod is None else explain_restarts(pod, counts=context.now is not None)


def _explain_gang(reported: Mapping[TaskKey, str], total: int, status: FrameworkStatus) -> str:
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


def _explain_framework(status: FrameworkStatus, wire: Object, now: datetime | None) -> str:
    completion = status.attempt_status.completion_status
    if (wire.get("metadata") or {}).get("deletionTimestamp"):
        return "is being deleted"
    blocked = _explain_blocked(status, wire)
    if blocked:
        return _shorten(blocked)
    if _is_suspended(status):
        return _explain_suspended(completion)
    if completion is None:
        # Its Tasks are listed once its ConfigMap is there.
        is_pending = status.state is FrameworkState.ATTEMPT_CREATION_PENDING
        return "" if is_pending else explain_no_tasks(wire)
    if completion.type.is_succeeded:
        return ""
    cause = _name_cause(completion, status)
    if status.state is FrameworkState.ATTEMPT_COMPLETED:
        return _shorten(f"{cause}; {_explain_next(status, now)}")
    return _shorten(cause)


def _explain_suspended(completion: FrameworkAttemptCompletionStatus | None) -> str:
    """Say what a suspended Framework waits for, and how its attempt ended if by itself."""
    if completion is None or completion.code in _INHERITED_CODES:
        return _RESUME
    return _shorten(f"{_explain_end(completion)}; {_RESUME}")


def _explain_failure(status: FrameworkStatus, completion: _Completion | None) -> str:
    """Explain why the attempt of the Framework failed by itself; "" if it did not."""
    is_failed = completion is not None and completion.type.is_failed
    if completion is None or not is_failed or completion.code in INHERITED_CODES:
        return ""
    return describe_framework_end(status)


def _name_cause(completion: FrameworkAttemptCompletionStatus, status: FrameworkStatus) -> str:
    """Name the Task that decided the end of the attempt, and how it ended."""
    ended = _explain_end(completion)
    trigger = completion.trigger
    if trigger is None or not trigger.task_role_name:
        return ended
    key = TaskKey(trigger.task_role_name, trigger.task_index)
    return f"decided by {key}: {_explain_trigger(key, status) or ended}"


def _explain_blocked(status: FrameworkStatus, wire: Object) -> str:
    if status.state is FrameworkState.COMPLETED:
        return ""
    return explain_blocked(wire, creates=status.attempt_status.completion_status is None)


def _explain_trigger(key: TaskKey, status: FrameworkStatus) -> str:
    """Explain why the Task that decided has ended; "" if it succeeded or no longer exists."""
    for role, task in status.attempt_status.walk_tasks():
        completion = task.attempt_status.completion_status
        if TaskKey(role.name, task.index) == key and completion is not None:
            return "" if completion.type.is_succeeded else _explain_end(completion)
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


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _NOTE_LIMIT else line[: _NOTE_LIMIT - 1] + "…"


def list_own_failures(view: GangView) -> Sequence[TaskLine]:
    """List the Tasks that failed by themselves: where to look for the cause."""
    return [line for line in view.tasks if line.is_own_failure]
