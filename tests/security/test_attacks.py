"""A tenant attacks; a Framework in another namespace takes at most twice its time.

The controller, the API server and the measured Frameworks are real; the attacker is a process with
the rights of a tenant (``tests.security.attacks``). The times without attack are measured right
before and right after the attack, so that both see the same load of the machine. A burst of other
work may fall into one of them, so a ratio that is too high is measured again: a controller that
lets the attack delay others does so in each round.
"""

import asyncio
import contextlib
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from framework.api import constants
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.errors import KubeError
from framework.kube.resources import FRAMEWORKS
from tests.security import attacks
from tests.support.builders import build_role_wire, build_submission
from tests.support.fakes.kubelet import FakeKubelet, run_for
from tests.support.servers.childprocess import ChildProcess, find_free_ports
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import ROOT
from tests.support.servers.frameworkserver import build_env
from tests.support.servers.healthprobe import measure_silence
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.policed import Policed, allow, create
from tests.support.servers.rights import create_account_access
from tests.support.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.kube
COUNT = 10
MAX_ROUNDS = 4
# Of the health port. A liveness probe of deploy/base waits for 5 s.
MAX_SILENCE_SECONDS = 2.0
TENANT = "tenant"


class Bystander:
    """Runs Frameworks of two Tasks, one after another, and measures their times."""

    def __init__(self, kube: KubeClient, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._number = 0

    async def measure(self, count: int) -> list[float]:
        """Return the seconds from the creation to Completed, of ``count`` Frameworks."""
        return [await self._run_one() for _ in range(count)]

    async def _run_one(self) -> float:
        self._number += 1
        name = f"bystander{self._number}"
        started = time.monotonic()
        body = build_submission(name, build_role_wire(number=2))
        await self._kube.create(FRAMEWORKS, self._namespace, body)
        async with asyncio.timeout(HANG_SECONDS):
            while not await self._watch_until_completed(name):
                pass
        return time.monotonic() - started

    async def _watch_until_completed(self, name: str) -> bool:
        """Return whether one watch showed the end; a busy server ends a watch early."""
        selector = f"metadata.name={name}"
        events = self._kube.watch(FRAMEWORKS, self._namespace, field_selector=selector)
        with contextlib.suppress(KubeError):
            async with contextlib.aclosing(events):
                async for _, body in events:
                    if (body.get("status") or {}).get("state") == "Completed":
                        return True
        return False


@pytest.fixture
def health_port() -> int:
    return find_free_ports(1)[0]


@pytest.fixture
def controller(
    framework_crd: None, control_plane: Access, tmp_path: Path, health_port: int
) -> Iterator[ChildProcess]:
    command = ["sh", "-c", 'ulimit -n 1024; exec "$@"', "sh", sys.executable, "-m", "controller"]
    command += ["--kubeconfig", control_plane.kubeconfig, "--health-port", str(health_port)]
    child = ChildProcess("controller", command, log=tmp_path / "controller.log", env=build_env())
    yield child
    child.terminate()


@pytest.fixture
def hostile_namespace(control_plane: Access, http: JsonHttp, namespace: str) -> Iterator[str]:
    """A namespace with an account that has the rights of a tenant."""
    name = f"{namespace}-hostile"
    create(http, "/api/v1/namespaces", {"metadata": {"name": name}})
    rules = allow("*", "pods,configmaps"), allow("*", "frameworks", constants.GROUP)
    Policed(http, control_plane, f"/api/v1/namespaces/{name}").open_tenant(TENANT, *rules)
    yield name
    http.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
async def bystander(
    kube: KubeClient, namespace: str, controller: ChildProcess
) -> AsyncIterator[Bystander]:
    script = run_for(0.0)
    async with FakeKubelet(kube, SystemClock(), namespace, choose_script=lambda _pod: script):
        yield Bystander(kube, namespace)


@contextlib.contextmanager
def start_attack(
    name: str, access: Access, folder: Path, namespace: str, health_port: int
) -> Iterator[ChildProcess]:
    """Attack until the block ends; the attack's first round is over when the block begins."""
    tenant = create_account_access(access, folder, namespace, TENANT)
    env = os.environ | access.to_env() | {"PYTHONPATH": str(ROOT)}
    env |= {attacks.TENANT_TOKEN_ENV: tenant.token, attacks.NAMESPACE_ENV: namespace}
    env |= {attacks.HEALTH_PORT_ENV: str(health_port)}
    command = [sys.executable, "-m", "tests.security.attacks", name]
    log = folder / f"{name}.log"
    log.unlink(missing_ok=True)  # that of the round before
    child = ChildProcess(f"attack {name}", command, log=log, env=env)

    def has_begun() -> bool:
        child.raise_if_ended()
        return log.stat().st_size > 0

    try:
        wait_until(has_begun)
        yield child
    finally:
        child.kill()


@pytest.mark.parametrize("name", list(attacks.ATTACKS))
async def test_framework_beside_an_attacked_namespace_takes_at_most_twice_its_time(
    name: str,
    bystander: Bystander,
    controller: ChildProcess,
    control_plane: Access,
    tmp_path: Path,
    hostile_namespace: str,
    health_port: int,
) -> None:
    most, slack = attacks.LIMITS.get(name, (2.0, 0.0))
    await bystander.measure(2)
    ratios, silences = list[float](), list[float]()
    while not ratios or (ratios[-1] > most and len(ratios) < MAX_ROUNDS):
        before = await bystander.measure(COUNT)
        with (
            start_attack(name, control_plane, tmp_path, hostile_namespace, health_port) as attack,
            measure_silence(health_port) as silence,
        ):
            during = await bystander.measure(COUNT)
            attack.raise_if_ended()
        after = await bystander.measure(COUNT)
        controller.raise_if_ended()
        usual, attacked = statistics.median(before + after), statistics.median(during)
        ratios.append((attacked - slack) / usual)
        silences.append(silence.longest_seconds)
        print(f"{name}: {usual:.2f} s without attack, {attacked:.2f} s under attack")
        print(f"at most {max(during):.2f} s; health port silent for {silences[-1]:.2f} s")
    assert ratios[-1] <= most, ratios
    assert min(silences) <= MAX_SILENCE_SECONDS, silences
