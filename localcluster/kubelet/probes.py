"""Runs probes and hooks against a container: exec, HTTP and TCP, and for hooks sleep.

The container runs one task for each probe, and decides what a result means.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from framework.kube.resources import Object
from localcluster.stdio import Streams

_HTTP_OK = range(200, 400)
_OUTPUT_LIMIT = 1024


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of one probe or hook."""

    ok: bool
    message: str = ""


class ProbeTarget(Protocol):
    """The container under probe."""

    @property
    def pod_ip(self) -> str:
        """The Pod's address."""
        ...

    async def connect(self, host: str, port: int) -> Streams:
        """Connect to the container as the node does, or raise OSError."""
        ...

    def resolve_port(self, port: int | str) -> int:
        """Return the number of a port that may be named."""
        ...

    async def execute(self, argv: Sequence[str]) -> tuple[int, str]:
        """Run a command in the container; return exit code and output.

        A cancelled call leaves nothing running.
        """
        ...


class OnResult(Protocol):
    """Handles a result; the container decides its meaning."""

    async def __call__(self, result: ProbeResult, *, counts: bool) -> bool:
        """Handle a result; ``counts``: a threshold is reached. Return True to end the probe."""
        ...


async def follow_probe(
    probe: Object,
    target: ProbeTarget,
    on_result: OnResult,
) -> None:
    """Probe a container, with the defaults of the API server, until ``on_result`` returns True."""
    was_ok, in_a_row = None, 0
    await asyncio.sleep(probe.get("initialDelaySeconds", 0))
    while True:
        result = await probe_once(probe, target, probe["timeoutSeconds"])
        in_a_row = in_a_row + 1 if result.ok is was_ok else 1
        was_ok = result.ok
        threshold: int = probe["successThreshold" if result.ok else "failureThreshold"]
        if await on_result(result, counts=in_a_row >= threshold):
            return
        await asyncio.sleep(probe["periodSeconds"])


async def probe_once(
    action: Object, target: ProbeTarget, timeout_seconds: float | None
) -> ProbeResult:
    """Run a probe or a hook once."""
    try:
        async with asyncio.timeout(timeout_seconds):
            if "sleep" in action:
                await asyncio.sleep(action["sleep"]["seconds"])
                return ProbeResult(ok=True)
            if "exec" in action:
                code, output = await target.execute(action["exec"]["command"])
                return ProbeResult(code == 0, output[:_OUTPUT_LIMIT])
            if "httpGet" in action:
                return await _get_http(action["httpGet"], target)
            if "tcpSocket" in action:
                return await _connect(action["tcpSocket"], target)
    except TimeoutError:
        return ProbeResult(ok=False, message=f"timed out after {timeout_seconds}s")
    except (OSError, ValueError, asyncio.IncompleteReadError) as e:
        return ProbeResult(ok=False, message=str(e))
    return ProbeResult(ok=False, message="the local cluster knows no such probe")


async def _connect(action: Object, target: ProbeTarget) -> ProbeResult:
    host = action.get("host") or target.pod_ip
    _, writer = await target.connect(host, target.resolve_port(action["port"]))
    await _close(writer)
    return ProbeResult(ok=True)


async def _get_http(action: Object, target: ProbeTarget) -> ProbeResult:
    host = action.get("host") or target.pod_ip
    port = target.resolve_port(action["port"])
    reader, writer = await target.connect(host, port)
    try:
        if action.get("scheme") == "HTTPS":
            # Like the kubelet, a probe checks no certificate.
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            await writer.start_tls(context)
        headers = {"Host": f"{host}:{port}", "User-Agent": "kube-probe", "Connection": "close"}
        headers |= {h["name"]: h["value"] for h in action.get("httpHeaders") or ()}
        lines = [f"GET {action.get('path') or '/'} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        status_line = (await reader.readline()).decode("latin-1").split(" ", 2)
    finally:
        await _close(writer)
    status = int(status_line[1]) if len(status_line) > 1 else 0
    message = f"HTTP probe failed with statuscode: {status}"
    return ProbeResult(ok=True) if status in _HTTP_OK else ProbeResult(ok=False, message=message)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
