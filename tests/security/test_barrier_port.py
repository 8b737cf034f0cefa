"""The port of peers.barrier under attack, by real sockets on loopback: members pass nevertheless.

Each address of 127.0.0.0/8 stands for a Pod. A connection without a chosen source comes from
127.0.0.1, as all connections in a local cluster may.
"""

import contextlib
import json
import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from framework.api.roster import Leaving, Roster, fingerprint_uid
from rendezvous.site import peers
from rendezvous.site.peers import gang_key
from rendezvous.site.peers.barriers import limits
from rendezvous.site.peers.barriers.hub import Hub
from tests.rendezvous.gangs import INSTANCE, get_uid
from tests.rendezvous.members import (
    Member,
    build_arrival,
    build_local_gang,
    open_members,
)
from tests.support.machine.oldpython import find_old_python
from tests.support.machine.openfiles import count_open_files, limit_open_files
from tests.support.waiting import HANG_SECONDS, wait_until

ATTACKERS = 1500
# 16 for each of two Pods, one for each and 64 silent ones, and what a Python process has open.
MOST_FILES = 2 * 16 + 2 + 64 + 16
KEY = "ab" * 32
OTHER_KEY = "cd" * 32
STRANGER = "127.0.66.6"
FIRST, SECOND = "127.0.9.1", "127.0.9.2"
QUICK = "from peers.barriers import hub\nhub.FIRST_LINE_SECONDS = 0.3\n"
# Only the tests of the deadline wait for it: elsewhere, no slow client reaches it.
PATIENT = (
    "from peers.barriers import client, hub\n"
    f"client.FIRST_LINE_SECONDS = hub.FIRST_LINE_SECONDS = {2 * HANG_SECONDS}\n"
)


@pytest.fixture
def many_files() -> Iterator[None]:
    """Let this process, the attacker, open as many files as it needs."""
    with limit_open_files(3 * ATTACKERS):
        yield


def write_key(root: Path, text: str) -> str:
    path = root / "gang-key"
    path.write_text(text)
    return str(path)


@contextlib.contextmanager
def open_gang(root: Path, size: int, *, pods: int = 2, **options: Any) -> Iterator[list[Member]]:
    """Start ``size`` members of a gang of ``pods``, with their roster."""
    root.mkdir(exist_ok=True)
    with open_members(root, size, **{"setup": PATIENT, **options}) as members:
        show(members, build_local_gang(list(range(pods)), 1))
        yield members


@contextlib.contextmanager
def open_keyed(root: Path, size: int, key: str = KEY, **options: Any) -> Iterator[list[Member]]:
    with open_gang(root, size, FB_GANG_KEY_FILE=write_key(root, key), **options) as members:
        yield members


def show(members: list[Member], gang: Roster) -> None:
    for member in members:
        member.show(gang)


def dial(member: Member, source: str = "") -> socket.socket:
    """Connect to the process of rank 0 as soon as it listens."""
    address = (f"127.0.9.{member.index + 1}", member.port)

    def connect() -> socket.socket | None:
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(address, HANG_SECONDS, (source, 0) if source else None)
        return None

    connection = wait_until(connect)
    assert connection is not None
    return connection


def build_line(**changes: Any) -> bytes:
    """Build the line by which the member 1 arrives."""
    arrival = build_arrival(build_local_gang([0, 1], 1), 1, token="mine")
    return json.dumps({**arrival, **changes}).encode() + b"\n"


def arrive(member: Member, line: bytes, source: str = SECOND) -> bytes:
    """Send a line on a connection of its own; return the answer, b"" if there is none."""
    with dial(member, source) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(line)
        return connection.recv(16)
    return b""


def is_closed(connection: socket.socket) -> bool:
    """Return whether the other end closes the connection and sends nothing but its challenge."""
    with contextlib.suppress(ConnectionResetError):
        while True:
            part = connection.recv(4096)
            if not part:
                return True
            if not part.startswith(b'{"nonce"'):
                return False
    return True


def pass_all(members: list[Member], name: str) -> None:
    for member in members:
        member.come(name)
    for member in members:
        assert member.passed.get(timeout=HANG_SECONDS).startswith(f"passed {name}")


def read_warnings(member: Member) -> list[str]:
    return member.errors.read_text().splitlines()


@pytest.mark.parametrize("source", ["", STRANGER, SECOND])
def test_silent_connections_keep_no_member_out_and_use_up_no_files(
    tmp_path: Path, many_files: None, source: str
) -> None:
    """Neither from the address of a stranger, nor of a member, nor from 127.0.0.1."""
    with open_gang(tmp_path, 2) as members, contextlib.ExitStack() as stack:
        pass_all(members, "before")
        for _ in range(ATTACKERS):
            stack.enter_context(dial(members[0], source))
        pass_all(members, "during")
        assert count_open_files(members[0].process.pid) < MOST_FILES


def test_half_lines_are_closed_at_their_deadline(tmp_path: Path) -> None:
    with open_gang(tmp_path, 2, setup=QUICK) as members, contextlib.ExitStack() as stack:
        members[0].come("epoch")
        opened = [stack.enter_context(dial(members[0])) for _ in range(10)]
        for number, connection in enumerate(opened):
            connection.sendall(b'{"name": "epoch"'[:number])
        assert all(map(is_closed, opened))
        members[1].come("epoch")
        for member in members:
            assert member.passed.get(timeout=HANG_SECONDS) == "passed epoch 1"


def test_stranger_is_refused_once_in_the_log_and_any_source_may_be_allowed(tmp_path: Path) -> None:
    with open_gang(tmp_path, 1, setup=PATIENT + "hub._JOIN_SECONDS = 0.0\n") as members:
        members[0].come("start")
        for _ in range(3):
            assert arrive(members[0], build_line(), STRANGER) == b""
        (line,) = [line for line in read_warnings(members[0]) if STRANGER in line]
    assert "set FB_BARRIER_SOURCES=any" in line
    with open_gang(tmp_path / "any", 1, FB_BARRIER_SOURCES="any") as members:
        members[0].come("start")
        assert arrive(members[0], build_line(), STRANGER) == b"go\n"


def test_address_that_may_be_of_a_joining_member_is_not_in_the_log(tmp_path: Path) -> None:
    with open_gang(tmp_path, 1) as members:
        members[0].come("start")
        for _ in range(3):
            assert arrive(members[0], build_line(), STRANGER) == b""
        assert not [line for line in read_warnings(members[0]) if STRANGER in line]


@pytest.mark.parametrize("known", ["known", "unknown"])
def test_leaving_member_may_still_arrive(tmp_path: Path, known: str) -> None:
    """Also at a process of rank 0 that has never seen it as a member."""
    leaving = Leaving("worker", 1, fingerprint_uid(get_uid("worker", 1)), 2, "")
    with open_gang(tmp_path, 3, pods=3) as members:
        if known == "known":
            pass_all(members, "before")
        remaining = [members[0], members[2]]
        show(remaining, build_local_gang([0, 2], 2)._replace(leaving=(leaving,)))
        members[0].come("checkpoint")
        with dial(members[0], SECOND) as connection:
            connection.sendall(build_line(pod="", name="checkpoint"))
            members[2].come("checkpoint")
            assert connection.recv(16) == b"go\n"


def test_source_setting_is_checked(tmp_path: Path) -> None:
    with open_gang(tmp_path, 1, pods=1, FB_BARRIER_SOURCES="all") as members:
        members[0].come("start")
        assert members[0].process.wait(timeout=HANG_SECONDS) == 1
        assert "write roster or any" in read_warnings(members[0])[-1]


@pytest.mark.parametrize(
    ("address", "written"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::1"),
        ("2001:DB8:0::1", "2001:db8::1"),
        ("no address", "no address"),
    ],
)
def test_addresses_are_compared_in_one_form(address: str, written: str) -> None:
    assert limits.normalize(address) == written


def test_fields_of_an_arrival_are_bounded(tmp_path: Path) -> None:
    with open_gang(tmp_path, 1) as members:
        members[0].come("start")
        for changes in ({"token": "t" * 65}, {"token": 7}, {"token": None}, {"name": "n" * 5000}):
            assert arrive(members[0], build_line(**changes)) == b"", changes


def test_number_of_remembered_arrivals_is_bounded_by_the_gang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BARRIER_WORKING_DIR", str(tmp_path))
    for pods, most in ((2, 64 * 16), (100, 64 * 100)):
        gang_of_peers = peers.Roster(
            1, INSTANCE, "worker", 0, 0, True, False, False,  # noqa: FBT003 a tuple's
            tuple(peers.Peer("worker", i, i, f"127.0.9.{i + 1}", 1, "") for i in range(pods)),
        )  # fmt: skip
        with socket.create_server((FIRST, 0)) as listener:
            hub = Hub(listener, gang_of_peers, None, takes_any=False)
            hub._released = dict.fromkeys(map(str, range(20000)))
            hub._release()
            assert len(hub._released) == most
            assert "19999" in hub._released
            hub.leave_to_parent()


# --- The gang key ---------------------------------------------------------------------------------


def test_members_with_the_key_pass_without_warnings(tmp_path: Path) -> None:
    with open_keyed(tmp_path, 3, f"{INSTANCE}:{KEY}\n", pods=3) as members:
        for name in ("one", "two"):
            pass_all(members, name)
        assert [read_warnings(member) for member in members] == [[], [], []]


def test_members_with_an_old_python_pass(tmp_path: Path) -> None:
    with open_keyed(tmp_path, 2, f"{INSTANCE}:{KEY}", python=find_old_python()) as members:
        pass_all(members, "start")
        assert [read_warnings(member) for member in members] == [[], []]


def test_without_a_key_each_process_warns_once(tmp_path: Path) -> None:
    with open_gang(tmp_path, 2) as members:
        for name in ("one", "two"):
            pass_all(members, name)
        for member in members:
            (line,) = read_warnings(member)
            assert "not authenticated, because no gang key is mounted" in line


def exchange(connection: socket.socket, key: str, *, nonce: str = "", mine: str = "n") -> None:
    """Answer the challenge of rank 0 with the proof of a key."""
    challenge = json.loads(connection.makefile("rb").readline())
    proof = peers.compute_proof(
        key.encode(), "barrier", "member", INSTANCE, nonce or challenge["nonce"], mine
    )
    connection.sendall(json.dumps({"nonce": mine, "proof": proof}).encode() + b"\n")


def test_client_that_does_not_prove_the_key_is_refused(tmp_path: Path) -> None:
    with open_keyed(tmp_path, 1) as members:
        members[0].come("start")
        with dial(members[0], SECOND) as other:
            nonce = json.loads(other.makefile("rb").readline())["nonce"]
            for attack in (
                lambda c: c.sendall(build_line()),
                lambda c: exchange(c, OTHER_KEY),
                lambda c: exchange(c, KEY, nonce=nonce),  # of another connection
                lambda c: c.sendall(b'{"nonce": "n", "proof": null}\n'),
                lambda c: c.sendall(b'{"nonce": "n", "proof": "\\ud800"}\n'),
                lambda c: c.sendall(b"[1]\n"),
            ):
                with dial(members[0], SECOND) as connection:
                    attack(connection)
                    assert is_closed(connection)
        with dial(members[0], SECOND) as connection:
            exchange(connection, KEY)
            assert json.loads(connection.makefile("rb").readline()).keys() == {"proof"}
            connection.sendall(build_line())
            assert connection.recv(16) == b"go\n"


def test_proofs_of_each_side_and_channel_differ() -> None:
    """Otherwise the proof of rank 0 could be sent back to it."""
    parts = (INSTANCE, "a", "b")
    key = KEY.encode()
    proofs = {
        peers.compute_proof(key, channel, side, *parts)
        for channel in ("barrier", "changes")
        for side in ("member", "rank 0")
    }
    assert len(proofs) == 4
    assert peers.compute_proof(key, "ab", "c") != peers.compute_proof(key, "a", "bc")


def test_member_trusts_no_rank_0_without_the_key(tmp_path: Path) -> None:
    """The member sends nothing but a proof, and looks for rank 0 again."""
    with (
        open_members(
            tmp_path, 2, setup=PATIENT, FB_GANG_KEY_FILE=write_key(tmp_path, KEY)
        ) as members,
        socket.create_server((FIRST, members[0].port)) as impostor,
    ):
        show(members, build_local_gang([0, 1], 1))
        members[1].come("start")
        for reply in (b'{"proof": "%s"}\n' % (b"0" * 64), b"[" * 4000 + b"\n", b"go\n"):
            connection, _ = impostor.accept()
            with connection:
                connection.sendall(b'{"nonce": "fixed"}\n')
                wire: Any = json.loads(connection.makefile("rb").readline())
                assert wire.keys() == {"nonce", "proof"}
                connection.sendall(reply)
                assert is_closed(connection)
        assert members[1].passed.empty()
        assert any("gang key" in line for line in read_warnings(members[1]))


def test_member_without_the_key_is_asked_to_mount_it(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        (first,) = stack.enter_context(open_keyed(tmp_path, 1))
        other = open_gang(tmp_path / "other", 2, FB_BARRIER_PORT=str(first.port))
        _, second = stack.enter_context(other)
        first.come("start")
        dial(first).close()
        second.come("start")
        wait_until(lambda: any("requires the gang key" in w for w in read_warnings(second)))
        assert first.passed.empty()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read"),
        ("", "has less than 32 characters"),
        ("short", "has less than 32 characters"),
        (f"0_another:{KEY}", "is of attempt 0_another, not of"),
    ],
)
def test_key_that_cannot_be_used_ends_the_barrier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, message: str
) -> None:
    path = tmp_path / "gang-key"
    monkeypatch.setenv("FB_GANG_KEY_FILE", str(path))
    if text is not None:
        path.write_text(text)
    with pytest.raises(peers.GangKeyError, match=message):
        peers.read_gang_key(INSTANCE)


def test_missing_key_is_no_error_unless_a_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FB_GANG_KEY_FILE", raising=False)
    monkeypatch.setattr(gang_key, "DEFAULT_KEY_FILE", "/nonexistent/gang-key")
    assert peers.read_gang_key(INSTANCE) is None


def test_silent_connections_do_not_count_as_members_with_the_key(
    tmp_path: Path, many_files: None
) -> None:
    """With the key, any address may be allowed: connections without a proof are closed first."""
    with (
        open_keyed(tmp_path, 2, FB_BARRIER_SOURCES="any") as members,
        contextlib.ExitStack() as stack,
    ):
        pass_all(members, "before")
        for number in range(ATTACKERS):
            source = f"127.0.{number % 50 + 100}.1" if number % 2 else SECOND
            stack.enter_context(dial(members[0], source))
        pass_all(members, "during")
        assert count_open_files(members[0].process.pid) < MOST_FILES


@pytest.mark.parametrize("pods", [1000, 1800, 2000])
def test_each_pod_has_a_place_for_its_report_and_one_for_a_barrier(
    pods: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (4096, 4096))
    addresses = [(f"10.0.{i // 250}.{i % 250}",) for i in range(pods)]
    gang: Any = SimpleNamespace(peers=[SimpleNamespace(addresses=each) for each in addresses])
    assert limits.Limits(gang, {}).total >= 2 * pods
