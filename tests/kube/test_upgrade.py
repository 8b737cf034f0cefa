"""Frameworks that run under the original are taken over, on a real API server."""

import os
from pathlib import Path

import pytest

from framework.kube.client import KubeClient
from tests.skips import NO_RECORDINGS
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import start_controller
from tests.upgrade.recorded import RECORDED_ENV, find_recorded, read_recorded
from tests.upgrade.situations import SITUATIONS
from tests.upgrade.takeover import TakeOver, count_configmaps


@pytest.mark.parametrize("source", ["built", "recorded"])
async def test_situations_are_taken_over_and_completed(
    framework_crd: None,
    control_plane: Access,
    kube: KubeClient,
    namespace: str,
    tmp_path: Path,
    source: str,
) -> None:
    situations = {name: build() for name, build in SITUATIONS.items()}
    if source == "recorded":
        folder = find_recorded(os.environ)
        if folder is None:
            pytest.skip(f"{NO_RECORDINGS}set {RECORDED_ENV} to a folder of List files")
        situations = read_recorded(folder)
    await TakeOver(kube, namespace).play(
        situations, lambda: start_controller(control_plane, tmp_path)
    )
    assert await count_configmaps(kube, namespace) == 0
