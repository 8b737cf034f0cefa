"""The port of peers.barrier under attack, by real sockets on loopback: members pass all the same.

Each address of 127.0.0.0/8 stands for a Pod. A connection whose source is not chosen comes from
127.0.0.1, as all connections in a local cluster may.
"""

import contextlib
import json
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framework.api.roster import Leaving, Roster, fingerprint_uid
from rendezvous.site import peers
from rendezvous.site.peers import barrier_hub, barrier_limits, gang_key
from tests.rendezvous.gangs import INSTANCE, get_uid
from tests.rendezvous.test_peers import (
    Member,
    build_arrival,
    build_local_gang,
    open_members,
)
from tests.support.machine.oldpython import find_old_python
from tests.support.waiting import HANG_SECONDS, wait_until

ATTACKERS = 1500
# 16 for each of two Pods, one for each and 64 silent ones, and what a Python process has open.
MOST_FILES = 2 * 16 + 2 + 64 + 16
KEY = "ab" * 32
OTHER_KEY = "cd" * 32
STRANGER = "127.0.66.6"
FIRST, SECOND = "127.0.9.1", "127.0.9.2"
QUICK = "from peers import barrier_hub\nbarrier_hub.FIRST_LINE_SECONDS = 0.3\n"


@pytest.fixture
def many_files() -> Iterator[None]:
    """Let this process, the attacker, open as many files as it needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 3 * ATTACKERS), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def write_key(root: Path, text: str) -> str:
    path = root / "gang-key"
    path.write_text(text)
    return str(path)


def show(members: list[Member], gang: Roster) -> None:
    for member in members:
        member.show(gang)


def dial(member: Member, source: str = "") -> socket.socket:
    """Connect to the process of rank 0 as soon as it serves."""
    deadline = time.monotonic() + HANG_SECONDS
    address = (f"127.0.9.{member.index + 1}", member.port)
    while True:
        try:
            return socket.create_connection(address, HANG_SECONDS, (source, 0) if source else None)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def is_hung_up(connection: socket.socket) -> bool:
    """Return whether the other end closes the connection, without a word but its challenge."""
    with contextlib.suppress(ConnectionResetError):
        while True:
            part = connection.recv(4096)
            if not part:
                return True
            if not part.startswith(b'{"nonce"'):
                return False
    return True


def count_files(member: Member) -> int:
    return len(list(Path(f"/proc/{member.process.pid}/fd").iterdir()))


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
    """Neither from a stranger's address, nor from that of a member, nor all from one address."""
    with open_members(tmp_path, 2) as members, contextlib.ExitStack() as stack:
        show(members, build_local_gang([0, 1], 1))
        pass_all(members, "before")
        for _ in range(ATTACKERS):
            stack.enter_context(dial(members[0], source))
        pass_all(members, "during")
        assert count_files(members[0]) < MOST_FILES


def test_half_lines_are_hung_up_on_at_their_deadline(tmp_path: Path) -> None:
    with open_members(tmp_path, 2, setup=QUICK) as members, contextlib.ExitStack() as stack:
        show(members, build_local_gang([0, 1], 1))
        members[0].come("epoch")
        opened = [stack.enter_context(dial(members[0])) for _ in range(10)]
        for number, connection in enumerate(opened):
            connection.sendall(b'{"name": "epoch"'[:number])
        assert all(map(is_hung_up, opened))
        members[1].come("epoch")
        for member in members:
            assert member.passed.get(timeout=HANG_SECONDS) == "passed epoch 1"


def test_stranger_is_refused_once_in_the_log_and_any_source_may_be_allowed(tmp_path: Path) -> None:
    gang = build_local_gang([0, 1], 1)
    arrival = json.dumps(build_arrival(gang, 1, token="mine")).encode() + b"\n"
    with open_members(tmp_path, 1) as members:
        show(members, gang)
        members[0].come("start")
        for _ in range(3):
            with dial(members[0], STRANGER) as connection:
                with contextlib.suppress(OSError):
                    connection.sendall(arrival)
                assert is_hung_up(connection)
        told = [line for line in read_warnings(members[0]) if STRANGER in line]
    assert len(told) == 1
    assert "set FB_BARRIER_SOURCES=any" in told[0]
    (tmp_path / "any").mkdir()
    with open_members(tmp_path / "any", 1, FB_BARRIER_SOURCES="any") as members:
        show(members, gang)
        members[0].come("start")
        with dial(members[0], STRANGER) as connection:
            connection.sendall(arrival)
            assert connection.recv(16) == b"go\n"


@pytest.mark.parametrize("known", ["known", "unknown"])
def test_member_that_leaves_may_still_come(tmp_path: Path, known: str) -> None:
    """Also to a process of rank 0 that has never seen it as a member."""
    leaving = Leaving("worker", 1, fingerprint_uid(get_uid("worker", 1)), 2, "")
    gang = build_local_gang([0, 1, 2], 1)
    arrival = {**build_arrival(gang, 1, token="mine"), "pod": "", "name": "checkpoint"}
    with open_members(tmp_path, 3) as members:
        show(members, gang)
        if known == "known":
            pass_all(members, "before")
        remaining = [members[0], members[2]]
        show(remaining, build_local_gang([0, 2], 2)._replace(leaving=(leaving,)))
        members[0].come("checkpoint")
        with dial(members[0], SECOND) as connection:
            connection.sendall(json.dumps(arrival).encode() + b"\n")
            members[2].come("checkpoint")
            assert connection.recv(16) == b"go\n"


def test_source_setting_is_checked(tmp_path: Path) -> None:
    with open_members(tmp_path, 1, FB_BARRIER_SOURCES="all") as members:
        show(members, build_local_gang([0], 1))
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
    assert barrier_limits.normalize(address) == written


def test_what_an_arrival_may_say_is_bounded(tmp_path: Path) -> None:
    gang = build_local_gang([0, 1], 1)
    with open_members(tmp_path, 1) as members:
        show(members, gang)
        members[0].come("start")
        for changes in ({"token": "t" * 65}, {"token": 7}, {"token": None}, {"name": "n" * 5000}):
            with dial(members[0], SECOND) as connection:
                arrival = {**build_arrival(gang, 1, token="mine"), **changes}
                connection.sendall(json.dumps(arrival).encode() + b"\n")
                assert is_hung_up(connection), changes


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
            hub = barrier_hub.Hub(listener, gang_of_peers, None, takes_any=False)
            hub._released = dict.fromkeys(map(str, range(20000)))
            hub._release()
            assert len(hub._released) == most
            assert "19999" in hub._released
            hub.leave_to_parent()


# --- The gang key ---------------------------------------------------------------------------------


def test_members_with_the_key_pass_and_say_nothing(tmp_path: Path) -> None:
    key = write_key(tmp_path, f"{INSTANCE}:{KEY}\n")
    with open_members(tmp_path, 3, FB_GANG_KEY_FILE=key) as members:
        show(members, build_local_gang([0, 1, 2], 1))
        for name in ("one", "two"):
            pass_all(members, name)
        assert [read_warnings(member) for member in members] == [[], [], []]


def test_members_with_an_old_python_pass(tmp_path: Path) -> None:
    key = write_key(tmp_path, f"{INSTANCE}:{KEY}")
    python = find_old_python()
    with open_members(tmp_path, 2, python=python, FB_GANG_KEY_FILE=key) as members:
        show(members, build_local_gang([0, 1], 1))
        pass_all(members, "start")
        assert [read_warnings(member) for member in members] == [[], []]


def test_without_a_key_each_process_says_so_once(tmp_path: Path) -> None:
    with open_members(tmp_path, 2) as members:
        show(members, build_local_gang([0, 1], 1))
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


def test_whoever_does_not_prove_the_key_is_hung_up_on(tmp_path: Path) -> None:
    gang = build_local_gang([0, 1], 1)
    arrival = json.dumps(build_arrival(gang, 1, token="mine")).encode() + b"\n"
    path = write_key(tmp_path, KEY)
    with open_members(tmp_path, 1, FB_GANG_KEY_FILE=path) as members:
        show(members, gang)
        members[0].come("start")
        # No proof, a wrong key, one for a challenge of another connection, broken ones.
        with dial(members[0], SECOND) as other:
            nonce = json.loads(other.makefile("rb").readline())["nonce"]
            for attack in (
                lambda c: c.sendall(arrival),
                lambda c: exchange(c, OTHER_KEY),
                lambda c: exchange(c, KEY, nonce=nonce),
                lambda c: c.sendall(b'{"nonce": "n", "proof": null}\n'),
                lambda c: c.sendall(b'{"nonce": "n", "proof": "\\ud800"}\n'),
                lambda c: c.sendall(b"[1]\n"),
            ):
                with dial(members[0], SECOND) as connection:
                    attack(connection)
                    assert is_hung_up(connection)
        with dial(members[0], SECOND) as connection:
            exchange(connection, KEY)
            assert json.loads(connection.makefile("rb").readline()).keys() == {"proof"}
            connection.sendall(arrival)
            assert connection.recv(16) == b"go\n"


def test_proof_of_rank_0_is_none_of_a_member() -> None:
    """Else it could be sent back to it."""
    parts = (INSTANCE, "a", "b")
    key = KEY.encode()
    proofs = {
        peers.compute_proof(key, channel, side, *parts)
        for channel in ("barrier", "changes")
        for side in ("member", "rank 0")
    }
    assert len(proofs) == 4
    assert peers.compute_proof(key, "ab", "c") != peers.compute_proof(key, "a", "bc")


def test_member_does_not_believe_a_rank_0_without_the_key(tmp_path: Path) -> None:
    """It sends nothing but a proof, and goes on to look for rank 0."""
    path = write_key(tmp_path, KEY)
    with (
        open_members(tmp_path, 2, FB_GANG_KEY_FILE=path) as members,
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
                assert is_hung_up(connection)
        assert members[1].passed.empty()
        assert any("gang key" in line for line in read_warnings(members[1]))


def test_member_without_the_key_is_told_to_mount_it(tmp_path: Path) -> None:
    path = write_key(tmp_path, KEY)
    (tmp_path / "other").mkdir()
    with contextlib.ExitStack() as stack:
        (first,) = stack.enter_context(open_members(tmp_path, 1, FB_GANG_KEY_FILE=path))
        port = {"FB_BARRIER_PORT": str(first.port)}
        _, second = stack.enter_context(open_members(tmp_path / "other", 2, **port))
        show([first, second], build_local_gang([0, 1], 1))
        first.come("start")
        dial(first).close()
        second.come("start")
        wait_until(
            lambda: any("asks for the gang key" in line for line in read_warnings(second)),
        )
        assert first.passed.empty()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "cannot be read"),
        ("", "has less than 32 characters"),
        ("short", "has less than 32 characters"),
        (f"0_another:{KEY}", "is of attempt 0_another, not of"),
    ],
)
def test_key_that_cannot_be_used_ends_the_barrier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, told: str
) -> None:
    path = tmp_path / "gang-key"
    monkeypatch.setenv("FB_GANG_KEY_FILE", str(path))
    if text is not None:
        path.write_text(text)
    with pytest.raises(peers.GangKeyError, match=told):
        peers.read_gang_key(INSTANCE)


def test_key_need_not_be_there_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FB_GANG_KEY_FILE", raising=False)
    monkeypatch.setattr(gang_key, "DEFAULT_KEY_FILE", "/nonexistent/gang-key")
    assert peers.read_gang_key(INSTANCE) is None


def test_silent_connections_do_not_pass_for_members_with_the_key(
    tmp_path: Path, many_files: None
) -> None:
    """With the key, any address may be allowed: those that prove nothing make place."""
    path = write_key(tmp_path, KEY)
    variables = {"FB_GANG_KEY_FILE": path, "FB_BARRIER_SOURCES": "any"}
    with open_members(tmp_path, 2, **variables) as members, contextlib.ExitStack() as stack:
        show(members, build_local_gang([0, 1], 1))
        pass_all(members, "before")
        for number in range(ATTACKERS):
            source = f"127.0.{number % 50 + 100}.1" if number % 2 else SECOND
            stack.enter_context(dial(members[0], source))
        pass_all(members, "during")
        assert count_files(members[0]) < MOST_FILES
