import asyncio
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from localcluster.kubelet.probes import ProbeResult, follow_probe, probe_once
from localcluster.stdio import Streams
from tests.support.waiting import HANG_SECONDS


class Target:
    pod_ip = "127.0.0.1"

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    async def connect(self, host: str, port: int) -> Streams:
        return await asyncio.open_connection(host, port)

    def resolve_port(self, port: int | str) -> int:
        return int(port)

    async def execute(self, argv: Sequence[str]) -> tuple[int, str]:
        if argv == ["hang"]:
            await asyncio.Event().wait()
        return self.codes.pop(0), " ".join(argv)


@asynccontextmanager
async def listen(answer: bytes) -> AsyncGenerator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answer:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(("status", "ok"), [(200, True), (302, True), (404, False), (503, False)])
async def test_probe_once_http_status_decides(status: int, *, ok: bool) -> None:
    async with listen(f"HTTP/1.1 {status} X\r\n\r\n".encode()) as port:
        result = await probe_once(
            {"httpGet": {"port": port, "path": "/up"}}, Target(), HANG_SECONDS
        )
    assert result.ok is ok


async def test_probe_once_tcp_open_port_is_ok_and_closed_is_not() -> None:
    async with listen(b"") as port:
        action = {"tcpSocket": {"port": port}}
        assert (await probe_once(action, Target(), HANG_SECONDS)).ok
    with socket.socket() as closed:
        # Bound, so that no other program listens there.
        closed.bind(("127.0.0.1", 0))
        action = {"tcpSocket": {"port": closed.getsockname()[1]}}
        assert not (await probe_once(action, Target(), HANG_SECONDS)).ok


async def test_probe_once_exec_exit_code_decides() -> None:
    target = Target(0, 1)
    action = {"exec": {"command": ["check", "it"]}}
    passed = await probe_once(action, target, HANG_SECONDS)
    assert passed == ProbeResult(ok=True, message="check it")
    assert not (await probe_once(action, target, HANG_SECONDS)).ok


async def test_probe_once_slow_command_and_unknown_kind_fail() -> None:
    result = await probe_once({"exec": {"command": ["hang"]}}, Target(), 0.01)
    assert result == ProbeResult(ok=False, message="timed out after 0.01s")
    assert not (await probe_once({"grpc": {"port": 1}}, Target(), 1)).ok


@pytest.mark.looptime
async def test_follow_probe_counts_results_in_a_row_until_its_handler_ends_it() -> None:
    loop = asyncio.get_running_loop()
    seen: list[Any] = []

    async def handle(result: ProbeResult, *, counts: bool) -> bool:
        seen.append((round(loop.time()), result.ok, counts))
        return len(seen) == 5

    probe = {
        "exec": {"command": ["x"]},
        "initialDelaySeconds": 3,
        "periodSeconds": 5,
        "timeoutSeconds": 1,
        "successThreshold": 1,
        "failureThreshold": 2,
    }
    await follow_probe(probe, Target(1, 1, 0, 1, 0), handle)

    assert seen == [
        (3, False, False),
        (8, False, True),
        (13, True, True),
        (18, False, False),
        (23, True, True),
    ]
