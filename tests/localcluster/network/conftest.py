"""Fixtures of the network's tests."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from localcluster.network.choice import NetworkChoice
from tests.localcluster.kubelet.nodes import Node, open_node


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[Node]:
    """A kubelet whose Pods have network namespaces."""
    async with open_node(tmp_path, network=NetworkChoice.NAMESPACE) as node:
        yield node
