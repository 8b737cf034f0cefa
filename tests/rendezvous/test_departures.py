"""Pods that leave: which processes are notified, when, and which generation is acknowledged."""

from typing import Any

import pytest

from framework.agent.gang import SOURCE_CONFIGMAP, SOURCE_FRAMEWORK, Identity, SelectedRoster
from framework.api.roster import Leaving, Roster, fingerprint_uid
from rendezvous.core.decision import decide
from rendezvous.core.notifying.departures import Departures, find_departures, render_departures
from rendezvous.core.notifying.notification import Notified, Notify
from rendezvous.core.plan import (
    Acknowledge,
    Context,
    GenerationMemory,
    Log,
    Memory,
    NotificationMemory,
    Observation,
    Plan,
    RecordDepartures,
)
from rendezvous.core.selection import Generation
from rendezvous.settings.options import WAIT, Options
from tests.rendezvous.gangs import INSTANCE, build_gang, build_role, build_roster, get_uid

SOON, LATE = "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"
KNOWN = build_gang(3)
SHOWN = Memory(
    GenerationMemory(Generation(KNOWN, SOURCE_CONFIGMAP, 1), is_applied=True),
    NotificationMemory(Notified(1), KNOWN),
)


def leave(
    *indexes: int, generation: int = 2, complete: bool = False, deadline: str = SOON
) -> Roster:
    """The gang without members that leave since this generation."""
    rest = build_role("worker", [i for i in range(3) if i not in indexes])
    rest = rest._replace(wanted=3, minimum=1 if complete else 3)
    leaving = tuple(
        Leaving("worker", i, fingerprint_uid(get_uid("worker", i)), generation, deadline)
        for i in indexes
    )
    roster = build_roster(rest, generation=generation, leaving=leaving)
    return roster._replace(complete=complete)


def look(
    roster: Roster,
    memory: Memory = SHOWN,
    own: int = 0,
    source: str = SOURCE_CONFIGMAP,
    **options: Any,
) -> Plan:
    identity = Identity("worker", own, get_uid("worker", own), INSTANCE)
    current = memory.generations.current
    observation = Observation(
        SelectedRoster(roster, source), current.number if current else 0, current
    )
    context = Context(identity, Options(debounce_seconds=2.0, **options))
    return decide(observation, memory, context, 100.0)


def restart(memory: Memory) -> Memory:
    """An agent that has only the last notifications of the agent before it."""
    return SHOWN._replace(notifications=NotificationMemory(memory.notifications.last, KNOWN))


def list_events(plan: Plan) -> list[tuple[str, list[int], str]]:
    return [
        (action.event, [peer.index for peer in action.leaving], action.deadline)
        for action in plan.then.actions
        if isinstance(action, Notify)
    ]


def list_acknowledged(plan: Plan) -> list[int]:
    return [a.generation for a in plan.then.actions if isinstance(a, Acknowledge)]


def test_peers_of_a_gang_that_needs_the_pod_are_told_and_keep_their_generation() -> None:
    plan = look(leave(2))
    assert plan.show is None
    assert list_events(plan) == [("peer-leaving", [2], SOON)]
    assert list_acknowledged(plan) == []
    assert Log(f"leaving until {SOON}: worker/2") in plan.then.actions
    (notify,) = (action for action in plan.then.actions if isinstance(action, Notify))
    assert notify.to_wire()["leaving"] == [
        {
            "role": "worker",
            "index": 2,
            "address": "10.0.0.4",
            "podUIDFingerprint": fingerprint_uid(get_uid("worker", 2)),
            "deadline": SOON,
        }
    ]
    assert notify.to_env()["FB_LEAVING"] == "worker/2=10.0.0.4"


def test_peer_is_told_once_of_each_pod() -> None:
    memory = look(leave(2)).then.memory
    assert list_events(look(leave(2), memory)) == []
    both = leave(1, 2, generation=3, deadline=LATE)
    first, second = both.leaving
    both = both._replace(leaving=(first, second._replace(since=2, deadline=SOON)))
    plan = look(both, memory)
    assert list_events(plan) == [("peer-leaving", [1], LATE)]
    record = plan.then.actions[0]
    assert isinstance(record, RecordDepartures)
    assert [peer.index for peer in record.departures.peers] == [1, 2], "the file has all of them"


def test_pod_that_leaves_itself_reads_of_the_others_in_the_file() -> None:
    plan = look(leave(1, 2), own=2)
    assert list_events(plan) == [("leaving", [], SOON)]
    record = plan.then.actions[0]
    assert isinstance(record, RecordDepartures)
    assert [peer.index for peer in record.departures.peers] == [1]


def test_restarted_agent_tells_nothing_again() -> None:
    memory = look(leave(2)).then.memory
    again = restart(memory)
    assert list_events(look(leave(2), again)) == []


def test_peers_of_a_gang_that_is_complete_get_the_generation_without_the_pod() -> None:
    plan = look(leave(2, complete=True))
    assert plan.show is not None
    assert list_events(plan) == [("changed", [], "")]
    assert list_acknowledged(plan) == [2]


def test_pod_that_leaves_acknowledges_after_its_notification_also_if_nothing_is_shown() -> None:
    plan = look(leave(2), own=2)
    assert plan.show is None
    assert list_events(plan) == [("leaving", [], SOON)]
    kinds = [type(action) for action in plan.then.actions]
    assert kinds.index(Acknowledge) > kinds.index(Notify)
    assert list_acknowledged(plan) == [2]
    assert list_acknowledged(look(leave(2), plan.then.memory, own=2)) == []
    later = look(leave(1, 2, generation=3), plan.then.memory, own=2)
    assert list_acknowledged(later) == [3]


def test_restarted_agent_of_a_pod_that_leaves_acknowledges_without_telling_again() -> None:
    memory = look(leave(2), own=2).then.memory
    plan = look(leave(2), restart(memory), own=2)
    assert list_events(plan) == []
    assert list_acknowledged(plan) == [2]


def test_generation_without_a_number_is_not_acknowledged() -> None:
    fresh = SHOWN._replace(
        generations=GenerationMemory(Generation(KNOWN, SOURCE_FRAMEWORK, 0), is_applied=True)
    )
    plan = look(leave(2), fresh, own=2, source=SOURCE_FRAMEWORK)
    assert list_acknowledged(plan) == []


@pytest.mark.parametrize("complete", [True, False])
def test_wait_keeps_the_process_until_the_deadline(*, complete: bool) -> None:
    plan = look(leave(2, complete=complete), own=2, on_leaving=WAIT)
    assert list_events(plan) == [("leaving", [], SOON)]
    assert list_acknowledged(plan) == []
    others = look(leave(2, complete=True), on_leaving=WAIT)
    assert list_acknowledged(others) == [2], "only the Pod that leaves waits"


def test_earlier_deadline_is_told() -> None:
    memory = look(leave(2, deadline=LATE), own=2).then.memory
    plan = look(leave(2, generation=3, deadline=SOON), memory, own=2)
    assert list_events(plan) == [("leaving", [], SOON)]
    record = plan.then.actions[0]
    assert isinstance(record, RecordDepartures)
    assert record.departures.own is not None
    assert record.departures.own.deadline == SOON


def test_pod_that_was_never_shown_is_left_out() -> None:
    roster = leave(2)
    stranger = roster.leaving[0]._replace(fingerprint="0" * 8)
    identity = Identity("worker", 0, get_uid("worker", 0), INSTANCE)
    for entry in (stranger, stranger._replace(role="\x1b[31m"), stranger._replace(index=9)):
        hostile = roster._replace(leaving=(entry,))
        assert find_departures(hostile, None, KNOWN, identity) == Departures()
    assert find_departures(roster, None, None, identity) == Departures()


def test_file_is_cleared_when_no_pod_leaves_any_more() -> None:
    memory = look(leave(2)).then.memory
    plan = look(build_gang(3)._replace(generation=5), memory)
    record = plan.then.actions[0]
    assert isinstance(record, RecordDepartures)
    assert b'"own":null,"peers":[]' in render_departures(*record)
