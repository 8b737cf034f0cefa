"""``run -- CMD`` as a process: what PID 1 owes its command, and what its command's code becomes."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from framework.api.roster import PHASE_COMPLETING, Leaving, Roster, fingerprint_uid
from tests.rendezvous.agents import (
    AgentProcess,
    Publisher,
    list_children,
    read_changes,
    run_agent,
    wait_until,
)
from tests.rendezvous.gangs import build_gang, build_role, build_roster
from tests.support.controlplane import Access

pytestmark = [pytest.mark.local, pytest.mark.timeout(60)]

OpenGang = Callable[[], Publisher]
SHOW = "echo generation $FB_GENERATION world $WORLD_SIZE rank $RANK"
HOLD = f"trap 'echo got TERM; exit 7' TERM; {SHOW}; while :; do sleep 0.05; done"


class Gang:
    """A gang and the environment of its worker/0."""

    def __init__(self, api: Access, publisher: Publisher, volume: Path) -> None:
        self.publisher = publisher
        self.volume = volume
        self.env = publisher.build_env(api.url, api.token, volume, "worker", 0)
        self.env["FB_DEBOUNCE_SEC"] = "0"

    def publish(self, count: int, generation: int) -> Roster:
        return self.publisher.publish(build_gang(count)._replace(generation=generation))


@pytest.fixture
def gang(api: Access, open_gang: OpenGang, tmp_path: Path) -> Gang:
    return Gang(api, open_gang(), tmp_path / "volume")


def run_shell(gang: Gang, script: str, *flags: str) -> "tuple[int, str]":
    with run_agent(gang.env, "run", *flags, "--", "sh", "-c", script) as agent:
        return agent.wait(), agent.text


def find_command(agent: AgentProcess) -> int:
    (pid,) = list_children(agent.process.pid)
    return pid


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 210", 210),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
    ],
)
def test_wrapper_ends_with_the_code_of_its_command(gang: Gang, script: str, code: int) -> None:
    gang.publish(2, 1)
    assert run_shell(gang, script)[0] == code


@pytest.mark.parametrize(
    ("program", "code"), [("/nowhere/train", 127), ("/etc/passwd", 126), ("no-such-program", 127)]
)
def test_wrapper_without_a_program_ends_as_a_shell_does(
    gang: Gang, program: str, code: int
) -> None:
    gang.publish(1, 1)
    with run_agent(gang.env, "run", "--", program) as agent:
        assert agent.wait() == code
        assert program in agent.text


def test_wrapper_starts_its_command_when_the_gang_is_complete(gang: Gang) -> None:
    incomplete = build_roster(build_role("worker", 2)._replace(wanted=3, minimum=3))
    gang.publisher.publish(incomplete._replace(complete=False))
    with run_agent(gang.env, "run", "--", "sh", "-c", SHOW) as agent:
        agent.wait_for("waiting: 2/3 Tasks are there")
        assert not (gang.volume / "current").exists()
        gang.publish(3, 2)
        assert agent.wait() == 0
        assert "generation 2 world 3 rank 0" in agent.text


def test_wrapper_of_a_gang_that_stays_incomplete_ends_with_201(gang: Gang) -> None:
    code, text = run_shell(gang, "echo started", "--timeout-sec", "0.5")
    assert code == 201, text
    assert "started" not in text


def test_wrapper_without_an_api_ends_with_1_in_time(gang: Gang) -> None:
    gang.env["KUBE_APISERVER_ADDRESS"] = "http://127.0.0.1:1"
    code, text = run_shell(gang, "echo started", "--timeout-sec=0.5")
    assert code == 1, text
    assert "unreachable" in text


def test_wrapper_terminated_while_it_waits_ends_with_143(gang: Gang) -> None:
    with run_agent(gang.env, "run", "--", "true") as agent:
        agent.wait_for("waiting")
        agent.signal(signal.SIGTERM)
        assert agent.wait() == 143


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2]
)
def test_wrapper_forwards_signals(gang: Gang, number: signal.Signals) -> None:
    gang.publish(1, 1)
    script = f"trap 'exit 9' {number.name[3:]}; echo ready; while :; do sleep 0.05; done"
    with run_agent(gang.env, "run", "--", "sh", "-c", script) as agent:
        agent.wait_for("ready")
        agent.signal(number)
        assert agent.wait() == 9


def test_wrapper_starts_its_command_with_default_signals(gang: Gang) -> None:
    gang.publish(1, 1)
    code, text = run_shell(gang, "grep -E 'Sig(Blk|Ign)' /proc/self/status")
    assert code == 0
    masks = [int(line.split()[1], 16) for line in text.splitlines() if line.startswith("Sig")]
    # From 32 on they are the C library's own and no program may set them.
    assert [mask & 0x7FFFFFFF for mask in masks] == [0, 0], text


# As a subreaper the wrapper inherits orphans, as PID 1 does.
SUBREAPER = """
import ctypes, sys
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
from rendezvous.app import main
main()
"""


def test_wrapper_reaps_orphans(gang: Gang) -> None:
    gang.publish(1, 1)
    orphans = "for i in 1 2 3 4 5; do (sh -c 'exit 5' &) ; done; echo spawned"
    script = f"{orphans}; while :; do sleep 0.05; done"
    command = (sys.executable, "-c", SUBREAPER)
    with run_agent(gang.env, "run", "--", "sh", "-c", script, command=command) as agent:
        agent.wait_for("spawned")
        wait_until("end of the orphans", lambda: len(list_children(agent.process.pid)) == 1)
        agent.signal(signal.SIGTERM)
        assert agent.wait() == 143


def test_wrapper_signals_its_command_after_the_files_changed(gang: Gang) -> None:
    gang.publish(2, 1)
    volume = gang.volume
    script = (
        f"trap 'cat {volume}/current/hosts.openmpi | wc -l' HUP; {SHOW}; "
        "while :; do sleep 0.05; done"
    )
    flags = ("--notify-signal", "HUP")
    with run_agent(gang.env, "run", *flags, "--", "sh", "-c", script) as agent:
        agent.wait_for("generation 1 world 2")
        gang.publish(4, 2)
        agent.wait_for("\n4\n")


def test_wrapper_restarts_its_command_with_the_new_world(gang: Gang) -> None:
    gang.publish(2, 1)
    flags = ("--on-change", "restart")
    with run_agent(gang.env, "run", *flags, "--", "sh", "-c", HOLD) as agent:
        agent.wait_for("generation 1 world 2 rank 0")
        first = find_command(agent)
        gang.publish(3, 2)
        agent.wait_for("generation 2 world 3 rank 0")
        assert agent.text.index("got TERM") < agent.text.index("generation 2 world 3")
        assert find_command(agent) != first
        agent.signal(signal.SIGTERM)
        assert agent.wait() == 7


def test_wrapper_kills_a_command_that_ignores_its_restart(gang: Gang) -> None:
    gang.publish(2, 1)
    script = f"trap '' TERM; {SHOW}; while :; do sleep 0.05; done"
    flags = ("--on-change", "restart", "--stop-grace-sec", "0.2")
    with run_agent(gang.env, "run", *flags, "--", "sh", "-c", script) as agent:
        agent.wait_for("generation 1 world 2")
        gang.publish(3, 2)
        agent.wait_for("generation 2 world 3")
        assert "killed" in agent.text


def test_wrapper_ends_its_command_when_the_attempt_completes(gang: Gang) -> None:
    roster = gang.publish(2, 1)
    with run_agent(gang.env, "run", "--", "sh", "-c", HOLD) as agent:
        agent.wait_for("generation 1")
        gang.publisher.publish(
            roster._replace(generation=2, phase=PHASE_COMPLETING, complete=False)
        )
        assert agent.wait() == 7
        assert "got TERM" in agent.text


def test_wrapper_of_a_leaving_pod_is_told_at_once_and_acknowledges_after(gang: Gang) -> None:
    uid = gang.publisher.create_pod("worker", 0)
    gang.env["FC_POD_UID"] = uid
    role = build_role("worker", 2)
    own = role.members[0]._replace(fingerprint=fingerprint_uid(uid))
    both = build_roster(role._replace(members=(own, role.members[1])))
    gang.publisher.publish(both)
    told = gang.volume.with_name("told")
    flags = ("--notify-command", f"cat >>{told}; echo told $FB_EVENT until $FB_DEADLINE")
    with run_agent(gang.env, "run", *flags, "--", "sh", "-c", HOLD) as agent:
        agent.wait_for("generation 1 world 2")
        acknowledged = gang.publisher.read_acknowledged
        wait_until("acknowledgement", lambda: acknowledged("worker", 0) == "1")
        deadline = "2026-01-01T00:00:00Z"
        leaving = Leaving("worker", 0, fingerprint_uid(uid), 2, deadline)
        rest = role._replace(members=role.members[1:], wanted=1, minimum=1)
        gang.publisher.publish(build_roster(rest, generation=2, leaving=(leaving,)))
        wait_until("acknowledgement", lambda: acknowledged("worker", 0) == "2")
        assert f"told leaving until {deadline}" in agent.text
    (change,) = read_changes(told)
    assert (change["event"], change["generation"], change["deadline"]) == ("leaving", 2, deadline)
    assert [(c["role"], c["index"]) for c in change["removed"]] == [("worker", 0)]


def test_wrapper_tells_its_sidecar_of_the_end(gang: Gang) -> None:
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
    with run_agent(gang.env, "run", *flags, "--", "sh", "-c", script) as agent:
        agent.wait_for("generation 1")
        gang.publish(3, 2)
        agent.wait_for("stuck")
        children = list_children(agent.process.pid)
        agent.signal(signal.SIGUSR1)
        assert agent.process.wait(timeout=5) == 4
        for pid in children:
            if Path(f"/proc/{pid}").exists():
                os.killpg(pid, signal.SIGKILL)
