"""A running server, and its storage to look behind the wire."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from framework.clock import SystemClock, SystemUids
from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.storage import Storage
from tests.contract.apiclient import Api

TOKEN = "secret/token"
# kubectl cannot keep a slash in the path of a server.
KUBECTL_TOKEN = "kubectl token"


@dataclass
class Running:
    server: ApiServer
    storage: Storage
    url: str
    api: Api


@asynccontextmanager
async def open_server(**options: Any) -> AsyncIterator[Running]:
    clock = SystemClock()
    storage = Storage(clock, SystemUids())
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        ApiServer(storage, clock=clock, tokens=[KUBECTL_TOKEN, TOKEN], **options) as server,
        aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        url = await server.start()
        yield Running(server, storage, url, Api(session, url, "default"))


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    async with open_server() as running:
        yield running
