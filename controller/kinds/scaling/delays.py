"""The pauses of scalers that cannot be written: one for each, so that the others do not wait."""

from dataclasses import dataclass, field

from framework.clock import Clock
from framework.kube.backoff import Backoff

_FIRST_SECONDS = 1.0
_MOST_SECONDS = 60.0


def _build_backoff() -> Backoff:
    return Backoff(initial=_FIRST_SECONDS, maximum=_MOST_SECONDS)


@dataclass(slots=True)
class _Delay:
    until: float = 0.0
    backoff: Backoff = field(default_factory=_build_backoff)


class Delays:
    """The scalers that wait after an error, by the key of their job and their UID."""

    def __init__(self, clock: Clock) -> None:
        """Measure time with ``clock``."""
        self._clock = clock
        self._delays: dict[str, dict[str, _Delay]] = {}

    def add(self, key: str, uid: str) -> None:
        """Let a scaler wait, longer each time."""
        delay = self._delays.setdefault(key, {}).setdefault(uid, _Delay())
        delay.until = self._clock.monotonic() + delay.backoff.next_bound_seconds()

    def clear(self, key: str, uid: str) -> None:
        """Forget the delay of a scaler, after a write that succeeded."""
        delays = self._delays.get(key, {})
        delays.pop(uid, None)
        if not delays:
            self.forget(key)

    def forget(self, key: str) -> None:
        """Forget the scalers of a job."""
        self._delays.pop(key, None)

    def list_waiting(self, key: str) -> frozenset[str]:
        """List the UIDs of the scalers that wait; forget those that were not tried again."""
        now = self._clock.monotonic()
        delays = self._delays.get(key, {})
        for uid in [uid for uid, delay in delays.items() if delay.until + _MOST_SECONDS < now]:
            self.clear(key, uid)
        return frozenset(uid for uid, delay in delays.items() if delay.until > now)

    def find_pause(self, key: str) -> float | None:
        """Return the seconds until the first of them is tried again; None if none waits."""
        now = self._clock.monotonic()
        times = (delay.until for delay in self._delays.get(key, {}).values())
        return min((until - now for until in times if until > now), default=None)
