"""Conditions of a Framework, for kubectl wait and kubectl describe.

GangReady, Running, Completed, Succeeded, Failed and Blocked (``blocked``) are always present, and
Suspended once a user has suspended the Framework. Conditions of other types are kept. ``decide``
calls ``update_conditions`` after all steps.

Invariant: a condition follows from the states and members of the status, so it causes no write of
its own. Exceptions are Blocked and the missing Tasks of GangReady, which inform the user.

Example: a gang of 2 runs, and worker/1 fails. GangReady becomes False with the reason TasksMissing.
At the next check of the readiness, its message is "1 of 2 Tasks are ready; waiting for worker/1
(...)". The transition time stays.

Rules: docs/design/failure-handling.md, "Conditions".
"""

from dataclasses import dataclass, replace

from controller.core.decision import EventType
from controller.core.draft import Draft
from controller.core.policies import lifetime
from controller.core.roster.roster_policy import RosterOutcome
from controller.core.status.blocked import BLOCKED, MAX_MESSAGE, find_block
from framework.api import constants
from framework.api.completion import FRAMEWORK_DEADLINE_EXCEEDED, STOP_FRAMEWORK_REQUESTED
from framework.api.endings import describe_framework_end
from framework.api.gangreadiness import GangReadiness
from framework.api.states import FrameworkState, TaskState
from framework.api.types import Condition, ExecutionType, FrameworkStatus

GANG_READY = constants.GANG_READY_CONDITION
RUNNING = "Running"
COMPLETED = "Completed"
SUCCEEDED = "Succeeded"
FAILED = "Failed"
SUSPENDED = constants.SUSPENDED_CONDITION

_STOPPED = "Stopped"
RESUMED = "Resumed"
DEADLINE_EXCEEDED = "DeadlineExceeded"
# Completion codes with a reason of their own.
_END_REASONS = {
    STOP_FRAMEWORK_REQUESTED: _STOPPED,
    FRAMEWORK_DEADLINE_EXCEEDED: DEADLINE_EXCEEDED,
}


@dataclass(frozen=True, slots=True)
class _Answer:
    is_true: bool
    reason: str
    message: str = ""


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
        BLOCKED: _answer_blocked(draft, old.get(BLOCKED)),
    }
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


def _answer_gang_ready(draft: Draft, outcome: RosterOutcome, old: Condition | None) -> _Answer:
    if lifetime.is_waiting_for_start(draft):
        message = "It starts when spec.executionType is Start"
        return _Answer(is_true=False, reason=lifetime.NOT_STARTED, message=message)
    if outcome.is_complete is None:
        return _Answer(is_true=False, reason="NoGang", message=f"The Framework is {draft.state}")
    if outcome.is_complete:
        return _Answer(is_true=True, reason="GangComplete")
    if outcome.readiness is not None:
        return _Answer(is_true=False, reason="TasksMissing", message=_describe(outcome.readiness))
    is_known = old is not None and old.reason == "TasksMissing"
    return _Answer(
        is_true=False,
        reason="TasksMissing",
        message=old.message if old and is_known else "",
    )


def _describe(readiness: GangReadiness) -> str:
    missing = ", ".join(f"{m.role}/{m.index} ({m.reason})" for m in readiness.missing)
    return f"{readiness.ready} of {readiness.total} Tasks are ready; waiting for {missing}"


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


def _answer_blocked(draft: Draft, old: Condition | None) -> _Answer:
    """Answer Blocked, and add an Event about a new reason."""
    block = find_block(draft)
    if block is None:
        return _Answer(is_true=False, reason="NotBlocked")
    if old is None or (old.status, old.reason) != ("True", block.reason):
        draft.add_event(EventType.WARNING, block.reason, block.event_message or block.message)
    return _Answer(is_true=True, reason=block.reason, message=block.message)


def _count_ready(draft: Draft) -> str:
    ready = sum(
        1
        for _, task in draft.walk_tasks()
        if not task.deletion_pending
        and (task.state is TaskState.ATTEMPT_RUNNING or task.is_succeeded)
    )
    return f"{ready}/{draft.spec.wanted_count}"
