"""The end of a Framework's attempt: what is retried, what completes, what is kept and how long."""

from dataclasses import replace
from typing import Any

import pytest

from controller.core.actions import DeleteObject, ObjectKind, Propagation, Urgency
from controller.core.decide import decide
from controller.core.decision import SnapshotTrigger
from controller.core.settings import Settings
from framework.api.completion import CONTAINER_TRANSIENT_FAILED, complete_framework
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    ExecutionType,
    FrameworkStatus,
    RetryPolicySpec,
    RetryPolicyStatus,
    TaskSpec,
)
from tests.support.builders import (
    at,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_task,
    end_attempt,
    end_task,
)
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


def ended(code: int = -300, delay: int | None = None) -> FrameworkStatus:
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


# --- the attempt's end ---------------------------------------------------------------------------


def test_end_without_a_retry_is_one_write() -> None:
    decided = get_status(
        step(
            build_snapshot(status=build_status(state=S.ATTEMPT_DELETING), configmap=None, live=GONE)
        )
    )
    assert decided.state is S.COMPLETED
    assert decided.completion_time == decided.attempt_status.completion_time == NOW


def test_end_is_persisted_before_its_retry() -> None:
    spec = build_spec(retry_policy=RetryPolicySpec(max_retry_count=1))
    snapshot = build_snapshot(
        spec, build_status(state=S.ATTEMPT_DELETING), configmap=None, live=GONE
    )
    decision = step(snapshot)
    assert get_status(decision).state is S.ATTEMPT_COMPLETED
    assert decision.urgency is Urgency.AGAIN
    assert not decision.actions


def test_retry_rebuilds_everything_from_the_current_spec() -> None:
    spec = build_spec(
        build_role("new", 2),
        retry_policy=RetryPolicySpec(max_retry_count=1),
    )
    decision = step(build_snapshot(spec, ended(), configmap=None, live=GONE))
    status = get_status(decision)
    assert status.state is S.ATTEMPT_CREATION_PENDING
    assert status.retry_policy_status == RetryPolicyStatus(1, 1, None)
    assert status.attempt_status.id == 1
    assert [role.name for role in status.attempt_status.task_roles] == ["new"]
    assert status.attempt_status.configmap_uid is None
    assert [s.trigger for s in decision.snapshots] == [SnapshotTrigger.FRAMEWORK_RETRY]
    assert list_keys(decision.actions) == [("create", NAME)]


def test_transient_conflict_waits_for_a_drawn_delay() -> None:
    spec = build_spec(retry_policy=RetryPolicySpec(fancy_retry_policy=True))
    decision = step(build_snapshot(spec, ended(201), configmap=None))
    delay = get_status(decision).retry_policy_status.retry_delay_seconds
    assert delay is not None
    assert 60 <= delay <= 900
    assert decision.wake_at == at(50 + delay)
    again = step(build_snapshot(spec, get_status(decision), configmap=None))
    assert again.status is None
    assert again.wake_at == decision.wake_at


def test_transient_failure_is_retried_at_once_and_not_counted() -> None:
    spec = build_spec(retry_policy=RetryPolicySpec(fancy_retry_policy=True))
    status = get_status(step(build_snapshot(spec, ended(200), configmap=None)))
    assert status.retry_policy_status == RetryPolicyStatus(1, 0, None)


def test_retry_without_a_delay_waits_for_no_clock_that_was_set_back() -> None:
    spec = build_spec(retry_policy=RetryPolicySpec(fancy_retry_policy=True))
    before = build_snapshot(spec, ended(200), configmap=None, now=at(-3600))
    assert get_status(step(before)).attempt_status.id == 1


def test_scheduled_retry_runs_when_its_time_has_come() -> None:
    spec = build_spec(retry_policy=RetryPolicySpec(fancy_retry_policy=True))
    waiting = step(build_snapshot(spec, ended(201, 51), configmap=None))
    assert (waiting.status, waiting.wake_at) == (None, at(101))
    status = get_status(step(build_snapshot(spec, ended(201, 50), configmap=None)))
    assert status.attempt_status.id == 1


def test_stop_makes_a_scheduled_retry_run_at_once_and_ends_the_next_attempt() -> None:
    spec = build_spec(
        execution_type=ExecutionType.STOP, retry_policy=RetryPolicySpec(fancy_retry_policy=True)
    )
    first = step(build_snapshot(spec, ended(201, 600), configmap=None))
    assert get_status(first).attempt_status.id == 1
    assert list_keys(first.actions) == [("get", NAME)]
    status = get_status(step(build_snapshot(spec, get_status(first), configmap=None, live=GONE)))
    assert (status.state, get_code(status)) == (S.COMPLETED, -210)
    assert status.attempt_status.id == 1


def test_scheduled_retry_is_executed_though_the_policy_has_changed_its_mind() -> None:
    assert get_status(step(build_snapshot(status=ended(201, 10), configmap=None))).attempt_status.id


def test_completed_attempt_without_a_retry_completes() -> None:
    assert get_status(step(build_snapshot(status=ended(), configmap=None))).state is S.COMPLETED


def test_deletion_of_the_framework_lets_a_retry_rest() -> None:
    spec = build_spec(retry_policy=RetryPolicySpec(max_retry_count=1))
    snapshot = build_snapshot(spec, ended(), configmap=None, metadata={"deletion_time": at(60)})
    decision = step(snapshot)
    assert get_status(decision).state is S.ATTEMPT_CREATION_PENDING
    assert not decision.actions


# --- retention -----------------------------------------------------------------------------------


def completed() -> FrameworkStatus:
    return replace(ended(), state=S.COMPLETED, completion_time=at(50))


def test_completed_framework_is_deleted_in_the_foreground_after_its_time() -> None:
    settings = Settings(completed_retain_seconds=50)
    decision = step(build_snapshot(status=completed(), configmap=None), settings)
    action = decision.actions[0]
    assert isinstance(action, DeleteObject)
    assert (action.kind, action.propagation) == (ObjectKind.FRAMEWORK, Propagation.FOREGROUND)
    assert action.uid == "f0000000-0000-4000-8000-000000000000"
    assert [s.trigger for s in decision.snapshots] == [SnapshotTrigger.FRAMEWORK_DELETION]
    assert decision.status is None


def test_completed_framework_is_kept_until_then() -> None:
    settings = Settings(completed_retain_seconds=51)
    decision = step(build_snapshot(status=completed(), configmap=None), settings)
    assert (decision.actions, decision.wake_at) == ((), at(101))


@pytest.mark.parametrize(
    ("settings", "metadata"),
    [
        pytest.param(Settings(completed_retain_seconds=None), {}, id="kept_for_ever"),
        pytest.param(
            Settings(completed_retain_seconds=0), {"deletion_time": at(60)}, id="deleted_already"
        ),
    ],
)
def test_completed_framework_rests(settings: Settings, metadata: dict[str, Any]) -> None:
    snapshot = build_snapshot(status=completed(), configmap=None, metadata=metadata)
    decision = step(snapshot, settings)
    assert (decision.status, decision.actions, decision.wake_at) == (None, (), None)


def test_completed_framework_is_not_changed_by_its_spec() -> None:
    template = TaskSpec(pod_graceful_deletion_timeout_seconds=5)
    spec = build_spec(build_role(number=7, task=template), build_role("more"))
    decision = step(build_snapshot(spec, completed(), configmap=None, metadata={"generation": 1}))
    assert decision.status is None


def test_delay_of_nothing_is_never_persisted() -> None:
    completion = replace(complete_framework(-100, "x"), code=201)
    conflict = replace(completion.type, attributes=("Transient", "Conflict"))
    completion = replace(completion, type=conflict)
    status = end_attempt(build_status(state=S.ATTEMPT_DELETING), completion)
    gone = {(ObjectKind.CONFIGMAP, "gang-attempt"): ""}
    spec = build_spec(retry_policy=RetryPolicySpec(fancy_retry_policy=True))
    for low, expected in ((0, None), (5, 5)):
        settings = Settings(min_conflict_delay_seconds=low, max_conflict_delay_seconds=low)
        written = get_status(
            decide(build_snapshot(spec, status, configmap=None, live=gone), settings)
        )
        assert written.state is S.ATTEMPT_COMPLETED
        assert written.retry_policy_status.retry_delay_seconds == expected


@pytest.mark.parametrize(
    ("retries", "expected"),
    [pytest.param(0, Propagation.BACKGROUND, id="last"), pytest.param(1, None, id="retried")],
)
def test_configmap_of_an_empty_attempt_goes_at_once_only_when_no_attempt_follows(
    retries: int, expected: Propagation | None
) -> None:
    role = build_role_status(tasks=(build_task(TaskState.COMPLETED),))
    status = build_status(role, state=S.ATTEMPT_DELETION_PENDING)
    status = end_attempt(status, CONTAINER_TRANSIENT_FAILED)
    policy = RetryPolicySpec(fancy_retry_policy=False, max_retry_count=retries)
    decision = decide(build_snapshot(build_spec(retry_policy=policy), status), SETTINGS)

    (action,) = [item for item in decision.actions if isinstance(item, DeleteObject)]
    assert action.propagation is expected
