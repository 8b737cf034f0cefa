"""Which roster is shown: complete, of this attempt, with this Pod, newer than the last."""

from typing import Any

import pytest

from framework.agent.framework_roster import FrameworkView
from framework.agent.gang import (
    SOURCE_CONFIGMAP,
    SOURCE_DNS,
    SOURCE_FRAMEWORK,
    Gang,
    Identity,
    Knowledge,
    SelectedRoster,
    assess,
)
from framework.agent.health import Health, SourceState
from framework.agent.sources import AttemptConfigMap
from framework.api.gangreadiness import GangReadiness, Missing
from framework.api.roster import STATE_SUCCEEDED, CompletedTask, Leaving, Roster, fingerprint_uid
from rendezvous.core import selection
from rendezvous.core.selection import (
    Generation,
    NoRoster,
    follow_source,
    is_newer,
    is_of_attempt,
    number_roster,
    select_candidate,
)
from tests.rendezvous.gangs import INSTANCE, build_gang, build_role, build_roster, get_uid

OWN = Identity("worker", 0, get_uid("worker", 0), INSTANCE)
GANG = Gang("default", "job", "job-attempt", "cm")
HEALTHY = SourceState(Health.HEALTHY, 0.0, "")
DENIED = SourceState(Health.FORBIDDEN, 0.0, "HTTP 403")
DONE = CompletedTask(4, STATE_SUCCEEDED, "")
AWAY = SourceState(Health.UNREACHABLE, 100.0, "refused")
VIEW = FrameworkView(build_gang(3)._replace(generation=0), ())


def make_configmap(roster: Roster | None, uid: str = "cm", problem: str = "") -> AttemptConfigMap:
    return AttemptConfigMap(
        uid,
        is_terminating=False,
        carries_roster=True,
        roster=roster,
        readiness=None,
        problem=problem,
    )


def select(
    configmap: AttemptConfigMap | None,
    state: SourceState = HEALTHY,
    view: FrameworkView | None = None,
    *,
    has_published: bool = False,
) -> SelectedRoster | NoRoster:
    knowledge = Knowledge(0.0, configmap, state, view, HEALTHY)
    return select_candidate(knowledge, GANG, OWN, 100.0, has_published=has_published)


def publish(count: int, generation: int, source: str = SOURCE_CONFIGMAP) -> SelectedRoster:
    return SelectedRoster(build_gang(count)._replace(generation=generation), source)


def read(count: int, generation: int = 0) -> SelectedRoster:
    return publish(count, generation, SOURCE_FRAMEWORK)


def show(*candidates: SelectedRoster) -> list[int]:
    """Show one after the other, as the agent does; return the numbers shown."""
    current: Generation | None = None
    numbers = []
    for candidate in candidates:
        if is_newer(candidate, current):
            current = number_roster(candidate, current, 0)
            numbers.append(current.number)
        elif current is not None:
            current = follow_source(candidate, current)
    return numbers


def find_obstacle(roster: Roster, identity: Identity, *, was_member: bool) -> str:
    facts = assess(roster, identity)
    return selection.find_obstacle(roster, facts, identity, was_member=was_member)


@pytest.mark.parametrize(
    ("configmap", "expected"),
    [
        (None, "nothing is known"),
        (make_configmap(None), "not complete"),
        (
            make_configmap(None)._replace(
                readiness=GangReadiness(1, 3, (Missing("ps", 0, "ImagePullBackOff"),))
            ),
            "1/3 Tasks are there; missing: ps/0 (ImagePullBackOff)",
        ),
        (make_configmap(None, problem="cut off"), "cut off"),
        (make_configmap(build_gang(2), uid="other"), "of another attempt"),
        (make_configmap(build_gang(2)._replace(instance_uid="9_x")), "attempt 9_x is seen"),
    ],
)
def test_select_candidate_waits_for_a_roster_of_its_own(
    configmap: AttemptConfigMap | None, expected: str
) -> None:
    selected = select(configmap)
    assert isinstance(selected, NoRoster)
    assert expected in selected.reason


def test_select_candidate_reads_the_framework_only_where_none_was_published() -> None:
    published = make_configmap(build_gang(2))
    assert select(published) == publish(2, 1)
    assert select(None, DENIED, VIEW) == read(3)
    assert select(published, DENIED, VIEW, has_published=True) == publish(2, 1)
    assert select(None, DENIED, VIEW, has_published=True) == NoRoster("forbidden: HTTP 403")


def test_select_candidate_names_the_fault_of_the_source() -> None:
    assert select(None, AWAY) == NoRoster("unreachable: refused")


@pytest.mark.parametrize(
    ("source", "instance", "own", "expected"),
    [
        (SOURCE_CONFIGMAP, INSTANCE, INSTANCE, True),
        (SOURCE_CONFIGMAP, "9_x", INSTANCE, False),
        (SOURCE_CONFIGMAP, "9_x", "", True),
        (SOURCE_DNS, "", INSTANCE, True),
    ],
)
def test_is_of_attempt_believes_what_is_not_known(
    source: str, instance: str, own: str, *, expected: bool
) -> None:
    generation = Generation(build_gang(2)._replace(instance_uid=instance), source, 1)
    assert is_of_attempt(generation, OWN._replace(instance_uid=own)) is expected


def build_workers(present: "int | list[int]", wanted: int, minimum: int, **more: Any) -> Roster:
    role = build_role("worker", present)._replace(wanted=wanted, minimum=minimum, **more)
    return build_roster(build_role("ps", 1), role)


@pytest.mark.parametrize(
    ("roster", "was_member", "expected"),
    [
        (build_workers(2, 4, 3), False, "3/5 Tasks are there (missing: worker/2, worker/3)"),
        # A peer's Pod has succeeded, and the controller has not concluded its Task yet.
        (build_workers(1, 2, 2), True, "2/3 Tasks are there (ended or starting: worker/1)"),
        (
            build_workers([0, 3], 4, 4, absent=(1,), completed=(DONE,)),
            False,
            "4/5 Tasks are there (missing: worker/2)",
        ),
        (build_workers(1, 10_000, 10_000), False, "worker/9, worker/10 and 9989 more)"),
        (build_gang(2)._replace(complete=False), True, "does not call the gang complete yet"),
        (build_gang(2)._replace(complete=False), False, "does not call the gang complete yet"),
        (build_gang(2), False, ""),
    ],
    ids=["missing", "ended", "completed_absent", "huge", "claimed", "claimed_at_first", "complete"],
)
def test_find_obstacle_names_the_first_ten_missing_tasks(
    roster: Roster, expected: str, *, was_member: bool
) -> None:
    obstacle = find_obstacle(roster, OWN, was_member=was_member)
    assert obstacle.endswith(expected)
    assert bool(obstacle) is bool(expected)


def test_find_obstacle_holds_a_pod_until_it_is_a_member_once() -> None:
    replaced = OWN._replace(pod_uid="another")
    assert "not in it" in find_obstacle(build_gang(2), replaced, was_member=False)
    assert not find_obstacle(build_gang(2), replaced, was_member=True)


def test_assess_leaving_finds_only_this_pod() -> None:
    leaving = Leaving("worker", 0, fingerprint_uid(OWN.pod_uid), 2, "")
    roster = build_roster(build_role("worker", [1]), leaving=(leaving,))
    assert assess(roster, OWN).leaving == leaving
    assert assess(roster, OWN._replace(pod_uid="another")).leaving is None
    assert assess(roster, OWN._replace(index=1)).leaving is None
    assert not find_obstacle(roster, OWN, was_member=False)


@pytest.mark.parametrize(
    ("candidates", "numbers"),
    [
        ([publish(2, 1), publish(3, 2), publish(2, 3)], [1, 2, 3]),
        ([publish(2, 4), publish(3, 9)], [4, 9]),
        ([publish(2, 5), publish(3, 4), publish(3, 5)], [5]),
        ([publish(2, 5), publish(2, 5)], [5]),
        # A gang that changed and changed back is the same: nothing new to show.
        ([publish(2, 5), publish(2, 7), publish(3, 6), publish(3, 8)], [5, 8]),
        ([publish(2, 7), publish(2, 5), publish(3, 6)], [7]),
        # The Framework numbers nothing.
        ([read(2), read(2), read(3)], [1, 2]),
        # From one source to the other it only counts up.
        ([read(2), read(3), publish(4, 1)], [1, 2, 3]),
        ([read(2), publish(2, 6), publish(3, 7)], [1, 7]),
        ([read(2), publish(2, 6), publish(3, 5)], [1]),
        ([read(2), publish(3, 1), publish(4, 2)], [1, 2, 3]),
    ],
)
def test_generations_are_shown_once_and_count_up(
    candidates: list[SelectedRoster], numbers: list[int]
) -> None:
    assert show(*candidates) == numbers
