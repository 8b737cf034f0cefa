"""Authentication: a request needs one of the server's tokens.

There are no users and no rights: a token allows everything, because the machine's owner runs both
sides. It comes as a bearer token or in the path of the URL (``framework.kube.tokenurl``).

Every user of this machine can connect to a loopback port. A connection without an admitted request
is closed at a deadline, and their number is limited; beyond the limit the oldest is closed. A
connection with a valid token has no limit, because watches are long. All clients have the same
source address, so there is no limit per source, and a gang of a thousand Pods may connect at once.
"""

import asyncio
import hmac
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from framework.connectionlimit import (
    ConnectionLimit,
    ConnectionTable,
    limit_by_descriptors,
    name_source,
)
from framework.kube.tokenurl import TOKEN_PREFIX

TOKEN_DEADLINE_SECONDS = 10.0
_MAX_UNAUTHENTICATED = 4096

OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version"})
"""Paths without a token, so that a probe needs none."""


class BearerTokens:
    """The accepted tokens."""

    def __init__(self, tokens: Iterable[str]) -> None:
        """Accept ``tokens``.

        Raises:
            ValueError: There is no token, or an empty one: the server would be open to all.
        """
        self._tokens = tuple(token.encode() for token in tokens)
        if not self._tokens or not all(self._tokens):
            raise ValueError("tokens: at least one is needed and none may be empty")

    def admit(self, path: str, authorization: str | None) -> str | None:
        """Return the path, still encoded, without its token; None if there is no valid token."""
        if path.startswith(TOKEN_PREFIX):
            token, _, rest = path.removeprefix(TOKEN_PREFIX).partition("/")
            return f"/{rest}" if self._knows(unquote(token)) else None
        if path in OPEN_PATHS:
            return path
        scheme, _, token = (authorization or "").partition(" ")
        return path if scheme.lower() == "bearer" and self._knows(token.strip()) else None

    def _knows(self, token: str) -> bool:
        offered = token.encode("utf-8", "surrogateescape")
        return any(hmac.compare_digest(offered, known) for known in self._tokens)


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
