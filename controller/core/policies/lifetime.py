"""Lifetime: the suspension of a Framework, its deadline, and its deletion after the end.

1. ``executionType: Stop`` comes first: it ends the attempt with -210, without a retry.
2. ``suspend: true`` ends the attempt with -250, and its retry waits until ``suspend`` is false
   (``find_suspension``, ``is_suspended``). A Framework without an attempt creates none.
3. ``activeDeadlineSeconds`` ends a Framework that is active for too long with -240, without a retry
   (``find_final_end``). It counts from ``activeStartTime``, which ``track_activity`` sets when the
   Framework is started or resumed, and removes when it is suspended.
4. ``ttlSecondsAfterFinished`` replaces the retention of the controller's config
   (``find_retention``).

Invariants:

- While a Framework is suspended, its deadline does not count, and no attempt starts.
- A completion status that is stored first stays: an attempt that has started to end is not
  suspended, and its retry waits.

Example: the deadline is 60 s. The Framework runs for 50 s, is suspended for an hour, and is
resumed: as for a Job of Kubernetes, its deadline is 60 s after that.

Rules: docs/design/failure-handling.md, "Lifetime".
"""

from datetime import datetime
from typing import NamedTuple

from controller.core.actions import ObjectKind, Urgency
from controller.core.draft import Draft
from controller.core.objects import ownership
from framework.api import constants
from framework.api.completion import (
    FRAMEWORK_DEADLINE_EXCEEDED,
    STOP_FRAMEWORK_REQUESTED,
    SUSPEND_FRAMEWORK_REQUESTED,
    complete_framework,
)
from framework.api.states import FrameworkState
from framework.api.types import (
    Condition,
    ExecutionType,
    FrameworkAttemptCompletionStatus,
    FrameworkSpec,
    FrameworkStatus,
)

STOP_DIAGNOSTICS = "User has requested to stop the Framework"
_SUSPEND_DIAGNOSTICS = "User has requested to suspend the Framework"
_RETAIN_SETTING = "frameworkCompletedRetainSec"

SUSPENDED = "Suspended"
"""Reason of the condition: no Pod is left."""
SUSPENDING = "Suspending"
"""Reason of the condition: the attempt ends."""
NOT_STARTED = "NotStarted"
"""Reason of the condition GangReady: a user has not started the Framework."""


class Retention(NamedTuple):
    """How long a Completed Framework is kept, and the setting that says so."""

    seconds: int
    setting: str


def is_suspended(spec: FrameworkSpec) -> bool:
    """Return whether the spec asks for a Framework without Pods, for now."""
    return spec.suspend and spec.execution_type is not ExecutionType.STOP


def is_waiting_for_start(draft: Draft) -> bool:
    """Return whether a user created the Framework, and has not started it."""
    is_pending = draft.state is FrameworkState.ATTEMPT_CREATION_PENDING
    return is_pending and draft.spec.execution_type is ExecutionType.CREATE


def find_final_end(draft: Draft) -> FrameworkAttemptCompletionStatus | None:
    """Find why the Framework must end now, without a retry; None if it may continue."""
    if draft.spec.execution_type is ExecutionType.STOP:
        return complete_framework(STOP_FRAMEWORK_REQUESTED, STOP_DIAGNOSTICS)
    start, seconds = draft.status.active_start_time, draft.spec.active_deadline_seconds
    if start is None or seconds is None or not draft.has_elapsed(start, seconds):
        return None
    text = f"Framework was active for longer than {constants.ACTIVE_DEADLINE_FIELD} {seconds}"
    return complete_framework(FRAMEWORK_DEADLINE_EXCEEDED, text)


def find_suspension(draft: Draft) -> FrameworkAttemptCompletionStatus | None:
    """Find the completion of an attempt that is to be suspended; None if it may continue."""
    if not is_suspended(draft.spec):
        return None
    return complete_framework(SUSPEND_FRAMEWORK_REQUESTED, _SUSPEND_DIAGNOSTICS)


def track_activity(draft: Draft) -> None:
    """Set or remove the time from which the deadline counts.

    A Framework that has no deadline, was never suspended and never waited for its start has no such
    time: if it gets a deadline later, that counts from ``startTime``.
    """
    start = _find_active_start(draft)
    if start != draft.status.active_start_time:
        draft.update(active_start_time=start)
        draft.raise_urgency(Urgency.NOW)


def find_suspended_condition(status: FrameworkStatus | None) -> Condition | None:
    """Find the condition Suspended; None if the Framework was never suspended."""
    return _find_condition(status, constants.SUSPENDED_CONDITION)


def was_suspended(condition: Condition | None) -> bool:
    """Return whether the condition says that the Framework is suspended, or was to be."""
    return condition is not None and condition.reason in (SUSPENDED, SUSPENDING)


def is_at_rest(draft: Draft) -> bool:
    """Return whether no object of an attempt exists, so that a suspension is complete."""
    if draft.state is FrameworkState.ATTEMPT_COMPLETED:
        return True
    if draft.state is not FrameworkState.ATTEMPT_CREATION_PENDING:
        return False
    configmap = draft.snapshot.configmap
    name = draft.status.attempt_status.configmap_name
    return not draft.is_create_in_flight(ObjectKind.CONFIGMAP, name) and (
        configmap is None or not ownership.is_own_configmap(draft, configmap)
    )


def find_retention(draft: Draft) -> Retention | None:
    """Find how long the Completed Framework is kept; None for ever."""
    ttl = draft.spec.ttl_seconds_after_finished
    if ttl is not None:
        return Retention(ttl, f"spec.{constants.TTL_FIELD}")
    seconds = draft.settings.completed_retain_seconds
    return None if seconds is None else Retention(seconds, _RETAIN_SETTING)


def _find_active_start(draft: Draft) -> datetime | None:
    spec, known = draft.spec, draft.status.active_start_time
    if is_suspended(spec) or spec.execution_type is ExecutionType.CREATE:
        return None
    if known is not None or spec.execution_type is ExecutionType.STOP:
        return known
    ready = _find_condition(draft.persisted, constants.GANG_READY_CONDITION)
    is_started = ready is not None and ready.reason == NOT_STARTED
    if is_started or was_suspended(find_suspended_condition(draft.persisted)):
        return draft.now
    return None if spec.active_deadline_seconds is None else draft.status.start_time


def _find_condition(status: FrameworkStatus | None, type_: str) -> Condition | None:
    conditions = status.conditions if status is not None else None
    return next((c for c in conditions or () if c.type == type_), None)
