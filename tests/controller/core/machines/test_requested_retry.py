"""A user asks for a retry: docs/design/failure-handling.md, "Requested retries"."""

from typing import Any

import pytest

from controller.core.actions import Urgency, Verb
from controller.core.snapshot import Snapshot
from framework.api.completion import RETRY_TASK_REQUESTED, complete_task
from framework.api.constants import RETRY_ANNOTATION
from framework.api.pods import PodView
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    ExecutionType,
    RetryPolicySpec,
    RetryPolicyStatus,
    TaskSpec,
    TaskStatus,
)
from tests.support.builders import (
    at,
    build_ended,
    build_pod,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_task,
    build_task_attempt,
    end_task,
    pod_uid,
)
from tests.support.builders.cases import cases
from tests.support.builders.worlds import build_snapshot, get_code, get_status, get_task, step

T = TaskState
UID = pod_uid("worker", 0)
ENDED = end_task(build_task(T.ATTEMPT_COMPLETED), RETRY_TASK_REQUESTED, completion_time=at(50))


def world(
    task: TaskStatus,
    *pods: PodView,
    request: object = UID,
    retry: RetryPolicySpec | None = None,
    state: FrameworkState = FrameworkState.ATTEMPT_RUNNING,
    execution: ExecutionType = ExecutionType.START,
) -> Snapshot:
    """A gang of this Task and of a second one that runs, with a request of its user."""
    role = build_role(number=2, task=TaskSpec(retry or RetryPolicySpec()))
    status = build_status(
        build_role_status(tasks=(task, build_task(index=1))), state=state, observed_generation=1
    )
    metadata = {"extra": {"annotations": {RETRY_ANNOTATION: request}}}
    return build_snapshot(
        build_spec(role, execution_type=execution),
        status,
        pods=(*pods, build_pod(index=1)),
        metadata=metadata,
    )


def after(snapshot: Snapshot) -> TaskStatus:
    status = step(snapshot).status or snapshot.framework.status
    assert status is not None
    return get_task(status)


def summarize(task: TaskStatus) -> tuple[TaskState, int | None]:
    return task.state, get_code(task)


@cases(
    "state phase",
    preparing=(T.ATTEMPT_PREPARING, "Pending"),
    running=(T.ATTEMPT_RUNNING, "Running"),
)
@pytest.mark.parametrize("request_", [UID, f"other, {UID} ,", f",{UID},{UID}"])
def test_requested_retry_is_stored_before_its_pod_is_deleted(
    state: TaskState, phase: str, request_: str
) -> None:
    pod = build_pod(phase=phase)
    decision = step(world(build_task(state), pod, request=request_))
    task = get_task(get_status(decision))
    assert summarize(task) == (T.ATTEMPT_DELETION_PENDING, RETRY_TASK_REQUESTED)
    (delete,) = decision.actions
    assert (delete.key.verb, delete.key.identity) == (Verb.DELETE, UID)
    assert delete.urgency is not Urgency.NONE
    again = step(world(task, pod, request=request_))
    assert again.status is None
    assert again.actions[0].urgency is Urgency.NONE


@pytest.mark.parametrize("request_", ["", "other", None, 7, {"a": 1}, UID[:-1], f"{UID}0"])
def test_request_that_names_no_pod_of_the_gang_changes_nothing(request_: object) -> None:
    decision = step(world(build_task(), build_pod(), request=request_))
    assert [action for action in decision.actions if action.key.verb is Verb.DELETE] == []
    assert after(world(build_task(), build_pod(), request=request_)).state is T.ATTEMPT_RUNNING


@cases(
    "retry",
    no_retries=RetryPolicySpec(),
    one_retry=RetryPolicySpec(max_retry_count=1),
    fancy=RetryPolicySpec(fancy_retry_policy=True),
    endless=RetryPolicySpec(max_retry_count=-2),
)
def test_requested_retry_takes_place_and_is_not_counted(retry: RetryPolicySpec) -> None:
    task = after(world(ENDED, retry=retry))
    assert (task.state, task.attempt_status.id) == (T.ATTEMPT_CREATION_PENDING, 1)
    counts = task.retry_policy_status
    assert (counts.total_retried_count, counts.accountable_retried_count) == (1, 0)


def test_retry_goes_on_when_the_request_was_removed() -> None:
    assert after(world(ENDED, request="")).attempt_status.id == 1


def build_waiting(**fields: Any) -> TaskStatus:
    task = build_task(
        T.ATTEMPT_COMPLETED, retry_policy_status=RetryPolicyStatus(0, 0, 600), **fields
    )
    return end_task(task, complete_task(-300, "x"), completion_time=at(50))


def test_requested_retry_does_not_wait_for_its_pause_and_counts_by_its_own_end() -> None:
    retry = RetryPolicySpec(max_retry_count=1)
    waiting = build_waiting(transition_time=at(50))
    assert after(world(waiting, retry=retry, request="other")).attempt_status.id == 0
    task = after(world(waiting, retry=retry))
    assert task.attempt_status.id == 1
    assert task.retry_policy_status.accountable_retried_count == 1


def test_next_attempt_is_not_retried_by_the_same_request() -> None:
    pod = build_pod(metadata={"uid": "new"})
    task = build_task(attempt_status=build_task_attempt(id=1, pod_uid="new"))
    assert after(world(task, pod)).state is T.ATTEMPT_RUNNING


def test_pod_that_has_ended_keeps_its_own_completion() -> None:
    pod = build_pod(phase="Failed", containers=[build_ended(code=9)])
    assert get_code(after(world(build_task(), pod))) == 9


def test_completed_task_is_not_retried() -> None:
    task = end_task(build_task(T.COMPLETED), 0)
    assert step(world(task, build_pod())).status is None


@cases(
    "task fields code",
    scaled_down=(end_task(build_task(deletion_pending=True), -230), {}, -230),
    stopped=(build_task(), {"execution": ExecutionType.STOP}, -220),
    completing=(
        end_task(build_task(), -220),
        {"state": FrameworkState.ATTEMPT_DELETION_PENDING},
        -220,
    ),
)
def test_task_that_leaves_is_not_retried(
    task: TaskStatus, fields: dict[str, Any], code: int
) -> None:
    assert get_code(after(world(task, build_pod(), **fields))) == code
