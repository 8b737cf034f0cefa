"""The invariants between two stored statuses of a Framework, with any statuses between them.

The codes are those of docs/design/invariants.md: I5 (times, ids and counts, states along the
tables, completions never change), P2, P3.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from framework.api.states import (
    FRAMEWORK_TRANSITIONS,
    TASK_TRANSITIONS,
    FrameworkState,
    TaskState,
)
from framework.api.types import (
    FrameworkAttemptStatus,
    FrameworkStatus,
    RetryPolicyStatus,
    TaskStatus,
)

S = TypeVar("S", FrameworkState, TaskState)
TaskPath = tuple[str, int]


def check_step(
    before: FrameworkStatus | None, after: FrameworkStatus, *, is_time_steady: bool = True
) -> None:
    """Fail unless ``after`` may follow ``before``; ``is_time_steady``: no clock was set back."""
    check_shape(after, is_time_steady=is_time_steady)
    if before is None:
        assert after.attempt_status.id == 0
        return
    assert before.start_time == after.start_time, "startTime changed"
    _check_once(before.run_time, after.run_time, "runTime")
    _check_once(before.completion_time, after.completion_time, "completionTime")
    if after.active_start_time is not None:
        _check_once(before.active_start_time, after.active_start_time, "activeStartTime")
    _check_counts(before.retry_policy_status, after.retry_policy_status, "Framework")
    is_later = after.transition_time >= before.transition_time
    assert is_later or not is_time_steady, "transitionTime went back"
    retried = _check_attempt(before, after)
    if before.state is FrameworkState.COMPLETED:
        assert (after.state, after.attempt_status) == (before.state, before.attempt_status)
    if not retried:
        _check_tasks(before.attempt_status, after.attempt_status)


def check_shape(status: FrameworkStatus, *, is_time_steady: bool = True) -> None:
    """Fail unless the status is consistent in itself."""
    attempt = status.attempt_status
    assert attempt.id == status.retry_policy_status.total_retried_count
    if is_time_steady:
        _check_all_times(status)
    pods: set[str] = set()
    for role in attempt.task_roles:
        for index, task in enumerate(role.tasks):
            assert task.index == index, "index out of place"
            _check_task_shape(f"{role.name}/{index}", task)
            uid = task.attempt_status.pod_uid
            assert uid is None or uid not in pods, f"Pod {uid} is claimed twice"
            pods.add(uid or "")
    if status.state in (FrameworkState.ATTEMPT_COMPLETED, FrameworkState.COMPLETED):
        assert attempt.completion_status is not None, "ended without a completion"
        states = {task.state for _, task in attempt.walk_tasks()}
        assert states <= {TaskState.COMPLETED}, f"Tasks in {states} of an ended attempt"


def is_reachable(source: S, target: S, table: Mapping[S, frozenset[S]]) -> bool:
    """Return whether steps of the table lead from one state to another, or both are equal."""
    seen, waiting = {source}, [source]
    while waiting:
        for following in table[waiting.pop()] - seen:
            seen.add(following)
            waiting.append(following)
    return target in seen


# Within an attempt, no step leads from its end to a new start.
_FRAMEWORK_STEPS = {
    **FRAMEWORK_TRANSITIONS,
    FrameworkState.ATTEMPT_COMPLETED: frozenset({FrameworkState.COMPLETED}),
}
_TASK_STEPS = {**TASK_TRANSITIONS, TaskState.ATTEMPT_COMPLETED: frozenset({TaskState.COMPLETED})}


def _check_attempt(before: FrameworkStatus, after: FrameworkStatus) -> bool:
    """Check the Framework's attempt; return whether it is a new one."""
    old, new = before.attempt_status, after.attempt_status
    if new.id != old.id:
        assert new.id == old.id + 1, f"attempt {old.id} -> {new.id}"
        assert before.state is FrameworkState.ATTEMPT_COMPLETED, "retried before it was persisted"
        start = FrameworkState.ATTEMPT_CREATION_PENDING
        assert is_reachable(start, after.state, _FRAMEWORK_STEPS)
        return True
    assert is_reachable(before.state, after.state, _FRAMEWORK_STEPS), (
        f"{before.state} -> {after.state}"
    )
    assert old.start_time == new.start_time
    for field in ("configmap_uid", "instance_uid", "run_time", "completion_time"):
        _check_once(getattr(old, field), getattr(new, field), field)
    _check_once(old.completion_status, new.completion_status, "completionStatus")
    return False


def _check_tasks(before: FrameworkAttemptStatus, after: FrameworkAttemptStatus) -> None:
    known = dict(_walk(after))
    for path, old in _walk(before):
        new = known.get(path)
        if new is None or new.instance_uid != old.instance_uid:
            assert old.deletion_pending, f"{path} was dropped without a mark"
            assert old.state is TaskState.COMPLETED, f"{path} was dropped while it lived"
        else:
            _check_task_step(path, old, new)


def _check_task_step(path: TaskPath, before: TaskStatus, after: TaskStatus) -> None:
    old, new = before.attempt_status, after.attempt_status
    _check_counts(before.retry_policy_status, after.retry_policy_status, str(path))
    assert after.deletion_pending or not before.deletion_pending, f"{path} came back"
    assert before.start_time == after.start_time
    _check_once(before.run_time, after.run_time, f"{path} runTime")
    if new.id != old.id:
        assert new.id == old.id + 1, f"{path}: attempt {old.id} -> {new.id}"
        assert before.state is TaskState.ATTEMPT_COMPLETED, f"{path} retried too early"
        assert is_reachable(TaskState.ATTEMPT_CREATION_PENDING, after.state, _TASK_STEPS)
        return
    assert is_reachable(before.state, after.state, _TASK_STEPS), (
        f"{path}: {before.state} -> {after.state}"
    )
    assert new.avoided_nodes == old.avoided_nodes, f"{path} avoids other nodes in one attempt"
    times = ("run_time", "completion_time")
    for field in ("pod_uid", "instance_uid", *times, "completion_status", "leaving"):
        _check_once(getattr(old, field), getattr(new, field), f"{path} {field}")
    for field in ("pod_node_name", "pod_ip", "pod_host_ip"):
        assert getattr(new, field) or not getattr(old, field), f"{path} lost its {field}"


def _check_task_shape(path: str, task: TaskStatus) -> None:
    attempt = task.attempt_status
    assert attempt.id == task.retry_policy_status.total_retried_count, path
    assert (attempt.pod_uid is None) is (attempt.instance_uid is None), path
    ended = task.state in (TaskState.ATTEMPT_COMPLETED, TaskState.COMPLETED)
    assert not ended or attempt.completion_status is not None, f"{path} ended without a completion"


def _check_counts(before: RetryPolicyStatus, after: RetryPolicyStatus, who: str) -> None:
    total = after.total_retried_count - before.total_retried_count
    counted = after.accountable_retried_count - before.accountable_retried_count
    assert total in {0, 1}, f"{who}: {total} retries at once"
    assert 0 <= counted <= total, f"{who}: {counted} counted of {total} retries"
    if total:
        assert after.retry_delay_seconds is None
    elif before.retry_delay_seconds is not None:
        assert after.retry_delay_seconds in {None, before.retry_delay_seconds}, "delay re-drawn"


def _check_once(before: Any, after: Any, what: str) -> None:
    """Fail if a value that was set is set again."""
    assert before is None or before == after, f"{what} changed from {before} to {after}"


def _check_all_times(status: FrameworkStatus) -> None:
    _check_times(status)
    _check_times(status.attempt_status)
    for _, task in status.attempt_status.walk_tasks():
        _check_times(task)
        _check_times(task.attempt_status)


def _check_times(holder: Any) -> None:
    times = [holder.start_time, holder.run_time, holder.completion_time]
    known = [moment for moment in times if moment is not None]
    assert known == sorted(known), f"times out of order: {known}"


def _walk(attempt: FrameworkAttemptStatus) -> Iterator[tuple[TaskPath, TaskStatus]]:
    for role, task in attempt.walk_tasks():
        yield (role.name, task.index), task
