"""Seconds that pass: tests stretch those that the docs promise by how slow this machine is now.

Without that they would fail wherever the cores are slower, or busy with other programs.
"""

import math
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

# What it takes on the machine of the documented seconds.
_REFERENCE_SECONDS = 0.05
_STARTS = 3
_PROGRAM = "import asyncio, json, ssl"


def measure_slowness() -> float:
    """Return how many times longer than there a program takes to start here, now; at least 1."""
    started = time.monotonic()
    for _ in range(_STARTS):
        subprocess.run([sys.executable, "-c", _PROGRAM], check=True)
    return max(1.0, (time.monotonic() - started) / _STARTS / _REFERENCE_SECONDS)


def stretch(seconds: float) -> int:
    """Return whole seconds in which this machine does now what the other does in ``seconds``."""
    return math.ceil(seconds * measure_slowness())


@contextmanager
def expect_within(seconds: float, fixed_seconds: float = 0.0) -> Iterator[None]:
    """Fail if the block takes longer than these seconds, stretched by the slowness around it.

    Args:
        seconds: what the block may take on the machine of the documented seconds.
        fixed_seconds: the part of them that is waited and takes as long on every machine.
    """
    slowness = measure_slowness()
    started = time.monotonic()
    yield
    took = time.monotonic() - started
    if took > seconds:
        slowness = max(slowness, measure_slowness())
        limit = fixed_seconds + (seconds - fixed_seconds) * slowness
        assert took <= limit, f"{took:.2f} s, not {limit:.2f}, {slowness=:.1f}"
