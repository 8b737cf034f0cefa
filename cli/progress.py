"""What to tell a user about a Framework: its state, and of each Task why it waits.

Called by ``cli.display`` and ``cli.run``. Pure: objects in, views out.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from cli.words import explain_diagnostics
from framework.api import constants
from framework.api.codec import decode_status
from framework.api.fielderrors import FieldErrors
from framework.api.naming import TaskKey, build_pod_name
from framework.api.pods import PodPhase, explain_waiting, parse_pod
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
class World:
    """What has been seen of one Framework so far. Missing objects are None or absent."""

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
    diagnostics: str = ""
    is_culprit: bool = False
    """It failed by itself, not because the gang ended."""
    is_waiting: bool = False
    """Its Pod's containers have not run yet."""
    is_in_init: bool = False
    """It waits in an init container, as the barrier is one."""
    is_running: bool = False


@dataclass(frozen=True, slots=True)
class GangView:
    """One Framework, as progress shows it."""

    name: str
    state: str
    attempt: int
    note: str
    tasks: tuple[TaskLine, ...]
    is_completed: bool = False
    is_succeeded: bool = False
    unguarded_roles: frozenset[str] = frozenset()
    """Roles whose failed Tasks fail no Framework: no minFailedTaskCount is set."""


# The gang ended, or somebody stopped it: says nothing about the Task itself.
_INHERITED_CODES = {
    -210: "stopped on request",
    -220: "ended with its Framework",
    -230: "scaled away",
}
# The original's phrase for an exit code that no rule names.
_UNNAMED_PHRASE = "ContainerUnrecognizedFailed"
# What every container goes through.
_ORDINARY_WAITS = frozenset({"", "PodInitializing", "ContainerCreating"})
_RESULTS = {True: "Succeeded", False: "Failed"}
# The words for a user; Completed has its result instead.
_WORDS = {
    "AttemptCreationPending": "Pending",
    "AttemptCreationRequested": "Pending",
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


def build_view(world: World, now: datetime | None = None) -> GangView:
    """Build the view of a Framework as it is known.

    Args:
        world: what is known.
        now: count down to the next attempt from here; None for the time of day at which it comes,
            which does not change every second.
    """
    wire = world.framework
    if wire is None:
        return GangView(world.name, "Unknown", 0, "not seen yet", ())
    try:
        status = decode_status(wire.get("status"))
    except FieldErrors as e:
        return GangView(world.name, "Unreadable", 0, f"its status cannot be read: {e}", ())
    if status is None:
        note = "waits for a controller; if this lasts: does framework-controller run?"
        return GangView(world.name, "New", 0, note, ())
    gang = _explain_gang(world, status)
    tasks = tuple(
        _build_line(TaskKey(role.name, task.index), task, world, gang, now)
        for role in status.attempt_status.task_roles
        for task in role.tasks
        if not (task.deletion_pending and task.state is TaskState.COMPLETED)
    )
    completion = status.attempt_status.completion_status
    is_completed = status.state is FrameworkState.COMPLETED
    is_succeeded = is_completed and completion is not None and completion.type.is_succeeded
    state = _name_state(status.state.value, completion if is_completed else None)
    return GangView(
        name=world.name,
        state=state,
        attempt=status.attempt_status.id,
        note=_explain_framework(status, wire, now),
        tasks=tasks,
        is_completed=is_completed,
        is_succeeded=is_succeeded,
        unguarded_roles=_list_unguarded(wire),
    )


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
        if (policy.get("minFailedTaskCount") or 0) <= 0:
            unguarded.add(str(role.get("name")))
    return frozenset(unguarded)


def _build_line(
    key: TaskKey, task: TaskStatus, world: World, gang: str, now: datetime | None
) -> TaskLine:
    completion = task.attempt_status.completion_status
    is_completed = task.state is TaskState.COMPLETED
    is_culprit = (
        completion is not None
        and completion.type.is_failed
        and completion.code not in _INHERITED_CODES
    )
    return TaskLine(
        key=key,
        state=_name_state(task.state.value, completion if is_completed else None),
        attempt=task.attempt_status.id,
        note=_shorten(_explain_task(key, task, world, gang, now)),
        code=None if completion is None else completion.code,
        diagnostics="" if completion is None else explain_diagnostics(completion.diagnostics),
        is_culprit=is_culprit,
        is_waiting=task.state in _WAITING,
        is_in_init=_find_running_init(_find_pod(key, world) or {}) is not None,
        is_running=task.state is TaskState.ATTEMPT_RUNNING,
    )


def _explain_end(completion: _Completion) -> str:
    """Say in words why something ended."""
    inherited = _INHERITED_CODES.get(completion.code)
    if inherited is not None:
        return inherited
    cause = explain_diagnostics(completion.diagnostics)
    if not cause:
        return f"{completion.phrase} ({completion.code})"
    is_told = completion.phrase == _UNNAMED_PHRASE or completion.code < 0
    return cause if is_told else f"{completion.phrase}: {cause}"


def _explain_task(
    key: TaskKey, task: TaskStatus, world: World, gang: str, now: datetime | None
) -> str:
    completion = task.attempt_status.completion_status
    ended = "" if completion is None else _explain_end(completion)
    match task.state:
        case TaskState.ATTEMPT_CREATION_PENDING:
            return "waits for its Pod to be created"
        case TaskState.ATTEMPT_CREATION_REQUESTED | TaskState.ATTEMPT_PREPARING:
            return _explain_pod(key, world, gang)
        case TaskState.ATTEMPT_RUNNING:
            return "leaves the gang" if task.deletion_pending else ""
        case TaskState.COMPLETED:
            return "" if completion is None or completion.type.is_succeeded else ended
        case TaskState.ATTEMPT_COMPLETED:
            delay = task.retry_policy_status.retry_delay_seconds or 0
            return f"{ended}; next attempt {_name_next(task.transition_time, delay, now)}"
        case _:
            is_failure = completion is not None and completion.type.is_failed
            return f"{ended}; its Pod goes away" if is_failure else "its Pod goes away"


def _explain_pod(key: TaskKey, world: World, gang: str) -> str:
    if world.pods is None:
        return gang
    pod = _find_pod(key, world)
    if pod is None:
        return "waits for its Pod"
    initializing = _find_running_init(pod)
    if initializing is not None:
        return f"{initializing}: {gang}" if gang else f"{initializing} runs"
    view = parse_pod(pod)
    if view.phase is not PodPhase.PENDING:
        # The Task's state is about to say so.
        return ""
    has_trouble = any(c.waiting and c.waiting[0] not in _ORDINARY_WAITS for c in view.containers)
    text = explain_waiting(view) if has_trouble or not view.pod_ip else "its containers start"
    warning = (world.warnings or {}).get(view.uid)
    return f"{text}; {warning}" if warning and warning not in text else text


def _find_pod(key: TaskKey, world: World) -> Object | None:
    return (world.pods or {}).get(build_pod_name(world.name, key.role, key.index))


def _find_running_init(pod: Object) -> str | None:
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or ()
    for status in statuses:
        if "running" in (status.get("state") or {}):
            return str(status.get("name"))
    return None


def _explain_gang(world: World, status: FrameworkStatus) -> str:
    """Say for whom an init container that waits for the gang waits."""
    missing, total = _read_progress(world.configmap)
    if not missing:
        tasks = [
            (TaskKey(role.name, task.index), task)
            for role, task in status.attempt_status.walk_tasks()
            if not task.deletion_pending
        ]
        total = len(tasks)
        missing = [
            (key, "")
            for key, task in tasks
            if task.state in TASK_ALIVE | {TaskState.ATTEMPT_CREATION_PENDING}
            and not task.attempt_status.pod_ip
        ]
    if not missing:
        return ""
    shown = [
        f"{key} ({reason})" if reason else str(key) for key, reason in missing[:_SHOWN_MISSING]
    ]
    more = f" and {len(missing) - _SHOWN_MISSING} more" if len(missing) > _SHOWN_MISSING else ""
    return f"the gang of {total} lacks {', '.join(shown)}{more}"


def _read_progress(configmap: Object | None) -> tuple[list[tuple[TaskKey, str]], int]:
    """Read the progress annotation; what cannot be read counts as nothing said."""
    annotations = ((configmap or {}).get("metadata") or {}).get("annotations") or {}
    try:
        progress: Any = json.loads(annotations.get(constants.PROGRESS_ANNOTATION) or "null")
        missing = [
            (TaskKey(str(entry["role"]), int(entry["index"])), str(entry.get("reason") or ""))
            for entry in progress["missing"]
        ]
        return missing, int(progress["total"])
    except (ValueError, TypeError, KeyError, AttributeError):
        return [], 0


def _explain_framework(status: FrameworkStatus, wire: Object, now: datetime | None) -> str:
    completion = status.attempt_status.completion_status
    if (wire.get("metadata") or {}).get("deletionTimestamp"):
        return "is being deleted"
    if completion is None:
        return ""
    if completion.type.is_succeeded:
        return ""
    ended = _explain_end(completion)
    if status.state is FrameworkState.ATTEMPT_COMPLETED:
        delay = status.retry_policy_status.retry_delay_seconds or 0
        return _shorten(f"{ended}; next attempt {_name_next(status.transition_time, delay, now)}")
    trigger = completion.trigger
    if trigger is not None and trigger.task_role_name:
        key = TaskKey(trigger.task_role_name, trigger.task_index)
        return _shorten(f"decided by {key}: {_explain_trigger(key, status) or ended}")
    return _shorten(ended)


def _explain_trigger(key: TaskKey, status: FrameworkStatus) -> str:
    """Say why the Task ended that decided; "" if it succeeded, or is not there any more."""
    for role, task in status.attempt_status.walk_tasks():
        completion = task.attempt_status.completion_status
        if TaskKey(role.name, task.index) == key and completion is not None:
            return "" if completion.type.is_succeeded else _explain_end(completion)
    return ""


def _name_next(since: datetime, delay_seconds: float, now: datetime | None) -> str:
    at = since + timedelta(seconds=delay_seconds)
    if now is None:
        return f"at {at:%H:%M:%S} UTC" if delay_seconds >= 1 else "now"
    seconds = (at - now).total_seconds()
    return f"in {seconds:.0f} s" if seconds >= 1 else "now"


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _NOTE_LIMIT else line[: _NOTE_LIMIT - 1] + "…"


def list_culprits(view: GangView) -> Sequence[TaskLine]:
    """List the Tasks that failed by themselves: where to look for the cause."""
    return [line for line in view.tasks if line.is_culprit]
