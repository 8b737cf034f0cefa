"""Two controllers as processes beside one API server: one acts, the other takes over."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.gate.leader import DEFAULT_LEASE_NAME, LeaseTimes
from framework.kube.resources import FRAMEWORKS, LEASES, PODS, Object
from tests.support.builders import build_role_wire, build_submission
from tests.support.measuring.pace import expect_within
from tests.support.servers.childprocess import ChildProcess
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import build_env, open_local_server
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.waiting import wait_until

pytestmark = pytest.mark.local

NAMESPACE = "default"
# docs/operations.md: 8 s after a SIGKILL, of which the seconds of the Lease are fixed.
KILLED_SECONDS = 8.0
ASKED_SECONDS = 1.0


class Pair:
    """Two controllers on one server."""

    def __init__(self, access: Access, folder: Path) -> None:
        self.http: JsonHttp = access.open_http()
        self._access = access
        self._folder = folder
        self.children: list[ChildProcess] = []

    def start(self) -> ChildProcess:
        command = [sys.executable, "-m", "controller", "--leader-elect", "--health-port", "0"]
        command += ["--kubeconfig", self._access.kubeconfig]
        log = self._folder / f"controller-{len(self.children)}.log"
        child = ChildProcess("controller", command, log=log, env=build_env())
        self.children.append(child)
        return child

    def find_leader(self) -> int:
        """Return the process id of the holder of the Lease, 0 if there is none."""
        path = LEASES.path(NAMESPACE, DEFAULT_LEASE_NAME)
        status, lease = self.http.request("GET", path)
        holder = lease["spec"].get("holderIdentity") if status == 200 else ""
        return int(holder.split("_")[-2]) if holder else 0

    def create(self, name: str) -> None:
        gang = build_submission(name, build_role_wire(number=3))
        status, answer = self.http.request("POST", FRAMEWORKS.path(NAMESPACE), gang)
        assert status == 201, answer

    def wait_for_pods(self, name: str) -> None:
        self.wait_for("Pods", lambda: len(self.list_pods(name)) == 3)

    def wait_for_leader(self, child: ChildProcess) -> None:
        self.wait_for("leader", lambda: self.find_leader() == child.pid)

    def list_pods(self, name: str) -> list[Object]:
        _, answer = self.http.request("GET", PODS.path(NAMESPACE))
        return [p for p in answer["items"] if p["metadata"]["name"].startswith(f"{name}-")]

    def wait_for(self, name: str, is_reached: Callable[[], bool]) -> None:
        wait_until(is_reached, lambda: f"{name}\n" + "\n".join(c.tail() for c in self.children))

    def open(self) -> tuple[ChildProcess, ChildProcess]:
        """Start both and create a gang of three Pods; return the leader and the standby."""
        leader = self.start()
        self.wait_for_leader(leader)
        standby = self.start()
        self.wait_for("standby", lambda: "not leading" in standby.tail())
        self.create("before")
        self.wait_for_pods("before")
        return leader, standby


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with open_local_server(tmp_path) as access:
        pair = Pair(access, tmp_path)
        yield pair
        for child in pair.children:
            child.kill()


@pytest.mark.slow
def test_leader_killed_is_replaced_within_8_seconds(pair: Pair) -> None:
    leader, standby = pair.open()
    with expect_within(KILLED_SECONDS, fixed_seconds=LeaseTimes().lease_seconds):
        os.kill(leader.pid, signal.SIGKILL)
        pair.create("after")
        pair.wait_for_pods("after")
    assert pair.find_leader() == standby.pid
    assert len(pair.list_pods("before")) == 3


@pytest.mark.slow
def test_leader_asked_to_stop_is_replaced_within_a_second(pair: Pair) -> None:
    leader, standby = pair.open()
    with expect_within(ASKED_SECONDS):
        os.kill(leader.pid, signal.SIGTERM)
        # Either controller may see it first: the one that stops must not leave it half done.
        pair.create("after")
        pair.wait_for_pods("after")
    assert leader.terminate() == 0
    # However slow the machine is: the Lease was released, it did not run out.
    assert "lease released" in leader.tail()
    pair.wait_for_leader(standby)


def test_leader_asked_to_stop_again_and_again_exits_with_0(pair: Pair) -> None:
    leader = pair.start()
    pair.wait_for_leader(leader)
    # Also while the interpreter ends, when no event loop takes signals any more.
    while leader.is_running():
        os.kill(leader.pid, signal.SIGTERM)
        time.sleep(0.0005)
    assert leader.terminate() == 0
    assert not pair.find_leader()


@pytest.mark.slow
def test_leader_stopped_for_longer_than_its_lease_ends_without_another_write(pair: Pair) -> None:
    leader, standby = pair.open()
    os.kill(leader.pid, signal.SIGSTOP)
    pair.create("after")
    pair.wait_for_leader(standby)
    pair.wait_for_pods("after")
    os.kill(leader.pid, signal.SIGCONT)
    pair.wait_for("end of the first", lambda: not leader.is_running())
    assert leader.terminate() == 1
    assert "is held by" in leader.tail() or "was not renewed" in leader.tail()
    assert pair.find_leader() == standby.pid
    assert len(pair.list_pods("after")) == 3
