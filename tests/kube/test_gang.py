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
    write_overlay,
)
from tests.support.waiting import HANG_SECONDS

NAME = "gang"
HELD_ROLE, HELD_POD = "worker", "gang-worker-3"
# Granted to agents and not used by the barrier: a watch shows no less than these two.
AGENT_UNUSED = {Right("", "configmaps", "get"), Right("", "configmaps", "list")}


class Agents:
    """The shipped role of agents, applied as its README says, and the barriers that have it."""

    def __init__(self, access: Access, folder: Path, namespace: str, overlay: str) -> None:
        self._access = access
        self._folder = folder
        path = write_overlay(folder / "agents", ROOT / "deploy" / "agents" / overlay, namespace)
        text = run_kubectl(access, "kustomize", str(path)).replace("FRAMEWORK_NAME", NAME)
        manifest = folder / "agents.yaml"
        manifest.write_text(text)
        run_kubectl(access, "apply", "-f", str(manifest))
        objects: list[Object] = list(yaml.safe_load_all(text))
        self.granted = expand_rules(objects)
        (self.account,) = (o["metadata"]["name"] for o in objects if o["kind"] == "ServiceAccount")
        self.audit = AuditLog.open(access, namespace, self.account)
        self._write_account_folder(namespace)
        self.gang = build_gang(self.account)
        self.size = sum(role["taskNumber"] for role in self.gang["spec"]["taskRoles"])
        self.exit_codes: dict[str, int] = {}
        self.folders: list[Path] = []
        self._all_run = asyncio.Barrier(self.size)

    def _write_account_folder(self, namespace: str) -> None:
        """Write the files that a Pod has of its service account."""
        folder = self._folder / "serviceaccount"
        folder.mkdir()
        access = create_account_access(self._access, self._folder, namespace, self.account)
        (folder / "token").write_text(access.token)
        (folder / "namespace").write_text(namespace)
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
        folder = self._folder / pod.uid
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
        host, _, port = self._access.url.rpartition("//")[2].rpartition(":")
        env = build_env() | {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        env |= expand_env(pod.body["spec"]["initContainers"][0].get("env") or [], pod)
        return env | {
            constants.SERVICE_ACCOUNT_DIR_ENV: str(self._folder / "serviceaccount"),
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
def agents(
    framework_crd: None, audited_plane: Access, tmp_path: Path, namespace: str
) -> Callable[[str], Agents]:
    return lambda overlay: Agents(audited_plane, tmp_path, namespace, overlay)


def build_gang(account: str) -> Object:
    documents = yaml.safe_load_all((ROOT / "examples" / "gang.yaml").read_text(encoding="utf-8"))
    gang: Object = next(body for body in documents if body["kind"] == constants.FRAMEWORK_KIND)
    assert gang["metadata"]["name"] == NAME
    for role in gang["spec"]["taskRoles"]:
        role["task"]["pod"]["spec"]["serviceAccountName"] = account
    return gang


@contextlib.asynccontextmanager
async def open_kubelet(
    kube: KubeClient, namespace: str, script: Script
) -> AsyncIterator[dict[str, str]]:
    """Run a fake kubelet; gives the Pods it has seen, name by UID."""
    seen: dict[str, str] = {}

    def choose(body: Object) -> Script:
        seen[body["metadata"]["uid"]] = body["metadata"]["name"]
        return script

    async with FakeKubelet(kube, SystemClock(), namespace, choose_script=choose):
        yield seen


async def wait_until_succeeded(kube: KubeClient, namespace: str) -> None:
    """Watch the gang until it is Completed; assert that it succeeded."""
    body: Object = {}
    events = kube.watch(
        FRAMEWORKS,
        namespace,
        field_selector=f"metadata.name={NAME}",
        timeout_seconds=HANG_SECONDS,
    )
    async with contextlib.aclosing(events):
        async for _, body in events:
            if (body.get("status") or {}).get("state") == "Completed":
                assert body["status"]["attemptStatus"]["completionStatus"]["code"] == 0
                return
    raise AssertionError(f"not Completed after {HANG_SECONDS} s: {body.get('status')}")


@pytest.mark.parametrize(
    ("controller_role", "agents_role"), [("cluster", "namespace"), ("namespaced", "one-framework")]
)
async def test_gang_completes_when_all_have_their_shipped_roles_only(
    agents: Callable[[str], Agents],
    audited_plane: Access,
    kube: KubeClient,
    namespace: str,
    tmp_path: Path,
    controller_role: str,
    agents_role: str,
) -> None:
    """No request of controller or barriers is refused; the barriers use what is granted."""
    barriers = agents(agents_role)
    objects = apply_role(audited_plane, controller_role, namespace, tmp_path)
    deployed = Deployed(audited_plane, objects, tmp_path)
    child = deployed.launch()
    try:
        async with open_kubelet(kube, namespace, barriers.run_pod) as seen:
            await kube.create(FRAMEWORKS, namespace, barriers.gang)
            await wait_until_succeeded(kube, namespace)
    finally:
        assert child.terminate() == 0
    assert len(seen) == barriers.size
    assert set(barriers.exit_codes.values()) == {0}
    for folder in barriers.folders:
        assert (folder / constants.INJECTOR_FILE).exists()
    assert deployed.audit.read_refused() == barriers.audit.read_refused() == set()
    assert barriers.granted - barriers.audit.read_used() == AGENT_UNUSED


async def test_barrier_with_a_pending_member_holds_until_the_member_runs(
    agents: Callable[[str], Agents],
    control_plane: Access,
    kube: KubeClient,
    namespace: str,
    tmp_path: Path,
) -> None:
    barriers = agents("namespace")
    release, waiting = asyncio.Event(), asyncio.Event()

    async def script(pod: FakePod) -> None:
        if pod.name == HELD_POD:
            waiting.set()
            await release.wait()
        await barriers.run_pod(pod)

    async def wait_for_progress() -> None:
        """The controller reports missing members only after a few seconds of waiting."""
        events = kube.watch(CONFIGMAPS, namespace, timeout_seconds=HANG_SECONDS)
        async with contextlib.aclosing(events):
            async for _, body in events:
                annotations = body["metadata"].get("annotations") or {}
                if HELD_ROLE in annotations.get(constants.PROGRESS_ANNOTATION, ""):
                    return
        raise AssertionError("no ConfigMap reports missing members")

    with start_controller(control_plane, tmp_path):
        async with open_kubelet(kube, namespace, script):
            await kube.create(FRAMEWORKS, namespace, barriers.gang)
            await asyncio.wait_for(waiting.wait(), HANG_SECONDS)
            await wait_for_progress()
            assert barriers.exit_codes == {}
            pods = await kube.list(PODS, namespace)
            assert {pod["status"]["phase"] for pod in pods["items"]} == {"Pending"}
            release.set()
            await wait_until_succeeded(kube, namespace)
    assert set(barriers.exit_codes.values()) == {0}


async def test_controller_killed_while_pods_start_wastes_no_pod(
    agents: Callable[[str], Agents],
    control_plane: Access,
    kube: KubeClient,
    namespace: str,
    tmp_path: Path,
) -> None:
    barriers = agents("namespace")
    first_runs = asyncio.Event()

    async def script(pod: FakePod) -> None:
        first_runs.set()
        await barriers.run_pod(pod)

    child = launch_controller(control_plane, tmp_path)
    try:
        async with open_kubelet(kube, namespace, script) as seen:
            await kube.create(FRAMEWORKS, namespace, barriers.gang)
            await asyncio.wait_for(first_runs.wait(), HANG_SECONDS)
            os.killpg(child.pid, signal.SIGKILL)
            child.kill()
            child = launch_controller(control_plane, tmp_path)
            await wait_until_succeeded(kube, namespace)
    finally:
        child.terminate()
    assert len(seen) == len(set(seen.values())) == barriers.size
