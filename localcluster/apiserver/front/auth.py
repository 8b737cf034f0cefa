"""Who may talk to the server: whoever holds one of its tokens.

Called by ``server`` for every request. There are no users and no rights here: a token opens
everything, as the machine's owner runs both sides.

A token comes as a bearer token or as the first part of the path, ``/token/TOKEN/api/v1/...``. The
second way is there because kubectl and every other Go client send no credentials over plain HTTP,
neither those of flags nor those of a kubeconfig, but keep the path of the server's URL.
"""

import hmac
from collections.abc import Iterable
from urllib.parse import quote, unquote

OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version"})
"""Answered without a token, so that a probe needs none."""
_PREFIX = "/token/"


def url_with_token(url: str, token: str) -> str:
    """Return the server URL for clients that send no token of their own, such as kubectl."""
    return f"{url.rstrip('/')}{_PREFIX}{quote(token, safe='')}"


class BearerTokens:
    """The accepted tokens."""

    def __init__(self, tokens: Iterable[str]) -> None:
        """Accept ``tokens``.

        Raises:
            ValueError: There is no token, or an empty one: the server would be open to everybody.
        """
        self._tokens = tuple(token.encode() for token in tokens)
        if not self._tokens or not all(self._tokens):
            raise ValueError("tokens: at least one is needed and none may be empty")

    def admit(self, path: str, authorization: str | None) -> str | None:
        """Return the path that a request may have, None if it holds no token for it.

        Args:
            path: The path, still percent-encoded.
            authorization: The header.
        """
        if path.startswith(_PREFIX):
            token, _, rest = path.removeprefix(_PREFIX).partition("/")
            return f"/{rest}" if self._knows(unquote(token)) else None
        if path in OPEN_PATHS:
            return path
        scheme, _, token = (authorization or "").partition(" ")
        return path if scheme.lower() == "bearer" and self._knows(token.strip()) else None

    def _knows(self, token: str) -> bool:
        offered = token.encode("utf-8", "surrogateescape")
        return any(hmac.compare_digest(offered, known) for known in self._tokens)
