"""Which generation is shown: complete, of this attempt, with this Pod, newer than the last."""

import pytest

from framework.agent.framework_roster import FrameworkView
from framework.agent.sources import AttemptConfigMap
from framework.api.roster import (
    STATE_SUCCEEDED,
    CompletedTask,
    Leaving,
    Missing,
    Progress,
    Roster,
    fingerprint_uid,
)
from rendezvous.core.selection import (
    PUBLISHED,
    READ,
    Shown,
    Sight,
    Wait,
    adopt_source,
    find_leaving,
    find_obstacle,
    is_news,
    number_sight,
    select_sight,
)
from rendezvous.core.target import Identity
from tests.rendezvous.gangs import INSTANCE, build_gang, build_role, build_roster, get_uid

OWN = Identity("worker", 0, get_uid("worker", 0), INSTANCE)


def make_configmap(roster: Roster | None, uid: str = "cm", problem: str = "") -> AttemptConfigMap:
    return AttemptConfigMap(
        uid,
        is_terminating=False,
        carries_roster=True,
        roster=roster,
        progress=None,
        problem=problem,
    )


def sight(count: int, generation: int, source: str = PUBLISHED) -> Sight:
    return Sight(build_gang(count)._replace(generation=generation), source)


def show(*sights: Sight) -> list[int]:
    """Show one after the other, as the agent does; give the numbers shown."""
    shown: Shown | None = None
    numbers = []
    for seen in sights:
        if is_news(seen, shown):
            shown = number_sight(seen, shown, 0)
            numbers.append(shown.number)
        elif shown is not None:
            shown = adopt_source(seen, shown)
    return numbers


@pytest.mark.parametrize(
    ("configmap", "expected"),
    [
        (None, "nothing is known"),
        (make_configmap(None), "not complete"),
        (
            make_configmap(None)._replace(
                progress=Progress(1, 3, (Missing("ps", 0, "ImagePullBackOff"),))
            ),
            "1/3 Tasks are there; missing: ps/0 (ImagePullBackOff)",
        ),
        (make_configmap(None, problem="cut off"), "cut off"),
        (make_configmap(build_gang(2), uid="other"), "of another attempt"),
        (make_configmap(build_gang(2)._replace(instance_uid="9_x")), "attempt 9_x is seen"),
    ],
)
def test_select_sight_waits_for_a_roster_of_its_own(
    configmap: AttemptConfigMap | None, expected: str
) -> None:
    selected = select_sight(configmap, None, OWN, "cm")
    assert isinstance(selected, Wait)
    assert expected in selected.message


def test_select_sight_prefers_what_it_is_given_of_the_framework() -> None:
    view = FrameworkView(build_gang(3)._replace(generation=0), ())
    assert select_sight(make_configmap(build_gang(2)), None, OWN, "cm") == sight(2, 1)
    assert select_sight(None, view, OWN, "cm") == sight(3, 0, READ)


def test_find_obstacle_names_what_is_missing() -> None:
    quorum = build_roster(build_role("worker", 2)._replace(wanted=4, minimum=3))
    waiting = find_obstacle(quorum, OWN, was_member=False)
    assert waiting == "2/4 Tasks are there (missing: worker/2, worker/3)"
    claimed = build_gang(2)._replace(complete=False)
    assert find_obstacle(claimed, OWN, was_member=True)
    assert "missing" not in find_obstacle(claimed, OWN, was_member=False)


def test_find_obstacle_completed_and_absent_tasks_are_not_named() -> None:
    worker = build_role("worker", [0, 3])._replace(
        wanted=4, minimum=4, absent=(1,), completed=(CompletedTask(4, STATE_SUCCEEDED, ""),)
    )
    roster = build_roster(build_role("ps", 1), worker)
    assert find_obstacle(roster, OWN, was_member=False) == (
        "4/5 Tasks are there (missing: worker/2)"
    )


def test_find_obstacle_gang_that_was_whole_is_not_called_incomplete() -> None:
    # A peer's Pod has succeeded, and the controller has not concluded its Task yet.
    ended = build_roster(build_role("worker", 1)._replace(wanted=2, minimum=2))
    assert find_obstacle(ended, OWN, was_member=True) == (
        "1/2 Tasks are there (ended or starting: worker/1)"
    )


def test_find_obstacle_of_a_huge_gang_names_ten() -> None:
    role = build_role("worker", 1)._replace(wanted=10_000, minimum=10_000)
    message = find_obstacle(build_roster(role), OWN, was_member=False)
    assert message.endswith("worker/9, worker/10 and 9989 more)")
    assert not find_obstacle(build_gang(2), OWN, was_member=False)


def test_find_obstacle_holds_a_pod_until_it_is_a_member_once() -> None:
    replaced = OWN._replace(pod_uid="another")
    assert "not in it" in find_obstacle(build_gang(2), replaced, was_member=False)
    assert not find_obstacle(build_gang(2), replaced, was_member=True)


def test_find_leaving_finds_only_this_pod() -> None:
    leaving = Leaving("worker", 0, fingerprint_uid(OWN.pod_uid), 2, "")
    roster = build_roster(build_role("worker", [1]), leaving=(leaving,))
    assert find_leaving(roster, OWN) == leaving
    assert find_leaving(roster, OWN._replace(pod_uid="another")) is None
    assert find_leaving(roster, OWN._replace(index=1)) is None
    assert not find_obstacle(roster, OWN, was_member=False)


@pytest.mark.parametrize(
    ("sights", "numbers"),
    [
        ([sight(2, 1), sight(3, 2), sight(2, 3)], [1, 2, 3]),
        ([sight(2, 4), sight(3, 9)], [4, 9]),
        ([sight(2, 5), sight(3, 4), sight(3, 5)], [5]),
        ([sight(2, 5), sight(2, 5)], [5]),
        # A gang that changed and changed back is the same: nothing new to show.
        ([sight(2, 5), sight(2, 7), sight(3, 6), sight(3, 8)], [5, 8]),
        # The Framework numbers nothing.
        ([sight(2, 0, READ), sight(2, 0, READ), sight(3, 0, READ)], [1, 2]),
        # From one source to the other it only counts up.
        ([sight(2, 0, READ), sight(3, 0, READ), sight(4, 1)], [1, 2, 3]),
        ([sight(2, 0, READ), sight(2, 6), sight(3, 7)], [1, 7]),
        ([sight(2, 0, READ), sight(2, 6), sight(3, 5)], [1]),
        ([sight(2, 0, READ), sight(3, 1), sight(4, 2)], [1, 2, 3]),
    ],
)
def test_generations_are_shown_once_and_count_up(sights: list[Sight], numbers: list[int]) -> None:
    assert show(*sights) == numbers


def test_number_sight_counts_on_from_what_lies_in_the_volume() -> None:
    assert number_sight(sight(2, 3), None, 8).number == 9
    assert number_sight(sight(2, 30), None, 8).number == 30


def test_adopt_source_notes_how_far_the_source_has_come() -> None:
    shown = number_sight(sight(2, 0, READ), None, 0)
    adopted = adopt_source(sight(2, 6), shown)
    assert (adopted.number, adopted.source, adopted.source_generation) == (1, PUBLISHED, 6)
    assert adopt_source(sight(2, 5), adopted) == adopted
    assert adopt_source(sight(3, 7), adopted) == adopted
