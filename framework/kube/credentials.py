"""Bearer tokens: given, read from a file that rotates, or printed by a plugin.

``transport`` asks for a token before each request and after a 401. A token is never logged and
never part of a message.
"""

import asyncio
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from framework.clock import Clock
from framework.kube.config import KubeConfig
from framework.kube.execplugin import PluginError, run_plugin

# A plugin may open a browser and wait for its user.
_PLUGIN_TIMEOUT_SECONDS = 120.0
# A token must stay valid until its request ends.
_EXPIRY_LEEWAY = timedelta(seconds=30)


class TokenUnavailableError(Exception):
    """There is no token; the message has the reason, never a token."""


class TokenSource(Protocol):
    """A source of bearer tokens."""

    async def fetch(self) -> str | None:
        """Return the token to use now, None for anonymous requests."""
        ...

    async def renew(self, rejected: str | None) -> str | None:
        """Return the token to use after a rejected one; the same token if there is no newer one."""
        ...


class StaticToken:
    """A token, or none, that never changes."""

    def __init__(self, token: str | None) -> None:
        """Use this token."""
        self._token = token

    async def fetch(self) -> str | None:
        """Return the token."""
        return self._token

    async def renew(self, rejected: str | None) -> str | None:  # noqa: ARG002 it cannot change
        """Return the same token: there is no other."""
        return self._token


class TokenFile:
    """A token in a file that is replaced, for example by the kubelet."""

    def __init__(self, path: str) -> None:
        """Read it at the first request."""
        self._path = Path(path)
        self._token: str | None = None
        self._signature: tuple[int, int, int] | None = None

    async def fetch(self) -> str | None:
        """Return the token; read the file only if it was replaced since the last read."""
        try:
            signature = _sign(self._path)
            if signature != self._signature:
                self._read(signature)
        except OSError as e:
            self._fall_back(e)
        return self._token

    async def renew(self, rejected: str | None) -> str | None:  # noqa: ARG002 the file is newer
        """Read the file, also if its times have not changed."""
        try:
            self._read(_sign(self._path))
        except OSError as e:
            self._fall_back(e)
        return self._token

    def _read(self, signature: tuple[int, int, int]) -> None:
        token = self._path.read_bytes().decode("ascii", "replace").strip()
        if not token or any(character.isspace() or character == "\ufffd" for character in token):
            raise TokenUnavailableError(f"{self._path} holds no token")
        self._token = token
        self._signature = signature

    def _fall_back(self, cause: OSError) -> None:
        """Keep the last token while the file is being replaced."""
        if self._token is None:
            raise TokenUnavailableError(
                f"cannot read the token file {self._path}: {cause.strerror}"
            ) from cause


class PluginToken:
    """A token printed by an exec plugin, kept until it expires or is rejected."""

    def __init__(self, spec: Mapping[str, Any], clock: Clock) -> None:
        """Run the plugin at the first request."""
        self._spec = spec
        self._clock = clock
        self._token: str | None = None
        self._expires_at: datetime | None = None
        # Several requests that find no token at the same time must run the plugin only once.
        self._lock = asyncio.Lock()

    async def fetch(self) -> str | None:
        """Return the token; run the plugin if there is none or it is about to expire."""
        if self._is_fresh():
            return self._token
        async with self._lock:
            if not self._is_fresh():
                await self._run()
            return self._token

    async def renew(self, rejected: str | None) -> str | None:
        """Run the plugin, unless another request did so meanwhile."""
        async with self._lock:
            if self._token == rejected:
                await self._run()
            return self._token

    def _is_fresh(self) -> bool:
        if self._token is None:
            return False
        return self._expires_at is None or self._clock.now() < self._expires_at - _EXPIRY_LEEWAY

    async def _run(self) -> None:
        command = self._spec["command"]
        try:
            async with asyncio.timeout(_PLUGIN_TIMEOUT_SECONDS):
                status = await run_plugin(self._spec)
        except (PluginError, OSError, TimeoutError) as e:
            raise TokenUnavailableError(
                f"credential plugin {command!r} failed: {str(e) or type(e).__name__}"
            ) from e
        token = status.get("token")
        if not isinstance(token, str) or not token:
            raise TokenUnavailableError(f"credential plugin {command!r} printed no token")
        self._token = token
        self._expires_at = _parse_expiry(status.get("expirationTimestamp"))


def build_token_source(config: KubeConfig, clock: Clock) -> TokenSource:
    """Choose as kubectl does: the file before the token, the plugin if there is neither."""
    if config.token_file is not None:
        return TokenFile(config.token_file)
    if config.token is None and config.exec_plugin is not None:
        return PluginToken(config.exec_plugin.spec, clock)
    return StaticToken(config.token)


def _sign(path: Path) -> tuple[int, int, int]:
    """Return values that change with a replacement, also by the links of a projected volume."""
    status = os.stat(path)  # noqa: PTH116 three times faster than Path.stat, and once a request
    return status.st_ino, status.st_mtime_ns, status.st_size


def _parse_expiry(text: object) -> datetime | None:
    """Read an RFC 3339 time; None if unreadable, so that only a 401 ends the token."""
    if not isinstance(text, str):
        return None
    try:
        expires_at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return expires_at if expires_at.tzinfo else expires_at.replace(tzinfo=UTC)
