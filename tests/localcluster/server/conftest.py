"""A running server, and its storage to look behind the wire."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import pytest

from framework.clock import SequentialUids, SystemClock
from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.storage import Storage
from tests.contract.apiclient import Api

TOKEN = "secret/token"


@dataclass
class Running:
    server: ApiServer
    storage: Storage
    url: str
    api: Api


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    storage = Storage(SystemClock(), SequentialUids(1))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        ApiServer(storage, clock=SystemClock(), tokens=["other", TOKEN]) as server,
        aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        url = await server.start()
        yield Running(server, storage, url, Api(session, url, "default"))
