"""Seconds of the processor that an operation costs, on slow and on busy machines alike.

Other programs can make a try dearer, never cheaper, so the cheapest of several tries counts. If a
limit in seconds is exceeded, a reference loop measures how much slower this machine is than the
machine of the limits. A virtual machine whose neighbours share its cores is at one moment twice as
slow as at the next, so the loop runs before and after a try, and a failure needs up to 20 tries.
"""

import gc
import math
import time
from collections.abc import Callable
from statistics import fmean

Operation = Callable[[], object]

# After the minimum of tries, more follow only while all of them together took less CPU time than
# _TRIES_SECONDS, so that a failure is reported soon.
_LEAST_TRIES, _MOST_TRIES, _TRIES_SECONDS = 3, 20, 10.0
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
    costs: list[float] = []
    tries: list[str] = []
    before = None
    while _may_try(len(costs), sum(costs)):
        costs.append(cost := measure(operation))
        if cost <= seconds:
            return cost
        after = measure(_compute) / _REFERENCE_SECONDS
        # The mean, because the machine may have changed its speed during the try.
        slowness = fmean([after if before is None else before, after])
        if cost <= seconds * slowness:
            return cost
        before = after
        tries.append(f"{cost:.2f} s ({slowness=:.1f})")
    raise AssertionError(f"it costs more than {seconds} s of the processor: {tries}")


def _may_try(tries: int, spent_seconds: float) -> bool:
    return tries < _LEAST_TRIES or (tries < _MOST_TRIES and spent_seconds < _TRIES_SECONDS)


def assert_grows_at_most(
    factor: float, small: Operation, large: Operation, *, large_seconds: float = math.inf
) -> None:
    """Fail if the large operation costs more than ``factor`` times the small one.

    Args:
        large_seconds: cost of the large operation, if it is already measured.
    """
    smalls: list[float] = []
    larges = [large_seconds]
    while _may_try(len(smalls), sum(smalls) + sum(larges[1:])):
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
