"""Frameworks in the middle of their lives under the original, on a real API server."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from framework.kube.client import KubeClient
from tests.kube.test_deploy import build_original_crd
from tests.support.machine.prerequisites import skip_test
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import CRD_FILE, CRDS, ROOT
from tests.support.servers.frameworkserver import start_controller
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.rights import run_kubectl
from tests.upgrade.recorded import RECORDED_ENV, find_recorded, read_recorded
from tests.upgrade.situations import SITUATIONS
from tests.upgrade.takeover import TakeOver, count_configmaps


async def test_situations_are_taken_over_and_completed(
    framework_crd: None, control_plane: Access, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    situations = {name: build() for name, build in SITUATIONS.items()}
    await TakeOver(kube, namespace).play(
        situations, lambda: start_controller(control_plane, tmp_path)
    )
    assert await count_configmaps(kube, namespace) == 0


async def test_recorded_situations_are_taken_over_and_completed(
    framework_crd: None, control_plane: Access, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    folder = find_recorded(os.environ)
    if folder is None:
        pytest.skip(f"no objects of the original: set {RECORDED_ENV} to a folder of List files")
    await TakeOver(kube, namespace).play(
        read_recorded(folder), lambda: start_controller(control_plane, tmp_path)
    )
    assert await count_configmaps(kube, namespace) == 0


def read_commands(word: str) -> list[str]:
    """Read the lines of docs/migration.md's blocks that contain a word."""
    text = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
    blocks: list[str] = re.findall(r"^ *```\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [line.strip() for block in blocks for line in block.splitlines() if word in line]


def test_crd_saved_as_documented_can_be_put_back(
    framework_crd: None, control_plane: Access, http: JsonHttp, tmp_path: Path
) -> None:
    if control_plane.kubectl is None:
        skip_test("needs kubectl: let make test-kube start the control plane")
    save, put_back = read_commands("old-crd.yaml")
    original = tmp_path / "original.yaml"
    original.write_text(yaml.safe_dump(build_original_crd()))
    folder = Path(control_plane.kubectl).parent
    env = os.environ | {
        "KUBECONFIG": control_plane.kubeconfig,
        "PATH": f"{folder}:{os.environ['PATH']}",
    }
    run_kubectl(control_plane, "replace", "-f", str(original))
    try:
        subprocess.run(save, shell=True, check=True, env=env, cwd=tmp_path)
        run_kubectl(control_plane, "replace", "-f", str(CRD_FILE))
        subprocess.run(put_back, shell=True, check=True, env=env, cwd=tmp_path)
        name = build_original_crd()["metadata"]["name"]
        status, crd = http.request("GET", f"{CRDS}/{name}")
        assert status == 200, crd
        assert "subresources" not in crd["spec"]["versions"][0]
    finally:
        run_kubectl(control_plane, "replace", "-f", str(CRD_FILE))
