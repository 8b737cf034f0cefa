"""deploy/ on a real API server: it is accepted, and the agents' roles are enough for them."""

import asyncio
import contextlib
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from framework.api import constants
from framework.kube.client import KubeClient
from framework.kube.resources import FRAMEWORKS, Object
from tests.kube.test_gang import Barriers, open_kubelet, pass_barrier_and_succeed, wait_for_state
from tests.support.fakes.kubelet import FakePod
from tests.support.machine.prerequisites import skip_test
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import CRD_FILE, ROOT, wait_ready
from tests.support.servers.frameworkserver import start_controller
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.rights import (
    AuditLog,
    Right,
    apply_kustomization,
    create_account_access,
    expand_rules,
    run_kubectl,
    write_overlay,
)
from tests.support.waiting import HANG_SECONDS

DEPLOY = ROOT / "deploy"
AGENTS = DEPLOY / "agents"
SYSTEM_NAMESPACE = "frameworkbarrier-system"
# As the original stores it: every key there, null where nothing is known.
UPGRADE_FRAMEWORK = """\
apiVersion: frameworkcontroller.microsoft.com/v1
kind: Framework
metadata: {name: stored}
spec:
  description: ""
  executionType: Create
  retryPolicy: {fancyRetryPolicy: false, maxRetryCount: 0}
  taskRoles:
  - name: worker
    taskNumber: 1
    frameworkAttemptCompletionPolicy: {minFailedTaskCount: 1, minSucceededTaskCount: -1}
    task:
      retryPolicy: {fancyRetryPolicy: false, maxRetryCount: 0}
      podGracefulDeletionTimeoutSec: null
      pod:
        metadata: {creationTimestamp: null}
        spec: {containers: [{name: main, image: "local/none:1", resources: {}}]}
status:
  startTime: "2026-01-02T03:04:05Z"
  completionTime: null
  runTime: null
  state: AttemptCreationPending
  transitionTime: "2026-01-02T03:04:05Z"
  retryPolicyStatus: {totalRetriedCount: 0, accountableRetriedCount: 0, retryDelaySec: null}
  attemptStatus:
    id: 0
    startTime: "2026-01-02T03:04:05Z"
    runTime: null
    completionTime: null
    instanceUID: null
    configMapName: stored-attempt
    configMapUID: null
    completionStatus: null
    taskRoleStatuses: []
"""
# Granted to agents and not asked for by the barrier: who may watch an object sees no more by these.
AGENT_UNUSED = {Right("", "configmaps", "get"), Right("", "configmaps", "list")}


@pytest.fixture
def access(control_plane: Access, framework_crd: None) -> Access:
    if control_plane.kubectl is None or control_plane.audit_log is None:
        skip_test("needs kubectl and an audit log: let make test-kube start the control plane")
    return control_plane


@pytest.fixture
def base(access: Access) -> list[Object]:
    """The base, applied. It stays: the control plane is thrown away with all that is in it."""
    return apply_kustomization(access, DEPLOY / "base")


def create_pod(http: JsonHttp, deployment: Object, security: dict[str, Any]) -> tuple[int, Any]:
    """Ask whether the Deployment's Pod, its security changed, would be admitted."""
    spec = deployment["spec"]["template"]["spec"]
    spec["containers"][0]["securityContext"] |= security
    pod = {"metadata": {"name": "test"}, "spec": {**spec, "serviceAccountName": "default"}}
    return http.request("POST", f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods?dryRun=All", pod)


@pytest.mark.parametrize(
    ("security", "expected"),
    [({}, 201), ({"allowPrivilegeEscalation": True}, 403)],
    ids=["as shipped", "privileged"],
)
def test_controller_pod_passes_the_restricted_pod_security_of_its_namespace(
    base: list[Object], http: JsonHttp, security: dict[str, Any], expected: int
) -> None:
    deployment = next(body for body in base if body["kind"] == "Deployment")
    wait_ready(http, f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/serviceaccounts/default")
    status, answer = create_pod(http, deployment, security)
    assert status == expected, answer
    assert expected == 201 or "restricted" in answer["message"]


@pytest.mark.parametrize("overlay", ["namespaced", "high-availability"])
def test_overlay_is_accepted(
    overlay: str, base: list[Object], access: Access, namespace: str, tmp_path: Path
) -> None:
    folder = DEPLOY / "overlays" / overlay
    if overlay == "namespaced":
        folder = write_overlay(tmp_path / "overlay", folder, namespace)
    objects = apply_kustomization(access, folder)
    expected = SYSTEM_NAMESPACE if overlay == "high-availability" else namespace
    assert {body["metadata"]["namespace"] for body in objects if body["kind"] == "Deployment"} == {
        expected
    }


def test_install_file_is_what_kustomize_makes_of_the_base(access: Access) -> None:
    rendered = yaml.safe_load_all(run_kubectl(access, "kustomize", str(DEPLOY / "base")))
    installed = yaml.safe_load_all((DEPLOY / "install.yaml").read_text(encoding="utf-8"))

    def sort(objects: Any) -> list[Object]:
        return sorted(objects, key=lambda body: (body["kind"], body["metadata"]["name"]))

    assert sort(rendered) == sort(installed)


def test_install_file_is_accepted(access: Access, base: list[Object]) -> None:
    run_kubectl(access, "apply", "--server-side", "-f", str(DEPLOY / "install.yaml"))


def read_yaml_block(page: Path, number: int) -> str:
    """Give a page's YAML block."""
    blocks: list[str] = re.findall(
        r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL
    )
    return blocks[number]


def test_overlay_with_an_own_config_file_mounts_it(access: Access, tmp_path: Path) -> None:
    overlay = yaml.safe_load(read_yaml_block(ROOT / "docs" / "operations.md", 0))
    overlay["resources"] = [os.path.relpath(DEPLOY / "base", tmp_path)]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    (tmp_path / "config.yaml").write_text("workerNumber: 7\n")
    objects = list(yaml.safe_load_all(run_kubectl(access, "kustomize", str(tmp_path))))
    config = next(body for body in objects if body["kind"] == "ConfigMap")
    assert config["data"] == {"config.yaml": "workerNumber: 7\n"}
    deployment = next(body for body in objects if body["kind"] == "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["volumes"][0]["configMap"]["name"] == config["metadata"]["name"]
    (mount,) = container["volumeMounts"]
    assert f"--config={mount['mountPath']}/config.yaml" in container["args"]


def test_pod_of_the_agents_readme_is_accepted(
    access: Access, http: JsonHttp, namespace: str, tmp_path: Path
) -> None:
    apply_kustomization(access, write_overlay(tmp_path / "agents", AGENTS / "namespace", namespace))
    spec = yaml.safe_load(read_yaml_block(AGENTS / "README.md", 1))["spec"]
    pod = {"metadata": {"name": "test"}, "spec": spec}
    query = "dryRun=All&fieldValidation=Strict"
    status, answer = http.request("POST", f"/api/v1/namespaces/{namespace}/pods?{query}", pod)
    assert status == 201, answer
    mounts = {
        c["name"]: [m["name"] for m in c["volumeMounts"]] for c in answer["spec"]["containers"]
    }
    assert mounts == {"main": ["frameworkbarrier-volume"]}


def build_original_crd() -> Object:
    """The CRD as the original writes it: no subresource, status and Pod template unchecked."""
    ours: Object = yaml.safe_load(CRD_FILE.read_text(encoding="utf-8"))
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {
        "type": "object",
        "properties": {"spec": anything, "status": {**anything, "nullable": True}},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {key: ours["spec"]["names"][key] for key in ("kind", "listKind", "plural", "singular")}
    return {**ours, "spec": {**ours["spec"], "names": names, "versions": [version]}}


async def test_crd_swapped_as_documented_keeps_what_is_stored(
    access: Access, http: JsonHttp, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    original = tmp_path / "original.yaml"
    original.write_text(yaml.safe_dump(build_original_crd()))
    run_kubectl(access, "replace", "-f", str(original))
    served = f"/apis/{constants.API_VERSION}"
    try:
        await wait_for_status(http, served, is_there=False)
        fixture = yaml.safe_load(UPGRADE_FRAMEWORK)
        stored = await kube.create(FRAMEWORKS, namespace, fixture)
        assert stored["status"] == fixture["status"]
    finally:
        run_kubectl(access, "replace", "-f", str(CRD_FILE))
    await wait_for_status(http, served, is_there=True)
    kept = await kube.get(FRAMEWORKS, namespace, "stored")
    assert kept["status"] == fixture["status"]
    kept["status"]["state"] = "AttemptCreationRequested"
    written = await kube.replace(FRAMEWORKS, namespace, "stored", kept, subresource="status")
    assert written["status"]["state"] == "AttemptCreationRequested"
    assert written["spec"]["taskRoles"] == fixture["spec"]["taskRoles"]


async def wait_for_status(http: JsonHttp, path: str, *, is_there: bool) -> None:
    """Wait until discovery has the status subresource, or has it no more."""
    wanted = f"{constants.FRAMEWORK_PLURAL}/status"
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            served = http.request("GET", path)[1]["resources"]
            if (wanted in {resource["name"] for resource in served}) is is_there:
                return
            await asyncio.sleep(0.05)


@pytest.fixture
def gang(namespace: str) -> Object:
    text = (ROOT / "examples" / "gang.yaml").read_text(encoding="utf-8")
    kinds = (d for d in yaml.safe_load_all(text) if d["kind"] == constants.FRAMEWORK_KIND)
    framework: Object = next(kinds)
    framework["metadata"]["namespace"] = namespace
    return framework


@pytest.fixture(params=["namespace", "one-framework"])
def agent_role(
    request: pytest.FixtureRequest, access: Access, namespace: str, gang: Object, tmp_path: Path
) -> tuple[str, list[Object]]:
    """The agents' role, applied as its README says; the name of its service account."""
    folder = write_overlay(tmp_path / "agents", AGENTS / request.param, namespace)
    name = gang["metadata"]["name"]
    text = run_kubectl(access, "kustomize", str(folder)).replace("FRAMEWORK_NAME", name)
    manifest = tmp_path / "agents.yaml"
    manifest.write_text(text)
    run_kubectl(access, "apply", "-f", str(manifest))
    objects = list(yaml.safe_load_all(text))
    account = next(body for body in objects if body["kind"] == "ServiceAccount")
    return account["metadata"]["name"], objects


def write_account_folder(access: Access, folder: Path, namespace: str, account: str) -> Path:
    """Write what a Pod finds of its service account."""
    path = folder / "serviceaccount"
    path.mkdir()
    token = create_account_access(access, folder, namespace, account).token
    (path / "token").write_text(token)
    (path / "namespace").write_text(namespace)
    if access.ca_file is not None:
        (path / "ca.crt").write_bytes(Path(access.ca_file).read_bytes())
    return path


async def test_barrier_with_its_shipped_role_is_refused_nothing(
    agent_role: tuple[str, list[Object]],
    access: Access,
    kube: KubeClient,
    namespace: str,
    gang: Object,
    tmp_path: Path,
) -> None:
    account, objects = agent_role
    for role in gang["spec"]["taskRoles"]:
        role["task"]["pod"]["spec"]["serviceAccountName"] = account
    granted = expand_rules(objects)
    folder = write_account_folder(access, tmp_path, namespace, account)
    audit = AuditLog.open(access, namespace, account)
    barriers = Barriers(access, tmp_path, folder)

    async def script(pod: FakePod) -> None:
        await pass_barrier_and_succeed(barriers, pod)

    with contextlib.ExitStack() as stack:
        stack.enter_context(start_controller(access, tmp_path))
        async with open_kubelet(kube, namespace, script):
            await kube.create(FRAMEWORKS, namespace, gang)
            await wait_for_state(kube, gang, "Completed")
    assert set(barriers.exit_codes.values()) == {0}
    assert audit.read_refused() == set()
    assert granted - audit.read_used() == AGENT_UNUSED
