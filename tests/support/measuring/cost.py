"""Seconds of the processor that an operation costs, on slow and on busy machines alike.

Other programs can make a try dearer, never cheaper, so the cheapest of several tries counts. If a
limit in seconds is exceeded, a reference loop measures how much slower this machine is than the
machine of the limits. A virtual machine whose neighbours share its cores is at one moment twice as
slow as at the next, so the loop runs before and after a try, and a failure needs many tries.
"""

import gc
import math
import time
from collections.abc import Callable

Operation = Callable[[], object]

_TRIES = 20
_REFERENCE_SECONDS = 0.015
# A shorter time is not meaningful.
_LEAST_SECONDS = 0.005


def measure(operation: Operation) -> float:
    """Return the CPU seconds of an operation, without Python's search for cycles."""
    gc.disable()
    try:
        started = time.thread_time()
        operation()
        return time.thread_time() - started
    finally:
        gc.enable()


def assert_costs_at_most(seconds: float, operation: Operation) -> float:
    """Fail if an operation costs more CPU seconds in every try; return its cost."""
    tries: list[str] = []
    slowness = 1.0
    for _ in range(_TRIES):
        cost = measure(operation)
        if cost <= seconds:
            return cost
        before, slowness = slowness, max(1.0, measure(_compute) / _REFERENCE_SECONDS)
        if cost <= seconds * max(before, slowness):
            return cost
        tries.append(f"{cost:.2f} s ({slowness=:.1f})")
    raise AssertionError(f"it costs more than {seconds} s of the processor: {tries}")


def assert_grows_at_most(
    factor: float, small: Operation, large: Operation, *, large_seconds: float = math.inf
) -> None:
    """Fail if the large operation costs more than ``factor`` times the small one.

    Args:
        large_seconds: cost of the large operation, if it is already measured.
    """
    smalls: list[float] = []
    larges = [large_seconds]
    for _ in range(_TRIES):
        smalls.append(measure(small))
        limit = factor * max(_LEAST_SECONDS, min(smalls))
        if min(larges) <= limit:
            return
        larges.append(measure(large))
        if min(larges) <= limit:
            return
    raise AssertionError(f"{min(larges):.3f} s is over {factor} times {min(smalls):.3f} s")


def _compute() -> int:
    return sum(len(str(number)) for number in range(150_000))
