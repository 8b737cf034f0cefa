"""What a decoder may cost, and what it costs with one input.

Time is CPU time of the thread, so that other processes do not count. Memory is the peak of what
Python allocated during the call, as tracemalloc sees it. Both have a part that does not depend on
the input and a part for each MiB of it.
"""

import signal
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from types import FrameType
from typing import Any, NoReturn

MIB = 1024 * 1024
HANG_SECONDS = 20
_TRIES = 3


class HangError(BaseException):
    """A call took too long; no ``except Exception`` of a decoder may catch it."""


class SkipInputError(Exception):
    """The decoder never gets such an input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one call may cost. Generous, because machines differ: it is growth that must show."""

    base_seconds: float = 0.25
    seconds_per_mib: float = 6.0
    base_mib: float = 2.0
    mib_per_mib: float = 60.0

    def seconds(self, size: int) -> float:
        """Return the CPU seconds for an input of ``size`` bytes."""
        return self.base_seconds + self.seconds_per_mib * size / MIB

    def mib(self, size: int) -> float:
        """Return the MiB of memory for an input of ``size`` bytes."""
        return self.base_mib + self.mib_per_mib * size / MIB


YAML_BUDGET = Budget(base_seconds=0.5, seconds_per_mib=150.0, base_mib=4.0, mib_per_mib=400.0)
"""PyYAML's own parser, in Python, takes the time and the memory. No tenant's YAML reaches it."""


@dataclass(frozen=True, slots=True)
class Target:
    """A decoder of input from outside."""

    name: str
    """Also the name of its folder in the corpus."""
    run: Callable[[Any], object]
    """The decoder; called with the result of ``prepare``."""
    seeds: Sequence[bytes]
    prepare: Callable[[bytes], Any] = bytes
    """Builds the decoder's argument from the input; not measured. May raise SkipInputError."""
    expected: tuple[type[Exception], ...] = ()
    """How the decoder refuses; anything else that it raises is a finding."""
    _: KW_ONLY
    max_bytes: int = MIB
    """Longer inputs never reach it."""
    fixed_inputs: int = 10_000
    """How many inputs ``--fixed`` tries; fewer if the decoder is slow."""
    budget: Budget = Budget()


def judge(target: Target, data: bytes, *, slack: float = 1.0, with_memory: bool = True) -> str:
    """Return what is wrong with a target's handling of an input; "" if nothing is.

    Args:
        target: the decoder.
        data: the input.
        slack: factor by which the time may exceed the budget, for slower, instrumented code.
        with_memory: whether memory is measured; that takes some times as long.
    """
    try:
        argument = target.prepare(data[: target.max_bytes])
    except SkipInputError:
        return ""
    allowed = target.budget.seconds(len(data)) * slack
    try:
        seconds = measure_seconds(target, argument)
        for _ in range(_TRIES - 1):
            if seconds > allowed:
                # Once more: the first call may have imported or compiled something.
                seconds = min(seconds, measure_seconds(target, argument))
        if seconds > allowed:
            return f"{seconds:.2f} s of CPU for {len(data)} bytes; the budget is {allowed:.2f} s"
        if with_memory:
            mib = measure_mib(target, argument)
            if mib > target.budget.mib(len(data)):
                limit = target.budget.mib(len(data))
                return f"{mib:.1f} MiB for {len(data)} bytes; the budget is {limit:.1f} MiB"
    except HangError:
        return f"no end after {HANG_SECONDS} s of CPU"
    except Exception as e:  # noqa: BLE001 the finding
        return f"raised {type(e).__name__} in {_find_place(e)}"
    return ""


def measure_seconds(target: Target, argument: object) -> float:
    """Return the CPU seconds of one call."""
    with _alarm():
        started = time.thread_time()
        _call(target, argument)
        return time.thread_time() - started


def measure_mib(target: Target, argument: object) -> float:
    """Return the peak of memory that one call allocated."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        with _alarm():
            _call(target, argument)
        _, peak = tracemalloc.get_traced_memory()
        return (peak - before) / MIB
    finally:
        tracemalloc.stop()


def _call(target: Target, argument: object) -> None:
    try:
        target.run(argument)
    except target.expected:
        return


@contextmanager
def _alarm() -> Iterator[None]:
    before = signal.signal(signal.SIGVTALRM, _raise_hang)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANG_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _raise_hang(_number: int, _frame: FrameType | None) -> NoReturn:
    raise HangError


def _find_place(error: BaseException) -> str:
    """Return the innermost line of the project that the error came through."""
    place, trace = "?", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__", "")
        if not name.startswith("tests."):
            place = f"{name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
