"""Waits of tests: each ends as soon as its condition holds.

The limit only ends a wait that would never end. It is far above the need of a test on a busy
machine, so that no test fails because of load. A test of a speed uses ``pace`` (elapsed seconds) or
``cost`` (CPU seconds).
"""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Below the limit of pytest, so that a failed wait can describe its condition.
HANG_SECONDS = 240
PAUSE_SECONDS = 0.02


def wait_until(
    find: Callable[[], T],
    describe: Callable[[], str] = str,
    pause_seconds: float = PAUSE_SECONDS,
    limit_seconds: float = HANG_SECONDS,
) -> T:
    """Return the result of ``find`` as soon as it is true; else fail with ``describe``."""
    deadline = time.monotonic() + limit_seconds
    while not (found := find()):
        assert time.monotonic() < deadline, _explain(describe, limit_seconds)
        time.sleep(pause_seconds)
    return found


async def wait_until_async(
    find: Callable[[], T], describe: Callable[[], str] = str, pause_seconds: float = PAUSE_SECONDS
) -> T:
    """Wait like ``wait_until``, while the event loop runs other tasks."""
    deadline = time.monotonic() + HANG_SECONDS
    while not (found := find()):
        assert time.monotonic() < deadline, _explain(describe)
        await asyncio.sleep(pause_seconds)
    return found


def _explain(describe: Callable[[], str], limit_seconds: float = HANG_SECONDS) -> str:
    return f"not within {limit_seconds:g} s: {describe()}"
