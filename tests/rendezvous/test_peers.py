"""The module training code imports, on volumes as the writer makes them."""

import contextlib
import json
import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from framework.agent.gang import Identity
from framework.api.roster import CompletedTask, FailedMember, Leaving, fingerprint_uid
from rendezvous.core.notifying.departures import find_departures, render_departures
from rendezvous.core.notifying.failures import find_failures, render_failures
from rendezvous.site import peers
from rendezvous.site.peers import logs
from rendezvous.volume.records import Records
from tests.rendezvous.gangs import (
    BROKEN_MEMBERS,
    INSTANCE,
    build_failed,
    build_gang,
    build_role,
    build_roster,
    get_uid,
    write_members,
)
from tests.rendezvous.members import (
    write,
)
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.usefixtures("volume")


@contextlib.contextmanager
def collect_changes(since: peers.Roster | None = None) -> Iterator[queue.Queue[peers.Change]]:
    seen: queue.Queue[peers.Change] = queue.Queue()
    subscription = peers.on_change(seen.put, since=since)
    yield seen
    subscription.stop()
    subscription.join(HANG_SECONDS)
    assert seen.empty()


def test_roster_names_the_members_and_the_own_place(volume: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has the rendezvous agent written it"):
        peers.roster()
    write(volume, build_roster(build_role("ps", 1, first=100), build_role("worker", [0, 2])))
    gang = peers.roster()
    assert (gang.generation, gang.role, gang.index, gang.rank, gang.size) == (1, "worker", 0, 0, 2)
    assert gang.addresses == ["10.0.0.2", "10.0.0.4"]
    assert {str(peer.role) for peer in gang.peers} == {"ps", "worker"}
    assert (gang.is_member, gang.is_leaving) == (True, False)
    leaving = Leaving("worker", 0, fingerprint_uid(get_uid("worker", 0)), 2, "")
    write(volume, build_roster(build_role("worker", [1]), generation=2, leaving=(leaving,)))
    gang = peers.roster()
    assert (gang.is_member, gang.is_leaving, gang.rank) == (False, True, -1)


@pytest.mark.parametrize(
    ("role", "state", "expected"),
    [("ps", "Succeeded", False), ("worker", "Failed", False), ("worker", "Succeeded", True)],
)
def test_roster_says_that_a_member_that_computes_has_succeeded(
    volume: Path, role: str, state: str, *, expected: bool
) -> None:
    other = build_role(role, 1, first=50, completed=(CompletedTask(5, state, ""),))
    write(volume, build_roster(build_role("chief", 1), other))
    assert peers.roster().has_succeeded is expected


def change_first_member(document: Any, field: str, value: object) -> None:
    document["roles"][0]["members"][0][field] = value


@pytest.mark.parametrize(
    "spoil",
    [
        lambda document: document.update(generation="1"),
        lambda document: document.update(instanceUID=None),
        lambda document: document["own"].update(rank=None),
        lambda document: document["own"].update(role=["worker"]),
        lambda document: change_first_member(document, "index", "0"),
        lambda document: change_first_member(document, "rank", None),
        lambda document: change_first_member(document, "ip", 7),
        lambda document: change_first_member(document, "podUIDFingerprint", []),
        lambda document: change_first_member(document, "addresses", [{}]),
        lambda document: document["roles"][0].update(name={}),
        lambda document: document.update(leaving=[{"role": [], "index": 0}]),
    ],
)
def test_roster_of_wrong_types_is_refused(
    volume: Path, spoil: Callable[[dict[str, Any]], None]
) -> None:
    write(volume, build_gang(2))
    document = json.loads((volume / "current" / "peers.json").read_text())
    spoil(document)
    write_members(volume, json.dumps(document))
    with pytest.raises(OSError, match="no roster of an agent"):
        peers.roster()


@pytest.mark.parametrize("content", BROKEN_MEMBERS)
def test_file_that_no_agent_wrote_is_no_roster(volume: Path, content: str) -> None:
    write_members(volume, content)
    with pytest.raises(OSError, match="no roster of an agent"):
        peers.roster()


def test_wait_warns_once_of_members_that_cannot_be_read(
    volume: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_warned", {})
    with pytest.raises(TimeoutError):
        peers.wait(timeout=0.0)
    assert caplog.messages == [], "the agent may write them later"
    write_members(volume, "{}")
    for _ in range(2):
        with pytest.raises(TimeoutError):
            peers.wait(timeout=0.0)
    assert caplog.messages == ["the list of members cannot be read: no roster of an agent"]


def test_wait_gives_up_in_time(volume: Path) -> None:
    with pytest.raises(TimeoutError, match="0 of 1"):
        peers.wait(timeout=0.0)
    write(volume, build_gang(2))
    assert peers.wait(min=2).size == 2
    with pytest.raises(TimeoutError, match="2 of 3"):
        peers.wait(min=3, timeout=0.0)


def test_on_change_calls_with_each_change_since_what_was_read_and_none_that_is_empty(
    volume: Path,
) -> None:
    write(volume, build_gang(2))
    before = peers.roster()
    write(volume, build_gang(4)._replace(generation=2))
    (role,) = build_gang(4).roles
    same = build_gang(4)._replace(generation=3, roles=(role._replace(running=not role.running),))
    with collect_changes(since=before) as seen:
        assert [peer.index for peer in seen.get(timeout=HANG_SECONDS).added] == [2, 3]
        write(volume, same)
        # The thread must have had the time to see it.
        with pytest.raises(queue.Empty):
            seen.get(timeout=0.3)
        write(volume, build_gang(3)._replace(generation=4))
        change = seen.get(timeout=HANG_SECONDS)
        assert (change.roster.generation, [peer.index for peer in change.removed]) == (4, [3])


def test_on_change_goes_on_after_a_callback_that_fails(
    volume: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(volume, build_gang(2))
    seen: queue.Queue[int] = queue.Queue()

    def fail(change: peers.Change) -> None:
        seen.put(change.roster.generation)
        raise ValueError("of the user")

    subscription = peers.on_change(fail)
    for generation in (2, 3):
        write(volume, build_gang(generation + 1)._replace(generation=generation))
        assert seen.get(timeout=HANG_SECONDS) == generation
    subscription.stop()
    subscription.join()
    assert capsys.readouterr().err.count("ValueError: of the user") == 2


def write_failures(volume: Path, *failed: FailedMember, attempt: str = INSTANCE) -> None:
    roster = build_gang(3)._replace(failed=failed)
    own = Identity("worker", 0, get_uid("worker", 0), INSTANCE)
    failures = find_failures(roster, build_gang(3), own)
    Records(str(volume)).write_failures(render_failures(attempt, failures))


def test_on_change_reports_a_failed_member_once_before_the_next_generation(volume: Path) -> None:
    write(volume, build_gang(3))
    with collect_changes() as seen:
        write_failures(volume, build_failed(1, since=2), attempt="another")
        write_failures(volume, build_failed(1, since=2))
        change = seen.get(timeout=HANG_SECONDS)
        assert (change.roster.generation, change.added, change.removed) == (1, (), ())
        expected = peers.Failure(
            "worker",
            1,
            "10.0.0.3",
            fingerprint_uid(get_uid("worker", 1)),
            137,
            "ContainerSigKillReceived",
        )
        assert change.failed == (expected,)
        write_failures(volume, build_failed(1, since=2), build_failed(2, since=3))
        assert [failure.index for failure in seen.get(timeout=HANG_SECONDS).failed] == [2]
        write(volume, build_roster(build_role("worker", [0]), generation=4))
        assert [peer.index for peer in seen.get(timeout=HANG_SECONDS).removed] == [1, 2]
        write_failures(volume, build_failed(1, since=2), build_failed(2, since=3))


@pytest.mark.parametrize(
    "content", ["", "[]", '{"failed": 5}', '{"instanceUID": "", "failed": [1]}']
)
def test_on_change_goes_on_with_a_file_of_failures_that_no_agent_wrote(
    volume: Path, content: str
) -> None:
    write(volume, build_gang(3))
    (volume / "failed.json").write_text(content)
    with collect_changes() as seen:
        write(volume, build_gang(4)._replace(generation=2))
        assert [peer.index for peer in seen.get(timeout=HANG_SECONDS).added] == [3]


def write_departures(volume: Path, own: int, attempt: str = INSTANCE) -> None:
    """Workers 1 and 2 leave, and the gang is not complete without them."""
    leaving = tuple(
        Leaving(
            "worker", index, fingerprint_uid(get_uid("worker", index)), 2, "2026-01-01T00:00:00Z"
        )
        for index in (1, 2)
    )
    roster = build_gang(3)._replace(leaving=leaving, complete=False)
    identity = Identity("worker", own, get_uid("worker", own), INSTANCE)
    own_entry = next((entry for entry in leaving if entry.index == own), None)
    departures = find_departures(roster, own_entry, build_gang(3), identity)
    Records(str(volume)).write_departures(render_departures(attempt, departures))


def test_leaving_names_the_pods_that_leave_the_own_one_first(volume: Path) -> None:
    write(volume, build_gang(3))
    assert peers.leaving() == ()
    write_departures(volume, own=2)
    own, other = peers.leaving()
    expected = ("worker", 2, "10.0.0.4", fingerprint_uid(get_uid("worker", 2)))
    assert own == (*expected, "2026-01-01T00:00:00Z", True)
    assert (other.index, other.is_own) == (1, False)
    write_departures(volume, own=0)
    assert [(each.index, each.is_own) for each in peers.leaving()] == [(1, False), (2, False)]
    write_departures(volume, own=0, attempt="another")
    assert peers.leaving() == ()


@pytest.mark.parametrize("content", ["", "[]", '{"own": 5}', '{"own": {"role": 1}, "peers": 7}'])
def test_leaving_of_a_file_that_no_agent_wrote_is_empty(volume: Path, content: str) -> None:
    write(volume, build_gang(3))
    (volume / "leaving.json").write_text(content)
    assert peers.leaving() == ()


def test_compute_change_finds_a_replaced_pod() -> None:
    def parse(fingerprint: str) -> peers.Roster:
        peer = peers.Peer("worker", 0, 0, "10.0.0.1", 2222, fingerprint)
        return peers.Roster(1, "a", "worker", 0, 0, True, False, False, (peer,))  # noqa: FBT003 a tuple's

    change = peers.compute_change(parse("aaaaaaaa"), parse("bbbbbbbb"))
    assert [peer.index for peer in change.moved] == [0]
    assert not change.added
    assert not change.removed
