"""Who may talk to the server: whoever holds one of its tokens.

Called by ``server`` for every request. There are no users and no rights here: a token opens
everything, as the machine's owner runs both sides.
"""

import hmac
from collections.abc import Iterable

OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version"})
"""Answered without a token, so that a probe needs none."""


class BearerTokens:
    """The accepted bearer tokens."""

    def __init__(self, tokens: Iterable[str]) -> None:
        """Accept ``tokens``.

        Raises:
            ValueError: There is no token, or an empty one: the server would be open to everybody.
        """
        self._tokens = tuple(token.encode() for token in tokens)
        if not self._tokens or not all(self._tokens):
            raise ValueError("tokens: at least one is needed and none may be empty")

    def allows(self, path: str, authorization: str | None) -> bool:
        """Tell whether a request for ``path`` with this Authorization header may pass."""
        if path in OPEN_PATHS or path.startswith(("/livez/", "/readyz/", "/healthz/")):
            return True
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer":
            return False
        offered = token.strip().encode()
        return any(hmac.compare_digest(offered, known) for known in self._tokens)
