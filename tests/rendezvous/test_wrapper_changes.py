"""``run -- CMD`` as a process: what its command learns of changes of the gang, and its restarts."""

import itertools
import signal
import statistics
import sys
import time

import pytest

from framework.api.roster import (
    PHASE_COMPLETING,
    CompletedTask,
    Leaving,
    RoleRoster,
    fingerprint_uid,
)
from tests.rendezvous.agents import (
    Gang,
    list_children,
    run_agent,
)
from tests.rendezvous.gangs import build_failed, build_role, build_roster
from tests.rendezvous.wrapping import HOLD, SHOW, find_command, wrap
from tests.support.machine.processes import is_running
from tests.support.measuring.pace import expect_usually_within
from tests.support.waiting import wait_until

pytestmark = pytest.mark.local
NOTIFIED_TRIES = 15
NOTIFIED_SECONDS = 0.1


@pytest.fixture
def gang(gang: Gang) -> Gang:
    del gang.env["FB_NOTIFY_COMMAND"]
    return gang


def test_wrapper_signals_its_command_after_the_files_changed(gang: Gang) -> None:
    gang.publish(2, 1)
    volume = gang.volume
    script = (
        f"trap 'cat {volume}/current/hosts.openmpi | wc -l' HUP; {SHOW}; "
        "while :; do sleep 0.05; done"
    )
    with wrap(gang, script, "--notify-signal=HUP") as agent:
        agent.wait_for("generation 1 world 2")
        gang.publish(4, 2)
        agent.wait_for("\n4\n")


def test_wrapper_does_not_kill_a_command_that_is_not_ready_for_its_signal(gang: Gang) -> None:
    """Frameworks take seconds to import, and late members come in just those."""
    gang.publish(2, 1)
    ready = gang.volume.with_name("ready")
    script = (
        f"{SHOW}; until [ -e {ready} ]; do sleep 0.05; done; trap 'echo notified; exit 9' USR1; "
        "echo ready; while :; do sleep 0.05; done"
    )
    with wrap(gang, script, "--notify-signal=USR1") as agent:
        agent.wait_for("generation 1 world 2")
        for number in (2, 3):
            gang.publish(number + 1, number)
            agent.wait_for(f"generation {number} is current")
        agent.wait_for("SIGUSR1: process")
        ready.touch()
        assert agent.wait() == 9, agent.text
    assert agent.text.count("notified") == 1


def test_wrapper_sends_a_signal_that_asks_for_the_end_at_once(gang: Gang) -> None:
    gang.publish(2, 1)
    with run_agent(gang.env, "run", "--notify-signal=TERM", "--", "sleep", "60") as agent:
        agent.wait_for("generation 1 is current")
        wait_until(lambda: list_children(agent.process.pid))
        gang.publish(3, 2)
        assert agent.wait() == 143


PRINT_SIGNALS = """
import signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("ready", flush=True)
while True:
    signal.sigwait([signal.SIGUSR1])
    print("notified", time.monotonic(), flush=True)
"""


def test_process_is_notified_within_100_ms(gang: Gang) -> None:
    gang.publish(2, 1)
    numbers = itertools.count(2)
    flags = ("--notify-signal", "USR1")
    with run_agent(gang.env, "run", *flags, "--", sys.executable, "-c", PRINT_SIGNALS) as agent:

        def notify() -> float:
            number, started = next(numbers), time.monotonic()
            gang.publish(3 - number % 2, number)
            wait_until(lambda: agent.text.count("notified ") == number - 1)
            return float(agent.text.rsplit("notified ", 1)[1].split()[0]) - started

        agent.wait_for("ready")
        expect_usually_within(
            NOTIFIED_SECONDS, lambda: statistics.median(notify() for _ in range(NOTIFIED_TRIES))
        )


def test_wrapper_restarts_its_command_with_the_new_world(gang: Gang) -> None:
    gang.publish(2, 1)
    with wrap(gang, HOLD, "--on-change=restart") as agent:
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
    with wrap(gang, script, *flags) as agent:
        agent.wait_for("generation 1 world 2")
        gang.publish(3, 2)
        agent.wait_for("generation 2 world 3")
        assert "killed" in agent.text


def test_wrapper_restarts_into_a_place_without_leftovers(gang: Gang) -> None:
    """Workers in sessions of their own, as torchrun starts them, would keep ports and devices."""
    gang.publish(2, 1)
    left = gang.volume.with_name("left")
    script = (
        f": >{left}; {SHOW}; for i in 1 2; do "
        f"setsid sh -c 'echo $$ >>{left}; (sleep 1000 & sleep 1000)' & done; "
        f'while [ "$(wc -l <{left})" -lt 2 ]; do sleep 0.01; done; '
        "echo workers-started; exec sleep 1000"
    )
    again = f"if [ $FB_GENERATION = 1 ]; then {script}; fi; {SHOW}; exec sleep 1000"
    with wrap(gang, again, "--on-change=restart") as agent:
        agent.wait_for("workers-started")
        pids = [int(line) for line in left.read_text().split()]
        assert all(is_running(pid) for pid in pids)
        gang.publish(3, 2)
        agent.wait_for("generation 2 world 3")
        assert not any(is_running(pid) for pid in pids)
        # Some that were killed last may still have to be reaped.
        wait_until(lambda: len(list_children(agent.process.pid)) == 1)


COUNT = (
    "trap 'echo TERM >>{file}' TERM; echo ready; "
    "while [ ! -e {file}.end ]; do sleep 0.05; done; exit 6"
)


@pytest.mark.parametrize("first", ["kubelet", "roster"])
def test_wrapper_asks_its_command_to_end_once(gang: Gang, first: str) -> None:
    """A second SIGTERM makes some programs drop the checkpoint they write."""
    roster = gang.publish(2, 1)
    file = gang.volume.with_name("signals")
    completing = roster._replace(generation=2, phase=PHASE_COMPLETING, complete=False)
    flags = ("--notify-command", f"echo notified >>{file}.$FB_EVENT")
    script = COUNT.format(file=file)
    with wrap(gang, script, *flags) as agent:
        agent.wait_for("ready")
        if first == "kubelet":
            agent.signal(signal.SIGTERM)
            wait_until(file.exists)
        gang.publisher.publish(completing)
        wait_until(file.with_name("signals.completing").exists)
        wait_until(lambda: file.exists() and file.read_text())
        if first == "roster":
            agent.signal(signal.SIGTERM)
            agent.signal(signal.SIGUSR2)  # forwarded after it, and ends the command
            assert agent.wait() == 128 + signal.SIGUSR2
        else:
            file.with_name("signals.end").touch()
            assert agent.wait() == 6
    assert file.read_text() == "TERM\n"


@pytest.mark.parametrize("drains", [True, False], ids=["drained", "removed"])
def test_wrapper_does_not_restart_a_command_that_leaves(gang: Gang, *, drains: bool) -> None:
    uid = gang.publisher.create_pod("worker", 0)
    gang.env["FC_POD_UID"] = uid
    role = build_role("worker", 4)
    own = role.members[0]._replace(fingerprint=fingerprint_uid(uid))
    gang.publisher.publish(build_roster(role._replace(members=(own, *role.members[1:]))))
    entry = Leaving("worker", 0, fingerprint_uid(uid), 2, "2026-01-01T00:00:00Z")
    leaving = (entry,) if drains else ()
    flags = ("--on-change", "restart", "--notify-command", "echo notified $FB_EVENT $FB_GENERATION")
    with wrap(gang, HOLD, *flags) as agent:
        agent.wait_for("generation 1 world 4")
        for generation, members in ((2, role.members[1:]), (3, role.members[2:])):
            rest = role._replace(members=members, wanted=len(members), minimum=1)
            gang.publisher.publish(build_roster(rest, generation=generation, leaving=leaving))
            event = "leaving" if generation == 2 and drains else "changed"
            agent.wait_for(f"notified {event} {generation}")
        wait_until(lambda: gang.publisher.read_acknowledged("worker", 0) == "3")
        assert "got TERM" not in agent.text
        agent.signal(signal.SIGTERM)
        assert agent.wait() == 7


def publish_failure(gang: Gang, generation: int = 2) -> None:
    """Publish that worker 1 of three failed, and has no successor yet."""
    rest = build_role("worker", [0, 2])._replace(wanted=3, minimum=3)
    failed = (build_failed(1, since=generation),)
    roster = build_roster(rest, generation=generation)
    gang.publisher.publish(roster._replace(complete=False, failed=failed))


def test_wrapper_ends_its_command_at_once_when_a_peer_fails(gang: Gang) -> None:
    gang.publish(3, 1)
    flags = ("--on-change", "restart", "--notify-command", "echo notified $FB_EVENT $FB_FAILED")
    with wrap(gang, HOLD, *flags) as agent:
        agent.wait_for("generation 1 world 3 rank 0")
        publish_failure(gang)
        agent.wait_for("the command ended with 7, it is started again when the gang is complete")
        agent.wait_for("notified failed worker/1=137")
        assert list_children(agent.process.pid) == []
        assert gang.read_current() == 1
        again = build_role("worker", 3)
        successor = again.members[1]._replace(fingerprint="0" * 8, attempt_id=1)
        members = (again.members[0], successor, again.members[2])
        gang.publisher.publish(build_roster(again._replace(members=members), generation=3))
        agent.wait_for("generation 3 world 3 rank 0")
        assert agent.text.count("got TERM") == 1
        agent.signal(signal.SIGTERM)
        assert agent.wait() == 7


def test_wrapper_starts_its_command_again_though_the_successor_is_done_already(gang: Gang) -> None:
    gang.publish(3, 1)
    with wrap(gang, HOLD, "--on-change=restart") as agent:
        agent.wait_for("generation 1 world 3")
        publish_failure(gang)
        agent.wait_for("it is started again when the gang is complete")
        done = (CompletedTask(1, "Succeeded", "10.0.0.3"),)
        rest = build_role("worker", [0, 2], completed=done)
        gang.publisher.publish(build_roster(rest, generation=3))
        agent.wait_for("generation 3 world 2 rank 0")


@pytest.mark.parametrize("end", ["kubelet", "roster"])
def test_wrapper_that_waits_for_a_successor_ends_with_its_pod(gang: Gang, end: str) -> None:
    roster = gang.publish(3, 1)
    with wrap(gang, HOLD, "--on-change=restart") as agent:
        agent.wait_for("generation 1 world 3")
        publish_failure(gang)
        agent.wait_for("it is started again when the gang is complete")
        if end == "kubelet":
            agent.signal(signal.SIGTERM)
        else:
            completing = roster._replace(generation=3, phase=PHASE_COMPLETING, complete=False)
            gang.publisher.publish(completing)
        assert agent.wait() == 128 + signal.SIGTERM


def publish_leave(gang: Gang, role: RoleRoster, generation: int = 2) -> None:
    """Publish that worker 1 of three leaves."""
    rest = role._replace(members=(role.members[0], role.members[2]))
    entry = Leaving("worker", 1, role.members[1].fingerprint, generation, "2026-01-01T00:00:00Z")
    roster = build_roster(rest, generation=generation, leaving=(entry,))
    gang.publisher.publish(roster._replace(complete=False))


@pytest.mark.parametrize("code", [1, 139])
def test_wrapper_starts_a_command_again_that_fails_while_a_peer_leaves(
    gang: Gang, code: int
) -> None:
    gang.publish(3, 1)
    role = build_role("worker", 3)
    lost = gang.volume.with_name("lost")
    train = f"{SHOW}; while [ ! -e {lost} ]; do sleep 0.05; done; rm {lost}; exit {code}"
    flags = ("--on-change", "restart", "--notify-command", "echo notified $FB_EVENT $FB_LEAVING")
    with wrap(gang, train, *flags) as agent:
        agent.wait_for("generation 1 world 3 rank 0")
        publish_leave(gang, role)
        agent.wait_for("notified peer-leaving worker/1")
        lost.touch()
        agent.wait_for(f"ended with {code}, it is started again when the gang is complete")
        publish_failure(gang, 3)
        agent.wait_for("notified failed")
        successor = role.members[1]._replace(fingerprint="0" * 8, attempt_id=1)
        members = (role.members[0], successor, role.members[2])
        gang.publisher.publish(build_roster(role._replace(members=members), generation=4))
        agent.wait_for("generation 4 world 3 rank 0")
        lost.touch()
        assert agent.wait() == code, "no peer leaves any more"


def test_wrapper_starts_a_command_again_that_fails_while_the_leave_is_still_notified(
    gang: Gang,
) -> None:
    gang.publish(3, 1)
    lost, go_on = gang.volume.with_name("lost"), gang.volume.with_name("go-on")
    train = f"{SHOW}; while [ ! -e {lost} ]; do sleep 0.05; done; exit 1"
    slow = f"touch {lost}; while [ ! -e {go_on} ]; do sleep 0.05; done; echo notified"
    with wrap(gang, train, "--on-change", "restart", "--notify-command", slow) as agent:
        agent.wait_for("generation 1 world 3")
        publish_leave(gang, build_role("worker", 3))
        agent.wait_for("it is started again when the gang is complete")
        go_on.touch()
        agent.wait_for("notified")
        agent.signal(signal.SIGTERM)
        assert agent.wait() == 128 + signal.SIGTERM


def test_wrapper_without_a_command_ends_when_its_own_pod_leaves(gang: Gang) -> None:
    uid = gang.publisher.create_pod("worker", 0)
    gang.env["FC_POD_UID"] = uid
    role = build_role("worker", 3)
    own = role.members[0]._replace(fingerprint=fingerprint_uid(uid))
    role = role._replace(members=(own, *role.members[1:]))
    gang.publisher.publish(build_roster(role))
    lost = gang.volume.with_name("lost")
    train = f"{SHOW}; while [ ! -e {lost} ]; do sleep 0.05; done; exit 1"
    flags = ("--on-change", "restart", "--notify-command", "echo notified $FB_EVENT")
    with wrap(gang, train, *flags) as agent:
        agent.wait_for("generation 1 world 3")
        publish_leave(gang, role)
        agent.wait_for("notified peer-leaving")
        lost.touch()
        agent.wait_for("it is started again when the gang is complete")
        rest = role._replace(members=role.members[2:])
        leaving = tuple(
            Leaving("worker", member.index, member.fingerprint, 3, "2026-01-01T00:00:00Z")
            for member in role.members[:2]
        )
        roster = build_roster(rest, generation=3, leaving=leaving)
        gang.publisher.publish(roster._replace(complete=False))
        assert agent.wait() == 128 + signal.SIGTERM


def test_wrapper_ends_with_a_command_that_fails_after_a_leaving_peer_has_succeeded(
    gang: Gang,
) -> None:
    gang.publish(3, 1)
    role = build_role("worker", 3)
    lost = gang.volume.with_name("lost")
    train = f"{SHOW}; while [ ! -e {lost} ]; do sleep 0.05; done; exit 5"
    flags = ("--on-change", "restart", "--notify-command", "echo notified $FB_EVENT")
    with wrap(gang, train, *flags) as agent:
        agent.wait_for("generation 1 world 3")
        publish_leave(gang, role)
        agent.wait_for("notified peer-leaving")
        done = (CompletedTask(1, "Succeeded", "10.0.0.3"),)
        rest = build_role("worker", [0, 2], completed=done)
        gang.publisher.publish(build_roster(rest, generation=3))
        agent.wait_for("notified changed")
        lost.touch()
        assert agent.wait() == 5


def test_wrapper_that_only_notifies_runs_its_command_on_when_a_peer_fails(gang: Gang) -> None:
    gang.publish(3, 1)
    script = f"trap 'echo got USR1' USR1; {HOLD}"
    flags = ("--notify-signal", "USR1", "--notify-command", "echo notified $FB_EVENT")
    with wrap(gang, script, *flags) as agent:
        agent.wait_for("generation 1 world 3")
        publish_failure(gang)
        agent.wait_for("notified failed")
        gang.publish(4, 3)
        agent.wait_for("got USR1")
        agent.wait_for("notified changed")
        assert agent.text.count("got USR1") == 1, "a signal means a new generation"
        assert "got TERM" not in agent.text


def test_wrapper_does_not_restart_because_a_peer_has_done_its_work(gang: Gang) -> None:
    role = build_role("worker", 3)
    done = CompletedTask(2, "Succeeded", "10.0.0.4")
    rest = role._replace(members=role.members[:2], completed=(done,))
    gang.publisher.publish(build_roster(role))
    flags = ("--on-change", "restart", "--notify-command", "echo notified $FB_EVENT $FB_GENERATION")
    with wrap(gang, HOLD, *flags) as agent:
        agent.wait_for("generation 1 world 3")
        gang.publisher.publish(build_roster(rest, generation=2))
        agent.wait_for("notified changed 2")
        gang.publisher.publish(build_roster(build_role("worker", 4), generation=3))
        agent.wait_for("generation 3 world 4")
        assert agent.text.count("got TERM") == 1
