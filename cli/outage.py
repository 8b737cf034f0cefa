"""How long nothing has been heard of the Frameworks, and when to give up.

Called by ``cli.run``. Pure: times come in.
"""

from cli.words import strip_noise

GIVE_UP_SECONDS = 60.0
"""docs/cli.md names it."""
_REPEAT_SECONDS = 10


class Outage:
    """The time since which a watch fails without a break."""

    def __init__(self) -> None:
        """All is well so far."""
        self._since: float | None = None
        self._error = ""
        self._seconds = 0.0

    def observe(self, error: str | None, now_seconds: float) -> str | None:
        """Take note of what is wrong now; return what to tell the user, None if all is well."""
        if error is None:
            self._since = None
            self._seconds = 0.0
            return None
        if self._since is None:
            self._since = now_seconds
        self._error = strip_noise(error)
        self._seconds = now_seconds - self._since
        told = int(self._seconds) // _REPEAT_SECONDS * _REPEAT_SECONDS
        if not told:
            return self._error
        return (
            f"unreachable for {told} s, still trying until {GIVE_UP_SECONDS:.0f} s: {self._error}"
        )

    @property
    def is_over_limit(self) -> bool:
        """Return whether it is time to give up."""
        return self._seconds >= GIVE_UP_SECONDS

    @property
    def last_error(self) -> str:
        """What went wrong last."""
        return self._error
