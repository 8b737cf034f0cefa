"""A scaled-down Task is let go when the gang has taken note, or its time is up."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controller.core.decision import Decision
from framework.api import constants
from framework.api.states import TaskState
from framework.api.types import DrainSpec, ExecutionType, FrameworkSpec
from tests.support.builders import build_role, build_spec
from tests.support.worlds import World, get_task

LEAVER = "gang-worker-1"
ACKNOWLEDGED = constants.ACKNOWLEDGED_GENERATION_ANNOTATION


def spec(number: int, timeout: int | None = 30, **fields: Any) -> FrameworkSpec:
    drain = None if timeout is None else DrainSpec(timeout)
    return build_spec(build_role(number=number, drain=drain), **fields)


def draining(number: int = 2, timeout: int | None = 30, *, agents: bool = True) -> World:
    """A running gang with a published roster, scaled down by one."""
    world = World(spec(number, timeout))
    world.settle()
    for place, name in enumerate(sorted(world.pods)):
        world.run_pod(name, place)
        if agents:
            acknowledge(world, name, "1")
    world.settle()
    world.now += timedelta(seconds=10)
    world.edit(spec(number - 1, timeout))
    world.settle()
    return world


def acknowledge(world: World, name: str, generation: str) -> None:
    """The agent in a Pod says which generation it has applied."""
    pod = world.pods[name]
    world.pods[name] = replace(pod, annotations={**pod.annotations, ACKNOWLEDGED: generation})


def is_leaving(world: World) -> bool:
    return not world.pods[LEAVER].is_terminating


def test_drain_of_more_seconds_than_a_calendar_has_lasts_to_its_end() -> None:
    world = draining(timeout=2**62)
    deadline = get_task(world.status, 1).drain_deadline_time
    assert deadline is not None
    assert deadline.year == 9999
    assert is_leaving(world)


def test_leaver_is_out_of_the_members_and_its_deadline_is_persisted() -> None:
    world = draining()
    task = get_task(world.status, 1)
    assert task.drain_deadline_time == world.now + timedelta(seconds=30)
    assert task.state is TaskState.ATTEMPT_RUNNING
    assert world.published.roster is not None
    assert [m.index for m in world.published.roster.roles[0].members] == [0]
    (leaving,) = world.published.roster.leaving
    assert (leaving.index, leaving.since) == (1, world.published.roster.generation)
    assert is_leaving(world)


def test_leaver_goes_when_all_expected_have_taken_note() -> None:
    world = draining()
    generation = str(world.published.roster.generation) if world.published.roster else ""
    acknowledge(world, "gang-worker-0", generation)
    world.settle()
    assert is_leaving(world)
    acknowledge(world, LEAVER, generation)
    world.settle()
    assert not is_leaving(world)


def test_deadline_ends_the_wait_and_says_who_had_not_answered() -> None:
    world = draining()
    decision = world.decide()
    assert decision.wake_at is not None
    world.now += timedelta(seconds=30)
    told = world.decide()
    assert [event.reason for event in told.events] == ["DrainTimedOut"]
    assert "gang-worker-0" in told.events[0].message
    world.settle()
    assert not is_leaving(world)


@pytest.mark.parametrize("note", ["0", "x", "-1", "²", "9" * 12])
def test_note_that_is_no_newer_generation_is_none(note: str) -> None:
    world = draining()
    acknowledge(world, "gang-worker-0", note)
    acknowledge(world, LEAVER, note)
    world.settle()
    assert is_leaving(world)


def test_nobody_is_waited_for_who_has_no_agent() -> None:
    assert not is_leaving(draining(agents=False))


def test_role_without_drain_lets_go_at_once() -> None:
    assert not is_leaving(draining(timeout=None))


def test_stop_waits_for_nobody() -> None:
    world = draining()
    world.edit(spec(1, execution_type=ExecutionType.STOP))
    world.settle()
    assert world.configmap is not None
    assert world.configmap.is_terminating


def test_deletion_of_the_framework_waits_for_nobody() -> None:
    world = draining()
    world.delete_framework()
    world.settle()
    assert not is_leaving(world)


def test_deadline_does_not_move_with_the_spec() -> None:
    world = draining()
    deadline = get_task(world.status, 1).drain_deadline_time
    world.edit(spec(1, 600))
    world.settle()
    assert get_task(world.status, 1).drain_deadline_time == deadline


def test_leaver_that_ends_by_itself_goes_on_as_usual() -> None:
    world = draining()
    world.end_pod(LEAVER)
    world.settle()
    assert not is_leaving(world)
    completion = get_task(world.status, 1).attempt_status.completion_status
    assert completion is not None
    assert completion.code == -230


def test_unpublished_roster_is_waited_for_only_until_the_deadline() -> None:
    world = World(spec(2))
    world.settle()
    for place, name in enumerate(sorted(world.pods)):
        world.run_pod(name, place)
        acknowledge(world, name, "1")
    world.settle()
    world.now += timedelta(seconds=10)
    world.edit(spec(1))
    for _ in range(3):
        world.carry_out(unpublished(world.decide()))
    assert is_leaving(world)
    world.now += timedelta(seconds=30)
    decision = unpublished(world.decide())
    assert "could not be published" in decision.events[0].message


def unpublished(decision: Decision) -> Decision:
    """The same, with a PATCH that failed."""
    return replace(decision, publication=None)


def test_task_that_never_ran_is_not_drained() -> None:
    world = World(spec(2))
    world.settle()
    world.edit(spec(1))
    world.settle()
    assert LEAVER not in world.pods or not is_leaving(world)
