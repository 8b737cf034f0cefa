"""An API server out of reach for a while and a stopped leader, on a real API server.

The cluster works on meanwhile: Pods end and are deleted, users write.
"""

import asyncio
import itertools
import os
import re
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from framework.api.states import FrameworkState, TaskState
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.resources import FRAMEWORKS, LEASES, PODS, Object
from tests.support.builders import build_role_wire, build_submission
from tests.support.fakes.kubelet import FakeKubelet, FakePod, Script, run_until_deleted
from tests.support.fakes.proxy import ThreadProxy, run_proxy
from tests.support.measuring.pace import expect_within
from tests.support.servers.childprocess import ChildProcess
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import launch_controller
from tests.support.servers.watching import watch_until
from tests.support.simulator.invariants import check_step
from tests.support.waiting import wait_until_async
from tests.upgrade.takeover import Ledger, open_ledger

FRAMEWORK_COUNT = 50
# The waits between two tries are the longest ones then: 0.2 + 0.4 + 0.8 + 1.6 + 3.2 s come first.
OUTAGE_SECONDS = 10
RECONVERGED_SECONDS = 10


class World:
    """A namespace with many small Frameworks, whose Pods run until the test ends them."""

    def __init__(self, kube: KubeClient, namespace: str, ledger: Ledger) -> None:
        self.kube = kube
        self.namespace = namespace
        self.ledger = ledger
        self.may_end: dict[str, asyncio.Event] = {}

    def choose_script(self, body: Object) -> Script:
        may_end = self.may_end.setdefault(body["metadata"]["name"], asyncio.Event())

        async def script(pod: FakePod) -> None:
            await run_until_deleted(pod)
            await may_end.wait()
            await pod.finish()

        return script

    async def create(self, *names: str) -> None:
        for name in names:
            role = build_role_wire()
            role["task"]["retryPolicy"] = {"fancyRetryPolicy": False, "maxRetryCount": 1}
            await self.kube.create(FRAMEWORKS, self.namespace, build_submission(name, role))

    async def delete_pods(self, *frameworks: str) -> None:
        for name in frameworks:
            await self.kube.delete(PODS, self.namespace, f"{name}-worker-0")

    def end_pods(self, *frameworks: str) -> None:
        for name in frameworks:
            self.may_end[f"{name}-worker-0"].set()

    def check_transitions(self) -> None:
        """Assert that every status may follow the one before it."""
        for statuses in self.ledger.statuses.values():
            for before, after in itertools.pairwise(statuses):
                check_step(before, after)

    def count_pods(self) -> int:
        return sum(map(len, self.ledger.pods.values()))


@pytest.fixture
async def world(framework_crd: None, kube: KubeClient, namespace: str) -> AsyncIterator[World]:
    async with open_ledger(kube, namespace) as ledger:
        world = World(kube, namespace, ledger)
        async with FakeKubelet(kube, SystemClock(), namespace, choose_script=world.choose_script):
            yield world


@pytest.fixture
def proxy(control_plane: Access) -> Iterator[ThreadProxy]:
    with run_proxy(control_plane.url) as proxy:
        yield proxy


@pytest.fixture
def controller(control_plane: Access, proxy: ThreadProxy, tmp_path: Path) -> Iterator[ChildProcess]:
    """A controller that reaches the server through the proxy only."""
    kubeconfig = tmp_path / "kubeconfig"
    text = Path(control_plane.kubeconfig).read_text(encoding="utf-8")
    kubeconfig.write_text(re.sub(r"(server: https?)://.*", rf"\1://127.0.0.1:{proxy.port}", text))
    child = launch_controller(replace(control_plane, kubeconfig=str(kubeconfig)), tmp_path)
    yield child
    child.terminate()


def reserve(port: int) -> socket.socket:
    """Keep a port for a later server: until then, connections are refused."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", port))
    return reserved


def is_completed(framework: Object) -> bool:
    return bool(framework["status"]["state"] == FrameworkState.COMPLETED)


def is_running(framework: Object, attempt: int = 0) -> bool:
    """Return whether the only Task runs, in this attempt."""
    roles = framework["status"]["attemptStatus"]["taskRoleStatuses"]
    tasks = [task for role in roles or () for task in role["taskStatuses"]]
    wanted = [(TaskState.ATTEMPT_RUNNING, attempt)]
    return [(task["state"], task["attemptStatus"]["id"]) for task in tasks] == wanted


async def test_all_frameworks_reconverge_soon_after_an_outage(
    world: World, control_plane: Access, proxy: ThreadProxy, controller: ChildProcess
) -> None:
    names = [f"fw-{number}" for number in range(FRAMEWORK_COUNT)]
    ending, losing, fresh = names[0::2], names[1::2], ["new-0", "new-1"]
    await world.create(*names)
    await world.ledger.wait_for(is_running, len(names))
    proxy.close()
    reserved = reserve(proxy.port)
    world.end_pods(*ending)
    await world.delete_pods(*losing)
    await world.create(*fresh)
    await asyncio.sleep(OUTAGE_SECONDS)
    controller.raise_if_ended()

    def has_converged(framework: Object) -> bool:
        name = framework["metadata"]["name"]
        if name in ending:
            return is_completed(framework)
        return is_running(framework, attempt=int(name in losing))

    with (
        reserved,
        run_proxy(control_plane.url, proxy.port),
        expect_within(RECONVERGED_SECONDS),
    ):
        await world.ledger.wait_for(has_converged, len(names) + len(fresh))
    world.check_transitions()
    assert world.count_pods() == len(names) + len(losing) + len(fresh)


@pytest.fixture
def pair(control_plane: Access, namespace: str, tmp_path: Path) -> Iterator[list[ChildProcess]]:
    """An empty list for two controllers with one Lease; it kills them at the end."""
    children: list[ChildProcess] = []
    yield children
    for child in children:
        child.kill()


def launch_replica(access: Access, namespace: str, folder: Path, number: int) -> ChildProcess:
    own_folder = folder / str(number)
    own_folder.mkdir()
    options = [f"--namespace={namespace}", f"--leader-elect-namespace={namespace}"]
    return launch_controller(access, own_folder, "--leader-elect", *options)


async def wait_for_leader(world: World, pid: int) -> None:
    def find(event: str, body: Object) -> Object | None:
        is_led = event != "BOOKMARK" and f"_{pid}_" in (body["spec"].get("holderIdentity") or "")
        return body if is_led else None

    await watch_until(world.kube, LEASES, world.namespace, find)


async def test_stopped_leader_sends_nothing_after_another_leads(
    world: World, control_plane: Access, pair: list[ChildProcess], tmp_path: Path
) -> None:
    names = [f"fw-{number}" for number in range(10)]
    pair.append(launch_replica(control_plane, world.namespace, tmp_path, 0))
    await wait_for_leader(world, pair[0].pid)
    pair.append(launch_replica(control_plane, world.namespace, tmp_path, 1))
    await world.create(*names)
    await world.ledger.wait_for(is_running, len(names))
    # The leader is stopped with requests decided and not sent; it must not send them later.
    await world.delete_pods(*names[:5])
    os.kill(pair[0].pid, signal.SIGSTOP)
    await wait_for_leader(world, pair[1].pid)
    world.end_pods(*names[5:])
    os.kill(pair[0].pid, signal.SIGCONT)

    def has_converged(framework: Object) -> bool:
        if framework["metadata"]["name"] in names[5:]:
            return is_completed(framework)
        return is_running(framework, attempt=1)

    await world.ledger.wait_for(has_converged, len(names))
    await wait_until_async(lambda: not pair[0].is_running())
    assert pair[0].terminate() == 1
    world.check_transitions()
    # A late create of the first leader could add one Pod of a past attempt each.
    assert world.count_pods() <= len(names) + 5 + 5
    lease = await world.kube.list(LEASES, world.namespace)
    assert f"_{pair[1].pid}_" in lease["items"][0]["spec"]["holderIdentity"]
