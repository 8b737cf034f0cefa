import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest

from controller.health import HealthError, HealthServer
from controller.metrics import Metrics


@pytest.fixture
def unready() -> list[str]:
    """Reasons that the server under test gives."""
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
