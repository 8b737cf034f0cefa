"""Builds the view of a Framework from its objects. Pure."""

from datetime import datetime

from cli.running.explanations import (
    INHERITED_ENDS,
    Completion,
    ViewContext,
    explain_failure,
    explain_framework,
    explain_gang,
    explain_obstacle,
    explain_task,
    is_suspended,
    shorten,
)
from cli.running.restarts import describe_restart
from cli.running.views import (
    LEFT_RUNNING,
    NEW,
    PENDING,
    SUSPENDED,
    FrameworkObjects,
    GangPhase,
    GangView,
    TaskLine,
    TaskPhase,
)
from cli.texts.diagnostics import explain_diagnostics, find_cut_message
from cli.texts.reasons import (
    explain_blocked,
    explain_restarts,
    find_running_init,
    is_paused,
    read_readiness,
)
from cli.texts.trainingwords import describe_training
from framework.api.codec import decode_status
from framework.api.completion import POD_LEFT_RUNNING
from framework.api.endings import describe_epoch, describe_task_end
from framework.api.fielderrors import FieldErrors
from framework.api.naming import TaskKey
from framework.api.states import FrameworkState, TaskState
from framework.api.types import FrameworkStatus, TaskStatus
from framework.kube.resources import Object

_CHECK_CONTROLLER = "waits for a controller: check that framework-controller runs"
_RESULTS = {True: "Succeeded", False: "Failed"}
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
_TASK_PHASES = {
    TaskState.ATTEMPT_CREATION_PENDING: TaskPhase.WAITING,
    TaskState.ATTEMPT_CREATION_REQUESTED: TaskPhase.WAITING,
    TaskState.ATTEMPT_PREPARING: TaskPhase.WAITING,
    TaskState.ATTEMPT_RUNNING: TaskPhase.RUNNING,
    TaskState.ATTEMPT_COMPLETED: TaskPhase.RETRYING,
}


def build_view(
    objects: FrameworkObjects, now: datetime | None = None, *, expects_controller: bool = False
) -> GangView:
    """Build the view of a Framework from its known objects.

    Args:
        objects: the objects that are known.
        now: the time for countdowns and for counts of restarts; None for the time of day of the
            next attempt, and for words that stay the same at every restart.
        expects_controller: whether a controller will soon see the Framework, because its cluster
            starts the controller, or because the Framework was created a moment ago.
    """
    wire = objects.framework
    if wire is None:
        return GangView(objects.name, "Unknown", 0, "not seen yet", ())
    try:
        status = decode_status(wire.get("status"))
    except FieldErrors as e:
        note = explain_blocked(wire) or f"its status cannot be read: {e}"
        return GangView(objects.name, "Unreadable", 0, shorten(note), ())
    if status is None:
        blocked = explain_blocked(wire)
        is_lacking = not blocked and not expects_controller
        note = _CHECK_CONTROLLER if is_lacking else shorten(blocked)
        return GangView(objects.name, NEW, 0, note, (), lacks_controller=is_lacking)
    return _build_view(objects, wire, status, now)


def _build_view(
    objects: FrameworkObjects, wire: Object, status: FrameworkStatus, now: datetime | None
) -> GangView:
    context = _build_context(objects, status, now)
    attempt = status.attempt_status
    completed_as = attempt.completion_status if _is_completed(status) else None
    return GangView(
        name=objects.name,
        state=SUSPENDED if context.is_suspended else _name_state(status.state.value, completed_as),
        attempt=attempt.id,
        note=explain_framework(status, wire, now),
        tasks=tuple(
            _build_line(TaskKey(role.name, task.index), task, context)
            for role in attempt.task_roles
            for task in role.tasks
            if not (task.deletion_pending and task.state is TaskState.COMPLETED)
        ),
        end=explain_failure(status),
        phase=_find_phase(status),
        is_blocked=bool(explain_obstacle(status, wire)) and not is_paused(wire),
        unguarded_roles=_list_unguarded(wire),
        epoch=_describe_epoch(status),
        training=describe_training(attempt.training, has_ended=bool(attempt.completion_status)),
        restart=describe_restart(status),
    )


def _is_completed(status: FrameworkStatus) -> bool:
    return status.state is FrameworkState.COMPLETED


def _find_phase(status: FrameworkStatus) -> GangPhase:
    completion = status.attempt_status.completion_status
    if _is_completed(status):
        is_succeeded = completion is not None and completion.type.is_succeeded
        return GangPhase.SUCCEEDED if is_succeeded else GangPhase.FAILED
    if is_suspended(status):
        return GangPhase.SUSPENDED
    if status.state is FrameworkState.ATTEMPT_COMPLETED:
        return GangPhase.RETRYING
    return GangPhase.ACTIVE if completion is None else GangPhase.ENDING


def _describe_epoch(status: FrameworkStatus) -> str:
    recovery = status.attempt_status.recovery
    if recovery is None or recovery.first_failed is None:
        return ""
    return f"epoch {recovery.epoch}: {describe_epoch(recovery)}"


def _name_state(state: str, completion: Completion | None) -> str:
    if completion is None:
        return _WORDS.get(state, state)
    if completion.code == POD_LEFT_RUNNING:
        return LEFT_RUNNING
    if completion.code in INHERITED_ENDS:
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
) -> ViewContext:
    missing, total = read_readiness(objects.configmap)
    is_over = status.attempt_status.completion_status is not None
    return ViewContext(
        objects=objects,
        gang=explain_gang(missing, total, status),
        missing=missing,
        is_ending=is_over and status.state is not FrameworkState.COMPLETED,
        is_suspended=is_suspended(status),
        now=now,
    )


def _build_line(key: TaskKey, task: TaskStatus, context: ViewContext) -> TaskLine:
    completion = task.attempt_status.completion_status
    phase = _TASK_PHASES.get(task.state, TaskPhase.ENDED)
    is_active = phase in {TaskPhase.WAITING, TaskPhase.RUNNING}
    ends_with_gang = is_active and (context.is_ending or context.is_suspended)
    pod = context.find_pod(key) or {}
    if ends_with_gang:
        phase = TaskPhase.ENDED
    elif phase is TaskPhase.RUNNING and explain_restarts(pod, counts=False):
        phase = TaskPhase.RESTARTING
    completed_as = completion if task.state is TaskState.COMPLETED else None
    return TaskLine(
        key=key,
        state="Ending"
        if ends_with_gang and context.is_ending
        else _name_state(task.state.value, completed_as),
        attempt=task.attempt_status.id,
        note="" if ends_with_gang else shorten(explain_task(key, task, context)),
        code=None if completion is None else completion.code,
        end="" if completion is None else describe_task_end(completion),
        diagnostics="" if completion is None else explain_diagnostics(completion.diagnostics),
        message=None if completion is None else find_cut_message(completion.diagnostics),
        phase=phase,
        is_own_failure=completion is not None
        and completion.type.is_failed
        and completion.code not in INHERITED_ENDS,
        is_in_init=find_running_init(pod) is not None,
    )
