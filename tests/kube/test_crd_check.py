"""What the controller prints about an unfit CRD mends it, whoever has written that one."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from controller.gate.crd_check import CrdError, check_crd, find_problem
from framework.kube.client import KubeClient
from tests.kube.test_deploy import build_original_crd
from tests.support.machine.prerequisites import skip_test
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import CRD_FILE
from tests.support.servers.rights import run_kubectl


async def test_remedy_for_a_crd_of_another_field_manager_makes_it_fit(
    framework_crd: None, control_plane: Access, kube: KubeClient, tmp_path: Path
) -> None:
    if control_plane.kubectl is None:
        skip_test("needs kubectl: let make test-kube start the control plane")
    original = tmp_path / "original.yaml"
    original.write_text(yaml.safe_dump(build_original_crd()))
    put_back = ("replace", "--field-manager=frameworkcontroller", "-f", str(original))
    run_kubectl(control_plane, *put_back)
    try:
        while not await find_problem(kube):
            pass  # the server takes a moment to serve another CRD
        with pytest.raises(CrdError) as refused:
            await check_crd(kube, 0)
        printed = re.findall(r"\(kubectl (.+) crd\.yaml\)", str(refused.value))
        run_kubectl(control_plane, *shlex.split(printed[0]), str(CRD_FILE))
        await check_crd(kube, 30)
        assert await find_problem(kube) == ""
    finally:
        run_kubectl(control_plane, "replace", "-f", str(CRD_FILE))
