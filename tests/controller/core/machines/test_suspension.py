"""Suspend and resume a gang, from decision to decision."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controller.core.actions import DeleteObject, ObjectKind, Urgency
from framework.api.completion import TRANSIENT
from framework.api.types import (
    CompletedPodPolicy,
    DrainSpec,
    RetryPolicySpec,
    RetryPolicyStatus,
)
from tests.controller.core.machines.lifetimes import STOP, Gang, S, fail_fast, start, start_conflict
from tests.support.builders import build_role
from tests.support.builders.cases import cases
from tests.support.builders.worlds import get_code


def test_suspended_gang_ends_its_pods_and_waits_and_is_started_again() -> None:
    gang = start()
    assert gang.describe() == (S.ATTEMPT_RUNNING, 0, None)
    gang.suspend()
    assert gang.describe() == (S.ATTEMPT_COMPLETED, 0, -250)
    assert gang.count_objects() == 0
    assert gang.is_suspended()
    gang.advance(100_000)
    assert gang.describe() == (S.ATTEMPT_COMPLETED, 0, -250)
    gang.resume()
    assert gang.describe() == (S.ATTEMPT_RUNNING, 1, None)
    assert len(gang.pods) == 2
    assert not gang.is_suspended()
    lifetime = [e for e in gang.events if e in {"Suspending", "Suspended", "Resumed"}]
    assert lifetime == ["Suspending", "Suspended", "Resumed"]


@pytest.mark.parametrize("policy", [(False, 0), (False, 1), (True, 0), (False, -1)])
def test_no_suspension_counts_whatever_the_retry_policy(policy: tuple[bool, int]) -> None:
    gang = start(retry_policy=RetryPolicySpec(*policy))
    for count in range(1, 8):
        gang.suspend()
        gang.resume()
        retries = gang.status.retry_policy_status
        assert retries == RetryPolicyStatus(count, 0)
        assert gang.describe() == (S.ATTEMPT_RUNNING, count, None)
        tasks = [task for _, task in gang.status.attempt_status.walk_tasks()]
        assert all(task.retry_policy_status == RetryPolicyStatus() for task in tasks)


def test_failure_after_a_resumption_still_has_its_retry() -> None:
    gang = start(1, retry_policy=RetryPolicySpec(max_retry_count=1))
    gang.change(task_roles=(build_role(number=1, completion_policy=fail_fast()),))
    gang.suspend()
    gang.resume()
    for attempt, state in ((2, S.ATTEMPT_RUNNING), (2, S.COMPLETED)):
        gang.end_pod("gang-worker-0", 7)
        gang.rest()
        assert gang.describe()[:2] == (state, attempt)
    assert gang.status.retry_policy_status.accountable_retried_count == 1


def test_framework_that_is_suspended_from_the_start_creates_nothing() -> None:
    gang = Gang(suspend=True)
    gang.advance(100_000)
    assert gang.made == []
    assert gang.describe() == (S.ATTEMPT_CREATION_PENDING, 0, None)
    assert gang.is_suspended()
    gang.resume()
    assert gang.describe() == (S.ATTEMPT_RUNNING, 0, None)
    assert gang.status.retry_policy_status == RetryPolicyStatus()


def test_framework_without_the_fields_has_neither_condition_nor_time() -> None:
    gang = start()
    assert gang.suspended is None
    assert gang.status.active_start_time is None


def test_end_is_stored_before_the_configmap_is_deleted() -> None:
    gang = start()
    gang.change(suspend=True)
    decision = gang.decide()
    assert decision.status is not None
    assert get_code(decision.status) == -250
    (delete,) = decision.actions
    assert isinstance(delete, DeleteObject)
    assert (delete.kind, delete.urgency) == (ObjectKind.CONFIGMAP, Urgency.NOW)
    assert delete.propagation is None, "the finalizer makes it wait for the Pods"
    assert decision.urgency is Urgency.NOW
    conditions = {c.type: c.reason for c in decision.status.conditions or ()}
    assert conditions["Suspended"] == "Suspending"
    tasks = [task for _, task in decision.status.attempt_status.walk_tasks()]
    assert {get_code(task) for task in tasks} == {-220}


def test_suspension_is_complete_only_when_all_pods_are_gone() -> None:
    gang = start()
    gang.change(suspend=True)
    gang.settle()
    gang.collect_garbage()
    gang.settle()
    assert not gang.is_suspended()
    assert gang.describe() == (S.ATTEMPT_DELETING, 0, -250)
    gang.rest()
    assert gang.is_suspended()


def test_resumption_while_the_attempt_ends_waits_for_its_pods() -> None:
    gang = start()
    gang.change(suspend=True)
    gang.settle()
    gang.collect_garbage()
    gang.change(suspend=False)
    gang.settle()
    assert gang.describe() == (S.ATTEMPT_DELETING, 0, -250)
    gang.rest()
    assert gang.describe() == (S.ATTEMPT_RUNNING, 1, None)


def test_configmap_whose_create_was_answered_late_is_deleted_without_pods() -> None:
    gang = Gang()
    gang.carry_out(gang.decide())
    assert gang.configmap is not None
    gang.suspend()
    assert gang.count_objects() == 0
    assert ("create", "gang-worker-0") not in gang.made
    assert gang.describe() == (S.ATTEMPT_COMPLETED, 0, -250)


@cases("completion", success=0, failure=7)
def test_attempt_that_has_started_to_end_is_not_suspended(completion: int) -> None:
    gang = start(1)
    gang.end_pod("gang-worker-0", completion)
    gang.settle()
    gang.remove_pod("gang-worker-0")
    gang.settle()
    assert gang.status.state is S.ATTEMPT_DELETING
    gang.suspend()
    assert gang.describe() == (S.COMPLETED, 0, 0)
    assert gang.suspended is not None
    assert (gang.suspended.status, gang.suspended.reason) == ("False", "Completed")


def test_delayed_retry_waits_for_the_resumption_too() -> None:
    gang = start_conflict()
    gang.suspend()
    assert gang.is_suspended()
    gang.advance(60)
    assert gang.describe() == (S.ATTEMPT_COMPLETED, 0, 201)
    gang.resume()
    assert gang.describe() == (S.ATTEMPT_RUNNING, 1, None)


def test_resumption_does_not_shorten_the_delay_of_a_retry() -> None:
    gang = start_conflict()
    gang.suspend()
    gang.advance(5)
    gang.resume()
    assert gang.describe() == (S.ATTEMPT_COMPLETED, 0, 201)
    assert gang.decide().wake_at == gang.status.transition_time + timedelta(seconds=20)
    gang.advance(15)
    assert gang.describe() == (S.ATTEMPT_RUNNING, 1, None)


def test_suspended_retry_is_not_reported_as_blocked_by_its_pause() -> None:
    gang = start(1, retry_policy=RetryPolicySpec(max_retry_count=-1))
    gang.change(task_roles=(build_role(number=1, completion_policy=fail_fast()),))
    for _ in range(3):
        gang.rest()
        gang.end_pod("gang-worker-0", 7)
    gang.rest()
    blocked = next(c for c in gang.status.conditions or () if c.type == "Blocked")
    assert (blocked.status, blocked.reason) == ("True", "RetryBackoff")
    gang.suspend()
    blocked = next(c for c in gang.status.conditions or () if c.type == "Blocked")
    assert blocked.status == "False"


def test_stop_ends_a_suspended_framework() -> None:
    gang = start()
    gang.suspend()
    gang.change(execution_type=STOP)
    gang.rest()
    assert gang.describe() == (S.COMPLETED, 1, -210)
    assert gang.count_objects() == 0
    assert gang.suspended is not None
    assert gang.suspended.reason == "Stopped"
    assert "Resumed" not in gang.events


def test_stop_ends_a_framework_that_was_suspended_from_the_start() -> None:
    gang = Gang(suspend=True)
    gang.rest()
    gang.change(execution_type=STOP)
    gang.rest()
    assert gang.describe() == (S.COMPLETED, 0, -210)


def test_stop_in_the_same_edit_as_a_suspension_wins() -> None:
    gang = start()
    gang.change(execution_type=STOP, suspend=True)
    gang.rest()
    assert gang.describe() == (S.COMPLETED, 0, -210)


def test_next_attempt_has_the_scale_that_was_asked_for_meanwhile() -> None:
    gang = start(2)
    gang.suspend()
    gang.change(task_roles=(build_role(number=3),))
    gang.rest()
    assert gang.describe() == (S.ATTEMPT_COMPLETED, 0, -250)
    gang.resume()
    assert sorted(gang.pods) == [f"gang-worker-{index}" for index in range(3)]


def test_rescale_in_the_same_edit_as_a_suspension_is_no_obstacle() -> None:
    gang = start(3)
    gang.change(task_roles=(build_role(number=1),), suspend=True)
    gang.rest()
    assert gang.describe() == (S.ATTEMPT_COMPLETED, 0, -250)
    assert gang.count_objects() == 0
    gang.resume()
    assert sorted(gang.pods) == ["gang-worker-0"]


def test_drain_ends_when_the_gang_is_suspended() -> None:
    role = build_role(number=2, drain=DrainSpec(600))
    gang = Gang()
    gang.change(task_roles=(role,))
    gang.rest()
    gang.run_pod("gang-worker-0", 3)
    gang.change(task_roles=(replace(role, task_number=1),))
    gang.settle()
    task = gang.status.attempt_status.task_roles[0].tasks[1]
    assert task.drain_deadline_time is not None
    assert gang.published.roster is not None
    assert "gang-worker-1" in gang.pods
    gang.suspend()
    assert gang.describe() == (S.ATTEMPT_COMPLETED, 0, -250)
    assert gang.count_objects() == 0


def test_suspended_attempt_retains_no_pod() -> None:
    gang = start(2, completed_pod_policy=CompletedPodPolicy.RETAIN)
    gang.end_pod("gang-worker-0", 0)
    gang.rest()
    assert len(gang.pods) == 2
    gang.suspend()
    assert gang.count_objects() == 0
    gang.resume()
    assert len(gang.pods) == 2


def test_new_controller_goes_on_with_a_suspension() -> None:
    """A crash forgets all but what is stored."""
    gang = start()
    gang.change(suspend=True)
    for _ in range(12):
        gang.carry_out(gang.decide())
        gang.live.clear()
        gang.collect_garbage()
        for name in [n for n, pod in gang.pods.items() if pod.is_terminating]:
            gang.remove_pod(name)
    gang.rest()
    assert gang.describe() == (S.ATTEMPT_COMPLETED, 0, -250)
    gang.live.clear()
    gang.resume()
    assert gang.describe() == (S.ATTEMPT_RUNNING, 1, None)


def test_type_of_a_suspended_attempt_is_transient() -> None:
    gang = start()
    gang.suspend()
    completion = gang.status.attempt_status.completion_status
    assert completion is not None
    assert completion.type.attributes == (TRANSIENT,)
    assert completion.diagnostics == "User has requested to suspend the Framework"
