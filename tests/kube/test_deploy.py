"""deploy/ on a real API server: it is accepted, and its Pods pass Pod Security."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from framework.kube.resources import Object
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import ROOT, wait_ready
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.rights import apply_kustomization, run_kubectl, write_overlay

DEPLOY = ROOT / "deploy"
AGENTS = DEPLOY / "agents"
SYSTEM_NAMESPACE = "frameworkbarrier-system"


@pytest.fixture
def base(framework_crd: None, audited_plane: Access) -> list[Object]:
    """The base, applied. It stays until the control plane ends."""
    return apply_kustomization(audited_plane, DEPLOY / "base")


def find_deployment(objects: list[Object]) -> Object:
    return next(body for body in objects if body["kind"] == "Deployment")


@pytest.mark.parametrize(
    ("security", "expected"),
    [({}, 201), ({"allowPrivilegeEscalation": True}, 403)],
    ids=["as shipped", "privileged"],
)
def test_controller_pod_passes_the_restricted_pod_security_of_its_namespace(
    base: list[Object], http: JsonHttp, security: dict[str, Any], expected: int
) -> None:
    path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}"
    wait_ready(http, f"{path}/serviceaccounts/default")
    spec = find_deployment(base)["spec"]["template"]["spec"]
    spec["containers"][0]["securityContext"] |= security
    pod = {"metadata": {"name": "test"}, "spec": {**spec, "serviceAccountName": "default"}}
    status, answer = http.request("POST", f"{path}/pods?dryRun=All", pod)
    assert status == expected, answer
    assert expected == 201 or "restricted" in answer["message"]


@pytest.mark.parametrize("overlay", ["namespaced", "high-availability"])
def test_overlay_is_accepted(
    overlay: str, base: list[Object], audited_plane: Access, namespace: str, tmp_path: Path
) -> None:
    folder = DEPLOY / "overlays" / overlay
    if overlay == "namespaced":
        folder = write_overlay(tmp_path / "overlay", folder, namespace)
    objects = apply_kustomization(audited_plane, folder)
    expected = SYSTEM_NAMESPACE if overlay == "high-availability" else namespace
    assert find_deployment(objects)["metadata"]["namespace"] == expected


def test_install_file_is_accepted_and_equals_the_rendered_base(
    audited_plane: Access, base: list[Object]
) -> None:
    path = DEPLOY / "install.yaml"
    run_kubectl(audited_plane, "apply", "--server-side", "-f", str(path))

    def sort(objects: Any) -> list[Object]:
        return sorted(objects, key=lambda body: (body["kind"], body["metadata"]["name"]))

    assert sort(yaml.safe_load_all(path.read_text(encoding="utf-8"))) == sort(base)


def read_yaml_block(page: Path, number: int) -> str:
    text = page.read_text(encoding="utf-8")
    blocks: list[str] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    return blocks[number]


def test_overlay_with_an_own_config_file_mounts_it(audited_plane: Access, tmp_path: Path) -> None:
    overlay = yaml.safe_load(read_yaml_block(ROOT / "docs" / "operations.md", 0))
    overlay["resources"] = [os.path.relpath(DEPLOY / "base", tmp_path)]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    (tmp_path / "config.yaml").write_text("workerNumber: 7\n")
    objects = list(yaml.safe_load_all(run_kubectl(audited_plane, "kustomize", str(tmp_path))))
    config = next(body for body in objects if body["kind"] == "ConfigMap")
    assert config["data"] == {"config.yaml": "workerNumber: 7\n"}
    spec = find_deployment(objects)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["volumes"][0]["configMap"]["name"] == config["metadata"]["name"]
    (mount,) = container["volumeMounts"]
    assert f"--config={mount['mountPath']}/config.yaml" in container["args"]


def test_pod_of_the_agents_readme_is_accepted(
    audited_plane: Access, http: JsonHttp, namespace: str, tmp_path: Path
) -> None:
    apply_kustomization(
        audited_plane, write_overlay(tmp_path / "agents", AGENTS / "namespace", namespace)
    )
    spec = yaml.safe_load(read_yaml_block(AGENTS / "README.md", 1))["spec"]
    pod = {"metadata": {"name": "test"}, "spec": spec}
    query = "dryRun=All&fieldValidation=Strict"
    status, answer = http.request("POST", f"/api/v1/namespaces/{namespace}/pods?{query}", pod)
    assert status == 201, answer
    mounts = {
        c["name"]: [m["name"] for m in c["volumeMounts"]] for c in answer["spec"]["containers"]
    }
    assert mounts == {"main": ["frameworkbarrier-volume"]}
