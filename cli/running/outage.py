"""Measures for how long the watches of the Frameworks fail. Pure."""

from cli.texts.diagnostics import strip_noise

GIVE_UP_SECONDS = 60.0
"""The command gives up after this time (docs/cli.md)."""
_REPEAT_SECONDS = 10


class Outage:
    """The time since which a watch fails without a break."""

    def __init__(self) -> None:
        """Start without an outage."""
        self._since: float | None = None
        self._error = ""
        self._seconds = 0.0

    def observe(self, error: str | None, now_seconds: float) -> str | None:
        """Record the current error; return the message for the user, None without an error."""
        if error is None:
            self._since = None
            self._seconds = 0.0
            return None
        if self._since is None:
            self._since = now_seconds
        self._error = strip_noise(error)
        self._seconds = now_seconds - self._since
        shown = int(self._seconds) // _REPEAT_SECONDS * _REPEAT_SECONDS
        if not shown:
            return self._error
        return (
            f"unreachable for {shown} s, still trying until {GIVE_UP_SECONDS:.0f} s: {self._error}"
        )

    @property
    def is_over_limit(self) -> bool:
        """Return whether the outage has lasted for ``GIVE_UP_SECONDS``."""
        return self._seconds >= GIVE_UP_SECONDS

    @property
    def last_error(self) -> str:
        """The newest error."""
        return self._error
