"""Common code of the two WebSockets of Pods, ``exec`` and ``portforward``.

``RunningPods`` is the interface of the kubelet for both; ``DescriptorBudget`` bounds them.
"""

import asyncio
import contextlib
import resource
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Protocol

from aiohttp import web

from localcluster.apiserver.model.errors import StatusError
from localcluster.stdio import Stdio, Streams

_PING_SECONDS = 1.0
"""Interval of pings that find a lost client while the receiver does not read."""
_MAX_DESCRIPTORS = 4096


class RunningPods(Protocol):
    """Runs commands in the containers of Pods, and connects to their programs."""

    async def run_command(self, uid: str, container: str, argv: Sequence[str], stdio: Stdio) -> int:
        """Run a command in a container of the Pod with this UID and return its exit code.

        A cancelled call leaves nothing running.

        Raises:
            StartError: the container does not run, or it has no such program.
        """
        ...

    async def connect(self, uid: str, port: int) -> Streams:
        """Connect to a port of the Pod with this UID.

        Raises:
            OSError: nothing listens there, or the Pod does not run.
        """
        ...


class DescriptorBudget:
    """Bounds the file descriptors of all WebSockets of Pods together.

    Without it, the WebSockets of one client could take all descriptors of the server, so that it
    would accept no connection.
    """

    def __init__(self) -> None:
        """Allow half of the open files of this process, at most 4096."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        is_unlimited = soft == resource.RLIM_INFINITY
        self.left = _MAX_DESCRIPTORS if is_unlimited else min(_MAX_DESCRIPTORS, soft // 2)
        """Number of descriptors that may still be opened."""

    @contextlib.contextmanager
    def take(self, count: int) -> Iterator[None]:
        """Use ``count`` descriptors until the block ends; too few left is 429."""
        if count > self.left:
            text = "too many exec and port-forward connections are open: close some of them"
            raise StatusError(429, "TooManyRequests", text)
        self.left -= count
        try:
            yield
        finally:
            self.left += count


def is_websocket(request: web.Request) -> bool:
    """Return whether the client requests a WebSocket."""
    return request.headers.get("Upgrade", "").lower() == "websocket"


async def drain_while_connected(
    writer: asyncio.StreamWriter, ping: Callable[[], Awaitable[None]]
) -> None:
    """Wait until the receiver has read the written bytes; a receiver that has ended is no error.

    Messages of the client are not read meanwhile, so only a ping detects its disconnection.

    Raises:
        ConnectionError: the client has gone.
    """
    draining = asyncio.ensure_future(writer.drain())
    try:
        while not (await asyncio.wait({draining}, timeout=_PING_SECONDS))[0]:
            await ping()
        with contextlib.suppress(ConnectionError):
            await draining
    finally:
        draining.cancel()
