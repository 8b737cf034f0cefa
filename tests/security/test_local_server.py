"""Attacks on the port of the local API server by another user of the machine, without a token."""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from framework.clock import SequentialUids, SystemClock, SystemRandom, SystemUids
from localcluster.apiserver.front import auth
from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.storage import Storage
from localcluster.cluster import ClusterOptions, LocalCluster
from tests.support.machine.openfiles import count_open_files, limit_open_files

TOKEN = "secret"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
HALF_REQUEST = b"GET /api/v1/pods HTTP/1.1\r\nHost: attacker\r\nX-"
LIST = "/api/v1/namespaces/default/configmaps"
# Both ends of each connection are in this process, which often may open 1,024 files.
GANG = 200
# Connections without a token that the server keeps; the oldest beyond them is closed at once.
STRANGERS = 48


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """Leave few descriptors to this process: both sides are in it, and files of other tests."""
    with limit_open_files(count_open_files() + 240):
        yield


@pytest.fixture
async def url(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    # Less than a quarter of the files that any process may open: the limit is the same in each run.
    monkeypatch.setattr(auth, "_MAX_UNAUTHENTICATED", STRANGERS)
    storage = Storage(SystemClock(), SequentialUids(1))
    async with ApiServer(storage, clock=SystemClock(), tokens=[TOKEN]) as server:
        yield await server.start()


async def open_half(url: str, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    writer.write(sent)
    return reader, writer


async def read_until_closed(url: str, sent: bytes) -> bytes:
    """Send bytes as a stranger; return the answer when the server has closed the connection."""
    reader, writer = await open_half(url, sent)
    answer = b""
    with contextlib.suppress(ConnectionError):
        answer = await reader.read()
    writer.close()
    return answer


async def list_status(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(f"{url}{LIST}") as answer:
        await answer.read()
        return answer.status


async def test_strangers_and_pages_of_browsers_run_no_command_in_a_container(url: str) -> None:
    path = f"{url}/api/v1/namespaces/default/pods/gang-worker-0/exec?command=id&stdout=true"
    async with aiohttp.ClientSession() as session:
        for token in ("", "/token/guess"):
            address = path.replace("/api", f"{token}/api", 1)
            for origin in (None, "http://attacker.example", url):
                with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                    await session.ws_connect(address, origin=origin)
                assert caught.value.status == 401
            async with session.post(address) as answer:
                assert answer.status == 401


@pytest.mark.parametrize("sent", [HALF_REQUEST, b""], ids=["half request", "silence"])
async def test_half_requests_of_strangers_are_closed_and_tokens_are_served(
    few_descriptors: None, url: str, sent: bytes
) -> None:
    attackers = []
    async with aiohttp.ClientSession(headers=HEADERS) as session:
        assert await list_status(session, url) == 200
        async with session.get(f"{url}{LIST}", params={"watch": "true"}) as watch:
            for _ in range(3):
                attackers += [await open_half(url, sent) for _ in range(100)]
                assert await list_status(session, url) == 200
                # Both sides share the descriptors, so this side closes what the server has closed.
                for reader, writer in attackers[:-STRANGERS]:
                    with contextlib.suppress(ConnectionError):
                        assert await reader.read() == b""
                    writer.close()
                del attackers[:-STRANGERS]
            body = {"metadata": {"name": "a"}}
            async with session.post(f"{url}{LIST}", json=body) as answer:
                assert answer.status == 201
            assert b'"ADDED"' in await watch.content.readline()
        for _, writer in attackers:
            writer.close()


async def test_silent_stranger_is_closed_at_its_deadline(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "TOKEN_DEADLINE_SECONDS", 0.05)
    assert await read_until_closed(url, HALF_REQUEST) == b""


async def test_request_with_a_wrong_token_does_not_lift_the_deadline(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "TOKEN_DEADLINE_SECONDS", 0.2)
    request = b"GET /api/v1/pods HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer no\r\n\r\n"
    answer = await read_until_closed(url, request)
    assert answer == b"" or b"401" in answer.partition(b"\r\n")[0]


async def test_watch_continues_beyond_the_deadline_of_strangers(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead_seconds = 0.0
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", lambda: time.monotonic() + ahead_seconds)
    async with (
        aiohttp.ClientSession(headers=HEADERS) as session,
        session.get(f"{url}{LIST}", params={"watch": "true"}) as watch,
    ):
        closing = asyncio.create_task(read_until_closed(url, HALF_REQUEST))
        # Let the server accept it: its deadline is after that of the watch would be.
        assert await list_status(session, url) == 200
        ahead_seconds = 2 * auth.TOKEN_DEADLINE_SECONDS
        assert await closing == b""
        async with session.post(f"{url}{LIST}", json={"metadata": {"name": "a"}}) as answer:
            assert answer.status == 201
        assert b'"ADDED"' in await watch.content.readline()


async def test_gang_that_connects_at_once_is_served() -> None:
    """All clients of a loopback port have one address, so no address has a bound of its own."""
    storage = Storage(SystemClock(), SequentialUids(1))
    request = f"GET {LIST} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    async with ApiServer(storage, clock=SystemClock(), tokens=[TOKEN]) as server:
        url = await server.start()
        members = [await open_half(url, b"") for _ in range(GANG)]
        for _, writer in members:
            writer.write(request)
        answers = [await reader.readline() for reader, _ in members]
        for _, writer in members:
            writer.close()
    assert answers == [b"HTTP/1.1 200 OK\r\n"] * GANG


async def test_large_body_with_expect_header_is_accepted(url: str) -> None:
    async with aiohttp.ClientSession(headers=HEADERS) as session:
        body = {"metadata": {"name": "a"}, "data": {"k": "x" * 100_000}}
        async with session.post(f"{url}{LIST}", json=body, expect100=True) as answer:
            assert answer.status == 201


def list_listening_addresses(port: int) -> set[str]:
    """List the addresses at which this process listens on a port; others may, at their own."""
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        if not path.is_socket():
            continue
        with socket.socket(fileno=os.dup(int(path.name))) as copy:
            is_listening = copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            address = copy.getsockname()
        if is_listening and address[1:2] == (port,):
            found.add(address[0])
    return found


@pytest.mark.local
async def test_local_server_listens_on_loopback_only(tmp_path: Path) -> None:
    options = ClusterOptions(directory=tmp_path, with_kubelet=False, with_controller=False)
    cluster = LocalCluster(options, clock=SystemClock(), uids=SystemUids(), random=SystemRandom())
    async with cluster:
        port = int(cluster.kube_config.server.split(":")[2].partition("/")[0])
        assert list_listening_addresses(port) == {"127.0.0.1"}


def test_list_listening_addresses_finds_a_server_of_all_addresses() -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        assert list_listening_addresses(server.getsockname()[1]) == {"0.0.0.0"}
