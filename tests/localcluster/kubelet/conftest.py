"""Fixtures of the kubelet's tests."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from localcluster.kubelet.container.forkserver_process import ForkServerProcess
from localcluster.kubelet.container.sandbox import Isolation
from tests.localcluster.kubelet.nodes import Node, open_node


@pytest.fixture
async def server() -> AsyncGenerator[ForkServerProcess]:
    """Starts containers."""
    server = ForkServerProcess()
    yield server
    await server.stop()


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[Node]:
    """A kubelet with the isolation that this host allows."""
    async with open_node(tmp_path) as node:
        yield node


@pytest.fixture(params=[Isolation.ROOT, Isolation.PATHS])
async def either_node(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Node]:
    """A kubelet with each isolation in turn."""
    async with open_node(tmp_path, isolation=request.param) as node:
        yield node
