"""Limits the connections of clients that have not shown a token yet.

Every user of this machine can connect to a loopback port. A connection without an admitted request
is closed at a deadline, and their number is limited; beyond the limit the oldest is closed. A
connection with a valid token has no limit, because watches are long. All clients have the same
source address, so there is no limit per source, and a gang of a thousand Pods may connect at once.
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

TOKEN_DEADLINE_SECONDS = 10.0
_MAX_UNAUTHENTICATED = 4096


class GuardedServer(web.Server):
    """aiohttp's server, with bounds for connections before their first admitted request."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Create it with the arguments of aiohttp's server."""
        super().__init__(*args, **kwargs)
        self._unauthenticated: ConnectionTable[web.RequestHandler] = ConnectionTable(
            _limit_unauthenticated()
        )
        self._deadlines: dict[web.RequestHandler, asyncio.TimerHandle] = {}

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Add a new connection, and close the ones beyond the limit."""
        super().connection_made(handler, transport)
        address = (transport.get_extra_info("peername") or ("",))[0]
        for evicted in self._unauthenticated.add(handler, name_source(address)):
            self._abort(evicted)
        self._deadlines[handler] = asyncio.get_running_loop().call_later(
            TOKEN_DEADLINE_SECONDS, self._abort, handler
        )

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        """Remove a closed connection."""
        self.admit(handler)
        super().connection_lost(handler, exc)

    def admit(self, handler: web.RequestHandler) -> None:
        """Remove the limits of a connection: its client has a token."""
        self._unauthenticated.remove(handler)
        deadline = self._deadlines.pop(handler, None)
        if deadline is not None:
            deadline.cancel()

    def _abort(self, handler: web.RequestHandler) -> None:
        self.admit(handler)
        if handler.transport is not None:
            handler.transport.abort()


def _limit_unauthenticated() -> ConnectionLimit:
    in_all = limit_by_descriptors(_MAX_UNAUTHENTICATED).in_all
    return ConnectionLimit(in_all=in_all, per_source=in_all)
