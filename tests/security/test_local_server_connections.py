"""Attacks on the local API server's port by another user of the machine, who has no token."""

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator

import aiohttp
import pytest

from framework.clock import SequentialUids, SystemClock
from localcluster.apiserver.front import unauthenticated
from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.storage import Storage

TOKEN = "secret"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
HALF_REQUEST = b"GET /api/v1/pods HTTP/1.1\r\nHost: attacker\r\nX-"
LIST = "/api/v1/namespaces/default/configmaps"
# Both ends of each connection are in this process, which often may open 1,024 files.
GANG = 200


@pytest.fixture
def few_descriptors() -> object:
    """Let the server take this process's descriptors for 256; both sides are in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
async def url(few_descriptors: object) -> AsyncIterator[str]:
    storage = Storage(SystemClock(), SequentialUids(1))
    async with ApiServer(storage, clock=SystemClock(), tokens=[TOKEN]) as server:
        yield await server.start()


async def open_half(url: str, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    writer.write(sent)
    return reader, writer


async def list_status(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(f"{url}{LIST}") as answer:
        await answer.read()
        return answer.status


@pytest.mark.parametrize("sent", [HALF_REQUEST, b""], ids=["half request", "silence"])
async def test_half_requests_of_strangers_are_closed_and_tokens_are_served(
    url: str, sent: bytes
) -> None:
    attackers = []
    async with aiohttp.ClientSession(headers=HEADERS) as session:
        assert await list_status(session, url) == 200
        async with session.get(f"{url}{LIST}", params={"watch": "true"}) as watch:
            for _ in range(3):
                attackers += [await open_half(url, sent) for _ in range(100)]
                assert await list_status(session, url) == 200
                # What the server gave up is given up here too: both sides share the descriptors.
                for reader, writer in attackers[:-64]:
                    with contextlib.suppress(ConnectionError):
                        assert await reader.read() == b""
                    writer.close()
                del attackers[:-64]
            body = {"metadata": {"name": "a"}}
            async with session.post(f"{url}{LIST}", json=body) as answer:
                assert answer.status == 201
            assert b'"ADDED"' in await watch.content.readline()
        for _, writer in attackers:
            writer.close()


async def test_silent_stranger_is_closed_at_its_deadline(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unauthenticated, "TOKEN_DEADLINE_SECONDS", 0.05)
    reader, writer = await open_half(url, HALF_REQUEST)
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()


async def test_request_with_a_wrong_token_does_not_lift_the_deadline(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unauthenticated, "TOKEN_DEADLINE_SECONDS", 0.2)
    request = b"GET /api/v1/pods HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer no\r\n\r\n"
    reader, writer = await open_half(url, request)
    with contextlib.suppress(ConnectionError):
        assert b"401" in await reader.readline()
        await reader.read()
    writer.close()


async def test_watch_goes_on_beyond_the_deadline_of_strangers(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unauthenticated, "TOKEN_DEADLINE_SECONDS", 0.05)
    async with (
        aiohttp.ClientSession(headers=HEADERS) as session,
        session.get(f"{url}{LIST}", params={"watch": "true"}) as watch,
    ):
        reader, writer = await open_half(url, HALF_REQUEST)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        async with session.post(f"{url}{LIST}", json={"metadata": {"name": "a"}}) as answer:
            assert answer.status == 201
        assert b'"ADDED"' in await watch.content.readline()


async def test_gang_that_connects_at_one_moment_is_served() -> None:
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


async def test_large_body_with_expect_header_is_asked_for(url: str) -> None:
    async with aiohttp.ClientSession(headers=HEADERS) as session:
        body = {"metadata": {"name": "a"}, "data": {"k": "x" * 100_000}}
        async with session.post(f"{url}{LIST}", json=body, expect100=True) as answer:
            assert answer.status == 201
