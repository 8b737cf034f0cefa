"""The completion policy: whether the attempt of a Framework is over, and with which completion.

Steps of ``find_trigger``:

1. For each role in the order of the spec: if at least ``minFailedTaskCount`` Tasks failed, the Task
   that reached this number is a trigger. The same for ``minSucceededTaskCount``.
2. If there are triggers, the earliest completes the attempt with its own completion. Tasks are
   ordered by completion time, and within one second by the resourceVersion at which their Pods were
   first seen finished.
3. Otherwise, if all wanted Tasks are Completed, the attempt succeeds. The last Task is its trigger.

Invariant: a Task that is ``deletionPending`` counts neither as completed nor as wanted.

Example: a role of 4 Tasks has minFailedTaskCount 1. Task 2 fails, and 10 s later Task 0 fails: the
attempt fails with the exit code of Task 2. With minFailedTaskCount -1 (never), it would succeed
when all four are Completed.

The Framework's machine calls it before it moves the Tasks, because the policy or the scale may have
changed, and again after that if a Task became Completed. Rules: docs/design/failure-handling.md,
"Completion policy"; ``syncTaskState`` and ``syncFrameworkAttemptCompletionPolicy`` of the Go
original.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from controller.core.draft import Draft, RoleDraft
from framework.api.completion import SUCCEEDED, complete_framework
from framework.api.pods import ZERO_TIME
from framework.api.types import (
    CompletionPolicyTriggerStatus,
    FrameworkAttemptCompletionStatus,
    TaskStatus,
)

Completion = FrameworkAttemptCompletionStatus
_Selector = Callable[[TaskStatus], bool]


def find_trigger(draft: Draft, *, is_after_tasks: bool) -> Completion | None:
    """Find the completion of an attempt that is over; None if it continues.

    Args:
        draft: the decision.
        is_after_tasks: whether Tasks became Completed in this decision, each at its own step. The
            message then has the count that the trigger reached, otherwise the count of all such
            Tasks.
    """
    earliest: tuple[TaskStatus, Completion] | None = None
    for role in _in_spec_order(draft):
        for task, completion in _find_role_triggers(draft, role, is_after_tasks=is_after_tasks):
            if earliest is None or _end(draft, task) < _end(draft, earliest[0]):
                earliest = (task, completion)
    if earliest is not None:
        return earliest[1]
    return _find_last_completed(draft)


def _find_role_triggers(
    draft: Draft,
    role: RoleDraft,
    *,
    is_after_tasks: bool,
) -> Iterator[tuple[TaskStatus, Completion]]:
    if role.spec is None:
        return
    policy = role.spec.completion_policy
    for word, selector, minimum in (
        ("Failed", _is_failed, policy.min_failed_task_count),
        ("Succeeded", _is_succeeded, policy.min_succeeded_task_count),
    ):
        if minimum < 1:
            continue
        hits = [task for task in role.tasks if selector(task)]
        if len(hits) >= minimum:
            task = _sort(draft, hits)[minimum - 1]
            count = minimum if is_after_tasks else len(hits)
            yield task, _inherit(role, task, word, count, minimum)


def _find_last_completed(draft: Draft) -> Completion | None:
    if draft.hold is not None and draft.hold.is_temporary:
        # The user wants more Tasks than the draft has: these wait for memory.
        return None
    completed, total = _count_completed(draft)
    if total < 1 or completed < total:
        return None
    last: tuple[RoleDraft, TaskStatus] | None = None
    for role in _in_spec_order(draft):
        tasks = _sort(draft, (t for t in role.tasks if t.is_completed))
        if tasks and (last is None or _end(draft, tasks[-1]) > _end(draft, last[1])):
            last = (role, tasks[-1])
    return None if last is None else _complete_all(*last, completed, total)


def _sort(draft: Draft, tasks: Iterable[TaskStatus]) -> list[TaskStatus]:
    return sorted(tasks, key=lambda task: _end(draft, task))


def _in_spec_order(draft: Draft) -> list[RoleDraft]:
    by_name = {role.name: role for role in draft.roles}
    names = dict.fromkeys(role.name for role in draft.spec.task_roles)
    return [by_name[name] for name in names if name in by_name]


def _count_completed(draft: Draft) -> tuple[int, int]:
    completed = sum(_count(role, _is_completed) for role in draft.roles)
    return completed, draft.spec.wanted_count


def _count(role: RoleDraft, selector: _Selector) -> int:
    return sum(1 for task in role.tasks if selector(task))


def _inherit(
    role: RoleDraft,
    task: TaskStatus,
    word: str,
    count: int,
    minimum: int,
) -> Completion:
    message = f"{word}TaskCount {count} has reached Min{word}TaskCount {minimum} in the TaskRole"
    status = task.attempt_status.completion_status
    if status is None:
        raise AssertionError(f"{role.name}/{task.index} is Completed without a completion status")
    return Completion(
        status.code,
        status.phrase,
        status.type,
        status.diagnostics,
        CompletionPolicyTriggerStatus(message, role.name, task.index),
    )


def _complete_all(role: RoleDraft, task: TaskStatus, completed: int, total: int) -> Completion:
    message = (
        f"CompletedTaskCount {completed} has reached TotalTaskCount {total} and no user specified "
        "conditions in FrameworkAttemptCompletionPolicy have ever been triggered"
    )
    base = complete_framework(SUCCEEDED, message)
    trigger = CompletionPolicyTriggerStatus(message, role.name, task.index)
    return Completion(base.code, base.phrase, base.type, base.diagnostics, trigger)


def _end(draft: Draft, task: TaskStatus) -> tuple[datetime, int]:
    """Build the sort key of a Task: its completion time, then the order of the Pods' ends."""
    version = draft.snapshot.end_versions.get(task.attempt_status.pod_uid or "", 0)
    return task.completion_time or ZERO_TIME, version


def _is_failed(task: TaskStatus) -> bool:
    return task.is_failed


def _is_succeeded(task: TaskStatus) -> bool:
    return task.is_succeeded


def _is_completed(task: TaskStatus) -> bool:
    return task.is_completed
