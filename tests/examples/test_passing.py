"""Frameworks of users are accepted as they are, and their Pods equal their templates."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.config import KubeConfig
from tests.examples.passing import check_all, check_originals, read_all
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import open_local_server, start_controller

pytestmark = pytest.mark.local


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Access]:
    with open_local_server(tmp_path) as access, start_controller(access, tmp_path):
        yield access


@pytest.fixture
async def admin(server: Access) -> AsyncIterator[KubeClient]:
    config = KubeConfig(server=server.url, token=server.token)
    async with KubeClient(config, user_agent="tests-examples", clock=SystemClock()) as client:
        yield client


async def test_pods_of_our_examples_equal_their_templates(
    server: Access, admin: KubeClient
) -> None:
    await check_all(admin, server.open_http(), "default", read_all())


async def test_pods_of_the_originals_examples_equal_their_templates(
    server: Access, admin: KubeClient
) -> None:
    await check_originals(admin, server.open_http(), "default")
