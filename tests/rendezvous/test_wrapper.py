"""``run -- CMD`` as a process: start, signals, restarts and end of its command, as PID 1."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from framework.agent.clock import AgentClock
from rendezvous.process.children import Children
from rendezvous.process.ending import WrapperEnding
from tests.rendezvous.agents import (
    Gang,
    build_command_with_moved_clock,
    list_children,
    read_changes,
    run_agent,
)
from tests.rendezvous.gangs import build_role, build_roster, get_uid
from tests.rendezvous.wrapping import HOLD, SHOW, run_shell, wrap
from tests.support.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.local


@pytest.fixture
def gang(gang: Gang) -> Gang:
    del gang.env["FB_NOTIFY_COMMAND"]
    return gang


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        (["sh", "-c", "exit 0"], 0, ""),
        (["sh", "-c", "exit 210"], 210, ""),
        (["sh", "-c", "kill -9 $$"], 137, ""),
        (["sh", "-c", "kill -TERM $$"], 143, ""),
        (["/nowhere/train"], 127, "/nowhere/train"),
        (["/etc/passwd"], 126, "/etc/passwd"),
        (["no-such-program"], 127, "no-such-program"),
    ],
)
def test_wrapper_ends_with_the_code_of_its_command_or_of_a_shell(
    gang: Gang, command: list[str], code: int, text: str
) -> None:
    gang.publish(1, 1)
    with run_agent(gang.env, "run", "--", *command) as agent:
        assert agent.wait() == code
        assert text in agent.text


def test_wrapper_starts_its_command_when_the_gang_is_complete(gang: Gang) -> None:
    incomplete = build_roster(build_role("worker", 2)._replace(wanted=3, minimum=3))
    gang.publisher.publish(incomplete._replace(complete=False))
    with wrap(gang, SHOW) as agent:
        agent.wait_for("waiting: 2/3 Tasks are there")
        assert not (gang.volume / "current").exists()
        gang.publish(3, 2)
        assert agent.wait() == 0
        assert "generation 2 world 3 rank 0" in agent.text


@pytest.mark.parametrize(
    ("address", "code", "message"),
    [("", 201, "not complete"), ("http://127.0.0.1:1", 1, "unreachable")],
)
def test_wrapper_without_a_gang_ends_in_time(
    gang: Gang, tmp_path: Path, address: str, code: int, message: str
) -> None:
    if address:
        gang.env["KUBE_APISERVER_ADDRESS"] = address
    is_over = tmp_path / "the-time-is-over"
    command = build_command_with_moved_clock(is_over, seconds=60)
    words = ("run", "--timeout-sec", "60", "--", "echo", "started")
    with run_agent(gang.env, *words, command=command) as agent:
        agent.wait_for(message)
        is_over.touch()
        assert agent.wait() == code, agent.text
    assert "no complete generation in 60 s" in agent.text
    assert "started" not in agent.text


def test_wrapper_whose_port_is_taken_names_the_setting(gang: Gang) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, text = run_shell(gang, "echo started", f"--listen={port}")
    assert code == 1, text
    assert f"FB_LISTEN: cannot listen on 127.0.0.1:{port}" in text


def test_wrapper_terminated_while_it_waits_ends_with_143(gang: Gang) -> None:
    with run_agent(gang.env, "run", "--", "true") as agent:
        agent.wait_for("waiting")
        agent.signal(signal.SIGTERM)
        assert agent.wait() == 143


@pytest.mark.parametrize("name", ["TERM", "HUP", "INT", "QUIT", "USR1", "USR2", "TSTP", "WINCH"])
def test_wrapper_forwards_signals(gang: Gang, name: str) -> None:
    gang.publish(1, 1)
    script = f"trap 'exit 9' {name}; echo ready; while :; do sleep 0.05; done"
    with wrap(gang, script) as agent:
        agent.wait_for("ready")
        agent.signal(signal.Signals[f"SIG{name}"])
        assert agent.wait() == 9


def test_wrapper_starts_its_command_with_default_signals(gang: Gang) -> None:
    gang.publish(1, 1)
    code, text = run_shell(gang, "grep -E 'Sig(Blk|Ign)' /proc/self/status")
    assert code == 0
    masks = [int(line.split()[1], 16) for line in text.splitlines() if line.startswith("Sig")]
    # From 32 on they are the C library's own and no program may set them.
    assert [mask & 0x7FFFFFFF for mask in masks] == [0, 0], text


def test_wrapper_reaps_orphans(gang: Gang) -> None:
    gang.publish(1, 1)
    orphans = "for i in 1 2 3 4 5; do (sh -c 'exit 5' &) ; done; echo spawned"
    script = f"{orphans}; while :; do sleep 0.05; done"
    with wrap(gang, script) as agent:
        agent.wait_for("spawned")
        wait_until(lambda: len(list_children(agent.process.pid)) == 1)
        agent.signal(signal.SIGTERM)
        assert agent.wait() == 143


def test_wrapper_gives_its_command_its_own_input_and_a_session(gang: Gang) -> None:
    gang.publish(1, 1)
    script = (
        "read line; echo got $line; ps -o sid= -p $$ | tr -d ' ' | sed 's/^/session /'; echo me $$"
    )
    process = subprocess.run(
        [sys.executable, "-m", "rendezvous", "run", "--", "sh", "-c", script],
        env=gang.env,
        cwd="/",
        input="a line\n",
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=True,
    )
    lines = process.stdout.split("\n")
    assert lines[0] == "got a line"
    assert lines[1].removeprefix("session ") == lines[2].removeprefix("me ")


def test_wrapper_holds_a_lock_until_it_ends(gang: Gang) -> None:
    gang.publish(1, 1)
    ending = WrapperEnding(str(gang.volume))
    with wrap(gang, HOLD) as agent:
        agent.wait_for("generation 1 world")
        assert not ending.is_over()
        agent.process.kill()
        agent.process.wait()
        wait_until(ending.is_over)
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if str(gang.volume).encode() in (folder / "environ").read_bytes():
                    os.kill(int(folder.name), signal.SIGKILL)
    assert not (gang.volume / ".ended").exists()


def test_wrapper_leaves_a_file_for_its_sidecar_at_its_end(gang: Gang) -> None:
    gang.publish(1, 1)
    (gang.volume).mkdir()
    (gang.volume / ".ended").touch()
    assert run_shell(gang, f"test ! -e {gang.volume}/.ended")[0] == 0
    assert (gang.volume / ".ended").exists()


def test_wrapper_puts_the_site_folder_on_the_path(gang: Gang) -> None:
    gang.publish(2, 1)
    with run_agent(gang.env, "install") as installer:
        assert installer.wait() == 0
    script = "import json, peers; print(json.dumps(peers.roster().addresses))"
    with run_agent(gang.env, "run", "--", sys.executable, "-c", script) as agent:
        assert agent.wait() == 0, agent.text
    assert json.loads(agent.text.splitlines()[-1]) == ["10.0.0.2", "10.0.0.3"]


def test_wrapper_exits_at_once_when_its_command_does(gang: Gang) -> None:
    """A notification that hangs must keep neither signal nor exit waiting."""
    gang.publish(2, 1)
    flags = ("--notify-command", "echo stuck; sleep 1000")
    script = f"trap 'exit 4' USR1; {SHOW}; while :; do sleep 0.05; done"
    with wrap(gang, script, *flags) as agent:
        agent.wait_for("generation 1 world")
        gang.publish(3, 2)
        agent.wait_for("stuck")
        children = list_children(agent.process.pid)
        agent.signal(signal.SIGUSR1)
        assert agent.process.wait(timeout=HANG_SECONDS) == 4
        hanging = [pid for pid in children if Path(f"/proc/{pid}").exists()]
        assert hanging, "the wrapper waited for the end of the notification"
        for pid in hanging:
            os.killpg(pid, signal.SIGKILL)


def test_child_that_may_not_be_signalled_is_still_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_pid: int, _number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    children = Children(AgentClock())
    pid = children.start(["sh", "-c", "read line; exit 3"], dict(os.environ), b"go\n")
    monkeypatch.setattr("os.kill", refuse)
    children.kill(pid)
    assert children.wait(pid, HANG_SECONDS) == 3


# --- A gang of 10,000

MEMBERS = 10_000
LARGE_GANG_SCRIPT = """
echo "rank $RANK of $WORLD_SIZE"
tr , '\\n' <"$FB_WORKER_ADDRESSES_FILE" | wc -l
wc -l <"${BARRIER_WORKING_DIR}/current/hosts.openmpi"
sh "$BARRIER_WORKING_DIR/discover_hosts.sh" | wc -l
. "$BARRIER_WORKING_DIR/current/env.sh" && exec env sh -c 'echo "env of $FB_SIZE"'
"""


def test_gang_of_ten_thousand_starts_its_command_and_programs_start_from_it(gang: Gang) -> None:
    gang.publish(MEMBERS, 1)
    gang.env.update(FC_TASK_INDEX="9999", FC_POD_UID=get_uid("worker", 9999))
    code, text = run_shell(gang, LARGE_GANG_SCRIPT)
    assert code == 0, text
    assert "rank 9999 of 10000" in text
    assert "env of 10000" in text
    assert text.split().count("10000") >= 3, text


def test_change_of_ten_thousand_members_reaches_a_command(gang: Gang) -> None:
    """What was added is too long for a variable; the JSON on the command's input has it all."""
    gang.publish(2, 1)
    gang.env["FB_NOTIFY_COMMAND"] = f"cat >>{gang.notified}"
    with wrap(gang, HOLD) as agent:
        agent.wait_for("generation 1 world 2")
        gang.publish(MEMBERS, 2)
        (change,) = wait_until(lambda: read_changes(gang.notified))
        agent.signal(signal.SIGTERM)
        assert agent.wait() == 7
    assert len(change["added"]) == MEMBERS - 2
    assert change["added"][-1]["index"] == MEMBERS - 1
