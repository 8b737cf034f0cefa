"""completedPodPolicy Retain: ended Pods stay, and what must go still goes."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.core.decide import decide
from controller.core.decision import Decision
from controller.core.policies.retention import has_live_wrapper
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
    TaskStatus,
)
from tests.support.builders import (
    at,
    build_pod,
    build_pods,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_task,
    build_template_wire,
    end_attempt,
    end_task,
)
from tests.support.builders.worlds import (
    SETTINGS,
    World,
    build_draft,
    build_snapshot,
    get_status,
    get_task,
)

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


@pytest.mark.parametrize(("code", "phase"), [(0, PodPhase.SUCCEEDED), (9, PodPhase.FAILED)])
def test_pod_that_ends_stays_and_its_task_is_completed_in_one_write(
    code: int, phase: PodPhase
) -> None:
    world = running(spec())
    world.end_pod("gang-worker-0", code)
    world.carry_out(world.decide())
    assert get_task(world.status, 0).state is TaskState.COMPLETED
    assert world.pods["gang-worker-0"].phase is phase
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
    # It is unclaimed, and with Retain its ConfigMap is not deleted.
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


def test_unseen_pod_is_read_live_before_the_attempt_ends() -> None:
    world = created(spec(1))
    # The controller has just started, and the Pod has lost the label of its Framework.
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


@pytest.mark.parametrize(
    ("phase", "deletion_time", "is_live"),
    [("Running", None, True), ("Succeeded", None, False), ("Running", at(1), False)],
)
def test_only_a_live_wrapper_waits_to_be_told(
    phase: str, deletion_time: Any, *, is_live: bool
) -> None:
    wrapped = {constants.WRAPPER_ANNOTATION: "1"}
    pod = replace(build_pod(phase=phase), deletion_time=deletion_time)
    assert not has_live_wrapper(build_draft(pods=[pod]))
    pod = replace(pod, annotations={**pod.annotations, **wrapped})
    assert has_live_wrapper(build_draft(pods=[pod])) is is_live


def end_retained(*tasks: TaskStatus, pods: Any = (), **fields: Any) -> Decision:
    """The last attempt of a Framework that keeps its Pods is at its end, and that is persisted."""
    status = build_status(build_role_status(tasks=tasks), state=S.ATTEMPT_DELETION_PENDING)
    status = end_attempt(status, -210)
    spec = build_spec(build_role(number=len(tasks)), completed_pod_policy=CompletedPodPolicy.RETAIN)
    return decide(build_snapshot(spec, status, pods=pods, **fields), SETTINGS)


def ended(state: TaskState, index: int = 0) -> TaskStatus:
    """A Task that ended with its attempt; while its Pod's creation is pending, it has none."""
    end = at(5) if state is TaskState.COMPLETED else None
    return end_task(build_task(state, index=index), -220, completion_time=end)


def test_retained_attempt_ends_with_a_task_that_never_had_a_pod() -> None:
    tasks = (ended(TaskState.COMPLETED), ended(TaskState.ATTEMPT_CREATION_PENDING, 1))
    name = "gang-worker-1"
    # Whether it never had one: as in every end before a Pod is known, a live GET tells.
    unsure = end_retained(*tasks, pods=build_pods("Succeeded"))
    assert [(a.key.verb, a.key.name) for a in unsure.actions] == [(Verb.GET, name)]
    live = {(ObjectKind.POD, name): ""}
    status = get_status(end_retained(*tasks, pods=build_pods("Succeeded"), live=live))
    assert status.state is S.COMPLETED
    assert {task.state for _, task in status.attempt_status.walk_tasks()} == {TaskState.COMPLETED}


def test_retained_attempt_waits_for_a_create_that_is_under_way() -> None:
    create = ActionKey(Verb.CREATE, ObjectKind.POD, "gang-worker-1", "task-worker-1/0")
    tasks = (ended(TaskState.COMPLETED), ended(TaskState.ATTEMPT_CREATION_PENDING, 1))
    decision = end_retained(*tasks, in_flight=frozenset({create}))
    assert (decision.status or build_status()).state is not S.COMPLETED


def test_retained_attempt_ends_though_a_pod_that_was_kept_is_gone() -> None:
    status = get_status(end_retained(ended(TaskState.COMPLETED)))
    assert status.state is S.COMPLETED


@pytest.mark.parametrize("is_gone", [True, False])
def test_retained_attempt_ends_only_when_a_pod_not_seen_is_known_to_be_gone(
    *, is_gone: bool
) -> None:
    live = {(ObjectKind.POD, "gang-worker-0"): ""} if is_gone else {}
    decision = end_retained(ended(TaskState.ATTEMPT_RUNNING), live=live)
    state = (decision.status or build_status(state=S.ATTEMPT_DELETION_PENDING)).state
    assert (state is S.COMPLETED) is is_gone


def test_retained_attempt_at_its_end_keeps_pods_that_ended() -> None:
    decision = end_retained(ended(TaskState.ATTEMPT_RUNNING), pods=build_pods("Succeeded"))
    assert [a.key.name for a in decision.actions if a.key.verb is Verb.DELETE] == []
    assert get_task(get_status(decision)).state is TaskState.COMPLETED
