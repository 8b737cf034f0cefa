"""Attacks on the controller's health port, over real sockets."""

import asyncio
import contextlib
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from controller.serve.health import HealthServer
from controller.serve.health_connections import HealthLimits
from controller.serve.metrics import Metrics
from framework.connectionlimit import ConnectionLimit
from tests.support.machine.openfiles import limit_open_files
from tests.support.servers.frameworkcrd import ROOT
from tests.support.waiting import HANG_SECONDS

DESCRIPTORS = 256
ATTACKERS = 2000
HALF_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: attacker\r\nX-"


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server in a process with few descriptors."""
    command = [sys.executable, "-m", "tests.security.health_server", str(DESCRIPTORS)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


@pytest.fixture
def held() -> Iterator[contextlib.ExitStack]:
    """Connections that an attacker holds until the test ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < ATTACKERS * 2:
        pytest.skip(f"needs {ATTACKERS * 2} open files; `ulimit -Hn` is {hard}")
    with limit_open_files(max(soft, ATTACKERS * 2)), contextlib.ExitStack() as stack:
        yield stack


def attack(port: int, held: contextlib.ExitStack, sent: bytes, source: str = "127.0.0.1") -> None:
    attacker = held.enter_context(socket.socket())
    attacker.settimeout(HANG_SECONDS)
    attacker.bind((source, 0))
    attacker.connect(("127.0.0.1", port))
    # The server may have closed this connection already for a newer one.
    with contextlib.suppress(ConnectionError):
        attacker.sendall(sent)


def probe(port: int, path: str = "/healthz") -> bytes:
    """Return the first line of the answer, which is what the kubelet checks."""
    with socket.create_connection(("127.0.0.1", port), timeout=HANG_SECONDS) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: node\r\n\r\n".encode())
        answer = bytearray()
        while chunk := client.recv(4096):
            answer += chunk
    return bytes(answer.partition(b"\r\n")[0])


@pytest.mark.parametrize("sent", [HALF_REQUEST, b""], ids=["half request", "silence"])
def test_probes_among_two_thousand_half_requests_are_all_answered(
    port: int, held: contextlib.ExitStack, sent: bytes
) -> None:
    answers = []
    for number in range(ATTACKERS):
        attack(port, held, sent)
        if number % 250 == 249:
            answers += [probe(port), probe(port, "/readyz")]
    assert answers == [b"HTTP/1.1 200 OK"] * 16


def test_metrics_that_are_never_read_hold_no_descriptors(
    port: int, held: contextlib.ExitStack
) -> None:
    request = b"GET /metrics HTTP/1.1\r\nHost: attacker\r\n\r\n"
    for _ in range(DESCRIPTORS * 2):
        attack(port, held, request)
    assert probe(port, "/readyz") == b"HTTP/1.1 200 OK"


def test_flood_from_one_source_leaves_connections_of_others_alone(
    port: int, held: contextlib.ExitStack
) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=HANG_SECONDS) as slow:
        slow.sendall(b"GET /healthz HT")
        for _ in range(DESCRIPTORS):
            attack(port, held, HALF_REQUEST, source="127.0.0.2")
        slow.sendall(b"TP/1.1\r\n\r\n")
        assert slow.recv(15) == b"HTTP/1.1 200 OK"


def test_probes_among_floods_from_many_sources_are_all_answered(
    port: int, held: contextlib.ExitStack
) -> None:
    """Each source stays below its own limit, so only the limit in all closes connections."""
    answers = []
    for number in range(ATTACKERS):
        attack(port, held, HALF_REQUEST, source=f"127.0.{number // 200 + 1}.{number % 200 + 1}")
        if number % 250 == 249:
            answers += [probe(port), probe(port, "/readyz")]
    assert answers == [b"HTTP/1.1 200 OK"] * 16


def serve(metrics: Metrics | None = None, seconds: float = 10.0) -> HealthServer:
    limits = HealthLimits(ConnectionLimit(in_all=8, per_source=4), seconds=seconds)
    return HealthServer(
        "127.0.0.1", 0, find_unready=list, metrics=metrics or Metrics(), limits=limits
    )


async def exchange(port: int, *parts: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        return await reader.read()
    finally:
        writer.close()


async def test_half_request_is_closed_at_its_deadline() -> None:
    async with serve(seconds=0.05) as server:
        answer = b""
        # A half request that comes after the deadline is answered by a reset.
        with contextlib.suppress(ConnectionError):
            answer = await exchange(server.port, HALF_REQUEST)
        assert answer == b""


async def test_request_in_parts_is_answered() -> None:
    async with serve() as server:
        parts = (b"GET /rea", b"dyz HTTP/1.1\r\nHost: a\r", b"\n\r\n")
        assert (await exchange(server.port, *parts)).endswith(b"\r\n\r\nok\n")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        pytest.param(b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\n\r\n", b"431", id="line"),
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"a" * 10_000, b"431", id="headers"),
        pytest.param(b"POST /healthz HTTP/1.1\r\n\r\n", b"405", id="method"),
        pytest.param(b"GET /secret HTTP/1.1\r\n\r\n", b"404", id="path"),
        pytest.param(b"\x16\x03\x01\r\n\r\n", b"400", id="no HTTP"),
        pytest.param(b"GET  HTTP/1.1\r\n\r\n", b"404", id="no path"),
        pytest.param(b"GET /healthz SIP/2.0\r\n\r\n", b"400", id="protocol"),
    ],
)
async def test_unknown_request_is_refused(request_: bytes, status: bytes) -> None:
    async with serve() as server:
        answer = await exchange(server.port, request_)
    assert answer.split(b" ")[1] == status


async def test_head_request_gets_the_length_and_no_body() -> None:
    async with serve() as server:
        answer = await exchange(server.port, b"HEAD /healthz HTTP/1.0\r\n\r\n")
    assert b"Content-Length: 3\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


async def test_scrapes_in_a_row_render_seldom_when_rendering_is_slow() -> None:
    rendered = 0

    def count_slowly() -> int:
        nonlocal rendered
        rendered += 1
        time.sleep(0.05)
        return 1

    metrics = Metrics()
    metrics.follow_frameworks(count_slowly)
    started_at = time.monotonic()
    async with serve(metrics) as server:
        for _ in range(50):
            answer = await exchange(server.port, b"GET /metrics HTTP/1.1\r\n\r\n")
            assert b"frameworkcontroller_frameworks 1.0" in answer
    # Twenty times 0.05 s pass between two renderings.
    assert rendered <= 1 + time.monotonic() - started_at
