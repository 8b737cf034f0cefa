"""Frameworks in any state under the original are taken over and completed."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from tests.skips import NO_RECORDINGS
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import open_local_server, start_controller
from tests.upgrade.recorded import RECORDED_ENV, find_recorded, read_recorded
from tests.upgrade.situations import SITUATIONS
from tests.upgrade.takeover import TakeOver, count_configmaps

pytestmark = pytest.mark.local


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Access]:
    with open_local_server(tmp_path) as access:
        yield access


@pytest.fixture
async def kube(server: Access) -> AsyncIterator[KubeClient]:
    config = KubeConfig(server=server.url, token=server.token)
    async with KubeClient(config, user_agent="tests-upgrade", clock=SystemClock()) as client:
        yield client


async def test_situations_are_taken_over_and_completed(
    server: Access, kube: KubeClient, tmp_path: Path
) -> None:
    situations = {name: build() for name, build in SITUATIONS.items()}
    await TakeOver(kube, "default").play(situations, lambda: start_controller(server, tmp_path))
    assert await count_configmaps(kube, "default") == 0


@pytest.mark.slow
async def test_recorded_situations_are_taken_over_and_completed(
    server: Access, kube: KubeClient, tmp_path: Path
) -> None:
    folder = find_recorded(os.environ)
    if folder is None:
        pytest.skip(f"{NO_RECORDINGS}set {RECORDED_ENV} to a folder of List files")
    await TakeOver(kube, "default").play(
        read_recorded(folder), lambda: start_controller(server, tmp_path)
    )
    assert await count_configmaps(kube, "default") == 0
