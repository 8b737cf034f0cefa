"""A decision as a whole: what is persisted first, and whole lives of a Framework."""

from dataclasses import replace

import pytest

from controller.core.actions import CreatePod, Urgency, build_attempt_identity
from controller.core.decide import decide
from framework.api.states import FrameworkState, TaskState
from framework.api.types import ExecutionType, FrameworkSpec, RetryPolicySpec, TaskSpec
from tests.support.builders import (
    build_pod,
    build_role,
    build_role_status,
    build_spec,
    build_status,
)
from tests.support.builders.worlds import (
    SETTINGS,
    World,
    answer_conditions,
    build_snapshot,
    get_status,
    get_task,
)

S = FrameworkState


def test_quiet_framework_needs_nothing() -> None:
    status = replace(build_status(), observed_generation=1)
    snapshot = build_snapshot(status=status, pods=[build_pod()])
    decision = decide(answer_conditions(snapshot), SETTINGS)
    assert decision.status is None
    assert not decision.actions
    assert decision.urgency is not Urgency.AGAIN


def test_observed_generation_follows_without_urgency() -> None:
    status = replace(build_status(), observed_generation=1)
    snapshot = build_snapshot(
        status=status, pods=[build_pod()], metadata={"generation": 2}, configmap=None
    )
    decision = decide(snapshot, SETTINGS)
    assert get_status(decision).observed_generation == 2
    assert decision.urgency < Urgency.NOW


def test_scaling_ends_the_pass_so_that_it_is_persisted_first() -> None:
    spec = build_spec(build_role(number=3))
    decision = decide(build_snapshot(spec, build_status(), pods=[build_pod()]), SETTINGS)
    assert len(get_status(decision).attempt_status.task_roles[0].tasks) == 3
    assert decision.urgency is Urgency.AGAIN
    assert decision.urgency >= Urgency.NOW
    assert not decision.actions
    assert decision.publication is None


def test_creates_are_rendered_from_the_status_that_is_persisted_before() -> None:
    role = build_role_status(state=TaskState.ATTEMPT_CREATION_PENDING)
    decision = decide(build_snapshot(status=build_status(role)), SETTINGS)
    (action,) = decision.actions
    assert isinstance(action, CreatePod)
    assert action.framework.status == get_status(decision)
    assert action.identity == build_attempt_identity("task-worker-0", 0)


def test_release_is_persisted_first() -> None:
    """A roster relies on the addresses of this very status."""
    status = build_status(build_role_status(state=TaskState.ATTEMPT_PREPARING))
    decision = decide(build_snapshot(status=status, pods=[build_pod()]), SETTINGS)
    assert decision.publication is not None
    assert decision.urgency >= Urgency.NOW


# --- whole lives ---------------------------------------------------------------------------------


def names(world: World) -> list[str]:
    return sorted(world.pods)


def state_of(world: World) -> FrameworkState:
    return world.status.state


def run_all(world: World) -> None:
    for number, name in enumerate(names(world)):
        world.run_pod(name, number)
    world.settle()


def end_all(world: World, code: int = 0) -> None:
    for name in names(world):
        world.end_pod(name, code)
    world.settle()
    for name in names(world):
        world.remove_pod(name)
    world.settle()
    world.collect_garbage()
    world.settle()


def test_life_of_a_gang_that_succeeds() -> None:
    world = World(build_spec(build_role("ps", 1), build_role("worker", 2)))
    world.settle()
    assert names(world) == ["gang-ps-0", "gang-worker-0", "gang-worker-1"]
    assert state_of(world) is S.ATTEMPT_PREPARING
    run_all(world)
    assert state_of(world) is S.ATTEMPT_RUNNING
    assert world.published.roster is not None
    assert world.published.roster.complete
    end_all(world)
    assert state_of(world) is S.COMPLETED
    assert not world.pods
    assert world.configmap is None


def test_life_of_a_gang_that_is_retried() -> None:
    retry = RetryPolicySpec(max_retry_count=1)
    world = World(
        build_spec(build_role(number=1, task=TaskSpec(retry)), retry_policy=RetryPolicySpec())
    )
    world.settle()
    first = next(iter(world.pods.values())).uid
    run_all(world)
    end_all(world, code=9)
    (pod,) = world.pods.values()
    assert pod.uid != first
    assert get_task(world.status).attempt_status.id == 1
    end_all(world, code=9)
    assert state_of(world) is S.COMPLETED
    assert [entry for entry in world.made if entry[0] == "create"] == [
        ("create", "gang-attempt"),
        ("create", "gang-worker-0"),
        ("create", "gang-worker-0"),
    ]


@pytest.mark.parametrize("number", [0, 1, 5])
def test_life_of_a_gang_that_is_rescaled(number: int) -> None:
    def spec(count: int) -> FrameworkSpec:
        return build_spec(build_role("ps", 1), build_role("worker", count))

    world = World(spec(3))
    world.settle()
    run_all(world)
    world.edit(spec(number))
    world.settle()
    for name in [n for n, pod in world.pods.items() if pod.is_terminating]:
        world.remove_pod(name)
    world.settle()
    assert len(world.pods) == number + 1
    assert len(world.status.attempt_status.task_roles[1].tasks) == number


def test_life_of_a_gang_that_is_stopped_before_it_starts() -> None:
    world = World(build_spec(execution_type=ExecutionType.CREATE))
    world.settle()
    assert state_of(world) is S.ATTEMPT_CREATION_PENDING
    assert not world.made
    world.edit(build_spec(execution_type=ExecutionType.STOP))
    world.settle()
    assert state_of(world) is S.COMPLETED
    assert world.made == [("get", "gang-attempt")]


def test_life_of_a_gang_that_is_deleted_in_the_foreground() -> None:
    world = World(build_spec(build_role(number=2)))
    world.settle()
    run_all(world)
    world.delete_framework()
    world.terminate_configmap()
    world.settle()
    world.collect_garbage()
    world.settle()
    for name in names(world):
        world.remove_pod(name)
    world.collect_garbage()
    world.settle()
    assert state_of(world) is S.COMPLETED
    completions = {
        task.attempt_status.completion_status.code
        for _, task in world.status.attempt_status.walk_tasks()
        if task.attempt_status.completion_status
    }
    assert completions == {-101}
