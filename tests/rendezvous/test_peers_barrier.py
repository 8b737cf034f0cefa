"""The barrier of training code: one process of each member, as in a gang."""

import contextlib
import json
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.api.roster import fingerprint_uid
from rendezvous.site import peers
from rendezvous.site.peers.barriers import client
from rendezvous.site.peers.barriers.protocol import mark_members
from tests.rendezvous.gangs import (
    INSTANCE,
    build_role,
    build_roster,
    get_uid,
)
from tests.rendezvous.members import (
    Member,
    assert_passed,
    assert_waits,
    build_arrival,
    build_arrival_line,
    build_local_gang,
    come,
    connect,
    open_members,
    show,
    write,
)
from tests.support.waiting import HANG_SECONDS


@pytest.fixture
def members(tmp_path: Path) -> Iterator[list[Member]]:
    with open_members(tmp_path, 3) as found:
        yield found


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


def test_agent_that_knows_other_members_is_not_released_until_it_knows_the_same(
    members: list[Member],
) -> None:
    gang = build_local_gang([0, 1], 1)
    members[0].show(gang)
    members[0].come("start")
    arrival = build_arrival(gang, 1, "mine")
    mark = mark_members(("worker", i, fingerprint_uid(get_uid("worker", i))) for i in (1, 0))
    with connect(members[0]) as before, connect(members[0]) as after:
        before.sendall(json.dumps({**arrival, "members": "89abcdef"}).encode() + b"\n")
        assert_waits(members[0])
        after.sendall(json.dumps({**arrival, "members": mark}).encode() + b"\n")
        # The release says with which members all start, also to the connection before.
        assert {each.recv(16) for each in (before, after)} == {f"go {mark}\n".encode()}
    assert_passed([members[0]], "start 1")
    show([members[0]], build_local_gang([0], 2))
    with connect(members[0]) as again:
        again.sendall(json.dumps({**arrival, "members": "89abcdef"}).encode() + b"\n")
        assert again.recv(16) == f"go {mark}\n".encode(), "it has missed the release"


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


def test_barrier_without_rank_zero_is_tried_with_longer_and_longer_pauses(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand agents come to one that starts slowly."""
    write(volume, build_roster(build_role("worker", 2)), index=1)
    pauses: list[float] = []

    def refuse(*_: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(client, "connect", refuse)
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


@pytest.mark.parametrize(
    ("is_closed", "text"),
    [
        (False, "barrier: rank 0 does not answer in 0 s"),
        (True, "barrier: rank 0 does not accept, or does not have, this attempt's gang key"),
    ],
)
def test_rank_0_without_an_answer_is_not_taken_for_one_with_another_gang_key(
    monkeypatch: pytest.MonkeyPatch, *, is_closed: bool, text: str
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(client, "warn_once", warnings.append)
    monkeypatch.setattr(client, "FIRST_LINE_SECONDS", 0.05)
    own, rank_0 = socket.socketpair()
    with own, rank_0:
        if is_closed:
            rank_0.close()
        with pytest.raises(ConnectionError):
            client.prove(own, b"key", "0_attempt")
    assert warnings == [text]
