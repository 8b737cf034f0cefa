"""Clocks, random numbers and identifiers. No other module uses those of the system.

Modules with I/O take them as parameters, so tests and the simulator run in virtual time. Pure
modules take ``now`` as a value.
"""

import random
import secrets
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Wall time for stored times, monotonic time for measured durations."""

    def now(self) -> datetime:
        """Return the wall time, aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """Return monotonic seconds; only differences have a meaning."""
        ...


class BootClock(Clock, Protocol):
    """A clock that also counts during suspend, for durations that another machine measures."""

    def boottime(self) -> float:
        """Return monotonic seconds, including suspend; only differences have a meaning."""
        ...


class UidSource(Protocol):
    """A source of object UIDs."""

    def new_uid(self) -> str:
        """Return a new UID in the form of a UUID."""
        ...


class Random(Protocol):
    """Random numbers for jitter, not for secrets."""

    def uniform(self, low: float, high: float) -> float:
        """Return a random number of [low, high]."""
        ...


class KeySource(Protocol):
    """A source of secret keys."""

    def new_key(self) -> str:
        """Return 32 random bytes in hexadecimal digits."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Return the machine's wall time."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the monotonic time of the system; it stops during suspend."""
        return time.monotonic()

    def boottime(self) -> float:
        """Return the time since boot, including suspend."""
        # Without CLOCK_BOOTTIME (not Linux), the monotonic clock is the best replacement.
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class ManualClock:
    """A clock that moves only by ``advance``."""

    def __init__(self, start: datetime) -> None:
        """Start at ``start`` (aware)."""
        self._now = start
        self._monotonic = 0.0

    def now(self) -> datetime:
        """Return the current time of this clock."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds since its start."""
        return self._monotonic

    def boottime(self) -> float:
        """Return the seconds since its start."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move the clock by ``seconds``."""
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds


class SystemUids:
    """Random UUIDs."""

    def new_uid(self) -> str:
        """Return a random UUID (version 4)."""
        return str(uuid.uuid4())


class SequentialUids:
    """UIDs that are the same in every run with the same seed."""

    def __init__(self, seed: int) -> None:
        """Use a generator with this seed."""
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
    """Jitter from the random generator of Python."""

    def __init__(self) -> None:
        """Seed from the system."""
        self._random = random.Random()

    def uniform(self, low: float, high: float) -> float:
        """Return a random number of [low, high]."""
        return self._random.uniform(low, high)
