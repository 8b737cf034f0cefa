"""examples/gang.yaml on a real API server: our controller, the real barrier, a fake kubelet.

The barriers are started as init containers are: with the environment the controller put into the
Pod, and the rights of a service account that may read ConfigMaps and Frameworks, no more.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from framework.api import constants
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object
from tests.support.fakes.kubelet import FakeKubelet, FakePod, Script
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import ROOT
from tests.support.servers.frameworkserver import build_env, launch_controller, start_controller
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.waiting import HANG_SECONDS

GANG_FILE = ROOT / "examples" / "gang.yaml"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces"
HELD_TASK = "worker-3"
ACCOUNT = "frameworkbarrier"


class Barriers:
    """Runs the barrier of each Pod as a process, and remembers what came of it."""

    def __init__(self, access: Access, folder: Path, account: Path) -> None:
        self._access = access
        self._folder = folder
        self._account = account
        self.exit_codes: dict[str, int] = {}
        self.folders: dict[str, Path] = {}
        self.passed = asyncio.Event()

    async def run(self, pod: FakePod) -> int:
        """Run the init container of a Pod to its end."""
        folder = self.folders[pod.name] = self._folder / pod.uid
        folder.mkdir()
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
                code = await child.wait()
            finally:
                if child.returncode is None:
                    child.kill()
                    await child.wait()
        self.exit_codes[pod.name] = code
        self.passed.set()
        return code

    def read_log(self, pod_name: str) -> str:
        folder = self.folders.get(pod_name)
        return "" if folder is None else (folder / "log").read_text(errors="replace")

    def _build_env(self, pod: FakePod, folder: Path) -> dict[str, str]:
        declared = pod.body["spec"]["initContainers"][0].get("env") or []
        host, _, port = self._access.url.rpartition("//")[2].rpartition(":")
        env = build_env() | {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        env |= expand_env(declared, pod)
        return env | {
            constants.SERVICE_ACCOUNT_DIR_ENV: str(self._account),
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
def gang(namespace: str) -> Object:
    documents = yaml.safe_load_all(GANG_FILE.read_text(encoding="utf-8"))
    framework: Object = next(d for d in documents if d["kind"] == constants.FRAMEWORK_KIND)
    framework["metadata"]["namespace"] = namespace
    return framework


@pytest.fixture
def account(access_folder: Path, http: JsonHttp, control_plane: Access, namespace: str) -> Path:
    """A service account directory, as a Pod finds it, with the rights a barrier needs."""
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [constants.GROUP], "resources": ["frameworks"], "verbs": ["get"]},
    ]
    role = {"metadata": {"name": "barrier"}, "rules": rules}
    binding = {
        "metadata": {"name": "barrier"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "barrier"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
    }
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    status, answer = http.request("POST", accounts, {"metadata": {"name": ACCOUNT}})
    assert status == 201, answer
    for plural, body in (("roles", role), ("rolebindings", binding)):
        status, answer = http.request("POST", f"{RBAC}/{namespace}/{plural}", body)
        assert status == 201, answer
    status, answer = http.request("POST", f"{accounts}/{ACCOUNT}/token", {"spec": {}})
    assert status == 201, answer
    (access_folder / "token").write_text(answer["status"]["token"])
    (access_folder / "namespace").write_text(namespace)
    if control_plane.ca_file is not None:
        (access_folder / "ca.crt").write_bytes(Path(control_plane.ca_file).read_bytes())
    return access_folder


@pytest.fixture
def access_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    return folder


@pytest.fixture
def barriers(control_plane: Access, tmp_path: Path, account: Path) -> Barriers:
    return Barriers(control_plane, tmp_path, account)


@pytest.fixture
def controller(framework_crd: None, control_plane: Access, tmp_path: Path) -> Iterator[None]:
    with start_controller(control_plane, tmp_path) as child:
        yield
        child.raise_if_ended()


async def pass_barrier_and_succeed(barriers: Barriers, pod: FakePod) -> None:
    """The script of a Pod whose init container is the barrier, if it has any."""
    await pod.initialize()
    if pod.body["spec"].get("initContainers"):
        code = await barriers.run(pod)
        if code != 0:
            await pod.fail_init(code)
            return
    await pod.start()
    await asyncio.sleep(0.3)
    await pod.finish()


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


async def wait_for_state(kube: KubeClient, framework: Object, state: str) -> Object:
    """Watch the Framework until it is in a state."""
    metadata = framework["metadata"]
    events = kube.watch(
        FRAMEWORKS,
        metadata["namespace"],
        field_selector=f"metadata.name={metadata['name']}",
        timeout_seconds=HANG_SECONDS,
    )
    last: Any = None
    async with contextlib.aclosing(events):
        async for _, body in events:
            last = (body.get("status") or {}).get("state", last)
            if last == state:
                return body
    raise AssertionError(f"the Framework is {last}, not {state}, after {HANG_SECONDS} s")


def count_tasks(framework: Object) -> int:
    return sum(role["taskNumber"] for role in framework["spec"]["taskRoles"])


async def test_gang_passes_its_barrier_and_completes(
    controller: None, kube: KubeClient, namespace: str, gang: Object, barriers: Barriers
) -> None:
    async def script(pod: FakePod) -> None:
        await pass_barrier_and_succeed(barriers, pod)

    async with open_kubelet(kube, namespace, script) as seen:
        await kube.create(FRAMEWORKS, namespace, gang)
        done = await wait_for_state(kube, gang, "Completed")
    assert done["status"]["attemptStatus"]["completionStatus"]["code"] == 0
    assert len(seen) == count_tasks(gang)
    assert set(barriers.exit_codes.values()) == {0}
    for folder in barriers.folders.values():
        assert (folder / constants.INJECTOR_FILE).exists()


async def test_barrier_with_a_pending_member_holds_until_it_comes(
    controller: None, kube: KubeClient, namespace: str, gang: Object, barriers: Barriers
) -> None:
    name = gang["metadata"]["name"]
    held = f"{name}-{HELD_TASK}"
    release = asyncio.Event()
    waiting = asyncio.Event()

    async def script(pod: FakePod) -> None:
        if pod.name == held:
            waiting.set()
            await release.wait()
        await pass_barrier_and_succeed(barriers, pod)

    async def wait_for_progress() -> None:
        """The controller tells who is missing only after a few seconds of waiting."""
        events = kube.watch(CONFIGMAPS, namespace, timeout_seconds=HANG_SECONDS)
        async with contextlib.aclosing(events):
            async for _, body in events:
                annotations = body["metadata"].get("annotations") or {}
                if HELD_TASK.rpartition("-")[0] in annotations.get(
                    constants.PROGRESS_ANNOTATION, ""
                ):
                    return
        raise AssertionError("nothing tells who is missing")

    async with open_kubelet(kube, namespace, script):
        await kube.create(FRAMEWORKS, namespace, gang)
        await asyncio.wait_for(waiting.wait(), HANG_SECONDS)
        await wait_for_progress()
        assert barriers.exit_codes == {}
        pods = await kube.list(PODS, namespace)
        assert not [p for p in pods["items"] if p["status"]["phase"] != "Pending"]
        release.set()
        done = await wait_for_state(kube, gang, "Completed")
    assert done["status"]["attemptStatus"]["completionStatus"]["code"] == 0
    assert set(barriers.exit_codes.values()) == {0}


async def test_controller_killed_on_the_way_wastes_no_pod(
    framework_crd: None,
    control_plane: Access,
    kube: KubeClient,
    namespace: str,
    gang: Object,
    barriers: Barriers,
    tmp_path: Path,
) -> None:
    first_is_up = asyncio.Event()

    async def script(pod: FakePod) -> None:
        first_is_up.set()
        await pass_barrier_and_succeed(barriers, pod)

    child = launch_controller(control_plane, tmp_path)
    try:
        async with open_kubelet(kube, namespace, script) as seen:
            await kube.create(FRAMEWORKS, namespace, gang)
            await asyncio.wait_for(first_is_up.wait(), HANG_SECONDS)
            os.killpg(child.pid, signal.SIGKILL)
            child.kill()
            child = launch_controller(control_plane, tmp_path)
            done = await wait_for_state(kube, gang, "Completed")
    finally:
        child.terminate()
    assert done["status"]["attemptStatus"]["completionStatus"]["code"] == 0
    assert sorted(seen.values()) == sorted(set(seen.values()))
    assert len(seen) == count_tasks(gang)
