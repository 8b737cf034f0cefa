"""A gang on a real API server, under our controller, held back by its last Pod's address."""

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

from benchmarks.fakenode import FakeNode, Pod
from benchmarks.frameworks import build_framework
from framework.api import constants
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.config import load_kube_config
from framework.kube.resources import FRAMEWORKS
from tests.support.servers.binaries import Binaries
from tests.support.servers.controlplane import Access, ControlPlane
from tests.support.servers.frameworkserver import build_env, start_controller

_NAMESPACE = "default"
_READY_SECONDS = 120.0


class Bench:
    """A control plane, our controller, a node that starts Pods on request, a folder for files."""

    def __init__(self, access: Access, client: KubeClient, node: FakeNode, folder: Path) -> None:
        """Use the parts that ``open`` has started."""
        self._access = access
        self._node = node
        self._folder = folder
        self.client = client
        self.account = _write_account(access, folder)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, binaries: Binaries) -> AsyncIterator[Self]:
        """Start everything; stop it at the end of the block."""
        clock = SystemClock()
        plane = ControlPlane(binaries)
        with contextlib.ExitStack() as stack:
            stack.callback(plane.stop)
            access = plane.start()
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gang-bench-")))
            stack.enter_context(start_controller(access, folder))
            config = load_kube_config(None, access.kubeconfig, {})
            client = KubeClient(config, user_agent="benchmark", clock=clock)
            async with client, FakeNode(client, clock, run_seconds=None) as node:
                yield cls(access, client, node, folder)

    async def create_gang(self, name: str, size: int) -> list[Pod]:
        """Create a Framework; return its Pods when all exist, before any of them starts."""
        await self.client.create(FRAMEWORKS, _NAMESPACE, build_framework(name, size))
        async with asyncio.timeout(_READY_SECONDS):
            while True:
                prefix = f"{name}-worker-"
                pods = [pod for key, pod in self._node.pods.items() if key.startswith(prefix)]
                if len(pods) == size:
                    return pods
                self._node.changed.clear()
                await self._node.changed.wait()

    async def start_pods(self, pods: list[Pod]) -> None:
        """Give Pods their addresses."""
        await asyncio.gather(*(self._node.start(pod) for pod in pods))

    def build_command(self) -> list[str]:
        """Build the barrier's command."""
        return [sys.executable, "-m", "barrier"]

    def build_env(self, pod: Pod, framework_json: str) -> dict[str, str]:
        """Build the environment of a Pod's barrier, like its kubelet."""
        folder = self._folder / pod.metadata.name
        folder.mkdir(exist_ok=True)
        # A kubelet makes the file before it starts the container.
        termination_log = folder / "termination-log"
        termination_log.touch()
        host, _, port = self._access.url.rpartition("//")[2].rpartition(":")
        return {
            **build_env(),
            **_expand(pod),
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            constants.SERVICE_ACCOUNT_DIR_ENV: str(self.account),
            constants.WORKING_DIR_ENV: str(folder),
            constants.TERMINATION_LOG_ENV: str(termination_log),
            constants.BARRIER_FRAMEWORK_JSON_ENV: framework_json,
        }


def _expand(pod: Pod) -> dict[str, str]:
    env: dict[str, str] = {}
    for entry in pod.spec.containers[0].env:
        value = pod.metadata.uid if "valueFrom" in entry else entry.get("value", "")
        for name, known in env.items():
            value = value.replace(f"$({name})", known)
        env[entry["name"]] = value
    return env


def _write_account(access: Access, folder: Path) -> Path:
    account = folder / "serviceaccount"
    account.mkdir()
    (account / "token").write_text(access.token)
    (account / "namespace").write_text(_NAMESPACE)
    if access.ca_file is not None:
        (account / "ca.crt").write_bytes(Path(access.ca_file).read_bytes())
    return account
