"""Clocks for agents in virtual time."""

from framework.agent.clock import AgentClock


class VirtualClock(AgentClock):
    """A clock that moves only by ``sleep``; a jitter is always the same part of its range."""

    def __init__(self, now: float = 0.0, jitter: float = 1.0) -> None:
        """Start at ``now``; ``jitter`` 0 draws the low end of a range, 1 the high end."""
        self.now = now
        self._jitter = jitter

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        # A real clock also moves during a sleep of no time.
        self.now += max(seconds, 0.001)

    def uniform(self, low: float, high: float) -> float:
        assert low <= high
        return low + (high - low) * self._jitter


class SkippingClock(AgentClock):
    """The real clock, except that a pause takes no time."""

    def __init__(self) -> None:
        self._skipped = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self._skipped

    def sleep(self, seconds: float) -> None:
        self._skipped += seconds
