"""The module training code imports, on volumes as the writer makes them."""

import queue
from pathlib import Path

import pytest

from framework.api.roster import Leaving, Roster, fingerprint_uid
from rendezvous import peers
from rendezvous.registry import render_all
from rendezvous.selection import PUBLISHED, Shown
from rendezvous.writer import Writer
from tests.rendezvous.gangs import (
    build_gang,
    build_options,
    build_role,
    build_roster,
    get_uid,
    see,
)

WAIT_SECONDS = 5.0


@pytest.fixture(autouse=True)
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BARRIER_WORKING_DIR", str(tmp_path))
    return tmp_path


def write(volume: Path, roster: Roster) -> None:
    rendering = render_all(see(roster), build_options())
    shown = Shown(roster, PUBLISHED, roster.generation)
    Writer(str(volume)).write(shown, rendering.files, rendering.fixed_files)


def test_roster_tells_who_computes_together(volume: Path) -> None:
    write(volume, build_roster(build_role("ps", 1, first=100), build_role("worker", [0, 2])))
    gang = peers.roster()
    assert (gang.generation, gang.role, gang.index, gang.rank, gang.size) == (1, "worker", 0, 0, 2)
    assert gang.addresses == ["10.0.0.2", "10.0.0.4"]
    assert {str(peer.role) for peer in gang.peers} == {"ps", "worker"}
    assert gang.is_member
    assert not gang.is_leaving


def test_roster_of_a_leaving_pod_says_so(volume: Path) -> None:
    leaving = Leaving("worker", 0, fingerprint_uid(get_uid("worker", 0)), 2, "")
    write(volume, build_roster(build_role("worker", [1]), generation=2, leaving=(leaving,)))
    gang = peers.roster()
    assert (gang.is_member, gang.is_leaving, gang.rank) == (False, True, -1)


def test_roster_without_any_says_what_is_missing() -> None:
    with pytest.raises(FileNotFoundError, match="has the rendezvous agent written it"):
        peers.roster()


def test_wait_gives_up_in_time(volume: Path) -> None:
    with pytest.raises(TimeoutError, match="0 of 1"):
        peers.wait(timeout=0.0)
    write(volume, build_gang(2))
    assert peers.wait(min=2).size == 2
    with pytest.raises(TimeoutError, match="2 of 3"):
        peers.wait(min=3, timeout=0.0)


def test_on_change_calls_with_each_change_in_order(volume: Path) -> None:
    write(volume, build_gang(2))
    seen: queue.Queue[peers.Change] = queue.Queue()
    subscription = peers.on_change(seen.put)
    for generation, count in ((2, 4), (3, 3)):
        write(volume, build_gang(count)._replace(generation=generation))
        change = seen.get(timeout=WAIT_SECONDS)
        assert change.roster.generation == generation
        changed = change.added if generation == 2 else change.removed
        assert [peer.index for peer in changed] == ([2, 3] if generation == 2 else [3])
    subscription.stop()
    subscription.join(WAIT_SECONDS)
    assert seen.empty()


def test_on_change_misses_nothing_since_what_was_read(volume: Path) -> None:
    write(volume, build_gang(2))
    before = peers.roster()
    write(volume, build_gang(3)._replace(generation=2))
    seen: queue.Queue[peers.Change] = queue.Queue()
    subscription = peers.on_change(seen.put, since=before)
    assert [peer.index for peer in seen.get(timeout=WAIT_SECONDS).added] == [2]
    subscription.stop()
    subscription.join(WAIT_SECONDS)


def test_compute_change_finds_a_replaced_pod() -> None:
    def parse(fingerprint: str) -> peers.Roster:
        peer = peers.Peer("worker", 0, 0, "10.0.0.1", 2222, fingerprint)
        return peers.Roster(1, "a", "worker", 0, 0, True, False, False, (peer,))

    change = peers.compute_change(parse("aaaaaaaa"), parse("bbbbbbbb"))
    assert [peer.index for peer in change.moved] == [0]
    assert not change.added
    assert not change.removed
