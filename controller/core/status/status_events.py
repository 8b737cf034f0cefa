"""The Events of a status change, for users.

``list_events`` compares the stored status with the new status, and reports in this order:

1. roles whose number of Tasks changed, by scaling;
2. the Pods that were created;
3. the Tasks that failed by themselves: Warnings;
4. the Tasks that leave, with the reason;
5. the Tasks that avoid another node from now on;
6. a new epoch of the processes: a Warning with the first failed process;
7. the gang that became complete;
8. a requested end: Stop, suspension, deadline; and the resumption of the Framework;
9. the state that the Framework entered: AttemptRunning, AttemptCompleted, Completed.

Invariants: the Events are reported after the status is stored, so each change is reported once,
unless the controller crashes in between. One change of a thousand Tasks gives a few Events: Tasks
and roles beyond the first ``_NAMED`` are counted.

Example: worker/2 exits with 7, and one retry is allowed. The Warning ``TaskFailed`` says "worker/2
exited with 7". When its next Pod exits too, the Event gets the count 2, and the Warning
``AttemptCompleted`` says "attempt 0 failed: worker/2 exited with 7".

Rules: docs/design/failure-handling.md, "Events".
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from controller.core.decision import Event, EventType
from controller.core.leaving.marks import Change, Mark, select_new_marks, walk_changed
from controller.core.policies import lifetime
from controller.core.status.conditions import DEADLINE_EXCEEDED, GANG_READY, RESUMED
from framework.api.completion import (
    FRAMEWORK_DEADLINE_EXCEEDED,
    POD_CREATION_PERMANENT_ERROR,
    POD_CREATION_UNKNOWN_ERROR,
    STOP_FRAMEWORK_REQUESTED,
    SUSPEND_FRAMEWORK_REQUESTED,
)
from framework.api.endings import (
    INHERITED_CODES,
    describe_epoch,
    describe_framework_end,
    describe_task_end,
)
from framework.api.recovery import RESTARTED
from framework.api.states import FrameworkState
from framework.api.types import (
    FrameworkAttemptStatus,
    FrameworkStatus,
    TaskAttemptCompletionStatus,
    TaskRoleStatus,
    TaskStatus,
)

POD_CREATED = "PodCreated"
TASK_FAILED = "TaskFailed"
TASK_LEAVING = "TaskLeaving"
NODE_AVOIDED = "NodeAvoided"
SCALED = "Scaled"
STOPPING = "Stopping"
RESTART_REFUSED = "RestartRefused"

# By completion code, the Event at the start of a requested end.
_REQUESTED_ENDS = {
    STOP_FRAMEWORK_REQUESTED: Event(EventType.NORMAL, STOPPING, "A user stops the Framework"),
    SUSPEND_FRAMEWORK_REQUESTED: Event(
        EventType.NORMAL, lifetime.SUSPENDING, "A user suspends the Framework"
    ),
    FRAMEWORK_DEADLINE_EXCEEDED: Event(
        EventType.WARNING,
        DEADLINE_EXCEEDED,
        "The Framework was active for longer than its activeDeadlineSeconds",
    ),
}
_PODS_END = ": its Pods are deleted"
_IS_NOT_COUNTED = ", and the attempt is not counted"
# By completion code, how a user's request ended an attempt.
_REQUESTS = {
    STOP_FRAMEWORK_REQUESTED: "was stopped by a user",
    SUSPEND_FRAMEWORK_REQUESTED: "was suspended by a user",
}

_NAMED = 3
# The Event FailedCreate says why a Pod was refused, once for all Tasks of a role.
_REPORTED_ELSEWHERE = INHERITED_CODES | {POD_CREATION_PERMANENT_ERROR, POD_CREATION_UNKNOWN_ERROR}


def list_events(before: FrameworkStatus | None, after: FrameworkStatus) -> Iterator[Event]:
    """List the Events of a change; ``before`` is None for a new Framework."""
    old = before.attempt_status if before is not None else None
    if old is not None and old.id == after.attempt_status.id:
        yield from _list_scaled(old, after.attempt_status)
    changed = list(walk_changed(old, after.attempt_status))
    yield from _list_created(changed)
    yield from _list_failed(changed)
    yield from _list_leaving(select_new_marks(changed))
    yield from _list_avoided(changed)
    yield from _list_epochs(old, after.attempt_status)
    is_new = before is None or not _is_gang_ready(before)
    # A Framework without Tasks is complete, too, but there is nothing to report.
    if is_new and _is_gang_ready(after) and any(r.tasks for r in after.attempt_status.task_roles):
        message = f"The gang is complete: {_count_members(after)} Tasks have addresses"
        yield Event(EventType.NORMAL, GANG_READY, message)
    yield from _list_requested(before, after)
    yield from _list_states(before, after)


def _list_scaled(old: FrameworkAttemptStatus, new: FrameworkAttemptStatus) -> Iterator[Event]:
    if old.task_roles is new.task_roles:
        return
    before = {role.name: role for role in old.task_roles}
    after = {role.name: role for role in new.task_roles}
    texts = []
    for name in {**before, **after}:
        if before.get(name) is after.get(name):
            continue
        counts = [_count_wanted(roles.get(name)) for roles in (before, after)]
        if counts[0] != counts[1]:
            texts.append(f"Role {name} is scaled from {counts[0]} to {counts[1]} Tasks")
    if len(texts) > _NAMED:
        texts[_NAMED:] = [f"{len(texts) - _NAMED} more roles are scaled"]
    for text in texts:
        yield Event(EventType.NORMAL, SCALED, text)


def _count_wanted(role: TaskRoleStatus | None) -> int:
    return sum(not task.deletion_pending for task in role.tasks) if role is not None else 0


def _list_created(changed: list[Change]) -> Iterator[Event]:
    names = [name for name, old, new in changed if _is_created(old, new)]
    if names:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        shown = ", ".join(names[:_NAMED])
        yield Event(EventType.NORMAL, POD_CREATED, f"Created the Pods of {shown}{more}")


def _is_created(old: TaskStatus | None, new: TaskStatus) -> bool:
    uid = new.attempt_status.pod_uid
    return uid is not None and (old is None or old.attempt_status.pod_uid != uid)


def _list_failed(changed: list[Change]) -> Iterator[Event]:
    failures = [
        (name, end)
        for name, old, new in changed
        if (end := _find_new_failure(old, new)) is not None
    ]
    for name, end in islice(failures, _NAMED):
        yield Event(EventType.WARNING, TASK_FAILED, f"{name} {describe_task_end(end)}")
    if len(failures) > _NAMED:
        message = f"{len(failures) - _NAMED} more Tasks failed"
        yield Event(EventType.WARNING, TASK_FAILED, message)


def _list_leaving(marks: list[Mark]) -> Iterator[Event]:
    for name, leaving in marks[:_NAMED]:
        yield Event(EventType.NORMAL, TASK_LEAVING, f"{name} leaves: {leaving.message}")
    if len(marks) > _NAMED:
        message = f"{len(marks) - _NAMED} more Tasks leave"
        yield Event(EventType.NORMAL, TASK_LEAVING, message)


def _list_avoided(changed: list[Change]) -> Iterator[Event]:
    found = [
        (name, node)
        for name, old, new in changed
        for node in new.attempt_status.avoided_nodes
        if old is None or node not in old.attempt_status.avoided_nodes
    ]
    for name, node in found[:_NAMED]:
        message = f"{name} avoids node {node}, on which it failed"
        yield Event(EventType.NORMAL, NODE_AVOIDED, message)
    if len(found) > _NAMED:
        message = f"Tasks avoid {len(found) - _NAMED} more nodes"
        yield Event(EventType.NORMAL, NODE_AVOIDED, message)


def _list_epochs(
    old: FrameworkAttemptStatus | None, new: FrameworkAttemptStatus
) -> Iterator[Event]:
    recovery = new.recovery
    if recovery is None or recovery.first_failed is None:
        return
    known = old.recovery.epoch if old is not None and old.id == new.id and old.recovery else 0
    if recovery.epoch <= known:
        return
    message = f"Epoch {recovery.epoch} begins: {describe_epoch(recovery)}"
    reason = RESTARTED if recovery.reason == RESTARTED else RESTART_REFUSED
    yield Event(EventType.WARNING, reason, message)


def _find_new_failure(
    old: TaskStatus | None, new: TaskStatus
) -> TaskAttemptCompletionStatus | None:
    """Find the completion of a Task that has just failed by itself."""
    end = new.attempt_status.completion_status
    if end is None or end.type.is_succeeded or end.code in _REPORTED_ELSEWHERE:
        return None
    is_known = (
        old is not None
        and old.attempt_status.id == new.attempt_status.id
        and old.attempt_status.completion_status is not None
    )
    return None if is_known else end


def _count_members(status: FrameworkStatus) -> int:
    return sum(
        1
        for role in status.attempt_status.task_roles
        for task in role.tasks
        if task.attempt_status.pod_ip and not task.deletion_pending
    )


def _is_gang_ready(status: FrameworkStatus) -> bool:
    return any(c.type == GANG_READY and c.status == "True" for c in status.conditions or ())


def _list_requested(before: FrameworkStatus | None, after: FrameworkStatus) -> Iterator[Event]:
    if _is_end_new(before, after):
        yield from _list_requested_end(after.attempt_status)
    old, new = (lifetime.find_suspended_condition(status) for status in (before, after))
    if new is None or (old is not None and old.reason == new.reason):
        return
    if new.reason == lifetime.SUSPENDED:
        yield Event(EventType.NORMAL, new.reason, f"The Framework is suspended. {new.message}")
    elif new.reason == RESUMED and lifetime.was_suspended(old):
        yield Event(EventType.NORMAL, new.reason, "A user resumes the Framework")


def _is_end_new(before: FrameworkStatus | None, after: FrameworkStatus) -> bool:
    """Return whether the attempt has no completion in the stored status.

    One write may start and end an attempt, for example if a user stops the Framework.
    """
    old = before.attempt_status if before is not None else None
    return old is None or old.completion_status is None or old.id != after.attempt_status.id


def _list_requested_end(attempt: FrameworkAttemptStatus) -> Iterator[Event]:
    code = attempt.completion_status.code if attempt.completion_status is not None else None
    event = _REQUESTED_ENDS.get(code) if code is not None else None
    if event is None:
        return
    # Without a ConfigMap, the attempt ends before its first Pod.
    effect = _PODS_END if attempt.configmap_uid is not None else ""
    if code == SUSPEND_FRAMEWORK_REQUESTED:
        effect += _IS_NOT_COUNTED
    yield replace(event, message=event.message + effect)


def _list_states(before: FrameworkStatus | None, after: FrameworkStatus) -> Iterator[Event]:
    attempt = after.attempt_status
    end = attempt.completion_status
    if before is None or before.state is after.state:
        return
    if after.state is FrameworkState.ATTEMPT_RUNNING:
        message = f"Attempt {attempt.id} runs"
        yield Event(EventType.NORMAL, after.state, message)
    elif end is not None and after.state in _ENDED:
        yield _describe_end(after, _REQUESTS.get(end.code))


_ENDED = (FrameworkState.ATTEMPT_COMPLETED, FrameworkState.COMPLETED)


def _describe_end(status: FrameworkStatus, request: str | None) -> Event:
    attempt = status.attempt_status
    end = attempt.completion_status
    is_over = status.state is FrameworkState.COMPLETED
    subject = "The Framework" if is_over else f"Attempt {attempt.id}"
    after = f" after {attempt.id + 1} attempts" if is_over and attempt.id else ""
    if request is not None:
        return Event(EventType.NORMAL, status.state, f"{subject} {request}")
    if end is not None and end.type.is_succeeded:
        return Event(EventType.NORMAL, status.state, f"{subject} succeeded{after}")
    message = f"{subject} failed{after}: {describe_framework_end(status)}"
    return Event(EventType.WARNING, status.state, message)
