"""A worker leaves its node: the launcher's agent acknowledges when its processes have ended."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from framework.agent.report import LineReporter
from framework.api.roster import Leaving, Roster, fingerprint_uid
from framework.api.scalerequest import ScaleRequest, encode_request
from rendezvous.process.children import Children
from rendezvous.process.leavinghosts import LeavingHosts
from rendezvous.process.scaler import Scaler
from rendezvous.volume.writer import Writer
from tests.rendezvous.agents import Publisher, run_agent
from tests.rendezvous.gangs import build_role, build_roster, get_uid
from tests.support.fakes.agentclock import SkippingClock
from tests.support.servers.controlplane import Access
from tests.support.waiting import wait_until

# Processes are looked for on the whole machine: other tests have other names and addresses.
JOB = f"leave-{os.getpid()}"
ADDRESS = f"10.8.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
LEAVES = Leaving("worker", 1, fingerprint_uid(get_uid("worker", 1)), 2, "2030-01-01T00:00:00Z")
SCALE_IN = ScaleRequest(
    uid="u1",
    is_scale_in=True,
    role="worker",
    indexes=(1,),
    hosts=(),
    slots=1,
    script="",
    env=(),
    timeout_seconds=60,
)


def build_full() -> Roster:
    """A launcher and two workers; worker/1 has an address of its own."""
    workers = build_role("worker", 2, first=10)
    second = workers.members[1]._replace(addresses=(ADDRESS,))
    workers = workers._replace(members=(workers.members[0], second))
    return build_roster(build_role("launcher", 1), workers)


def build_left(*leaving: Leaving) -> Roster:
    """The next generation: worker/1 is no member, and its Pod leaves."""
    workers = build_role("worker", 1, first=10)._replace(wanted=2)
    return build_roster(build_role("launcher", 1), workers, generation=2, leaving=leaving)


FULL, LEFT, GONE = build_full(), build_left(LEAVES), build_left()


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


# Names that all processes of pytest-xdist agree on: JOB and ADDRESS differ in each.
@pytest.mark.parametrize("host", [f"root@{ADDRESS}", f"{JOB}-worker-1"], ids=["address", "name"])
def test_processes_of_a_worker_that_leaves_are_found_until_they_end(
    grandchild: Callable[..., int], host: str
) -> None:
    hosts = LeavingHosts(JOB)
    hosts.observe(FULL, None)
    pid = grandchild(host)
    assert hosts.list_busy() == []
    hosts.observe(LEFT, None)
    (busy,) = hosts.list_busy()
    assert busy.endswith(f" to {host}")
    end(pid)
    wait_until(lambda: not hosts.list_busy())


def test_processes_are_waited_for_in_later_generations_until_the_pod_is_gone(
    grandchild: Callable[..., int],
) -> None:
    hosts = LeavingHosts(JOB)
    hosts.observe(FULL, None)
    grandchild(ADDRESS)
    for roster in (LEFT, LEFT._replace(generation=3)):
        hosts.observe(roster, None)
        assert hosts.list_busy()
    hosts.observe(GONE, None)
    assert hosts.list_busy() == []


def test_processes_of_workers_that_stay_are_not_waited_for(
    grandchild: Callable[..., int],
) -> None:
    hosts = LeavingHosts(JOB)
    hosts.observe(FULL, None)
    grandchild(f"{JOB}-worker-0")
    hosts.observe(LEFT, None)
    assert hosts.list_busy() == []


@pytest.fixture
def scaler(tmp_path: Path) -> Scaler:
    clock, writer = SkippingClock(), Writer(str(tmp_path / "volume"))
    writer.prepare()
    reporter = LineReporter("rendezvous", is_json=False)
    return Scaler(JOB, Children(clock), writer.records, lambda _: None, reporter, clock, {})


def test_agent_looks_more_often_while_a_worker_that_leaves_has_processes(
    scaler: Scaler, grandchild: Callable[..., int], capfd: Any
) -> None:
    scaler.turn(FULL)
    assert not scaler.delays_acknowledgement(FULL)
    pid = grandchild(ADDRESS)
    assert scaler.delays_acknowledgement(LEFT)
    assert scaler.poll_seconds < 1
    said = capfd.readouterr().err
    assert "a Pod that leaves its node waits: processes of leaving workers run: " in said
    end(pid)
    wait_until(lambda: not scaler.delays_acknowledgement(LEFT))
    assert scaler.poll_seconds == 1


def test_scale_in_decides_alone_about_its_workers_also_after_it_has_failed(
    scaler: Scaler, grandchild: Callable[..., int]
) -> None:
    scaler.turn(FULL)
    grandchild(ADDRESS)
    scaler.observe(encode_request(SCALE_IN._replace(hosts=(ADDRESS,))))
    scaler.turn(LEFT)
    assert scaler.delays_acknowledgement(LEFT)
    scaler._clock.sleep(SCALE_IN.timeout_seconds)
    scaler.turn(LEFT)
    assert not scaler.delays_acknowledgement(LEFT)
    scaler.observe("")  # the controller has removed the request
    scaler.turn(LEFT)
    assert not scaler.delays_acknowledgement(LEFT)


def test_worker_that_leaves_during_a_scale_in_of_another_one_waits_for_both(
    scaler: Scaler, grandchild: Callable[..., int]
) -> None:
    scaler.turn(FULL)
    pid = grandchild(ADDRESS)
    scaler.observe(encode_request(SCALE_IN._replace(indexes=(0,))))
    scaler.turn(LEFT)
    end(pid)
    wait_until(lambda: not scaler._leaving.list_busy())
    assert scaler.delays_acknowledgement(LEFT)  # worker/0 is still in the host files
    scaler.turn(build_roster(build_role("launcher", 1), build_role("worker", 0), generation=3))
    assert not scaler.delays_acknowledgement(LEFT)


@pytest.mark.local
def test_agent_of_the_launcher_acknowledges_after_the_processes_of_a_leaving_worker(
    api: Access, open_gang: Callable[[], Publisher], tmp_path: Path
) -> None:
    publisher = open_gang()
    uid = publisher.create_pod("launcher", 0)

    def publish(roster: Roster) -> None:
        launcher, workers = roster.roles
        own = launcher.members[0]._replace(fingerprint=fingerprint_uid(uid))
        roles = (launcher._replace(members=(own,)), workers._replace(minimum=1))
        publisher.publish(roster._replace(roles=roles))

    def read_acknowledged() -> str:
        return publisher.read_acknowledged("launcher", 0)

    env = publisher.build_env(api.url, api.token, tmp_path / "volume", "launcher", 0, uid)
    arguments = ("watch", "--scalers", "run", "--sidecar-end", "native", "--debounce-sec", "0")
    publish(FULL)
    with run_agent(env, *arguments) as agent:
        wait_until(lambda: read_acknowledged() == "1")
        command = [sys.executable, "-c", "import sys; sys.stdin.read()", f"root@{ADDRESS}"]
        with subprocess.Popen(command, stdin=subprocess.PIPE):  # as an ssh of the launcher
            publish(LEFT)
            agent.wait_for("a Pod that leaves its node waits")
            hosts = (tmp_path / "volume" / "current" / "hosts.horovod").read_text()
            assert hosts == "10.0.0.11:1\n"
            assert read_acknowledged() == "1"
        wait_until(lambda: read_acknowledged() == "2")
