"""Deadline and TTL of a gang, from decision to decision."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controller.core.actions import DeleteObject, ObjectKind, Propagation, Urgency
from framework.api.types import (
    ExecutionType,
    RetryPolicySpec,
)
from tests.controller.core.machines.lifetimes import Gang, S, fail_fast, start, start_conflict
from tests.support.builders import build_role

# --- the deadline ---------------------------------------------------------------------------------


def test_gang_that_is_active_for_too_long_fails_without_a_retry() -> None:
    gang = start(active_deadline_seconds=60, retry_policy=RetryPolicySpec(fancy_retry_policy=True))
    gang.advance(59)
    assert gang.describe() == (S.ATTEMPT_RUNNING, 0, None)
    assert gang.decide().wake_at == gang.status.start_time + timedelta(seconds=60)
    gang.advance(1)
    assert gang.describe() == (S.COMPLETED, 0, -240)
    assert gang.count_objects() == 0
    failed = next(c for c in gang.status.conditions or () if c.type == "Failed")
    assert (failed.status, failed.reason) == ("True", "DeadlineExceeded")
    assert failed.message == "it was active for longer than its activeDeadlineSeconds"
    assert "DeadlineExceeded" in gang.events


def test_deadline_includes_retries_and_ends_their_delay() -> None:
    gang = start_conflict()
    gang.change(active_deadline_seconds=10)
    gang.advance(9)
    assert gang.describe() == (S.ATTEMPT_COMPLETED, 0, 201)
    gang.advance(1)
    assert gang.describe() == (S.COMPLETED, 1, -240)
    assert gang.events[-2:] == ["DeadlineExceeded", "Completed"]
    assert gang.count_objects() == 0


def test_deadline_does_not_count_the_time_before_the_start_and_while_suspended() -> None:
    gang = Gang(active_deadline_seconds=60, execution_type=ExecutionType.CREATE)
    gang.advance(1000)
    gang.change(execution_type=ExecutionType.START)
    gang.rest()
    gang.advance(50)
    gang.suspend()
    gang.advance(1000)
    assert gang.describe() == (S.ATTEMPT_COMPLETED, 0, -250)
    gang.resume()
    # As for a Job, the time begins anew.
    gang.advance(50)
    assert gang.describe() == (S.ATTEMPT_RUNNING, 1, None)
    gang.advance(10)
    assert gang.describe() == (S.COMPLETED, 1, -240)


@pytest.mark.parametrize("attempt", [0, 1])
def test_deadline_that_is_added_later_counts_from_the_start_and_not_from_the_creation(
    attempt: int,
) -> None:
    policy = RetryPolicySpec(max_retry_count=1)
    gang = Gang(1, execution_type=ExecutionType.CREATE, retry_policy=policy)
    gang.change(task_roles=(build_role(number=1, completion_policy=fail_fast()),))
    gang.advance(1000)
    gang.change(execution_type=ExecutionType.START)
    gang.rest()
    gang.advance(20)
    for _ in range(attempt):
        gang.end_pod("gang-worker-0", 7)
        gang.rest()
    gang.change(active_deadline_seconds=60)
    gang.advance(39)
    assert gang.describe() == (S.ATTEMPT_RUNNING, attempt, None)
    gang.advance(1)
    assert gang.describe() == (S.COMPLETED, attempt, -240)


def test_start_is_stored_before_the_configmap_is_created() -> None:
    gang = Gang(execution_type=ExecutionType.CREATE)
    gang.rest()
    gang.change(execution_type=ExecutionType.START)
    decision = gang.decide()
    assert decision.status is not None
    assert decision.status.active_start_time == gang.now.replace(microsecond=0)
    assert decision.urgency is Urgency.NOW


def test_deadline_of_a_framework_that_could_not_create_anything_counts_from_its_start() -> None:
    gang = Gang()
    gang.carry_out(replace(gang.decide(), actions=()))
    gang.now += timedelta(seconds=50)
    gang.change(active_deadline_seconds=60)
    gang.advance(10)
    assert gang.describe() == (S.COMPLETED, 0, -240)


def test_deadline_that_is_removed_or_moved_has_its_effect() -> None:
    gang = start(active_deadline_seconds=60)
    gang.change(active_deadline_seconds=None)
    gang.advance(100)
    assert gang.describe() == (S.ATTEMPT_RUNNING, 0, None)
    gang.change(active_deadline_seconds=200)
    gang.advance(99)
    assert gang.describe() == (S.ATTEMPT_RUNNING, 0, None)
    gang.advance(1)
    assert gang.describe() == (S.COMPLETED, 0, -240)


def test_deadline_of_zero_ends_before_anything_is_created() -> None:
    gang = Gang(active_deadline_seconds=0)
    gang.rest()
    assert gang.describe() == (S.COMPLETED, 0, -240)
    assert [verb for verb, _ in gang.made] == ["get"]


def test_gang_that_ends_in_time_is_not_touched_by_its_deadline() -> None:
    gang = start(1, active_deadline_seconds=60, ttl_seconds_after_finished=500)
    gang.end_pod("gang-worker-0", 0)
    gang.rest()
    gang.advance(100)
    assert gang.describe() == (S.COMPLETED, 0, 0)


# --- the TTL --------------------------------------------------------------------------------------


def _complete(**spec: Any) -> Gang:
    gang = start(1, **spec)
    gang.end_pod("gang-worker-0", 0)
    return gang


def test_completed_framework_is_deleted_after_its_ttl() -> None:
    gang = _complete(ttl_seconds_after_finished=10)
    gang.rest()
    gang.advance(9)
    assert not gang.is_gone
    assert gang.decide().wake_at == gang.status.transition_time + timedelta(seconds=10)
    gang.now += timedelta(seconds=1)
    decision = gang.decide()
    (delete,) = decision.actions
    meta = gang.framework.metadata
    assert isinstance(delete, DeleteObject)
    assert delete.propagation is Propagation.FOREGROUND
    assert (delete.uid, delete.resource_version) == (meta.uid, meta.resource_version)
    (event,) = decision.events
    assert event.reason == "Expired"
    assert "Completed for 10 s or more (spec.ttlSecondsAfterFinished)" in event.message


def test_ttl_of_zero_deletes_only_after_the_end_is_stored() -> None:
    gang = _complete(ttl_seconds_after_finished=0)
    while gang.framework.status is None or gang.status.state is not S.COMPLETED:
        decision = gang.decide()
        assert not any(action.key.kind is ObjectKind.FRAMEWORK for action in decision.actions)
        if decision.status is not None and decision.status.state is S.COMPLETED:
            assert decision.urgency is Urgency.AGAIN
        gang.carry_out(decision)
        for name in [n for n, pod in gang.pods.items() if pod.is_terminating]:
            gang.remove_pod(name)
        gang.collect_garbage()
    assert not gang.is_gone
    gang.carry_out(gang.decide())
    assert gang.is_gone


def test_ttl_that_is_changed_after_the_end_applies() -> None:
    gang = _complete(ttl_seconds_after_finished=10)
    gang.rest()
    gang.change(ttl_seconds_after_finished=100)
    gang.advance(50)
    assert not gang.is_gone
    gang.change(ttl_seconds_after_finished=20)
    gang.rest()
    assert gang.is_gone


def test_framework_that_is_suspended_or_runs_has_no_ttl() -> None:
    gang = start(ttl_seconds_after_finished=0)
    gang.advance(1000)
    gang.suspend()
    gang.advance(1000)
    assert not gang.is_gone


def test_deadline_and_ttl_of_zero_leave_nothing() -> None:
    gang = start(active_deadline_seconds=30, ttl_seconds_after_finished=0)
    gang.advance(30)
    assert gang.is_gone
    assert gang.count_objects() == 0
