"""The module training code imports, on volumes as the writer makes them."""

import contextlib
import json
import queue
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from framework.agent.gang import SOURCE_CONFIGMAP, Identity
from framework.api.roster import CompletedTask, FailedMember, Leaving, Roster, fingerprint_uid
from rendezvous.core.departures import find_departures, render_departures
from rendezvous.core.failures import find_failures, render_failures
from rendezvous.core.selection import Generation
from rendezvous.renderers.registry import render_all
from rendezvous.site import peers
from rendezvous.site.peers import barrier_client
from rendezvous.volume.writer import Writer
from tests.rendezvous.gangs import (
    BROKEN_MEMBERS,
    INSTANCE,
    build_failed,
    build_gang,
    build_options,
    build_role,
    build_roster,
    get_uid,
    see,
    write_members,
)
from tests.support.servers.childprocess import find_free_ports
from tests.support.waiting import HANG_SECONDS


@pytest.fixture(autouse=True)
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BARRIER_WORKING_DIR", str(tmp_path))
    return tmp_path


@contextlib.contextmanager
def collect_changes(since: peers.Roster | None = None) -> Iterator[queue.Queue[peers.Change]]:
    seen: queue.Queue[peers.Change] = queue.Queue()
    subscription = peers.on_change(seen.put, since=since)
    yield seen
    subscription.stop()
    subscription.join(HANG_SECONDS)
    assert seen.empty()


def write(volume: Path, roster: Roster, index: int = 0) -> None:
    rendering = render_all(see(roster, index=index), build_options())
    generation = Generation(roster, SOURCE_CONFIGMAP, roster.generation)
    Writer(str(volume)).write(generation, rendering.files, rendering.fixed_files)


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
    Writer(str(volume)).write_failures(render_failures(attempt, failures))


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
    Writer(str(volume)).write_departures(render_departures(attempt, departures))


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


# --- The barrier: one process a member, as in a gang ----------------------------------------------

MEMBER = """
import sys, peers
for line in sys.stdin:
    try:
        gang = peers.barrier(line.strip(), timeout=240)
        print("passed", line.strip(), gang.generation, flush=True)
    except TimeoutError as e:
        print("late", flush=True)
"""


class Member:
    """A member's process, which comes to the barriers that the test names."""

    def __init__(
        self,
        root: Path,
        index: int,
        port: int,
        *,
        setup: str = "",
        python: str = sys.executable,
        **variables: str,
    ) -> None:
        self.index = index
        self.port = port
        self.volume = root / f"volume{index}"
        self.volume.mkdir()
        self.env = env = {
            "PYTHONPATH": str(root / "site"),
            "BARRIER_WORKING_DIR": str(self.volume),
            "FB_BARRIER_PORT": str(port),
            **variables,
        }
        self.errors = root / f"errors{index}"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [python, "-c", setup + MEMBER],
                env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        self.passed: queue.Queue[str] = queue.Queue()
        self._thread = threading.Thread(target=self._collect)
        self._thread.start()

    def _collect(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.passed.put(line.strip())

    def show(self, roster: Roster) -> None:
        write(self.volume, roster, self.index)

    def come(self, name: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


def build_local_gang(indexes: list[int], generation: int) -> Roster:
    """A gang on the loopback, an address for each."""
    role = build_role("worker", indexes)
    members = tuple(m._replace(addresses=(f"127.0.9.{m.index + 1}",)) for m in role.members)
    return build_roster(role._replace(members=members), generation=generation)


@contextlib.contextmanager
def open_members(root: Path, count: int, **options: str) -> Iterator[list[Member]]:
    (port,) = find_free_ports(1)
    (root / "site").mkdir()
    shutil.copytree(Path(peers.__file__).parent, root / "site" / "peers")
    with contextlib.ExitStack() as stack:
        found = []
        for index in range(count):
            found.append(Member(root, index, port, **options))
            stack.callback(found[-1].stop)
        yield found


@pytest.fixture
def members(tmp_path: Path) -> Iterator[list[Member]]:
    with open_members(tmp_path, 3) as found:
        yield found


def show(members: list[Member], roster: Roster) -> None:
    for member in members:
        member.show(roster)


def come(members: list[Member], name: str) -> None:
    for member in members:
        member.come(name)


def assert_passed(members: list[Member], text: str) -> None:
    for member in members:
        assert member.passed.get(timeout=HANG_SECONDS) == f"passed {text}"


def assert_waits(member: Member, seconds: float = 0.3) -> None:
    with pytest.raises(queue.Empty):
        member.passed.get(timeout=seconds)


def test_barrier_releases_all_when_the_last_has_come(members: list[Member]) -> None:
    show(members, build_local_gang([0, 1, 2], 1))
    for name in ("one", "two", "one", "one"):
        # Rank 0, which serves the others, comes second.
        come([members[1], members[0]], name)
        assert_waits(members[1])
        members[2].come(name)
        assert_passed(members, f"{name} 1")


def test_barrier_follows_the_gang(members: list[Member]) -> None:
    show(members, build_local_gang([0, 1, 2], 1))
    come(members[:2], "epoch")
    # The third is scaled down and never comes. Rank 0, which counts, sees that last.
    show([members[1], members[0]], build_local_gang([0, 1], 2))
    assert_passed(members[:2], "epoch 2")


def test_barrier_survives_the_loss_of_rank_0(members: list[Member]) -> None:
    show(members, build_local_gang([0, 1, 2], 1))
    come(members, "before")
    assert_passed(members, "before 1")
    members[1].come("after")
    members[0].process.kill()
    show(members[1:], build_local_gang([1, 2], 2))
    members[2].come("after")
    assert_passed(members[1:], "after 2")


def test_barrier_does_not_count_a_process_that_has_ended(members: list[Member]) -> None:
    show(members, build_local_gang([0, 1, 2], 1))
    come(members, "ready")
    assert_passed(members, "ready 1")
    members[2].come("epoch")
    assert_waits(members[2])
    members[2].process.kill()
    members[2].process.wait()
    come(members[:2], "epoch")
    assert_waits(members[0], 0.5)


FORKER = """
import os, sys, peers
peers.barrier("start", timeout=240)
pid = os.fork()  # as a DataLoader makes its workers, which may outlive the process for a while
if pid:
    print(pid, flush=True)
    os._exit(0)
os.close(1)
sys.stdin.read()
"""


def test_barrier_is_served_beside_forked_workers_of_a_process_before(
    members: list[Member],
) -> None:
    show(members[:2], build_local_gang([0, 1], 1))
    members[1].come("start")
    first = subprocess.Popen(
        [sys.executable, "-c", FORKER], env=members[0].env,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    # At its end the forked worker ends, too: it reads our pipe.
    with first:
        assert first.wait(timeout=HANG_SECONDS) == 0
        assert_passed([members[1]], "start 1")
        come(members[:2], "again")
        assert_passed(members[:2], "again 1")


def test_barrier_of_more_members_than_a_process_may_open_files(members: list[Member]) -> None:
    """As newer container runtimes start processes: 1024 files, and more on request."""
    gang = build_local_gang(list(range(60)), 1)
    first = members[0]
    first.show(gang)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.prlimit(first.process.pid, resource.RLIMIT_NOFILE, (40, hard))
    first.come("start")
    with contextlib.ExitStack() as stack:
        connections = []
        for index in range(1, 60):
            connections.append(stack.enter_context(connect(first)))
            connections[-1].sendall(build_arrival_line(gang, index, f"of {index}"))
        assert {connection.recv(16) for connection in connections} == {b"go\n"}
    assert_passed([first], "start 1")


def build_arrival(gang: Roster, index: int, token: str) -> dict[str, object]:
    return {
        "name": "start",
        "token": token,
        "attempt": gang.instance_uid,
        "role": "worker",
        "index": index,
        "pod": fingerprint_uid(get_uid("worker", index)),
    }


def build_arrival_line(gang: Roster, index: int, token: str) -> bytes:
    return json.dumps(build_arrival(gang, index, token)).encode() + b"\n"


def test_barrier_releases_a_process_that_missed_the_release(members: list[Member]) -> None:
    gang = build_local_gang([0, 1], 1)
    members[0].show(gang)
    members[0].come("start")
    for _ in range(3):
        # The first time with worker/0; then again, as after a connection that broke too early.
        with connect(members[0]) as connection:
            connection.sendall(build_arrival_line(gang, 1, "mine"))
            assert connection.recv(16) == b"go\n"
    assert_passed([members[0]], "start 1")


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"{}\n",
        b"[1]\n",
        b"\xff\n",
        b'{"attempt": "another"}\n',
        b"x" * 5000,
        b"[" * 4000 + b"\n",
        b'{"name": "e", "token": "t", "attempt": "%s", "role": [], "index": 0, "pod": ""}\n'
        % INSTANCE.encode(),
    ],
)
def test_barrier_hangs_up_on_strangers(members: list[Member], line: bytes) -> None:
    members[0].show(build_local_gang([0, 1], 1))
    members[0].come("epoch")
    for _ in range(2):  # and goes on to serve
        with connect(members[0]) as connection:
            connection.sendall(line)
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(16) == b""


def connect(member: Member) -> socket.socket:
    """Connect to the process of rank 0, as soon as it serves."""
    deadline = time.monotonic() + HANG_SECONDS
    while True:
        try:
            address = f"127.0.9.{member.index + 1}", member.port
            return socket.create_connection(address, HANG_SECONDS)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_barrier_without_rank_zero_is_tried_with_longer_and_longer_pauses(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand agents come to one that starts slowly."""
    write(volume, build_roster(build_role("worker", 2)), index=1)
    pauses: list[float] = []

    def refuse(*_: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(barrier_client, "connect", refuse)
    rest, caller = time.sleep, threading.get_ident()

    def pause(seconds: float) -> None:
        # Other tests may have left threads that sleep.
        if threading.get_ident() == caller:
            pauses.append(seconds)
        else:
            rest(seconds)

    monkeypatch.setattr(time, "sleep", pause)
    assert peers.pass_barrier("start", None, lambda: len(pauses) == 20) is None
    assert all(0.5 <= pause <= 1.0 for pause in pauses[5:])
    assert pauses[0] < 0.1
    assert len(set(pauses[5:])) > 1, "all agents would come at once"
