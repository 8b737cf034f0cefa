"""The Pod of a scaled-down Task is deleted when the gang has acknowledged, or at a deadline."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controller.core.decision import Decision
from controller.core.roster.drain import is_draining, list_leaving
from framework.api import constants
from framework.api.pods import PodView
from framework.api.roster import Leaving, fingerprint_uid
from framework.api.states import TaskState
from framework.api.types import DrainSpec, ExecutionType, FrameworkSpec
from tests.support.builders import (
    at,
    build_pod,
    build_pods,
    build_role,
    build_role_roster,
    build_role_status,
    build_roster,
    build_spec,
    build_status,
    build_task,
)
from tests.support.builders.worlds import World, build_draft, build_published, get_task

LEAVING_POD = "gang-worker-1"
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
    return not world.pods[LEAVING_POD].is_terminating


def test_drain_of_more_seconds_than_a_calendar_has_lasts_to_its_end() -> None:
    world = draining(timeout=2**62)
    deadline = get_task(world.status, 1).drain_deadline_time
    assert deadline is not None
    assert deadline.year == 9999
    assert is_leaving(world)


def test_leaving_task_is_no_member_and_its_deadline_is_persisted() -> None:
    world = draining()
    task = get_task(world.status, 1)
    assert task.drain_deadline_time == world.now + timedelta(seconds=30)
    assert task.state is TaskState.ATTEMPT_RUNNING
    assert world.published.roster is not None
    assert [m.index for m in world.published.roster.roles[0].members] == [0]
    (leaving,) = world.published.roster.leaving
    assert (leaving.index, leaving.since) == (1, world.published.roster.generation)
    assert is_leaving(world)


def test_leaving_pod_is_deleted_when_all_agents_have_acknowledged() -> None:
    world = draining()
    generation = str(world.published.roster.generation) if world.published.roster else ""
    acknowledge(world, "gang-worker-0", generation)
    world.settle()
    assert is_leaving(world)
    acknowledge(world, LEAVING_POD, generation)
    world.settle()
    assert not is_leaving(world)


def test_deadline_ends_the_wait_and_names_the_missing_acknowledgements() -> None:
    world = draining()
    decision = world.decide()
    assert decision.wake_at is not None
    world.now += timedelta(seconds=30)
    told = world.decide()
    assert [event.reason for event in told.events] == ["DrainTimedOut"]
    assert "gang-worker-0" in told.events[0].message
    world.settle()
    assert not is_leaving(world)


@pytest.mark.parametrize("text", ["0", "x", "-1", "²", "9" * 12])
def test_acknowledgement_of_no_newer_generation_does_not_count(text: str) -> None:
    world = draining()
    acknowledge(world, "gang-worker-0", text)
    acknowledge(world, LEAVING_POD, text)
    world.settle()
    assert is_leaving(world)


@pytest.mark.parametrize("fields", [{"agents": False}, {"timeout": None}])
def test_pod_is_deleted_at_once_without_agents_or_without_drain(fields: Any) -> None:
    assert not is_leaving(draining(**fields))


def test_stop_ends_the_drain() -> None:
    world = draining()
    world.edit(spec(1, execution_type=ExecutionType.STOP))
    world.settle()
    assert world.configmap is not None
    assert world.configmap.is_terminating


def test_deletion_of_the_framework_ends_the_drain() -> None:
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


def test_leaving_pod_that_ends_by_itself_goes_on_as_usual() -> None:
    world = draining()
    world.end_pod(LEAVING_POD)
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
    assert LEAVING_POD not in world.pods or not is_leaving(world)


UP_TO_DATE = {ACKNOWLEDGED: "7"}

BEHIND = {ACKNOWLEDGED: "6"}


def drain(peer: PodView | None, *, is_peer_leaving: bool = False, leaving: Any = None) -> bool:
    """Return whether the second Task, which leaves since generation 7, must still wait."""
    leaving_task = build_task(
        index=1, deletion_pending=True, drain_deadline_time=at(1000), run_time=at(1)
    )
    peer_task = build_task(deletion_pending=is_peer_leaving, drain_deadline_time=at(1000))
    pod = build_pod(index=1)
    pod = replace(
        pod, annotations={**pod.annotations, **(UP_TO_DATE if leaving is None else leaving)}
    )
    entry = Leaving("worker", 1, fingerprint_uid(pod.uid), 7, "2026-01-01T00:16:40Z")
    roster = build_roster(build_role_roster("worker", 1), generation=7, leaving=[entry])
    draft = build_draft(
        build_spec(build_role(drain=DrainSpec(1000))),
        build_status(build_role_status(tasks=(peer_task, leaving_task))),
        pods=[pod, *([peer] if peer else [])],
        published=build_published(roster),
    )
    (role,) = draft.roles
    return is_draining(draft, role, role.tasks[1], pod)


def peer(annotations: Any = None, phase: str = "Running", **fields: Any) -> PodView:
    pod = build_pod(phase=phase)
    return replace(pod, annotations={**pod.annotations, **(annotations or {})}, **fields)


@pytest.mark.parametrize(
    ("pod", "is_awaited"),
    [
        pytest.param(peer(BEHIND), True, id="behind"),
        pytest.param(peer(UP_TO_DATE), False, id="up_to_date"),
        pytest.param(peer(), False, id="without_an_agent"),
        pytest.param(peer(BEHIND, "Pending"), False, id="not_running_yet"),
        pytest.param(peer(BEHIND, "Failed"), False, id="ended"),
        pytest.param(peer(BEHIND, deletion_time=at(1)), False, id="going"),
        pytest.param(peer(BEHIND, uid="another"), False, id="not_the_recorded_one"),
        pytest.param(None, False, id="gone"),
    ],
)
def test_drain_waits_for_members_that_run_and_have_an_agent(
    pod: PodView | None, *, is_awaited: bool
) -> None:
    assert drain(pod) is is_awaited


def test_drain_does_not_wait_for_others_that_leave() -> None:
    assert not drain(peer(BEHIND), is_peer_leaving=True)


def test_drain_waits_for_the_leaving_pods_own_agent() -> None:
    assert drain(peer(UP_TO_DATE), leaving=BEHIND)
    assert not drain(peer(UP_TO_DATE), leaving={})


def test_roster_of_a_deleted_framework_has_no_leaving_task() -> None:
    leaving = build_task(index=1, deletion_pending=True, drain_deadline_time=at(1000))
    role = build_role_status(tasks=(build_task(), leaving))
    published = build_roster(build_role_roster("worker", 2), generation=7)
    pods = build_pods("Running", "Running")
    for metadata, expected in (({}, 1), ({"deletion_time": at(1)}, 0)):
        draft = build_draft(status=build_status(role), pods=pods, metadata=metadata)
        assert len(list(list_leaving(draft, published))) == expected


@pytest.mark.parametrize("change", [{"uid": "another"}, {"deletion_time": at(1)}])
def test_roster_shows_only_the_recorded_pod_leaving(change: dict[str, Any]) -> None:
    leaving = build_task(index=1, deletion_pending=True, drain_deadline_time=at(1000))
    role = build_role_status(tasks=(build_task(), leaving))
    published = build_roster(build_role_roster("worker", 2), generation=7)
    pods = [build_pod(), replace(build_pod(index=1), **change)]
    assert list(list_leaving(build_draft(status=build_status(role), pods=pods), published)) == []
