"""One agent in virtual time: what it shows, notifies of and acknowledges, and when."""

import contextlib
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framework.agent.gang import (
    SOURCE_CONFIGMAP,
    SOURCE_DNS,
    SOURCE_FRAMEWORK,
    Identity,
    SelectedRoster,
)
from framework.agent.report import LineReporter
from framework.api.roster import PHASE_COMPLETING, Leaving, Roster, fingerprint_uid
from rendezvous.agent import Agent, Setup
from rendezvous.core.notifying.notification import Notify
from rendezvous.core.selection import NoRoster
from rendezvous.core.target import Target
from rendezvous.settings.options import Options
from rendezvous.settings.values import RolePort
from rendezvous.volume.writer import Writer
from tests.rendezvous.gangs import build_gang, build_role, build_roster, get_uid
from tests.support.fakes.agentclock import VirtualClock

INSTANCE = "0_attempt"
DEADLINE = "2026-01-02T03:04:05Z"


class Source:
    """The gang that the agent follows."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.candidate: SelectedRoster | NoRoster = NoRoster("nothing yet")
        self.waits: list[float] = []

    def poll(self, seconds: float) -> None:
        self.waits.append(seconds)
        self._clock.sleep(seconds)

    def select(self) -> SelectedRoster | NoRoster:
        return self.candidate

    def list_missing_rights(self) -> list[Any]:
        return []


class Acknowledgements(list[int]):
    def acknowledge(self, generation: int) -> None:
        self.append(generation)

    def flush(self) -> None:
        """Nothing is pending."""


class World:
    """A volume and its agents, one after the other."""

    def __init__(self, volume: Path, options: Options) -> None:
        self.volume = volume
        self.clock = VirtualClock(1000.0)
        self.source = Source(self.clock)
        self.acknowledged = Acknowledgements()
        self.notified: list[Notify] = []
        self.ended: list[bool] = []
        self.options = options
        self.start()

    def start(self) -> None:
        """Start an agent, as after a kill of the one before."""
        identity = Identity("worker", 0, get_uid("worker", 0), INSTANCE)
        target = Target("default", "job", "job-attempt", "", "job-worker-0", identity)
        named = {"FB_PORTS": ["worker", "wurker"]}
        setup = Setup(
            self.options, target, {}, LineReporter("rendezvous", is_json=False), self.clock, named
        )
        self.agent = Agent(
            setup,
            self.source,  # type: ignore[arg-type]  # scripted
            Writer(str(self.volume)),
            self.acknowledged,  # type: ignore[arg-type]  # scripted
            [lambda notification, _: self.notified.append(notification)],
            lambda: self.ended.append(True),
        )

    def publish(self, roster: Roster, source: str = SOURCE_CONFIGMAP) -> None:
        self.source.candidate = SelectedRoster(roster._replace(instance_uid=INSTANCE), source)

    def take(self, roster: Roster, source: str = SOURCE_CONFIGMAP) -> None:
        self.publish(roster, source)
        self.agent.turn()

    def settle(self, seconds: float = 5.0) -> None:
        """Let time pass."""
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.agent.turn()

    @property
    def events(self) -> list[tuple[str, int, int]]:
        return [(n.event, n.diff.previous_generation, n.diff.generation) for n in self.notified]

    @property
    def event_names(self) -> list[str]:
        return [notification.event for notification in self.notified]

    @property
    def shown(self) -> str:
        return (self.volume / "current").readlink().name


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, Options())


@pytest.fixture
def beside(tmp_path: Path, world: World) -> World:
    """Another agent of the same volume."""
    return World(world.volume, Options(debounce_seconds=0.0))


def gang(count: int, generation: int) -> Roster:
    return build_gang(count)._replace(generation=generation)


LEAVING_ENTRY = Leaving("worker", 0, fingerprint_uid(get_uid("worker", 0)), 2, DEADLINE)
# Generation 2, in which the own Pod leaves.
DRAINED = build_roster(build_role("worker", [1, 2]), generation=2, leaving=(LEAVING_ENTRY,))


def test_first_change_is_notified_at_once_and_the_newest_after_the_debounce(world: World) -> None:
    world.take(gang(2, 1))
    world.settle()
    world.take(gang(3, 2))
    assert world.events[-1] == ("changed", 1, 2)
    for number in range(4, 7):
        world.publish(gang(number, number))
        world.agent.turn(0.1)
    world.settle()
    assert world.events == [("changed", 0, 1), ("changed", 1, 2), ("changed", 2, 6)]
    assert world.acknowledged == [1, 2, 6]


def test_debounce_begins_when_a_slow_volume_has_the_generation(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.take(gang(2, 1))
    world.settle()
    write, in_force_at = Writer.write, list[float]()

    def write_first_slowly(*args: Any) -> None:
        write(*args)
        if not in_force_at:
            world.clock.sleep(1.9)
        in_force_at.append(world.clock.now)

    monkeypatch.setattr(Writer, "write", write_first_slowly)
    world.take(gang(3, 2))
    world.publish(gang(4, 3))
    world.settle()
    first, second = in_force_at
    assert second - first >= world.options.debounce_seconds


def test_notifier_that_fails_keeps_no_other_from_its_notification(world: World) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    world.agent.notifiers = [fail, *world.agent.notifiers]
    world.take(gang(2, 1))
    world.take(DRAINED)
    world.settle()
    assert world.event_names == ["changed", "leaving", "changed"]
    assert world.acknowledged == [1, 2]


def test_leaving_pod_is_notified_within_the_debounce_and_acknowledges_later(world: World) -> None:
    world.take(gang(3, 1))
    before = world.clock.now
    world.publish(DRAINED)
    world.agent.turn(0.1)
    assert world.events[-1] == ("leaving", 1, 1)
    assert world.notified[-1].deadline == DEADLINE
    assert world.clock.now - before < 1
    assert world.acknowledged == [1]
    world.settle()
    assert world.acknowledged == [1, 2]
    assert world.events == [("changed", 0, 1), ("leaving", 1, 1), ("changed", 1, 2)]


def test_leaving_pod_is_notified_though_the_volume_cannot_be_written(world: World) -> None:
    world.take(gang(3, 1))
    world.settle()
    world.publish(DRAINED)
    moved = world.volume.with_name("moved")
    world.volume.rename(moved)
    with pytest.raises(OSError, match="No such file"):
        world.agent.turn()
    assert world.event_names == ["changed", "leaving"]
    moved.rename(world.volume)
    world.settle()
    assert world.event_names == ["changed", "leaving", "changed"]


@pytest.mark.parametrize("is_shown", [True, False], ids=["complete", "incomplete"])
def test_restarted_agent_notifies_of_nothing_twice(world: World, *, is_shown: bool) -> None:
    world.take(gang(3, 1))
    world.settle()
    last = DRAINED._replace(phase=PHASE_COMPLETING, complete=is_shown)
    world.take(last)
    world.settle()
    notified = world.events
    assert world.event_names == ["changed", "leaving", "completing"]
    for _ in range(3):
        world.start()
        world.settle()
    assert world.events == notified


def test_restarted_agent_of_a_source_without_attempts_notifies_once(world: World) -> None:
    world.source.candidate = SelectedRoster(gang(2, 0)._replace(instance_uid=""), SOURCE_DNS)
    world.agent.turn()
    world.start()
    world.agent.turn()
    assert world.events == [("changed", 0, 1)]
    assert world.shown == "gen-1"


def test_second_agent_of_a_volume_shows_no_generation_twice(world: World, beside: World) -> None:
    for generation in (1, 2):
        for agent in (world, beside):
            agent.take(gang(generation + 1, generation))
            agent.settle()
            assert world.shown == f"gen-{generation}"
    assert world.events == beside.events == [("changed", 0, 1), ("changed", 1, 2)]
    assert beside.acknowledged == [1, 2]


def test_second_agent_that_lags_behind_shows_nothing_older(world: World, beside: World) -> None:
    world.take(gang(2, 1))
    world.settle()
    world.take(gang(4, 3))
    beside.take(gang(3, 2))
    assert beside.events == []
    assert world.shown == "gen-3"
    beside.take(gang(4, 3))
    assert beside.acknowledged == [3]


def test_agent_that_lagged_behind_the_other_catches_up_with_the_same_gang(
    world: World, beside: World
) -> None:
    """The gang is again what this agent showed last, but the volume has moved on since."""
    world.take(gang(2, 1))
    beside.take(gang(3, 2))
    beside.take(gang(2, 3))
    world.take(gang(2, 3))
    world.settle()
    assert (world.agent.generation, world.agent.env["FB_GENERATION"]) == (3, "3")
    assert world.events == [("changed", 0, 1)]


def test_generation_that_no_agent_wrote_is_nothing_to_catch_up_with(
    world: World, tmp_path: Path
) -> None:
    """A process of the Pod may write into the volume; the API server shall not hear of it."""
    world.take(gang(2, 1))
    (tmp_path / "gen-9").mkdir()
    (tmp_path / "current").unlink()
    (tmp_path / "current").symlink_to("gen-9")
    world.settle(60)
    assert world.acknowledged == [1]
    world.take(gang(3, 2))
    assert world.shown == "gen-10"
    assert world.acknowledged == [1, 2]


def test_two_agents_at_once_leave_no_reader_without_a_generation(tmp_path: Path) -> None:
    worlds = [World(tmp_path, Options(debounce_seconds=0.0)) for _ in range(2)]
    worlds[0].take(gang(2, 1))

    def follow(world: World) -> None:
        for generation in range(1, 41):
            world.take(gang(generation % 7 + 1, generation))

    threads = [threading.Thread(target=follow, args=(world,)) for world in worlds]
    for thread in threads:
        thread.start()
    numbers = []
    while any(thread.is_alive() for thread in threads):
        numbers.append(Writer(str(tmp_path)).find_last_number())
        assert (tmp_path / "current" / "env.sh").stat().st_size or numbers[-1] == 0
    assert numbers == sorted(numbers)
    assert Writer(str(tmp_path)).find_last_number() == 40
    assert [world.agent.generation for world in worlds] == [40, 40]


def test_restarted_agent_of_a_completing_attempt_still_ends_its_command(world: World) -> None:
    world.take(gang(3, 1)._replace(phase=PHASE_COMPLETING))
    assert world.ended == [True]
    world.start()
    world.settle()
    assert world.ended == [True, True]


def test_restarted_agent_does_not_go_back_to_a_roster_of_the_framework(world: World) -> None:
    """The ConfigMap cannot be read for a while; the Framework comes from a lagging cache."""
    world.take(gang(3, 1))
    world.settle()
    world.take(gang(4, 2))
    world.start()
    world.take(gang(3, 0), SOURCE_FRAMEWORK)
    world.settle()
    assert world.events == [("changed", 0, 1), ("changed", 1, 2)]
    world.take(gang(5, 3))
    world.settle()
    assert world.events[-1] == ("changed", 2, 3)


def test_same_gang_under_a_newer_number_is_only_acknowledged(world: World) -> None:
    for generation in (1, 4):
        world.take(gang(2, generation))
        world.settle()
    assert (world.shown, world.events) == ("gen-1", [("changed", 0, 1)])
    assert world.acknowledged == [1, 4]


def test_api_away_for_a_minute_changes_nothing(world: World) -> None:
    world.take(gang(3, 1))
    world.source.candidate = NoRoster("unreachable: connection refused")
    files = sorted((path.name, path.stat().st_ino) for path in world.volume.rglob("*"))
    world.settle(60.0)
    assert sorted((p.name, p.stat().st_ino) for p in world.volume.rglob("*")) == files
    world.take(gang(2, 7))
    assert world.events == [("changed", 0, 1), ("changed", 1, 7)]


class Servers(contextlib.ExitStack):
    """Members 0, 1, ... of a gang: their port is open or not, on addresses of this host."""

    COUNT = 4

    def __init__(self) -> None:
        super().__init__()
        self._sockets: list[socket.socket] = []
        self.port = 0
        while not self.port:
            self._bind()

    def _bind(self) -> None:
        """Take a port of all addresses, so that no other program opens it; 0 if one is taken."""
        with contextlib.ExitStack() as stack:
            found = [stack.enter_context(socket.socket()) for _ in range(self.COUNT)]
            port = 0
            for index, each in enumerate(found):
                try:
                    each.bind((f"127.0.0.{index + 2}", port))
                except OSError:
                    return
                port = each.getsockname()[1]
            self.enter_context(stack.pop_all())
            self._sockets, self.port = found, port

    def open(self, index: int) -> None:
        self._sockets[index].listen()

    def build(self, count: int, generation: int) -> Roster:
        (role,) = build_gang(count).roles
        members = (m._replace(addresses=(f"127.0.0.{m.index + 2}",)) for m in role.members)
        return build_roster(role._replace(members=tuple(members)), generation=generation)


@pytest.fixture
def servers() -> Iterator[Servers]:
    with Servers() as opened:
        yield opened


@pytest.fixture
def careful(tmp_path: Path, servers: Servers) -> World:
    """An agent that shows members which come later only when they answer."""
    reach = {"": RolePort(servers.port)}
    return World(tmp_path, Options(reach=reach, reach_seconds=30.0, debounce_seconds=0.0))


def test_member_that_comes_later_is_shown_when_it_answers(careful: World, servers: Servers) -> None:
    careful.take(servers.build(2, 1))
    assert careful.events == [("changed", 0, 1)], "the first generation is not held back"
    careful.publish(servers.build(4, 2))
    careful.settle(10.0)
    assert careful.acknowledged == [1]
    servers.open(2)
    careful.settle(10.0)
    assert careful.acknowledged == [1]
    servers.open(3)
    careful.settle(1.0)
    assert careful.events == [("changed", 0, 1), ("changed", 1, 2)]
    assert careful.acknowledged == [1, 2]
    assert max(careful.source.waits[-3:-1]) <= 0.2


def test_restarted_agent_holds_no_member_that_was_shown(careful: World, servers: Servers) -> None:
    careful.take(servers.build(3, 1))
    careful.start()
    careful.settle(1.0)
    assert careful.acknowledged == [1, 1]


def stir(world: World, choose: random.Random, generation: int) -> int:
    """Let one thing happen; return the newest generation there is."""
    step = choose.random()
    if step < 0.5:
        generation += 1
        world.publish(gang(choose.randint(1, 8), generation))
    elif step < 0.6:
        world.publish(gang(choose.randint(1, 8), choose.randint(1, generation)))
    elif step < 0.7:
        generation += 1
        world.publish(gang(2, generation)._replace(complete=False))
    elif step < 0.8:
        world.source.candidate = NoRoster("unreachable")
    else:
        world.start()
    for _ in range(choose.randint(0, 3)):
        world.agent.turn(choose.choice((0.0, 0.5, 1.0)))
    return generation


@pytest.mark.parametrize("seed", range(5))
def test_notified_changes_add_up_after_any_events(tmp_path: Path, seed: int) -> None:
    """Rescaled, incomplete, older, killed, debounced: the sum of all changes is the gang."""
    choose = random.Random(seed)
    world = World(tmp_path, Options(debounce_seconds=choose.choice((0.0, 2.0))))
    generation = 1
    world.take(gang(4, generation))
    for _ in range(40):
        generation = stir(world, choose, generation)
    world.publish(gang(6, generation + 1))
    world.settle()
    numbers = [number for _, *pair in world.events for number in pair]
    assert numbers == sorted(numbers)
    shown = [number for _, _, number in world.events]
    assert len(set(shown)) == len(shown)
    members: dict[tuple[str, int], str] = {}
    for notified in world.notified:
        for change in notified.diff.removed:
            del members[change.role, change.index]
        for change in notified.diff.added:
            assert (change.role, change.index) not in members
        for change in (*notified.diff.added, *notified.diff.moved):
            members[change.role, change.index] = change.address
    expected = {(r.name, m.index): m.addresses[0] for r in gang(6, 1).roles for m in r.members}
    assert members == expected
    assert world.acknowledged[-1] == generation + 1


def test_agent_that_starts_forgets_the_pods_that_left_before(world: World) -> None:
    world.take(gang(3, 1))
    rest = build_role("worker", [0, 1])
    entry = Leaving("worker", 2, fingerprint_uid(get_uid("worker", 2)), 2, DEADLINE)
    roster = build_roster(rest._replace(wanted=3, minimum=3), generation=2, leaving=(entry,))
    world.take(roster._replace(complete=False))
    file = world.volume / "leaving.json"
    assert '"index":2' in file.read_text()
    world.start()
    world.agent.turn()
    assert '"index":2' in file.read_text(), "it still leaves"
    world.start()
    world.take(gang(3, 3))
    assert not file.exists()
