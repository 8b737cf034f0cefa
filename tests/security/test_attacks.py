"""A tenant attacks; a Framework in another namespace takes at most twice its time.

The controller, the API server and the bystander are real; the attacker is a process with the rights
of a tenant (``tests.security.attacks``). The times in peace are taken right before and right after
the attack, so that the load of the machine is in both. A burst of other work may fall into one of
them, so a ratio that is too high is measured again: a controller that lets the attack delay others
does so in each round.
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
from framework.kube.resources import FRAMEWORKS, Object
from tests.security import attacks
from tests.support.builders import build_role_wire, build_submission
from tests.support.fakes.kubelet import FakeKubelet, run_for
from tests.support.servers.childprocess import ChildProcess, find_free_ports
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import ROOT
from tests.support.servers.frameworkserver import build_env
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.rights import create_account_access
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.kube
COUNT = 10
MAX_RATIO = 2.0
MAX_ROUNDS = 4
TENANT = "tenant"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Bystander:
    """Runs Frameworks of two Tasks, one after another, and takes their times."""

    def __init__(self, kube: KubeClient, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._number = 0

    async def measure(self, count: int) -> list[float]:
        """Give the seconds from the creation to Completed, of ``count`` Frameworks."""
        return [await self._run_one() for _ in range(count)]

    async def _run_one(self) -> float:
        self._number += 1
        body = build_submission(f"bystander{self._number}", build_role_wire(number=2))
        started = time.monotonic()
        await self._kube.create(FRAMEWORKS, self._namespace, body)
        await self._wait_until_completed(body)
        return time.monotonic() - started

    async def _wait_until_completed(self, framework: Object) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HANG_SECONDS):
                while not await self._watch_until_completed(framework["metadata"]["name"]):
                    pass
                return
        raise AssertionError(f"the bystander is not Completed after {HANG_SECONDS} s")

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
    return next(iter(find_free_ports(1)))


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
def hostile_namespace(http: JsonHttp, namespace: str) -> Iterator[str]:
    """A namespace whose account ``tenant`` may do what a tenant may."""
    name = f"{namespace}-hostile"
    rules = [
        {"apiGroups": [""], "resources": ["pods", "configmaps"], "verbs": ["*"]},
        {"apiGroups": [constants.GROUP], "resources": ["frameworks"], "verbs": ["*"]},
    ]
    subject = {"kind": "ServiceAccount", "name": TENANT, "namespace": name}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": TENANT}
    for path, body in (
        ("/api/v1/namespaces", {"metadata": {"name": name}}),
        (f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": TENANT}}),
        (f"{RBAC}/namespaces/{name}/roles", {"metadata": {"name": TENANT}, "rules": rules}),
        (
            f"{RBAC}/namespaces/{name}/rolebindings",
            {"metadata": {"name": TENANT}, "roleRef": role, "subjects": [subject]},
        ),
    ):
        status, answer = http.request("POST", path, body)
        assert status == 201, answer
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
    """Attack until the block is left; the attack's first round is over when it begins."""
    tenant = create_account_access(access, folder, namespace, TENANT)
    env = os.environ | access.to_env() | {"PYTHONPATH": str(ROOT)}
    env |= {attacks.TENANT_TOKEN_ENV: tenant.token, attacks.NAMESPACE_ENV: namespace}
    env |= {attacks.HEALTH_PORT_ENV: str(health_port)}
    command = [sys.executable, "-m", "tests.security.attacks", name]
    child = ChildProcess(f"attack {name}", command, log=folder / f"{name}.log", env=env)
    try:
        while not child.log.stat().st_size:
            child.raise_if_ended()
            time.sleep(0.05)
        yield child
    finally:
        child.kill()


@pytest.mark.parametrize("name", list(attacks.ATTACKS))
async def test_bystander_under_attack_takes_at_most_twice_its_time(
    name: str,
    bystander: Bystander,
    controller: ChildProcess,
    control_plane: Access,
    tmp_path: Path,
    hostile_namespace: str,
    health_port: int,
) -> None:
    await bystander.measure(2)
    ratios = list[float]()
    while not ratios or (ratios[-1] > MAX_RATIO and len(ratios) < MAX_ROUNDS):
        before = await bystander.measure(COUNT)
        with start_attack(name, control_plane, tmp_path, hostile_namespace, health_port) as attack:
            during = await bystander.measure(COUNT)
            attack.raise_if_ended()
        after = await bystander.measure(COUNT)
        controller.raise_if_ended()
        peace, war = statistics.median(before + after), statistics.median(during)
        ratios.append(war / peace)
        print(f"{name}: {peace:.2f} s in peace, {war:.2f} s under attack, {ratios[-1]:.2f} times")
    assert ratios[-1] <= MAX_RATIO, ratios
