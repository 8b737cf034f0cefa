"""The only place that reads clocks, draws random numbers or makes identifiers.

Every shell takes these as parameters, so tests and the simulator run in virtual time. The pure
rooms take ``now`` as a value instead.
"""

import random
import secrets
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is stored, monotonic time for what is measured."""

    def now(self) -> datetime:
        """Return the wall time, aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back; only differences mean anything."""
        ...


class BootClock(Clock, Protocol):
    """A clock that also counts while the machine sleeps: for what another machine waits for."""

    def boottime(self) -> float:
        """Return seconds that never go back nor stand still; only differences mean anything."""
        ...


class UidSource(Protocol):
    """Gives object UIDs."""

    def new_uid(self) -> str:
        """Return a UID never given before, in the form of a UUID."""
        ...


class Random(Protocol):
    """Draws for jitter: nothing that must be secret."""

    def uniform(self, low: float, high: float) -> float:
        """Return a number of [low, high]."""
        ...


class KeySource(Protocol):
    """Draws keys that nobody can guess."""

    def new_key(self) -> str:
        """Return 32 random bytes in hexadecimal digits."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Return the machine's wall time."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the machine's monotonic time; it stands while the machine sleeps."""
        return time.monotonic()

    def boottime(self) -> float:
        """Return the machine's time since its start, its sleep included."""
        # Elsewhere than on Linux the monotonic clock is the nearest there is.
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class ManualClock:
    """A clock that moves only when told to."""

    def __init__(self, start: datetime) -> None:
        """Start at ``start`` (aware)."""
        self._now = start
        self._monotonic = 0.0

    def now(self) -> datetime:
        """Return the time it was moved to."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds it was moved on since its start."""
        return self._monotonic

    def boottime(self) -> float:
        """Return the seconds it was moved on since its start."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move on by ``seconds``."""
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds


class SystemUids:
    """Random UUIDs."""

    def new_uid(self) -> str:
        """Return a random UUID (version 4)."""
        return str(uuid.uuid4())


class SequentialUids:
    """Equal UIDs in every run with the same seed."""

    def __init__(self, seed: int) -> None:
        """Draw from a generator seeded with ``seed``."""
        self._random = random.Random(seed)

    def new_uid(self) -> str:
        """Return the next UUID of the sequence."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))


class SystemKeys:
    """Keys from the system's cryptographic generator."""

    def new_key(self) -> str:
        """Return 32 random bytes in hexadecimal digits."""
        return secrets.token_hex(32)


class SystemRandom:
    """Jitter from the machine's generator."""

    def __init__(self) -> None:
        """Seed from the system."""
        self._random = random.Random()

    def uniform(self, low: float, high: float) -> float:
        """Return a number of [low, high]."""
        return self._random.uniform(low, high)
