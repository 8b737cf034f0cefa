"""Leaving: a Task leaves the gang, and its Pod is deleted, before its node is removed.

1. A Task that has a reason to leave is marked with a deadline, if its budget is not used up
   (``mark_leaving``). The mark is in its attempt.
2. The next generation of the roster lists it as leaving (``roster.drain``).
3. When the agents have acknowledged, or at the deadline, its attempt ends with -280
   (``should_delete_pod``). So does an attempt whose Pod fails or is evicted before that
   (``replace_completion``).
4. The retry is not counted (``policies.retry_policy``).

Invariants:

- A mark and its deadline never change in an attempt.
- In each window there are at most ``max_leaves`` marks of a Task. Without a mark, no attempt ends
  with -280.
- Roles without ``recovery.leaveNodes`` have no mark.

Example: node n1 is cordoned, worker/1 runs there, and ``timeoutSeconds`` is 60. The mark
NodeCordoned is stored, and generation 5 lists worker/1 as leaving. Its agent acknowledges 5: the
attempt ends with -280, the Pod is deleted, and attempt 1 is created.

Rules: docs/design/leaving.md.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from controller.core.actions import Urgency
from controller.core.decision import EventType
from controller.core.draft import Draft, RoleDraft
from controller.core.leaving.reasons import find_reason
from controller.core.roster import drain
from framework.api import naming
from framework.api.completion import PERMANENT, TASK_LEFT_NODE, complete_task
from framework.api.leaving import LeaveCount, LeaveNodesSpec, LeavingStatus
from framework.api.pods import PodView
from framework.api.states import TASK_ALIVE, FrameworkState
from framework.api.types import TaskAttemptCompletionStatus, TaskStatus

NODES_NOT_WATCHED = "NodesNotWatched"
LEAVE_TIMED_OUT = "LeaveTimedOut"
_NEVER = datetime.max.replace(microsecond=0, tzinfo=UTC)


def mark_leaving(
    draft: Draft, role: RoleDraft, task: TaskStatus, pod: PodView | None
) -> TaskStatus:
    """Mark a Task that has a reason to leave; a mark that exists stays.

    ``pod`` is None if the Pod is gone.
    """
    spec = _find_spec(role)
    attempt = task.attempt_status
    is_decided = attempt.leaving is not None or attempt.completion_status is not None
    if spec is None or is_decided or task.deletion_pending or drain.is_skipped(draft):
        return task
    if task.state not in TASK_ALIVE:
        return task
    reason = find_reason(draft, role, task, pod)
    leaves = None if reason is None else _count_leave(draft, task, spec)
    if reason is None or leaves is None:
        return task
    deadline = _find_deadline(draft, task, pod, spec)
    leaving = LeavingStatus(reason.name, reason.message, deadline)
    draft.raise_urgency(Urgency.NOW)
    attempt = replace(attempt, leaving=leaving)
    return draft.put_task(role, replace(task, attempt_status=attempt, leaves=leaves))


def report_unknown_nodes(draft: Draft) -> None:
    """Add an Event when an attempt begins to run, and needs nodes that are not watched."""
    is_new = draft.state is FrameworkState.ATTEMPT_RUNNING and not draft.is_persisted(draft.state)
    roles = [role.name for role in draft.roles if _find_spec(role) is not None]
    if is_new and roles and not draft.snapshot.knows_nodes:
        message = f"Tasks of {roles[0]} leave only when their Pods are evicted: nodes are not known"
        draft.add_event(EventType.WARNING, NODES_NOT_WATCHED, message)


def should_delete_pod(draft: Draft, role: RoleDraft, task: TaskStatus, pod: PodView) -> bool:
    """Return whether the Pod of a Task that leaves is to be deleted now."""
    leaving = task.attempt_status.leaving
    if leaving is None or draft.is_completing:
        return False
    silent = drain.find_unacknowledged(draft, pod, needs_complete=True)
    if silent is not None and not silent.count:
        return True
    if not draft.has_elapsed(leaving.deadline_time or draft.now, 0):
        return False
    if silent is not None:
        key = naming.TaskKey(role.name, task.index)
        message = f"{key} is deleted at its deadline: not acknowledged by {silent}"
        draft.add_event(EventType.WARNING, LEAVE_TIMED_OUT, message)
    return True


def complete_left(task: TaskStatus) -> TaskAttemptCompletionStatus:
    """Build the completion of an attempt that has left."""
    return complete_task(TASK_LEFT_NODE, _describe(task))


def replace_completion(
    task: TaskStatus, completion: TaskAttemptCompletionStatus
) -> TaskAttemptCompletionStatus:
    """Replace the failure of an attempt that leaves, unless a retry cannot succeed."""
    is_kept = not completion.type.is_failed or completion.type.has_attribute(PERMANENT)
    if task.attempt_status.leaving is None or is_kept:
        return completion
    diagnostics = f"{_describe(task)}; {completion.diagnostics}"
    return complete_task(TASK_LEFT_NODE, diagnostics, completion.pod)


def _describe(task: TaskStatus) -> str:
    leaving = task.attempt_status.leaving
    message = leaving.message if leaving is not None else ""
    return f"The Task has left: {message}"


def _find_spec(role: RoleDraft) -> LeaveNodesSpec | None:
    if role.spec is None or role.spec.recovery is None:
        return None
    return role.spec.recovery.leave_nodes


def _count_leave(draft: Draft, task: TaskStatus, spec: LeaveNodesSpec) -> LeaveCount | None:
    """Count this leave in the window; None if the budget is used up."""
    known = task.leaves or LeaveCount()
    if known.since_time is None or _is_over(draft, known.since_time, spec.within_seconds):
        known = replace(known, count=0, since_time=draft.now)
    if known.count >= spec.max_leaves:
        return None
    return replace(known, count=known.count + 1)


def _is_over(draft: Draft, since: datetime, seconds: int) -> bool:
    # A start in the future is from before the clock was set back: the window is not over.
    return (draft.now - since).total_seconds() >= seconds


def _find_deadline(
    draft: Draft, task: TaskStatus, pod: PodView | None, spec: LeaveNodesSpec
) -> datetime:
    if pod is None:
        return draft.now
    if pod.is_terminating:
        return pod.deletion_time or draft.now
    has_work = task.attempt_status.run_time is not None
    if not has_work or pod.is_ended or draft.snapshot.published.roster is None:
        return draft.now
    try:
        return draft.now + timedelta(seconds=spec.timeout_seconds)
    except OverflowError:
        return _NEVER
