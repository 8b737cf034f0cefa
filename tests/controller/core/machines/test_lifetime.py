"""Suspend, resume, deadline and TTL of a gang, from decision to decision."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controller.core.actions import DeleteObject, ObjectKind, Propagation, Urgency
from controller.core.decision import Decision
from controller.core.settings import Settings
from framework.api.completion import TRANSIENT
from framework.api.states import FrameworkState
from framework.api.types import (
    CompletedPodPolicy,
    Condition,
    DrainSpec,
    ExecutionType,
    RetryPolicySpec,
    RetryPolicyStatus,
)
from tests.support.builders import build_role, build_spec
from tests.support.builders.cases import cases
from tests.support.builders.worlds import World, get_code

S = FrameworkState
SETTINGS = Settings(
    min_conflict_delay_seconds=20, max_conflict_delay_seconds=20, completed_retain_seconds=500
)
STOP = ExecutionType.STOP


class Gang(World):
    """A Framework whose Pods run at once, and whose terminating Pods end at once."""

    def __init__(self, number: int = 2, **spec: Any) -> None:
        super().__init__(build_spec(build_role(number=number), **spec), SETTINGS)
        self.events: list[str] = []

    def carry_out(self, decision: Decision) -> None:
        super().carry_out(decision)
        self.events += [event.reason for event in decision.events]

    def change(self, **spec: Any) -> None:
        self.edit(replace(self.framework.spec, **spec))

    def rest(self) -> None:
        """Let controller, kubelets and garbage collector work until nothing changes."""
        for _ in range(8):
            if self.is_gone:
                return
            self.settle()
            for name in sorted(self.pods):
                if self.pods[name].is_terminating:
                    self.remove_pod(name)
                elif not self.pods[name].is_ended:
                    self.run_pod(name)
            self.collect_garbage()

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.rest()

    def suspend(self) -> None:
        self.change(suspend=True)
        self.rest()

    def resume(self) -> None:
        self.change(suspend=False)
        self.rest()

    @property
    def suspended(self) -> Condition | None:
        return next((c for c in self.status.conditions or () if c.type == "Suspended"), None)

    def is_suspended(self) -> bool:
        assert self.suspended is not None
        return self.suspended.status == "True"

    def count_objects(self) -> int:
        return len(self.pods) + (self.configmap is not None)

    def describe(self) -> tuple[FrameworkState, int, int | None]:
        return self.status.state, self.status.attempt_status.id, get_code(self.status)


def start(number: int = 2, **spec: Any) -> Gang:
    gang = Gang(number, **spec)
    gang.rest()
    return gang


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
    gang.change(task_roles=(build_role(number=1, completion_policy=_fail_fast()),))
    gang.suspend()
    gang.resume()
    for attempt, state in ((2, S.ATTEMPT_RUNNING), (2, S.COMPLETED)):
        gang.end_pod("gang-worker-0", 7)
        gang.rest()
        assert gang.describe()[:2] == (state, attempt)
    assert gang.status.retry_policy_status.accountable_retried_count == 1


def _fail_fast() -> Any:
    return replace(build_role().completion_policy, min_failed_task_count=1)


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


def _start_conflict() -> Gang:
    """A gang that waits 20 s for its retry after a transient conflict."""
    gang = start(1, retry_policy=RetryPolicySpec(fancy_retry_policy=True))
    gang.change(task_roles=(build_role(number=1, completion_policy=_fail_fast()),))
    gang.rest()
    gang.end_pod("gang-worker-0", 201)
    gang.rest()
    assert gang.status.retry_policy_status.retry_delay_seconds == 20
    return gang


def test_delayed_retry_waits_for_the_resumption_too() -> None:
    gang = _start_conflict()
    gang.suspend()
    assert gang.is_suspended()
    gang.advance(60)
    assert gang.describe() == (S.ATTEMPT_COMPLETED, 0, 201)
    gang.resume()
    assert gang.describe() == (S.ATTEMPT_RUNNING, 1, None)


def test_resumption_does_not_shorten_the_delay_of_a_retry() -> None:
    gang = _start_conflict()
    gang.suspend()
    gang.advance(5)
    gang.resume()
    assert gang.describe() == (S.ATTEMPT_COMPLETED, 0, 201)
    assert gang.decide().wake_at == gang.status.transition_time + timedelta(seconds=20)
    gang.advance(15)
    assert gang.describe() == (S.ATTEMPT_RUNNING, 1, None)


def test_suspended_retry_is_not_reported_as_blocked_by_its_pause() -> None:
    gang = start(1, retry_policy=RetryPolicySpec(max_retry_count=-1))
    gang.change(task_roles=(build_role(number=1, completion_policy=_fail_fast()),))
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


# --- the deadline ---------------------------------------------------------------------------------


def test_gang_that_is_active_for_too_long_fails_for_ever() -> None:
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
    gang = _start_conflict()
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
    gang.change(task_roles=(build_role(number=1, completion_policy=_fail_fast()),))
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


def test_type_of_a_suspended_attempt_is_transient() -> None:
    gang = start()
    gang.suspend()
    completion = gang.status.attempt_status.completion_status
    assert completion is not None
    assert completion.type.attributes == (TRANSIENT,)
    assert completion.diagnostics == "User has requested to suspend the Framework"
