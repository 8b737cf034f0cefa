"""The two servers of the contract suite.

Every test takes ``api`` and so runs against the local server and, marked ``kube``, against a real
API server, beside which a garbage collector runs.
"""

import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from framework.clock import SystemClock, SystemUids
from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.storage import Storage
from tests.contract.apiclient import Api, Object
from tests.support.servers.controlplane import Access
from tests.support.servers.realserver import control_plane
from tests.support.waiting import HANG_SECONDS, wait_until_async

__all__ = ["api", "control_plane"]

TOKEN = "contract"
# Small, so that a test can write past its end.
LOCAL_HISTORY = 100

WIDGET_CRD: Object = yaml.safe_load(Path(__file__).with_name("widgets.yaml").read_text())


@pytest.fixture(params=["local", pytest.param("kube", marks=pytest.mark.kube)])
async def api(request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    """An empty namespace of a server that knows the kind Widget."""
    if request.param == "kube":
        access: Access = request.getfixturevalue("control_plane")
        async for opened in _open(access.url, access.token):
            yield opened
    else:
        async for opened in _local():
            yield opened


async def _local() -> AsyncIterator[Api]:
    storage = Storage(SystemClock(), SystemUids(), history_limit=LOCAL_HISTORY)
    async with ApiServer(storage, clock=SystemClock(), tokens=[TOKEN]) as server:
        url = await server.start()
        async for opened in _open(url, TOKEN):
            yield opened


async def _open(url: str, token: str) -> AsyncIterator[Api]:
    namespace = f"contract-{SystemUids().new_uid()[:13]}"
    sockets: list[socket.socket] = []

    def open_socket(address: tuple[Any, ...]) -> socket.socket:
        sockets.append(socket.socket(*address[:3]))
        return sockets[-1]

    async with aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {token}"},
        connector=aiohttp.TCPConnector(ssl=False, limit=0, socket_factory=open_socket),
        timeout=aiohttp.ClientTimeout(total=2 * HANG_SECONDS),
        trust_env=False,
    ) as session:
        api = Api(session, url, namespace)
        await _install_widgets(api)
        (await api.create("namespaces", {"metadata": {"name": namespace}})).ok()
        yield api
        await api.delete("namespaces", namespace)
    # Connections that were cut in the middle of a watch close their sockets a moment later.
    await wait_until_async(lambda: all(opened.fileno() < 0 for opened in sockets))


async def _install_widgets(api: Api) -> None:
    answer = await api.create("customresourcedefinitions", WIDGET_CRD)
    assert answer.status in {201, 409}, answer.body
    await api.wait_until_served(api.path("widgets", everywhere=True))
