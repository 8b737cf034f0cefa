from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.support.servers.gang import GangCluster, open_gang_cluster


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[GangCluster]:
    async with open_gang_cluster(tmp_path) as world:
        yield world
