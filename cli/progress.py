"""What to tell a user about a Framework: its state, and of each Task why it waits.

Called by ``cli.display`` and ``cli.run``. Pure: objects in, views out.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from framework.api import constants
from framework.api.codec import decode_status
from framework.api.fielderrors import FieldErrors
from framework.api.naming import TaskKey, build_pod_name
from framework.api.pods import PodPhase, explain_waiting, parse_pod
from framework.api.states import TASK_ALIVE, FrameworkState, TaskState
from framework.api.types import FrameworkStatus, TaskStatus
from framework.kube.resources import Object

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


# The gang ended, or somebody stopped it: says nothing about the Task itself.
_INHERITED_CODES = frozenset({-210, -220, -230})
# What every container goes through.
_ORDINARY_WAITS = frozenset({"", "PodInitializing", "ContainerCreating"})
_RESULTS = {True: "Succeeded", False: "Failed"}


def build_view(world: World, now: datetime) -> GangView:
    """Build the view of a Framework as it is known now."""
    wire = world.framework
    if wire is None:
        return GangView(world.name, "Unknown", 0, "not seen yet", ())
    try:
        status = decode_status(wire.get("status"))
    except FieldErrors as e:
        return GangView(world.name, "Unreadable", 0, f"its status cannot be read: {e}", ())
    if status is None:
        return GangView(world.name, "New", 0, "waits for the controller to see it", ())
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
    state = _RESULTS[is_succeeded] if is_completed else status.state.value
    note = _explain_framework(status, wire, now)
    attempt = status.attempt_status.id
    return GangView(world.name, state, attempt, note, tasks, is_completed, is_succeeded)


def _build_line(key: TaskKey, task: TaskStatus, world: World, gang: str, now: datetime) -> TaskLine:
    completion = task.attempt_status.completion_status
    is_completed = task.state is TaskState.COMPLETED
    state = task.state.value
    if is_completed and completion is not None:
        state = _RESULTS[completion.type.is_succeeded]
    is_culprit = (
        completion is not None
        and completion.type.is_failed
        and completion.code not in _INHERITED_CODES
    )
    return TaskLine(
        key=key,
        state=state,
        attempt=task.attempt_status.id,
        note=_shorten(_explain_task(key, task, world, gang, now)),
        code=None if completion is None else completion.code,
        diagnostics="" if completion is None else completion.diagnostics,
        is_culprit=is_culprit,
    )


def _explain_task(key: TaskKey, task: TaskStatus, world: World, gang: str, now: datetime) -> str:
    completion = task.attempt_status.completion_status
    ended = "" if completion is None else f"{completion.phrase} ({completion.code})"
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
            delay = _measure_delay(task, now)
            return f"{ended}; next attempt {delay}"
        case _:
            is_failure = completion is not None and completion.type.is_failed
            return f"{ended}; its Pod goes away" if is_failure else "its Pod goes away"


def _explain_pod(key: TaskKey, world: World, gang: str) -> str:
    if world.pods is None:
        return gang
    pod = world.pods.get(build_pod_name(world.name, key.role, key.index))
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


def _explain_framework(status: FrameworkStatus, wire: Object, now: datetime) -> str:
    completion = status.attempt_status.completion_status
    if (wire.get("metadata") or {}).get("deletionTimestamp"):
        return "is being deleted"
    if completion is None:
        return ""
    ended = completion.diagnostics or completion.phrase
    if completion.type.is_succeeded:
        return ""
    if status.state is FrameworkState.ATTEMPT_COMPLETED:
        delay = status.retry_policy_status.retry_delay_seconds or 0
        left = delay - (now - status.transition_time).total_seconds()
        return _shorten(f"{ended}; next attempt {_name_delay(left)}")
    trigger = completion.trigger
    if trigger is not None and trigger.task_role_name:
        key = TaskKey(trigger.task_role_name, trigger.task_index)
        return f"{completion.phrase} ({completion.code}), decided by {key}"
    return f"{completion.phrase} ({completion.code})"


def _measure_delay(task: TaskStatus, now: datetime) -> str:
    delay = task.retry_policy_status.retry_delay_seconds or 0
    return _name_delay(delay - (now - task.transition_time).total_seconds())


def _name_delay(seconds: float) -> str:
    return f"in {seconds:.0f} s" if seconds >= 1 else "now"


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _NOTE_LIMIT else line[: _NOTE_LIMIT - 1] + "…"


def list_culprits(view: GangView) -> Sequence[TaskLine]:
    """List the Tasks that failed by themselves: where to look for the cause."""
    return [line for line in view.tasks if line.is_culprit]
