"""The end of a Framework's attempt: retry, completion, and how long a Framework is kept."""

from dataclasses import replace
from typing import Any

import pytest

from controller.core.actions import DeleteObject, ObjectKind, Propagation, Urgency
from controller.core.decision import Decision, SnapshotTrigger
from controller.core.settings import Settings
from framework.api.completion import CONTAINER_TRANSIENT_FAILED, complete_framework
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    ExecutionType,
    FrameworkSpec,
    FrameworkStatus,
    RetryPolicySpec,
    RetryPolicyStatus,
    TaskSpec,
)
from tests.support.builders import (
    FRAMEWORK_UID,
    at,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_task,
    end_attempt,
    end_task,
)
from tests.support.builders.cases import cases
from tests.support.builders.worlds import (
    NOW,
    SETTINGS,
    build_snapshot,
    get_code,
    get_status,
    list_keys,
    step,
)

S = FrameworkState
NAME = "gang-attempt"
GONE = {(ObjectKind.CONFIGMAP, NAME): ""}
FANCY = build_spec(retry_policy=RetryPolicySpec(fancy_retry_policy=True))
ONE_RETRY = build_spec(retry_policy=RetryPolicySpec(max_retry_count=1))


def end(code: int = -300, delay: int | None = None) -> FrameworkStatus:
    """A Framework whose attempt is over and persisted."""
    task = end_task(build_task(TaskState.COMPLETED, completion_time=at(50)))
    status = build_status(
        build_role_status(tasks=(task,)),
        state=S.ATTEMPT_COMPLETED,
        transition_time=at(50),
        retry_policy_status=RetryPolicyStatus(0, 0, delay),
        observed_generation=1,
    )
    return end_attempt(status, code, completion_time=at(50))


def decide_end(
    spec: FrameworkSpec | None, status: FrameworkStatus, settings: Settings = SETTINGS, **kw: Any
) -> Decision:
    """Decide when the ConfigMap is not cached."""
    return step(build_snapshot(spec, status, configmap=None, **kw), settings)


def test_end_without_a_retry_is_one_write() -> None:
    decided = get_status(decide_end(None, build_status(state=S.ATTEMPT_DELETING), live=GONE))
    assert decided.state is S.COMPLETED
    assert decided.completion_time == decided.attempt_status.completion_time == NOW


def test_end_is_persisted_before_its_retry() -> None:
    decision = decide_end(ONE_RETRY, build_status(state=S.ATTEMPT_DELETING), live=GONE)
    assert get_status(decision).state is S.ATTEMPT_COMPLETED
    assert decision.urgency is Urgency.AGAIN
    assert not decision.actions


def test_retry_rebuilds_everything_from_the_current_spec() -> None:
    spec = build_spec(build_role("new", 2), retry_policy=ONE_RETRY.retry_policy)
    decision = decide_end(spec, end(), live=GONE)
    status = get_status(decision)
    assert status.state is S.ATTEMPT_CREATION_PENDING
    assert status.retry_policy_status == RetryPolicyStatus(1, 1, None)
    assert (status.attempt_status.id, status.attempt_status.configmap_uid) == (1, None)
    assert [role.name for role in status.attempt_status.task_roles] == ["new"]
    assert [s.trigger for s in decision.snapshots] == [SnapshotTrigger.FRAMEWORK_RETRY]
    assert list_keys(decision.actions) == [("create", NAME)]


def test_transient_conflict_waits_for_a_drawn_delay() -> None:
    decision = decide_end(FANCY, end(201))
    delay = get_status(decision).retry_policy_status.retry_delay_seconds
    assert delay is not None
    assert 60 <= delay <= 900
    assert decision.wake_at == at(50 + delay)
    again = decide_end(FANCY, get_status(decision))
    assert (again.status, again.wake_at) == (None, decision.wake_at)


@cases(
    "spec status now expected",
    transient_at_once_and_not_counted=(FANCY, end(200), NOW, RetryPolicyStatus(1, 0, None)),
    without_a_delay_though_the_clock_was_set_back=(FANCY, end(200), at(-3600), None),
    scheduled_and_its_time_has_come=(FANCY, end(201, 50), NOW, None),
    scheduled_though_the_policy_was_changed_since=(None, end(201, 10), NOW, None),
)
def test_retry_is_executed(
    spec: FrameworkSpec | None, status: FrameworkStatus, now: Any, expected: Any
) -> None:
    decided = get_status(decide_end(spec, status, now=now))
    assert decided.attempt_status.id == 1
    assert expected in (None, decided.retry_policy_status)


def test_scheduled_retry_waits_for_its_time() -> None:
    waiting = decide_end(FANCY, end(201, 51))
    assert (waiting.status, waiting.wake_at) == (None, at(101))


def test_stop_executes_a_scheduled_retry_at_once_and_ends_that_attempt() -> None:
    spec = replace(FANCY, execution_type=ExecutionType.STOP)
    first = decide_end(spec, end(201, 600))
    assert get_status(first).attempt_status.id == 1
    assert list_keys(first.actions) == [("get", NAME)]
    status = get_status(decide_end(spec, get_status(first), live=GONE))
    assert (status.state, get_code(status)) == (S.COMPLETED, -210)
    assert status.attempt_status.id == 1


def test_completed_attempt_without_a_retry_completes() -> None:
    assert get_status(decide_end(None, end())).state is S.COMPLETED


def test_retry_of_a_deleted_framework_creates_nothing() -> None:
    decision = decide_end(ONE_RETRY, end(), metadata={"deletion_time": at(60)})
    assert get_status(decision).state is S.ATTEMPT_CREATION_PENDING
    assert not decision.actions


@pytest.mark.parametrize(("seconds", "expected"), [(0, None), (5, 5)])
def test_delay_of_zero_is_never_persisted(seconds: int, expected: int | None) -> None:
    completion = replace(complete_framework(-100, "x"), code=201)
    conflict = replace(completion.type, attributes=("Transient", "Conflict"))
    status = build_status(state=S.ATTEMPT_DELETING)
    status = end_attempt(status, replace(completion, type=conflict))
    settings = Settings(min_conflict_delay_seconds=seconds, max_conflict_delay_seconds=seconds)
    decided = get_status(decide_end(FANCY, status, settings, live=GONE))
    assert decided.state is S.ATTEMPT_COMPLETED
    assert decided.retry_policy_status.retry_delay_seconds == expected


@cases("retries expected", last=(0, Propagation.BACKGROUND), retried=(1, None))
def test_configmap_of_an_empty_last_attempt_is_deleted_in_the_background(
    retries: int, expected: Propagation | None
) -> None:
    role = build_role_status(tasks=(build_task(TaskState.COMPLETED),))
    status = build_status(role, state=S.ATTEMPT_DELETION_PENDING)
    policy = RetryPolicySpec(fancy_retry_policy=False, max_retry_count=retries)
    spec = build_spec(retry_policy=policy)
    decision = step(build_snapshot(spec, end_attempt(status, CONTAINER_TRANSIENT_FAILED)))
    (action,) = [item for item in decision.actions if isinstance(item, DeleteObject)]
    assert action.propagation is expected


COMPLETED = replace(end(), state=S.COMPLETED, completion_time=at(50))


def test_completed_framework_is_deleted_in_the_foreground_after_its_time() -> None:
    decision = decide_end(None, COMPLETED, Settings(completed_retain_seconds=50))
    (action,) = decision.actions
    assert isinstance(action, DeleteObject)
    assert (action.kind, action.propagation) == (ObjectKind.FRAMEWORK, Propagation.FOREGROUND)
    assert action.uid == FRAMEWORK_UID
    assert [s.trigger for s in decision.snapshots] == [SnapshotTrigger.FRAMEWORK_DELETION]
    assert decision.status is None


@cases(
    "retain_seconds metadata wake_at",
    until_then=(51, {}, at(101)),
    without_a_limit=(None, {}, None),
    deleted_already=(0, {"deletion_time": at(60)}, None),
)
def test_completed_framework_is_kept(
    retain_seconds: int | None, metadata: dict[str, Any], wake_at: Any
) -> None:
    settings = Settings(completed_retain_seconds=retain_seconds)
    decision = decide_end(None, COMPLETED, settings, metadata=metadata)
    assert (decision.status, decision.actions, decision.wake_at) == (None, (), wake_at)


def test_completed_framework_is_not_changed_by_its_spec() -> None:
    template = TaskSpec(pod_graceful_deletion_timeout_seconds=5)
    spec = build_spec(build_role(number=7, task=template), build_role("more"))
    assert decide_end(spec, COMPLETED, metadata={"generation": 1}).status is None
