"""Bounds the connections of clients that have shown no token yet.

Used by ``server``. Every user of this machine reaches a loopback port, so a connection without an
admitted request is closed at a deadline, and their number is bounded; of too many the oldest is
closed. A connection whose token was good has no bound: watches are long. All clients have the same
source, so no source has a bound of its own, and a gang of a thousand Pods that connects at one
moment must pass.
"""

import asyncio
from typing import Any

from aiohttp import web

from framework.connectionlimit import (
    ConnectionLimit,
    ConnectionTable,
    limit_by_descriptors,
    name_source,
)

STRANGER_SECONDS = 10.0
_MOST_STRANGERS = 4096


class GuardedServer(web.Server):
    """aiohttp's server, with bounds for connections before their first admitted request."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take what aiohttp's server takes."""
        super().__init__(*args, **kwargs)
        self._strangers: ConnectionTable[web.RequestHandler] = ConnectionTable(_limit_strangers())
        self._deadlines: dict[web.RequestHandler, asyncio.TimerHandle] = {}

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Take a new connection, and close what there are too many of."""
        super().connection_made(handler, transport)
        address = (transport.get_extra_info("peername") or ("",))[0]
        for evicted in self._strangers.add(handler, name_source(address)):
            self._abort(evicted)
        self._deadlines[handler] = asyncio.get_running_loop().call_later(
            STRANGER_SECONDS, self._abort, handler
        )

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        """Forget a connection."""
        self.admit(handler)
        super().connection_lost(handler, exc)

    def admit(self, handler: web.RequestHandler) -> None:
        """Leave a connection alone from now on: its client has a token."""
        self._strangers.remove(handler)
        deadline = self._deadlines.pop(handler, None)
        if deadline is not None:
            deadline.cancel()

    def _abort(self, handler: web.RequestHandler) -> None:
        self.admit(handler)
        if handler.transport is not None:
            handler.transport.abort()


def _limit_strangers() -> ConnectionLimit:
    in_all = limit_by_descriptors(_MOST_STRANGERS).in_all
    return ConnectionLimit(in_all=in_all, per_source=in_all)
