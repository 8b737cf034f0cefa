"""Authentication: a request needs one of the server's tokens.

There are no users and no rights: a token allows everything, because the machine's owner runs both
sides.

A token comes as a bearer token or in the path of the URL (``framework.kube.tokenurl``).
"""

import hmac
from collections.abc import Iterable
from urllib.parse import unquote

from framework.kube.tokenurl import TOKEN_PREFIX

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
        """Return the path without its token; None if the request has no valid token.

        Args:
            path: The path, still percent-encoded.
            authorization: The header.
        """
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
