import errno
import os
import socket
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from controller.serve.health import HealthError, HealthServer
from controller.serve.metrics import Metrics


@pytest.fixture
def unready() -> list[str]:
    return []


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def url(unready: list[str], metrics: Metrics) -> AsyncIterator[str]:
    server = HealthServer("127.0.0.1", 0, find_unready=lambda: unready, metrics=metrics)
    async with server:
        yield f"http://127.0.0.1:{server.port}"


async def fetch(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def test_healthz_while_the_loop_turns_is_ok(url: str, unready: list[str]) -> None:
    unready.append("pods are not listed yet")
    assert await fetch(f"{url}/healthz") == (200, "ok\n")


async def test_readyz_follows_the_callback(url: str, unready: list[str]) -> None:
    unready += ["pods are not listed yet", "not the leader"]
    assert await fetch(f"{url}/readyz") == (
        503,
        "not ready: pods are not listed yet\nnot ready: not the leader\n",
    )
    unready.clear()
    assert await fetch(f"{url}/readyz") == (200, "ok\n")


async def test_metrics_are_served(url: str, metrics: Metrics) -> None:
    metrics.count_write("pods", "create", 201)
    status, text = await fetch(f"{url}/metrics")
    assert status == 200
    line = 'frameworkcontroller_writes_total{code="201",resource="pods",verb="create"} 1.0'
    assert line in text


async def test_start_with_a_port_in_use_names_port_and_flag(metrics: Metrics) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = HealthServer("127.0.0.1", port, find_unready=list, metrics=metrics)
        with pytest.raises(HealthError, match=rf"127.0.0.1:{port}: .* in use; .*--health-port"):
            await server.__aenter__()
    assert server.port == 0


async def test_start_with_a_foreign_address_names_the_flag(metrics: Metrics) -> None:
    server = HealthServer("192.0.2.1", 0, find_unready=list, metrics=metrics)
    with pytest.raises(HealthError, match="--health-address"):
        await server.__aenter__()


@pytest.fixture
def give_localhost(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A name with an address of each family, of which the host gives some errors only."""
    create = socket.create_server

    def give(errors: dict[int, int]) -> None:
        def create_server(address: tuple[str, int], *, family: int, backlog: int) -> socket.socket:
            if family in errors:
                raise OSError(errors[family], os.strerror(errors[family]))
            assert family == socket.AF_INET
            return create(address, family=family, backlog=backlog)

        def getaddrinfo(*_: object, **__: object) -> list[Any]:
            kind = (socket.SOCK_STREAM, 6, "")
            return [
                (socket.AF_INET6, *kind, ("::1", 0, 0, 0)),
                (socket.AF_INET, *kind, ("127.0.0.1", 0)),
            ]

        monkeypatch.setattr(socket, "create_server", create_server)
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    return give


@pytest.mark.parametrize("missing", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
async def test_name_is_served_on_the_address_that_the_host_has(
    metrics: Metrics, give_localhost: Any, missing: int
) -> None:
    give_localhost({socket.AF_INET6: missing})
    async with HealthServer("localhost", 0, find_unready=list, metrics=metrics) as server:
        assert await fetch(f"http://127.0.0.1:{server.port}/healthz") == (200, "ok\n")


async def test_name_without_an_address_is_refused(metrics: Metrics, give_localhost: Any) -> None:
    give_localhost(dict.fromkeys((socket.AF_INET6, socket.AF_INET), errno.EAFNOSUPPORT))
    server = HealthServer("localhost", 0, find_unready=list, metrics=metrics)
    with pytest.raises(HealthError, match=r"not supported.*; give another --health-address"):
        await server.__aenter__()


async def test_port_taken_on_one_address_is_refused(metrics: Metrics, give_localhost: Any) -> None:
    """A probe of that address would be answered by another program."""
    give_localhost({socket.AF_INET6: errno.EADDRINUSE})
    server = HealthServer("localhost", 0, find_unready=list, metrics=metrics)
    with pytest.raises(HealthError, match="in use"):
        await server.__aenter__()
