"""Elapsed seconds: tests stretch the documented limits by the present slowness of this machine.

Otherwise they would fail on slower cores, or beside other programs.
"""

import math
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# The time of the reference program on the machine of the documented limits.
_REFERENCE_SECONDS = 0.05
_STARTS = 3
_PROGRAM = "import asyncio, json, ssl"
_TRIES = 5


def measure_slowness(starts: int = _STARTS) -> float:
    """Return how many times longer a program takes to start on this machine now; at least 1."""
    started = time.monotonic()
    for _ in range(starts):
        subprocess.run([sys.executable, "-c", _PROGRAM], check=True)
    return max(1.0, (time.monotonic() - started) / starts / _REFERENCE_SECONDS)


def stretch(seconds: float) -> int:
    """Return the whole seconds that this machine now needs for work of ``seconds``."""
    return math.ceil(seconds * measure_slowness())


@contextmanager
def _sample_slowness() -> Iterator[list[float]]:
    """Measure the slowness repeatedly while the block runs, in a tenth of the time."""
    samples: list[float] = []
    is_over = threading.Event()

    def sample() -> None:
        rest = 0.0
        while not is_over.wait(rest):
            started = time.monotonic()
            samples.append(measure_slowness(1))
            rest = 9 * (time.monotonic() - started)

    thread = threading.Thread(target=sample, name="slowness")
    thread.start()
    try:
        yield samples
    finally:
        is_over.set()
        thread.join()


@contextmanager
def expect_within(seconds: float, fixed_seconds: float = 0.0) -> Iterator[None]:
    """Fail if the block takes longer than these seconds, stretched by the slowness around it.

    While the block only waits, the machine is not slow: the mean of the measurements does not
    stretch a wait that is too long.

    Args:
        seconds: limit for the block on the machine of the documented limits.
        fixed_seconds: the part of a wait, which has the same length on every machine.
    """
    slowness = measure_slowness()
    with _sample_slowness() as samples:
        started = time.monotonic()
        yield
        took = time.monotonic() - started
    if took > seconds:
        slowness = max(slowness, measure_slowness(), statistics.fmean(samples or [1.0]))
        limit = fixed_seconds + (seconds - fixed_seconds) * slowness
        assert took <= limit, f"{took:.2f} s, not {limit:.2f}, {slowness=:.1f}"


def expect_usually_within(seconds: float, take: Callable[[], float]) -> None:
    """Fail if an action takes longer than these seconds, stretched by the slowness around it.

    Other programs may delay a try. So if the first try takes longer, the median of further tries
    counts.

    Args:
        seconds: limit on the machine of the documented limits.
        take: does the action, and returns its duration in seconds.
    """
    slowness = measure_slowness()
    took = take()
    if took <= seconds * slowness:
        return
    took = statistics.median(take() for _ in range(_TRIES))
    slowness = max(slowness, measure_slowness())
    assert took <= seconds * slowness, (
        f"{took:.2f} s, not {seconds * slowness:.2f}, {slowness=:.1f}"
    )
