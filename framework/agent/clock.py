"""Time and jitter for the agents.

The agents do not use ``framework.clock``: it needs a newer Python, and its imports ``uuid`` and
``random`` take too long for a process that often lives for milliseconds only.
"""

import os
import time


class AgentClock:
    """The monotonic clock, and jitter from the random source of the system. Tests replace it."""

    def monotonic(self) -> float:
        """Return monotonic seconds; only differences have a meaning."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep. An exception of a signal handler ends the sleep."""
        time.sleep(seconds)

    def to_machine(self, seconds: float) -> float:
        """Convert to real seconds for socket timeouts; a test clock may run faster."""
        return seconds

    def uniform(self, low: float, high: float) -> float:
        """Return a random number of [low, high)."""
        return low + (high - low) * int.from_bytes(os.urandom(4), "big") / 2.0**32
