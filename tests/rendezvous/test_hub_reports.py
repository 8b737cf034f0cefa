"""The hub of the barrier answers reports of agents: only those of members of the gang."""

import contextlib
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from rendezvous.progress.progresslink import NoMemberError, ProgressLink
from rendezvous.site import peers
from rendezvous.site.peers.barriers.client import lock_hub
from tests.rendezvous.gangs import BROKEN_MEMBERS, write_members
from tests.rendezvous.members import (
    Member,
    build_arrival,
    build_local_gang,
    connect,
    open_members,
    write,
)
from tests.support.servers.childprocess import find_free_ports

WATCH = (
    "from peers.barriers import hub\n"
    "hub.answer_reports(lambda member, report: {'of': member, 'step': report['step']})\n"
)
GANG = build_local_gang([0, 1], 1)


def build_report(report: Any, **changes: Any) -> bytes:
    arrival = build_arrival(GANG, 1, "")
    line = {key: arrival[key] for key in ("attempt", "role", "index", "pod")}
    return json.dumps({**line, "report": report, **changes}).encode() + b"\n"


def serve(member: Member) -> None:
    member.show(GANG)
    member.come("start")


def exchange(connection: socket.socket, line: bytes) -> bytes:
    with contextlib.suppress(ConnectionResetError):
        connection.sendall(line)
        return connection.recv(4096)
    return b""


def test_reports_are_answered_on_one_connection(tmp_path: Path) -> None:
    with open_members(tmp_path, 2, setup=WATCH) as members:
        serve(members[0])
        member = ["worker", 1, build_arrival(GANG, 1, "")["pod"]]
        with connect(members[0]) as connection:
            for step in range(3):
                answer = json.loads(exchange(connection, build_report({"step": step})))
                assert answer == {"of": member, "step": step}
        members[1].show(GANG)
        members[1].come("start")
        assert [member.passed.get() for member in members] == ["passed start 1"] * 2


@pytest.mark.parametrize(
    "line",
    [
        build_report({"step": 1}, attempt="another"),
        build_report({"step": 1}, index=2),
        build_report({"step": 1}, pod="00000000"),
        build_report({"step": 1}, role=[]),
        build_report({}),
        build_report(None),
        build_report("step"),
        build_report([1]),
    ],
)
def test_hub_hangs_up_on_other_reports_and_goes_on(tmp_path: Path, line: bytes) -> None:
    with open_members(tmp_path, 1, setup=WATCH) as members:
        serve(members[0])
        with connect(members[0]) as connection:
            assert exchange(connection, line) == b""
        with connect(members[0]) as connection:
            assert exchange(connection, build_report({"step": 1}))


@pytest.mark.parametrize("content", BROKEN_MEMBERS)
def test_hub_goes_on_though_another_program_breaks_the_file_of_the_members(
    tmp_path: Path, content: str
) -> None:
    with open_members(tmp_path, 1, setup=WATCH) as members:
        serve(members[0])
        with connect(members[0]) as connection:
            assert exchange(connection, build_report({"step": 1}))
            write_members(members[0].volume, content)
            for step in range(2):
                assert exchange(connection, build_report({"step": step}))


def test_hub_of_a_training_process_answers_no_report(tmp_path: Path) -> None:
    with open_members(tmp_path, 1) as members:
        serve(members[0])
        with connect(members[0]) as connection:
            assert exchange(connection, build_report({"step": 1})) == b""


def test_report_without_a_proof_of_the_gang_key_is_not_answered(tmp_path: Path) -> None:
    key = tmp_path / "gang-key"
    key.write_text("ab" * 32)
    with open_members(tmp_path, 1, setup=WATCH, FB_GANG_KEY_FILE=str(key)) as members:
        serve(members[0])
        with connect(members[0]) as connection:
            assert b"nonce" in connection.recv(4096)
            assert exchange(connection, build_report({"step": 1})) == b""


@pytest.fixture
def own_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    (port,) = find_free_ports(1)
    monkeypatch.setenv("BARRIER_WORKING_DIR", str(tmp_path))
    monkeypatch.setenv("FB_BARRIER_PORT", str(port))
    return port


def is_served(port: int, index: int) -> bool:
    try:
        socket.create_connection((f"127.0.9.{index + 1}", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def wait_at_barrier() -> None:
    with pytest.raises(TimeoutError):
        peers.barrier("start", timeout=0.2)


def test_training_process_of_a_watched_rank_0_serves_no_hub(
    tmp_path: Path, own_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, GANG)
    monkeypatch.setenv("FB_BARRIER_SERVED_BY", "1")
    wait_at_barrier()
    assert not is_served(own_port, 0)


def test_training_process_of_another_container_serves_no_hub_while_the_agent_runs(
    tmp_path: Path, own_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, GANG)
    monkeypatch.delenv("FB_BARRIER_SERVED_BY", raising=False)
    lock = lock_hub(str(tmp_path))
    assert lock is not None
    wait_at_barrier()
    assert not is_served(own_port, 0)
    monkeypatch.setenv("FB_BARRIER_SERVED_BY", str(os.getpid()))
    wait_at_barrier()
    assert is_served(own_port, 0), "the agent itself"
    os.close(lock)


def test_training_process_serves_the_hub_again_after_the_end_of_the_agent(
    tmp_path: Path, own_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, GANG)
    monkeypatch.delenv("FB_BARRIER_SERVED_BY", raising=False)
    lock = lock_hub(str(tmp_path))
    assert lock is not None
    os.close(lock)
    wait_at_barrier()
    assert is_served(own_port, 0)


def test_hub_is_not_locked_through_a_link(tmp_path: Path) -> None:
    (tmp_path / ".served").symlink_to(tmp_path / "other")
    assert lock_hub(str(tmp_path)) is None
    assert not (tmp_path / "other").exists()


def test_agent_serves_when_its_pod_becomes_rank_0(tmp_path: Path, own_port: int) -> None:
    write(tmp_path, GANG, index=1)
    link = ProgressLink()
    assert link.serve()
    assert not is_served(own_port, 1)
    write(tmp_path, build_local_gang([1], 2), index=1)
    assert link.serve()
    assert is_served(own_port, 1)
    assert ProgressLink().serve(), "it is the own hub"


def test_agent_knows_that_another_program_has_its_port(tmp_path: Path, own_port: int) -> None:
    write(tmp_path, GANG)
    with socket.create_server(("127.0.9.1", own_port)):
        assert not ProgressLink().serve()


def test_pod_that_leaves_reports_to_nobody(tmp_path: Path, own_port: int) -> None:
    write(tmp_path, build_local_gang([0], 2), index=1)
    with pytest.raises(NoMemberError):
        ProgressLink().exchange({})
