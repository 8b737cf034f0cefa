"""examples/gang.yaml on a real API server: our controller, the real barrier, a fake kubelet.

The barriers are started as init containers are: with the environment that the controller put into
the Pod, and with the shipped rights of agents.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import yaml

from framework.api import constants
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object
from tests.support.fakes.kubelet import FakeKubelet, FakePod, Script
from tests.support.servers.controlplane import Access
from tests.support.servers.deployed import Deployed, apply_role
from tests.support.servers.frameworkcrd import ROOT
from tests.support.servers.frameworkserver import build_env, launch_controller, start_controller
from tests.support.servers.rights import (
    AuditLog,
    Right,
    create_account_access,
    expand_rules,
    run_kubectl,
    wait_until_granted,
    write_overlay,
)
from tests.support.servers.watching import wait_until_completed, watch_until
from tests.support.waiting import HANG_SECONDS

NAME = "gang"
HELD_ROLE, HELD_POD = "worker", "gang-worker-3"
# Granted to agents and not used by the barrier; the right to watch shows the same objects.
AGENT_UNUSED = {Right("", "configmaps", "get"), Right("", "configmaps", "list")}


class Gang:
    """A namespace with the shipped role of agents, and the gang whose barriers have this role."""

    def __init__(
        self, access: Access, kube: KubeClient, folder: Path, namespace: str, overlay: str
    ) -> None:
        self.access = access
        self.kube = kube
        self.folder = folder
        self.namespace = namespace
        path = write_overlay(folder / "agents", ROOT / "deploy" / "agents" / overlay, namespace)
        text = run_kubectl(access, "kustomize", str(path)).replace("FRAMEWORK_NAME", NAME)
        manifest = folder / "agents.yaml"
        manifest.write_text(text)
        run_kubectl(access, "apply", "-f", str(manifest))
        objects: list[Object] = list(yaml.safe_load_all(text))
        self.granted = expand_rules(objects)
        wait_until_granted(access, objects)
        (self.account,) = (o["metadata"]["name"] for o in objects if o["kind"] == "ServiceAccount")
        self.audit = AuditLog.open(access, namespace, self.account)
        self._write_account_folder()
        self.body = build_gang(self.account)
        self.size = sum(role["taskNumber"] for role in self.body["spec"]["taskRoles"])
        self.exit_codes: dict[str, int] = {}
        self.folders: list[Path] = []
        self._all_run = asyncio.Barrier(self.size)

    def _write_account_folder(self) -> None:
        """Write the files that a Pod has of its service account."""
        folder = self.folder / "serviceaccount"
        folder.mkdir()
        access = create_account_access(self.access, self.folder, self.namespace, self.account)
        (folder / "token").write_text(access.token)
        (folder / "namespace").write_text(self.namespace)
        if access.ca_file is not None:
            (folder / "ca.crt").write_bytes(Path(access.ca_file).read_bytes())

    async def run_pod(self, pod: FakePod) -> None:
        """Take the way of a Pod whose init container is the barrier, if it has any."""
        await pod.initialize()
        if pod.body["spec"].get("initContainers"):
            code = self.exit_codes[pod.name] = await self._run_barrier(pod)
            if code != 0:
                await pod.fail_init(code)
                return
        await pod.start()
        await self._all_run.wait()
        await pod.finish()

    async def _run_barrier(self, pod: FakePod) -> int:
        folder = self.folder / pod.uid
        folder.mkdir()
        self.folders.append(folder)
        with (folder / "log").open("wb") as log:
            child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "barrier",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._build_env(pod, folder),
            )
            try:
                return await child.wait()
            finally:
                if child.returncode is None:
                    child.kill()
                    await child.wait()

    def _build_env(self, pod: FakePod, folder: Path) -> dict[str, str]:
        host, _, port = self.access.url.rpartition("//")[2].rpartition(":")
        env = build_env() | {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        env |= expand_env(pod.body["spec"]["initContainers"][0].get("env") or [], pod)
        return env | {
            constants.SERVICE_ACCOUNT_DIR_ENV: str(self.folder / "serviceaccount"),
            constants.WORKING_DIR_ENV: str(folder),
            constants.TERMINATION_LOG_ENV: str(folder / "termination-log"),
        }


def expand_env(declared: list[Object], pod: FakePod) -> dict[str, str]:
    """Expand a container's env as a kubelet does: downward API, then $(NAME) of earlier ones."""
    env: dict[str, str] = {}
    for entry in declared:
        value = entry.get("value", "")
        if "valueFrom" in entry:
            assert entry["valueFrom"]["fieldRef"]["fieldPath"] == constants.POD_UID_FIELD_PATH
            value = pod.uid
        for name, known in env.items():
            value = value.replace(f"$({name})", known)
        env[entry["name"]] = value
    return env


@pytest.fixture
def open_gang(
    framework_crd: None, audited_plane: Access, kube: KubeClient, tmp_path: Path, namespace: str
) -> Callable[[str], Gang]:
    return lambda overlay: Gang(audited_plane, kube, tmp_path, namespace, overlay)


def build_gang(account: str) -> Object:
    documents = yaml.safe_load_all((ROOT / "examples" / "gang.yaml").read_text(encoding="utf-8"))
    gang: Object = next(body for body in documents if body["kind"] == constants.FRAMEWORK_KIND)
    assert gang["metadata"]["name"] == NAME
    for role in gang["spec"]["taskRoles"]:
        role["task"]["pod"]["spec"]["serviceAccountName"] = account
    return gang


@contextlib.asynccontextmanager
async def create(gang: Gang, script: Script) -> AsyncIterator[dict[str, str]]:
    """Create the gang beside a fake kubelet; gives the Pods it has seen, name by UID."""
    seen: dict[str, str] = {}

    def choose(body: Object) -> Script:
        seen[body["metadata"]["uid"]] = body["metadata"]["name"]
        return script

    async with FakeKubelet(gang.kube, SystemClock(), gang.namespace, choose_script=choose):
        await gang.kube.create(FRAMEWORKS, gang.namespace, gang.body)
        yield seen


async def wait_until_succeeded(gang: Gang) -> None:
    """Watch the gang until it is Completed; assert that it succeeded."""
    body = await wait_until_completed(gang.kube, gang.namespace, NAME)
    assert body["status"]["attemptStatus"]["completionStatus"]["code"] == 0


@pytest.mark.parametrize(
    ("controller_role", "agents_role"), [("cluster", "namespace"), ("namespaced", "one-framework")]
)
async def test_gang_completes_when_all_have_their_shipped_roles_only(
    open_gang: Callable[[str], Gang], controller_role: str, agents_role: str
) -> None:
    """No request of controller or barriers is refused; the barriers use all granted rights."""
    gang = open_gang(agents_role)
    objects = apply_role(gang.access, controller_role, gang.namespace, gang.folder)
    deployed = Deployed(gang.access, objects, gang.folder)
    child = deployed.launch()
    try:
        async with create(gang, gang.run_pod) as seen:
            await wait_until_succeeded(gang)
    finally:
        assert child.terminate() == 0
    assert len(seen) == gang.size
    assert set(gang.exit_codes.values()) == {0}
    for folder in gang.folders:
        assert (folder / constants.INJECTOR_FILE).exists()
    assert deployed.audit.read_refused() == gang.audit.read_refused() == set()
    assert gang.granted - gang.audit.read_used() == AGENT_UNUSED


async def test_barrier_with_a_pending_member_holds_until_the_member_runs(
    open_gang: Callable[[str], Gang],
) -> None:
    gang = open_gang("namespace")
    release, waiting = asyncio.Event(), asyncio.Event()

    async def script(pod: FakePod) -> None:
        if pod.name == HELD_POD:
            waiting.set()
            await release.wait()
        await gang.run_pod(pod)

    async def wait_for_readiness() -> None:
        """The controller reports missing members only after a few seconds of waiting."""

        def find(_: str, body: Object) -> Object | None:
            annotations = body["metadata"].get("annotations") or {}
            is_told = HELD_ROLE in annotations.get(constants.READINESS_ANNOTATION, "")
            return body if is_told else None

        await watch_until(gang.kube, CONFIGMAPS, gang.namespace, find)

    with start_controller(gang.access, gang.folder):
        async with create(gang, script):
            await asyncio.wait_for(waiting.wait(), HANG_SECONDS)
            await wait_for_readiness()
            assert gang.exit_codes == {}
            pods = await gang.kube.list(PODS, gang.namespace)
            assert {pod["status"]["phase"] for pod in pods["items"]} == {"Pending"}
            release.set()
            await wait_until_succeeded(gang)
    assert set(gang.exit_codes.values()) == {0}


async def test_controller_killed_while_pods_start_wastes_no_pod(
    open_gang: Callable[[str], Gang],
) -> None:
    gang = open_gang("namespace")
    first_runs = asyncio.Event()

    async def script(pod: FakePod) -> None:
        first_runs.set()
        await gang.run_pod(pod)

    child = launch_controller(gang.access, gang.folder)
    try:
        async with create(gang, script) as seen:
            await asyncio.wait_for(first_runs.wait(), HANG_SECONDS)
            os.killpg(child.pid, signal.SIGKILL)
            child.kill()
            child = launch_controller(gang.access, gang.folder)
            await wait_until_succeeded(gang)
    finally:
        child.terminate()
    assert len(seen) == len(set(seen.values())) == gang.size
