"""Answers /healthz, /readyz and /metrics.

The controller is alive if its event loop runs, and ready if the callback returns no problem. No
request here uses the API server. Sockets and their limits are in ``health_connections``; this
module parses a request and builds its answer.

    HealthError     the address cannot be listened on
"""

import asyncio
import errno
from collections.abc import Callable, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Self

from controller.serve.health_connections import HealthConnections, HealthLimits
from controller.serve.metrics import CONTENT_TYPE, Metrics

ReadinessCheck = Callable[[], Sequence[str]]
"""Describes why the controller is not ready; empty if it is."""

_TEXT = "text/plain; charset=utf-8"
_METHODS = ("GET", "HEAD")
_RENDER_SHARE = 20
"""Metrics are rendered once, then served for this many times as long as the rendering took.

So any number of scrapes costs at most a twentieth of the event loop's time.
"""


class HealthError(Exception):
    """The health endpoint cannot listen; the message names address and remedy."""


class HealthServer:
    """The HTTP server of probes and scrapes. Use it in ``async with``."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        find_unready: ReadinessCheck,
        metrics: Metrics,
        limits: HealthLimits | None = None,
    ) -> None:
        """Prepare; nothing listens yet.

        Args:
            host: 127.0.0.1 on a developer's machine, 0.0.0.0 in a Pod, whose kubelet probes from
                outside.
            port: 0 for a free port, see ``port``.
            find_unready: called for each /readyz.
            metrics: rendered for /metrics.
            limits: limits of connections; None for limits that fit this process's descriptors.
        """
        self._host = host
        self._wanted_port = port
        self._find_unready = find_unready
        self._metrics = metrics
        self._limits = limits or HealthLimits.by_descriptors()
        self._connections: HealthConnections | None = None
        self._rendered = b""
        self._rendered_until = 0.0

    @property
    def port(self) -> int:
        """The port that is listened on; 0 before the start."""
        return 0 if self._connections is None else self._connections.port

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            HealthError: the port is in use, or the address is not this machine's.
        """
        try:
            self._connections = await HealthConnections.listen(
                self._host, self._wanted_port, answer=self._answer, limits=self._limits
            )
        except OSError as e:
            raise HealthError(self._explain(e)) from e
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop listening."""
        if self._connections is not None:
            self._connections.close()
            self._connections = None

    def _explain(self, error: OSError) -> str:
        address = f"{self._host}:{self._wanted_port}"
        if error.errno == errno.EADDRINUSE:
            return f"cannot listen on {address}: the port is in use; give another --health-port"
        reason = error.strerror or str(error)
        return f"cannot listen on {address}: {reason}; give another --health-address"

    def _answer(self, head: bytes) -> bytes:
        """Return the whole answer to the head of a request, for a connection that then ends."""
        line, _, _ = head.partition(b"\r\n")
        parts = line.decode("latin-1").split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):  # noqa: PLR2004 of a request line
            return build_answer(HTTPStatus.BAD_REQUEST)
        method, target, _ = parts
        if method not in _METHODS:
            return build_answer(HTTPStatus.METHOD_NOT_ALLOWED)
        status, body, kind = self._find_body(target.partition("?")[0])
        return build_answer(status, body, kind, has_body=method != "HEAD")

    def _find_body(self, path: str) -> tuple[HTTPStatus, bytes, str]:
        if path == "/healthz":
            return HTTPStatus.OK, b"ok\n", _TEXT
        if path == "/readyz":
            reasons = self._find_unready()
            status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
            text = "".join(f"not ready: {reason}\n" for reason in reasons) or "ok\n"
            return status, text.encode(), _TEXT
        if path == "/metrics":
            return HTTPStatus.OK, self._render_metrics(), CONTENT_TYPE
        return HTTPStatus.NOT_FOUND, b"there are /healthz, /readyz and /metrics\n", _TEXT

    def _render_metrics(self) -> bytes:
        now = asyncio.get_running_loop().time
        started_at = now()
        if started_at >= self._rendered_until:
            self._rendered = self._metrics.render()
            ended_at = now()
            self._rendered_until = ended_at + _RENDER_SHARE * (ended_at - started_at)
        return self._rendered


def build_answer(
    status: HTTPStatus, body: bytes = b"", kind: str = _TEXT, *, has_body: bool = True
) -> bytes:
    """Build an answer after which the connection ends."""
    body = body or f"{status.phrase}\n".encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (body if has_body else b"")
