"""A decision as a whole: what is persisted first, and how a Framework ends early."""

from dataclasses import replace

from controller.core.actions import CreatePod, Urgency, build_attempt_identity
from controller.core.decide import decide
from framework.api.states import FrameworkState, TaskState
from framework.api.types import ExecutionType
from tests.support.builders import (
    build_pod,
    build_role,
    build_role_status,
    build_spec,
    build_status,
)
from tests.support.builders.worlds import SETTINGS, World, build_snapshot, get_code, get_status


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


def test_framework_that_is_stopped_before_it_starts_creates_nothing() -> None:
    world = World(build_spec(execution_type=ExecutionType.CREATE))
    world.settle()
    states = [world.status.state]
    assert not world.made
    world.edit(build_spec(execution_type=ExecutionType.STOP))
    world.settle()
    states.append(world.status.state)
    assert states == [FrameworkState.ATTEMPT_CREATION_PENDING, FrameworkState.COMPLETED]
    assert world.made == [("get", "gang-attempt")]


def test_framework_that_is_deleted_in_the_foreground_completes_with_its_pods() -> None:
    world = World(build_spec(build_role(number=2)))
    world.settle()
    for number, name in enumerate(world.pods):
        world.run_pod(name, number)
    world.settle()
    world.delete_framework()
    world.terminate_configmap()
    world.settle()
    world.collect_garbage()
    world.settle()
    for name in list(world.pods):
        world.remove_pod(name)
    world.collect_garbage()
    world.settle()
    assert world.status.state is FrameworkState.COMPLETED
    tasks = [task for _, task in world.status.attempt_status.walk_tasks()]
    assert [get_code(task) for task in tasks] == [-101, -101]
