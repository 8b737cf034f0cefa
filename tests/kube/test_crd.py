"""The CRD on a real API server: the change from the original's CRD, and what mends an unfit one."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from controller.gate.crd_check import CrdError, check_crd, find_problem
from framework.api import constants
from framework.kube.client import KubeClient
from framework.kube.resources import FRAMEWORKS, Object
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import CRD_FILE, CRDS, ROOT
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.rights import run_kubectl, run_until_no_conflict
from tests.support.waiting import HANG_SECONDS, wait_until
from tests.upgrade.situations import SITUATIONS


def build_original_crd() -> Object:
    """Build the CRD as the original: no subresource, status and Pod template unchecked."""
    ours: Object = yaml.safe_load(CRD_FILE.read_text(encoding="utf-8"))
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    fields = {"spec": anything, "status": {**anything, "nullable": True}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": fields}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {key: ours["spec"]["names"][key] for key in ("kind", "listKind", "plural", "singular")}
    return {**ours, "spec": {**ours["spec"], "names": names, "versions": [version]}}


@pytest.fixture
def original_crd(
    framework_crd: None, audited_plane: Access, http: JsonHttp, tmp_path: Path
) -> Iterator[None]:
    """The original's CRD, written by the original's field manager, until the test ends."""
    path = tmp_path / "original.yaml"
    path.write_text(yaml.safe_dump(build_original_crd()))
    manager = "--field-manager=frameworkcontroller"
    run_kubectl(audited_plane, "replace", manager, "-f", str(path))
    yield
    run_kubectl(audited_plane, "replace", "-f", str(CRD_FILE))
    # The next test writes statuses.
    wait_for_status_subresource(http, is_served=True)


def wait_for_status_subresource(http: JsonHttp, *, is_served: bool) -> None:
    """Wait until a create leaves the status to the subresource, or takes it.

    Discovery is another part of the server, and may be earlier.
    """
    body: Object = {**SITUATIONS["created"]()[0], "metadata": {"name": "probe"}}
    path = f"/apis/{constants.API_VERSION}/namespaces/default/{constants.FRAMEWORK_PLURAL}"

    def is_changed() -> bool:
        code, answer = http.request("POST", f"{path}?dryRun=All", body)
        return code == 201 and ("status" not in answer) is is_served

    wait_until(is_changed)


async def test_crd_swapped_as_documented_keeps_stored_frameworks(
    original_crd: None, audited_plane: Access, http: JsonHttp, kube: KubeClient, namespace: str
) -> None:
    wait_for_status_subresource(http, is_served=False)
    fixture: Object = {**SITUATIONS["created"]()[0], "metadata": {"name": "stored"}}
    stored = await kube.create(FRAMEWORKS, namespace, fixture)
    assert stored["status"] == fixture["status"]
    run_kubectl(audited_plane, "replace", "-f", str(CRD_FILE))
    wait_for_status_subresource(http, is_served=True)
    kept = await kube.get(FRAMEWORKS, namespace, "stored")
    assert kept["status"] == fixture["status"]
    kept["status"]["state"] = "AttemptCreationRequested"
    written = await kube.replace(FRAMEWORKS, namespace, "stored", kept, subresource="status")
    assert written["status"]["state"] == "AttemptCreationRequested"
    assert written["spec"]["taskRoles"] == fixture["spec"]["taskRoles"]


async def test_remedy_for_a_crd_of_another_field_manager_makes_it_fit(
    original_crd: None, audited_plane: Access, kube: KubeClient
) -> None:
    while not await find_problem(kube):
        pass  # The server serves another CRD only a moment after it was stored.
    with pytest.raises(CrdError) as refused:
        await check_crd(kube, 0)
    printed = re.findall(r"\(kubectl (.+) crd\.yaml\)", str(refused.value))
    run_kubectl(audited_plane, *shlex.split(printed[0]), str(CRD_FILE))
    await check_crd(kube, HANG_SECONDS)
    assert await find_problem(kube) == ""


def read_commands(word: str) -> list[str]:
    """Read the lines of docs/migration.md's blocks that contain a word."""
    text = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
    blocks: list[str] = re.findall(r"^ *```\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [line.strip() for block in blocks for line in block.splitlines() if word in line]


def test_crd_saved_as_documented_can_be_put_back(
    original_crd: None, audited_plane: Access, http: JsonHttp, tmp_path: Path
) -> None:
    save, put_back = read_commands("old-crd.yaml")
    folder = Path(audited_plane.kubectl or "").parent
    variables = {"KUBECONFIG": audited_plane.kubeconfig, "PATH": f"{folder}:{os.environ['PATH']}"}
    env = os.environ | variables
    run_until_no_conflict(["sh", "-c", save], env=env, folder=tmp_path)
    run_kubectl(audited_plane, "replace", "-f", str(CRD_FILE))
    run_until_no_conflict(["sh", "-c", put_back], env=env, folder=tmp_path)
    status, crd = http.request("GET", f"{CRDS}/{build_original_crd()['metadata']['name']}")
    assert status == 200, crd
    assert "subresources" not in crd["spec"]["versions"][0]
