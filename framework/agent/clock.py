"""Time and jitter for the agents.

``framework.clock`` needs a newer Python and loads ``uuid`` and ``random``, which an agent that
lives for some milliseconds cannot afford. Tests pass their own object with these methods.
"""

import os
import time


class AgentClock:
    """The machine's monotonic clock, and jitter from the system's random source."""

    def monotonic(self) -> float:
        """Return seconds that never go back; only differences mean anything."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep; a signal handler that raises ends it."""
        time.sleep(seconds)

    def to_machine(self, seconds: float) -> float:
        """Convert seconds for timers of the machine (sockets), which a faster clock is not."""
        return seconds

    def uniform(self, low: float, high: float) -> float:
        """Return a number of [low, high)."""
        return low + (high - low) * int.from_bytes(os.urandom(4), "big") / 2.0**32
