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
from tests.support.builders.cases import cases
from tests.support.builders.worlds import World, build_draft, build_published, get_code, get_task

LEAVING_POD = "gang-worker-1"
ACKNOWLEDGED = constants.ACKNOWLEDGED_GENERATION_ANNOTATION


def spec(number: int, timeout: int | None = 30, **fields: Any) -> FrameworkSpec:
    drain = None if timeout is None else DrainSpec(timeout)
    return build_spec(build_role(number=number, drain=drain), **fields)


def run(timeout: int | None = 30, *, has_agents: bool = True) -> World:
    """A running gang of two with a published roster."""
    world = World(spec(2, timeout))
    world.settle()
    for place, name in enumerate(sorted(world.pods)):
        world.run_pod(name, place)
        if has_agents:
            acknowledge(world, name, "1")
    world.settle()
    world.now += timedelta(seconds=10)
    return world


def drain(timeout: int | None = 30, **fields: Any) -> World:
    """Such a gang, scaled down by one."""
    world = run(timeout, **fields)
    world.edit(spec(1, timeout))
    world.settle()
    return world


def acknowledge(world: World, name: str, generation: str) -> None:
    """Write the annotation by which the agent of a Pod acknowledges a generation."""
    pod = world.pods[name]
    world.pods[name] = replace(pod, annotations={**pod.annotations, ACKNOWLEDGED: generation})


def is_kept(world: World) -> bool:
    return not world.pods[LEAVING_POD].is_terminating


def test_drain_of_more_seconds_than_a_calendar_has_lasts_to_its_end() -> None:
    world = drain(2**62)
    deadline = get_task(world.status, 1).drain_deadline_time
    assert deadline is not None
    assert deadline.year == 9999
    assert is_kept(world)


def test_leaving_task_is_no_member_and_its_deadline_is_persisted() -> None:
    world = drain()
    task = get_task(world.status, 1)
    deadline = world.now + timedelta(seconds=30)
    assert (task.drain_deadline_time, task.state) == (deadline, TaskState.ATTEMPT_RUNNING)
    roster = world.published.roster
    assert roster is not None
    assert [m.index for m in roster.roles[0].members] == [0]
    assert [(entry.index, entry.since) for entry in roster.leaving] == [(1, roster.generation)]
    assert is_kept(world)
    # An edit of the spec does not move the deadline.
    world.edit(spec(1, 600))
    world.settle()
    assert get_task(world.status, 1).drain_deadline_time == deadline


def test_leaving_pod_is_deleted_when_all_agents_have_acknowledged() -> None:
    world = drain()
    assert world.published.roster is not None
    for name in ("gang-worker-0", LEAVING_POD):
        assert is_kept(world)
        acknowledge(world, name, str(world.published.roster.generation))
        world.settle()
    assert not is_kept(world)


def test_deadline_ends_the_wait_and_names_the_missing_acknowledgements() -> None:
    world = drain()
    assert world.decide().wake_at is not None
    world.now += timedelta(seconds=30)
    (event,) = world.decide().events
    assert event.reason == "DrainTimedOut"
    assert "gang-worker-0" in event.message
    world.settle()
    assert not is_kept(world)


@pytest.mark.parametrize("text", ["0", "x", "-1", "²", "9" * 12])
def test_acknowledgement_of_no_newer_generation_does_not_count(text: str) -> None:
    world = drain()
    acknowledge(world, "gang-worker-0", text)
    acknowledge(world, LEAVING_POD, text)
    world.settle()
    assert is_kept(world)


@pytest.mark.parametrize("fields", [{"has_agents": False}, {"timeout": None}])
def test_pod_is_deleted_at_once_without_agents_or_without_drain(fields: Any) -> None:
    assert not is_kept(drain(**fields))


def test_stop_ends_the_drain() -> None:
    world = drain()
    world.edit(spec(1, execution_type=ExecutionType.STOP))
    world.settle()
    assert world.configmap is not None
    assert world.configmap.is_terminating


def test_deletion_of_the_framework_ends_the_drain() -> None:
    world = drain()
    world.delete_framework()
    world.settle()
    assert not is_kept(world)


def test_leaving_pod_that_ends_by_itself_is_deleted() -> None:
    world = drain()
    world.end_pod(LEAVING_POD)
    world.settle()
    assert not is_kept(world)
    assert get_code(get_task(world.status, 1)) == -230


def test_unpublished_roster_is_waited_for_only_until_the_deadline() -> None:
    def decide_unpublished() -> Decision:
        """Decide; the PATCH of the roster fails."""
        return replace(world.decide(), publication=None)

    world = run()
    world.edit(spec(1))
    for _ in range(3):
        world.carry_out(decide_unpublished())
    assert is_kept(world)
    world.now += timedelta(seconds=30)
    assert "could not be published" in decide_unpublished().events[0].message


def test_task_that_never_ran_is_not_drained() -> None:
    world = World(spec(2))
    world.settle()
    world.edit(spec(1))
    world.settle()
    assert LEAVING_POD not in world.pods or not is_kept(world)


UP_TO_DATE, BEHIND = {ACKNOWLEDGED: "7"}, {ACKNOWLEDGED: "6"}
LEAVING = build_task(index=1, deletion_pending=True, drain_deadline_time=at(1000), run_time=at(1))


def annotate(
    annotations: dict[str, str], phase: str = "Running", index: int = 0, **fields: Any
) -> PodView:
    pod = build_pod(index=index, phase=phase)
    return replace(pod, annotations={**pod.annotations, **annotations}, **fields)


@cases(
    "peer leaving is_awaited",
    behind=(annotate(BEHIND), UP_TO_DATE, True),
    up_to_date=(annotate(UP_TO_DATE), UP_TO_DATE, False),
    without_an_agent=(annotate({}), UP_TO_DATE, False),
    not_running_yet=(annotate(BEHIND, "Pending"), UP_TO_DATE, False),
    ended=(annotate(BEHIND, "Failed"), UP_TO_DATE, False),
    terminating=(annotate(BEHIND, deletion_time=at(1)), UP_TO_DATE, False),
    not_the_recorded_one=(annotate(BEHIND, uid="another"), UP_TO_DATE, False),
    gone=(None, UP_TO_DATE, False),
    leaving_too=(annotate(BEHIND), UP_TO_DATE, None),
    agent_of_the_leaving_pod_behind=(annotate(UP_TO_DATE), BEHIND, True),
    leaving_pod_without_an_agent=(annotate(UP_TO_DATE), {}, False),
)
def test_drain_waits_for_running_members_with_an_agent(
    peer: PodView | None, leaving: dict[str, str], *, is_awaited: bool | None
) -> None:
    """The second Task leaves since generation 7; ``None``: the first one leaves too."""
    peer_task = build_task(deletion_pending=is_awaited is None, drain_deadline_time=at(1000))
    pod = annotate(leaving, index=1)
    entry = Leaving("worker", 1, fingerprint_uid(pod.uid), 7, "2026-01-01T00:16:40Z")
    roster = build_roster(build_role_roster(), generation=7, leaving=[entry])
    draft = build_draft(
        build_spec(build_role(drain=DrainSpec(1000))),
        build_status(build_role_status(tasks=(peer_task, LEAVING))),
        pods=[pod, *([peer] if peer else [])],
        published=build_published(roster),
    )
    (role,) = draft.roles
    assert is_draining(draft, role, role.tasks[1], pod) is bool(is_awaited)


@cases(
    "change metadata expected",
    recorded_pod=({}, {}, 1),
    framework_is_deleted=({}, {"deletion_time": at(1)}, 0),
    another_pod=({"uid": "another"}, {}, 0),
    terminating_pod=({"deletion_time": at(1)}, {}, 0),
)
def test_roster_shows_a_leaving_task(
    change: dict[str, Any], metadata: dict[str, Any], expected: int
) -> None:
    first, second = build_pods("Running", "Running")
    status = build_status(build_role_status(tasks=(build_task(), LEAVING)))
    pods = [first, replace(second, **change)]
    draft = build_draft(status=status, pods=pods, metadata=metadata)
    published = build_roster(build_role_roster(number=2), generation=7)
    assert len(list(list_leaving(draft, published))) == expected
