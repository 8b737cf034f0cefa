"""completedPodPolicy Retain: ended Pods stay, and what must go still goes."""

from datetime import timedelta
from typing import Any

import pytest

from framework.api import constants
from framework.api.pods import PodPhase
from framework.api.roster import PHASE_COMPLETING
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    CompletedPodPolicy,
    CompletionPolicySpec,
    ExecutionType,
    FrameworkSpec,
    RetryPolicySpec,
    TaskSpec,
)
from tests.support.builders import build_role, build_spec, build_template_wire
from tests.support.worlds import World, get_task

RETAIN = CompletedPodPolicy.RETAIN
S = FrameworkState


def spec(number: int = 2, **fields: Any) -> FrameworkSpec:
    template = TaskSpec(
        fields.pop("retry", RetryPolicySpec()),
        pod=fields.pop("pod", build_template_wire()),
    )
    policy = fields.pop("policy", CompletionPolicySpec())
    role = build_role(number=number, task=template, completion_policy=policy)
    return build_spec(role, completed_pod_policy=RETAIN, **fields)


def running(wish: FrameworkSpec) -> World:
    world = World(wish)
    world.settle()
    for number, name in enumerate(sorted(world.pods)):
        world.run_pod(name, number)
    world.settle()
    return world


def state_of(world: World) -> FrameworkState:
    return world.status.state


def names(world: World) -> list[str]:
    return sorted(world.pods)


def test_pod_that_ends_stays_and_its_task_is_completed_in_one_write() -> None:
    world = running(spec())
    world.end_pod("gang-worker-0")
    world.carry_out(world.decide())
    assert get_task(world.status, 0).state is TaskState.COMPLETED
    assert not world.pods["gang-worker-0"].is_terminating
    assert world.settle() <= 2


def test_pod_of_a_task_that_is_retried_goes_as_usual() -> None:
    world = running(spec(retry=RetryPolicySpec(max_retry_count=1)))
    world.end_pod("gang-worker-0", 9)
    world.settle()
    assert get_task(world.status, 0).state is TaskState.ATTEMPT_DELETING
    assert world.pods["gang-worker-0"].is_terminating


def test_all_pods_of_a_gang_that_succeeds_stay_with_their_configmap() -> None:
    world = running(spec())
    for name in names(world):
        world.end_pod(name)
    world.settle()
    assert state_of(world) is S.COMPLETED
    assert names(world) == ["gang-worker-0", "gang-worker-1"]
    assert world.configmap is not None
    assert not world.configmap.is_terminating
    for name in names(world):
        world.remove_pod(name)
    assert world.settle() == 0


def test_live_pods_of_the_last_attempt_are_deleted_and_waited_for() -> None:
    world = running(spec(policy=CompletionPolicySpec(min_failed_task_count=1)))
    world.end_pod("gang-worker-0", 9)
    world.settle()
    assert state_of(world) is S.ATTEMPT_DELETION_PENDING
    assert world.pods["gang-worker-1"].is_terminating
    world.remove_pod("gang-worker-1")
    world.settle()
    assert state_of(world) is S.COMPLETED
    assert names(world) == ["gang-worker-0"]
    completion = get_task(world.status, 1).attempt_status.completion_status
    assert completion is not None
    assert completion.code == -220


def test_pod_with_a_wrapper_gets_its_grace_period_and_is_told() -> None:
    pod = build_template_wire(terminationGracePeriodSeconds=20)
    pod["metadata"] = {"annotations": {constants.WRAPPER_ANNOTATION: "1"}}
    world = running(spec(pod=pod, policy=CompletionPolicySpec(min_failed_task_count=1)))
    world.end_pod("gang-worker-0", 9)
    world.now += timedelta(seconds=1)
    world.settle()
    assert not world.pods["gang-worker-1"].is_terminating
    assert world.published.roster is not None
    assert world.published.roster.phase == PHASE_COMPLETING
    wake_at = world.decide().wake_at
    assert wake_at is not None
    world.now = wake_at
    world.settle()
    world.now += timedelta(seconds=20)
    world.settle()
    assert world.pods["gang-worker-1"].is_terminating


def test_attempt_that_is_retried_goes_with_its_configmap() -> None:
    world = running(
        spec(
            policy=CompletionPolicySpec(min_failed_task_count=1),
            retry_policy=RetryPolicySpec(max_retry_count=1),
        )
    )
    world.end_pod("gang-worker-0", 9)
    world.settle()
    assert world.configmap is not None
    assert world.configmap.is_terminating


def test_retained_pod_of_a_task_scaled_away_later_is_deleted_before_its_entry_goes() -> None:
    world = running(spec())
    world.end_pod("gang-worker-1")
    world.settle()
    world.edit(spec(1))
    world.settle()
    assert len(world.status.attempt_status.task_roles[0].tasks) == 2
    assert world.pods["gang-worker-1"].is_terminating
    world.remove_pod("gang-worker-1")
    world.settle()
    assert len(world.status.attempt_status.task_roles[0].tasks) == 1


@pytest.mark.parametrize("known", [True, False])
def test_live_pod_that_vanished_is_looked_up_before_the_attempt_ends(*, known: bool) -> None:
    world = running(spec())
    world.edit(spec(execution_type=ExecutionType.STOP))
    world.settle()
    for name in names(world):
        world.remove_pod(name)
    if not known:
        world.live.clear()
    world.settle()
    assert state_of(world) is S.COMPLETED


def test_ended_pods_stay_whatever_the_phase() -> None:
    world = running(spec())
    world.end_pod("gang-worker-0", 9)
    world.settle()
    assert world.pods["gang-worker-0"].phase is PodPhase.FAILED
    assert not world.pods["gang-worker-0"].is_terminating


def created(wish: FrameworkSpec) -> World:
    """A World whose Pods were just created, and are not recorded yet."""
    world = World(wish)
    while not world.pods:
        world.carry_out(world.decide())
    assert get_task(world.status).attempt_status.pod_uid is None
    return world


def test_pod_that_was_not_recorded_before_the_attempt_ended_does_not_outlive_it() -> None:
    world = created(spec())
    world.run_pod("gang-worker-0")
    world.edit(spec(execution_type=ExecutionType.STOP))
    world.settle()
    # Nobody claims it, and with Retain no ConfigMap takes it along.
    assert world.pods["gang-worker-0"].is_terminating
    assert state_of(world) is S.ATTEMPT_DELETION_PENDING
    world.remove_pod("gang-worker-0")
    world.settle()
    assert state_of(world) is S.COMPLETED
    assert names(world) == []


def test_pod_that_was_created_late_does_not_outlive_a_completed_attempt() -> None:
    world = created(spec())
    late = world.pods["gang-worker-0"]
    world.edit(spec(execution_type=ExecutionType.STOP))
    for name in names(world):
        world.remove_pod(name)
    world.settle()
    assert state_of(world) is S.COMPLETED
    # The answer to its create was lost, and the server had not done it yet.
    world.pods[late.name] = late
    world.settle()
    assert names(world) == []


def test_pod_that_nobody_has_seen_is_looked_up_before_the_attempt_ends() -> None:
    world = created(spec(1))
    # A controller that has just started; of this Pod somebody has removed our label.
    hidden = world.pods.pop("gang-worker-0")
    world.live.clear()
    world.edit(spec(1, execution_type=ExecutionType.STOP))
    world.carry_out(world.decide())
    while ("get", hidden.name) not in world.made:
        assert state_of(world) is S.ATTEMPT_DELETION_PENDING
        world.carry_out(world.decide())
    world.pods[hidden.name] = hidden
    world.settle()
    assert state_of(world) is S.COMPLETED
    assert names(world) == []
