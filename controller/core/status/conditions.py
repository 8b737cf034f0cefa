"""Conditions of a Framework, for kubectl wait and kubectl describe.

They are GangReady, Running, Completed, Succeeded, Failed and Blocked, which are always present, and
Suspended, once a user has suspended the Framework. Conditions of other types are kept. ``decide``
calls ``update_conditions`` after all steps. Blocked has the first reason that applies:

1. a limit holds the growth;
2. two roles have the same name;
3. a create that is still wanted has failed three times, or was refused over several attempts;
4. a Pod whose name is needed is terminating and still exists;
5. retries pause, because attempts end at once.

A suspended Framework waits for its user only, so 3 to 5 do not apply to it.

Invariant: a condition follows from the states and members of the status, so it causes no write of
its own. Exceptions are Blocked and the missing Tasks of GangReady, which inform the user.

Example: a quota refuses the Pod of worker/0 three times. Blocked becomes True with the reason
CreationRefused and the server's message, and an Event says the same once. When the Pod is created,
Blocked becomes False with the reason NotBlocked.

Rules: docs/design/failure-handling.md, "Conditions".
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.core.decision import EventType
from controller.core.draft import Draft
from controller.core.objects import ownership
from controller.core.policies import lifetime, retry_backoff
from controller.core.roster.roster_policy import RosterOutcome
from controller.core.snapshot import Failure
from framework.api import constants
from framework.api.completion import FRAMEWORK_DEADLINE_EXCEEDED, STOP_FRAMEWORK_REQUESTED
from framework.api.endings import describe_framework_end
from framework.api.progress import Progress
from framework.api.states import FrameworkState, TaskState
from framework.api.types import Condition, ExecutionType, FrameworkStatus, TaskStatus
from framework.api.validation import find_duplicate_roles
from framework.api.wire import format_time

GANG_READY = constants.GANG_READY_CONDITION
RUNNING = "Running"
COMPLETED = "Completed"
SUCCEEDED = "Succeeded"
FAILED = "Failed"
SUSPENDED = constants.SUSPENDED_CONDITION
BLOCKED = constants.BLOCKED_CONDITION

# Failures of one create after which the user must act.
_BLOCKED_AFTER_FAILURES = 3
# Time after its grace period at which a terminating Pod has a finalizer, or its Node is lost.
_STUCK_SECONDS = 30.0
_CREATING = (FrameworkState.ATTEMPT_PREPARING, FrameworkState.ATTEMPT_RUNNING)
MAX_MESSAGE = 512
_CONFLICT = 409
_STOPPED = "Stopped"
RESUMED = "Resumed"
DEADLINE_EXCEEDED = "DeadlineExceeded"
# Completion codes with a reason of their own.
_END_REASONS = {
    STOP_FRAMEWORK_REQUESTED: _STOPPED,
    FRAMEWORK_DEADLINE_EXCEEDED: DEADLINE_EXCEEDED,
}
# Text of the API server's authorizers; a quota has another one.
_LACKS_RIGHT = "cannot create resource"
_BACKOFF_REMEDY = "read the logs of the Pods, and correct the program or the spec"
_SECRETS_REMEDY = (
    "; let the controller create Secrets (deploy/base/clusterrole.yaml), or remove the gang key "
    "from the Pod templates"
)


@dataclass(frozen=True, slots=True)
class _Answer:
    is_true: bool
    reason: str
    message: str = ""
    event_message: str = ""
    """Text of the Event, if not the message: Events with equal texts are one object."""


def update_conditions(
    draft: Draft,
    status: FrameworkStatus,
    outcome: RosterOutcome,
) -> FrameworkStatus:
    """Compute all conditions, and count the ready Tasks."""
    old = {condition.type: condition for condition in status.conditions or ()}
    answers = {
        GANG_READY: _answer_gang_ready(draft, outcome, old.get(GANG_READY)),
        RUNNING: _answer_running(draft),
        **_answer_end(draft),
        **_answer_suspended(draft, old.get(SUSPENDED)),
        BLOCKED: _answer_blocked(draft),
    }
    _add_blocked_event(draft, old.get(BLOCKED), answers[BLOCKED])
    conditions = tuple(
        _update(draft, old.get(type_), type_, answer) for type_, answer in answers.items()
    )
    foreign = tuple(c for c in status.conditions or () if c.type not in answers)
    conditions += foreign
    ready = _count_ready(draft)
    if conditions == status.conditions and ready == status.ready_tasks:
        return status
    return replace(status, conditions=conditions, ready_tasks=ready)


def _update(draft: Draft, old: Condition | None, type_: str, answer: _Answer) -> Condition:
    status = "True" if answer.is_true else "False"
    is_same = old is not None and old.status == status
    return Condition(
        type=type_,
        status=status,
        observed_generation=draft.snapshot.framework.metadata.generation or None,
        transition_time=old.transition_time if old and is_same else draft.now,
        reason=answer.reason,
        message=answer.message[:MAX_MESSAGE],
        extra=old.extra if old else {},
    )


def _add_blocked_event(draft: Draft, old: Condition | None, answer: _Answer) -> None:
    is_known = old is not None and (old.status, old.reason) == ("True", answer.reason)
    if answer.is_true and not is_known:
        draft.add_event(EventType.WARNING, answer.reason, answer.event_message or answer.message)


def _answer_gang_ready(draft: Draft, outcome: RosterOutcome, old: Condition | None) -> _Answer:
    if lifetime.is_waiting_for_start(draft):
        message = "It starts when spec.executionType is Start"
        return _Answer(is_true=False, reason=lifetime.NOT_STARTED, message=message)
    if outcome.is_complete is None:
        return _Answer(is_true=False, reason="NoGang", message=f"The Framework is {draft.state}")
    if outcome.is_complete:
        return _Answer(is_true=True, reason="GangComplete")
    if outcome.progress is not None:
        return _Answer(is_true=False, reason="TasksMissing", message=_describe(outcome.progress))
    is_known = old is not None and old.reason == "TasksMissing"
    return _Answer(
        is_true=False,
        reason="TasksMissing",
        message=old.message if old and is_known else "",
    )


def _describe(progress: Progress) -> str:
    missing = ", ".join(f"{m.role}/{m.index} ({m.reason})" for m in progress.missing)
    return f"{progress.ready} of {progress.total} Tasks are ready; waiting for {missing}"


def _answer_running(draft: Draft) -> _Answer:
    is_running = draft.state is FrameworkState.ATTEMPT_RUNNING
    return _Answer(is_true=is_running, reason=str(draft.state))


def _answer_end(draft: Draft) -> dict[str, _Answer]:
    """Answer Completed, Succeeded and Failed. A Framework that was stopped has failed."""
    completion = draft.status.attempt_status.completion_status
    if draft.state is not FrameworkState.COMPLETED or completion is None:
        return dict.fromkeys(
            (COMPLETED, SUCCEEDED, FAILED), _Answer(is_true=False, reason="InProgress")
        )
    is_succeeded = completion.type.is_succeeded
    reason = _END_REASONS.get(completion.code, SUCCEEDED if is_succeeded else FAILED)
    message = "" if is_succeeded else describe_framework_end(draft.status)
    return {
        COMPLETED: _Answer(is_true=True, reason=reason, message=message),
        SUCCEEDED: _Answer(is_true=is_succeeded, reason=reason, message=message),
        FAILED: _Answer(is_true=not is_succeeded, reason=reason, message=message),
    }


def _answer_suspended(draft: Draft, old: Condition | None) -> dict[str, _Answer]:
    """Answer Suspended; nothing for a Framework that was never suspended."""
    if draft.state is FrameworkState.COMPLETED or not lifetime.is_suspended(draft.spec):
        if old is None:
            return {}
        return {SUSPENDED: _Answer(is_true=False, reason=_name_resumption(draft))}
    if not lifetime.is_at_rest(draft):
        message = f"Attempt {draft.status.attempt_status.id} ends: its Pods are deleted"
        return {SUSPENDED: _Answer(is_true=False, reason=lifetime.SUSPENDING, message=message)}
    message = f"No Pod is created until spec.{constants.SUSPEND_FIELD} is false"
    return {SUSPENDED: _Answer(is_true=True, reason=lifetime.SUSPENDED, message=message)}


def _name_resumption(draft: Draft) -> str:
    """Name the reason why the Framework is not suspended any more."""
    if draft.spec.execution_type is ExecutionType.STOP:
        return _STOPPED
    return COMPLETED if draft.state is FrameworkState.COMPLETED else RESUMED


def _answer_blocked(draft: Draft) -> _Answer:
    if draft.hold is not None:
        return _Answer(is_true=True, reason=draft.hold.reason, message=draft.hold.message)
    faults = find_duplicate_roles(draft.spec)
    if faults:
        return _Answer(is_true=True, reason="InvalidSpec", message="; ".join(map(str, faults)))
    if lifetime.is_suspended(draft.spec):
        return _Answer(is_true=False, reason="NotBlocked")
    failed = _find_failed_create(draft)
    if failed is not None:
        return _describe_failure(*failed)
    name = _find_stuck_pod(draft)
    if name is not None:
        message = (
            f"Pod {name} cannot be created: an older Pod of this name is being deleted, and still "
            "exists"
        )
        return _Answer(is_true=True, reason=constants.NAME_TAKEN_REASON, message=message)
    return _answer_backoff(draft) or _Answer(is_true=False, reason="NotBlocked")


def _answer_backoff(draft: Draft) -> _Answer | None:
    """Name the first Task whose retry pauses because its attempts end at once."""
    waiting = list(_walk_paused(draft))
    if not waiting:
        return None
    name, status = waiting[0]
    settings = draft.settings
    count = retry_backoff.count_quick_ends(status, settings)
    why = f"{name}: its last {count} attempts ended within {settings.quick_end_seconds} s each"
    delay = status.retry_policy_status.retry_delay_seconds or 0
    due = format_time(status.transition_time + timedelta(seconds=delay))
    others = len(waiting) - 1
    wait = "Task waits for its retry" if others == 1 else "Tasks wait for their retry"
    more = f"; {others} more {wait}" if others else ""
    return _Answer(
        is_true=True,
        reason=constants.RETRY_BACKOFF_REASON,
        message=f"{why}, so the next one starts at {due}{more}: {_BACKOFF_REMEDY}",
        event_message=f"{why}, so retries are paused, for {settings.max_pause_seconds} s at most: "
        f"{_BACKOFF_REMEDY}",
    )


def _walk_paused(draft: Draft) -> Iterator[tuple[str, FrameworkStatus | TaskStatus]]:
    if draft.state is FrameworkState.ATTEMPT_COMPLETED and _is_paused(draft, draft.status):
        yield "Framework", draft.status
    if draft.state in _CREATING:
        for role, task in draft.walk_tasks():
            if task.state is TaskState.ATTEMPT_COMPLETED and _is_paused(draft, task):
                yield f"{role.name}/{task.index}", task


def _is_paused(draft: Draft, status: FrameworkStatus | TaskStatus) -> bool:
    is_delayed = status.retry_policy_status.retry_delay_seconds is not None
    return is_delayed and retry_backoff.find_pause_seconds(status, draft.settings) > 0


def _find_failed_create(draft: Draft) -> tuple[ActionKey, Failure] | None:
    """Find a create that failed repeatedly, in one attempt or over many, and is still wanted."""
    repeated = [
        (key, failure)
        for key, failure in draft.snapshot.failures.items()
        if key.verb is Verb.CREATE and _is_repeated(draft, failure)
    ]
    if not repeated:
        return None
    # One index for all of them: there may be ten thousand failures and as many Tasks.
    tasks = {task.attempt_status.pod_name: task for _, task in draft.walk_tasks()}
    awaited = (item for item in repeated if _is_awaited(draft, tasks.get(item[0].name), *item))
    return next(awaited, None)


def _is_repeated(draft: Draft, failure: Failure) -> bool:
    return (
        failure.count >= _BLOCKED_AFTER_FAILURES
        or failure.consecutive_failures >= draft.settings.free_refusals
    )


def _is_awaited(draft: Draft, task: TaskStatus | None, key: ActionKey, failure: Failure) -> bool:
    """Return whether the object of a failed create is still needed. ``task``: that of the Pod."""
    if key.kind is ObjectKind.CONFIGMAP:
        return _is_awaited_configmap(draft, key)
    if key.kind is ObjectKind.SECRET:
        return _is_awaited_gang_key(draft, key)
    return _is_awaited_pod(draft, task, key, failure)


def _find_stuck_pod(draft: Draft) -> str | None:
    """Find a Pod name that a Task needs and a terminating Pod has for too long."""
    if draft.state not in _CREATING:
        return None
    for _, task in draft.walk_tasks():
        if task.state is not TaskState.ATTEMPT_CREATION_PENDING:
            continue
        pod = draft.snapshot.pods.get(task.attempt_status.pod_name)
        # deletionTimestamp is the end of the grace period.
        ends_at = pod.deletion_time if pod else None
        if ends_at is not None and draft.has_elapsed(ends_at, _STUCK_SECONDS):
            return task.attempt_status.pod_name
    return None


def _is_awaited_configmap(draft: Draft, key: ActionKey) -> bool:
    is_pending = draft.state is FrameworkState.ATTEMPT_CREATION_PENDING
    return is_pending and key.identity == ownership.build_configmap_identity(draft)


def _is_awaited_gang_key(draft: Draft, key: ActionKey) -> bool:
    is_own = key.identity == draft.status.attempt_status.configmap_uid
    return is_own and draft.state in _CREATING and draft.lacks_gang_key


def _is_awaited_pod(
    draft: Draft, task: TaskStatus | None, key: ActionKey, failure: Failure
) -> bool:
    """Return whether a Task still needs the Pod of a failed create."""
    if task is None:
        return False
    if failure.consecutive_failures >= draft.settings.free_refusals:
        # Creates failed in several attempts; expect the next to fail.
        return task.attempt_status.pod_uid is None and task.state is not TaskState.COMPLETED
    is_pending = task.state is TaskState.ATTEMPT_CREATION_PENDING
    return is_pending and key.identity == ownership.build_pod_identity(task)


def _describe_failure(key: ActionKey, failure: Failure) -> _Answer:
    problem = f"{key.kind} {key.name} cannot be created"
    if failure.code == _CONFLICT:
        remedy = "delete or rename the object of that name, which does not belong to this attempt"
        message = f"{problem}: {remedy} ({failure.message})"
        return _Answer(is_true=True, reason=constants.NAME_TAKEN_REASON, message=message)
    refused = constants.CREATION_REFUSED_REASON
    message = f"{problem}: {failure.message}"
    if key.kind is ObjectKind.SECRET and _LACKS_RIGHT in failure.message:
        message = f"{message[: MAX_MESSAGE - len(_SECRETS_REMEDY)]}{_SECRETS_REMEDY}"
    return _Answer(is_true=True, reason=refused, message=message)


def _count_ready(draft: Draft) -> str:
    ready = sum(
        1
        for _, task in draft.walk_tasks()
        if not task.deletion_pending
        and (task.state is TaskState.ATTEMPT_RUNNING or task.is_succeeded)
    )
    return f"{ready}/{draft.spec.wanted_count}"
