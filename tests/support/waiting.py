"""Waits of tests: each ends as soon as what it waits for is there.

The limit only ends a wait that would never end. It is far above what a test needs on a busy
machine, so that no test fails because of load. A test that states how fast something is uses
``pace`` (seconds that pass) or ``cost`` (seconds of the processor).
"""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Below pytest's own limit: a wait that fails says what it waited for.
HANG_SECONDS = 240
PAUSE_SECONDS = 0.02


def wait_until(
    find: Callable[[], T],
    describe: Callable[[], str] = str,
    pause_seconds: float = PAUSE_SECONDS,
    limit_seconds: float = HANG_SECONDS,
) -> T:
    """Return what ``find`` returns as soon as it is true; else fail, and say how things stand."""
    deadline = time.monotonic() + limit_seconds
    while not (found := find()):
        assert time.monotonic() < deadline, _explain(describe, limit_seconds)
        time.sleep(pause_seconds)
    return found


async def wait_until_async(
    find: Callable[[], T], describe: Callable[[], str] = str, pause_seconds: float = PAUSE_SECONDS
) -> T:
    """Wait as ``wait_until`` does, while the event loop runs other tasks."""
    deadline = time.monotonic() + HANG_SECONDS
    while not (found := find()):
        assert time.monotonic() < deadline, _explain(describe)
        await asyncio.sleep(pause_seconds)
    return found


def _explain(describe: Callable[[], str], limit_seconds: float = HANG_SECONDS) -> str:
    return f"not within {limit_seconds:g} s: {describe()}"
