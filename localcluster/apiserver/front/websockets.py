"""What the two WebSockets of Pods, ``exec`` and ``portforward``, have in common."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from aiohttp import web

_PING_SECONDS = 1.0
"""While the receiver does not read, how often to find out whether the client is there."""


def is_websocket(request: web.Request) -> bool:
    """Return whether the client asks for a WebSocket."""
    return request.headers.get("Upgrade", "").lower() == "websocket"


async def drain_while_connected(
    writer: asyncio.StreamWriter, ping: Callable[[], Awaitable[None]]
) -> None:
    """Wait until the receiver has read what was written; a receiver that has ended is no error.

    The client's messages are not read meanwhile, so only a ping finds that it has gone.

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
