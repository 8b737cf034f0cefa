"""Commands of the pages that change a cluster, run as they are on a real API server.

The API server is one of its own: the commands delete the CRD.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.docs.commands import PAGES, ROOT, list_commands
from tests.docs.covered import KUBE, find_how
from tests.docs.pasted import read_pasted
from tests.framework.kinds.jobs import build_tfjob, build_trainingjob
from tests.support.machine.prerequisites import MissingPrerequisiteError
from tests.support.servers.binaries import find_binaries
from tests.support.servers.controlplane import Access, ControlPlane
from tests.support.servers.frameworkcrd import install_crd
from tests.support.servers.frameworkserver import build_env
from tests.support.waiting import HANG_SECONDS

FRAMEWORK = read_pasted().partition("ddp.yaml <<END\n")[2].partition("\nEND\n")[0]
# What the Go original's documentation installs, as far as migration.md names it.
ORIGINAL = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: frameworkcontroller, namespace: default}
spec:
  serviceName: frameworkcontroller
  selector: {matchLabels: {app: frameworkcontroller}}
  template:
    metadata: {labels: {app: frameworkcontroller}}
    spec: {containers: [{name: main, image: frameworkcontroller/frameworkcontroller}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: frameworkcontroller, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: frameworkcontroller}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: frameworkcontroller, namespace: default}]
"""
# What must exist before the commands of a page.
BEFORE = {
    "docs/migration.md": "kubectl apply -f original.yaml",
    "docs/upgrade.md": "kubectl apply --server-side -k deploy/base",
    "deploy/agents/README.md": "kubectl apply --server-side -k deploy/base",
}


def list_kube(page: str) -> list[str]:
    return [
        command.text
        for command in list_commands()
        if command.page == page and find_how(command) == KUBE
    ]


@pytest.fixture(scope="module")
def plane() -> Iterator[Access]:
    try:
        server = ControlPlane(find_binaries(os.environ, build=False))
    except MissingPrerequisiteError as e:
        pytest.skip(str(e))
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
def folder(tmp_path: Path, plane: Access) -> Path:
    """A checkout as far as the commands read it, beside a cluster with the CRD."""
    install_crd(plane.open_http())
    for name in ("deploy", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "ddp").mkdir()
    for name in ("train.yaml", "ddp/ddp.yaml"):
        (tmp_path / name).write_text(FRAMEWORK)
    for name, job in (("tfjob", build_tfjob()), ("training_job", build_trainingjob())):
        job["metadata"]["namespace"] = "team-a"
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(job))
    (tmp_path / "original.yaml").write_text(ORIGINAL)
    return tmp_path


def run(plane: Access, folder: Path, command: str) -> None:
    """Run a command in a shell, as the administrator of the cluster."""
    assert plane.kubectl is not None
    path = [str(Path(plane.kubectl).parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=build_env() | {"PATH": os.pathsep.join(path), "KUBECONFIG": plane.kubeconfig},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"


@pytest.mark.parametrize("page", [page for page in PAGES if list_kube(page)])
def test_commands_of_a_page_run_one_after_another(page: str, plane: Access, folder: Path) -> None:
    run(
        plane,
        folder,
        "kubectl create namespace team-a --dry-run=client -o yaml | kubectl apply -f -",
    )
    run(plane, folder, BEFORE.get(page, "true"))
    for command in list_kube(page):
        run(plane, folder, command)
