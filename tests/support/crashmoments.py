"""The moments of a write at which tests kill the controller, and the suite that tries each of them.

A matrix of crashes has each write of a script at each moment. ``make test`` tries a share of the
writes and ``make test-slow`` all others, each at one moment: the moments take turns.
``make test-exhaustive`` tries each write at its other moments.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from tests.support.fakes.storageclient import Fate

BEFORE, UNHEARD, HEARD = "before_it_is_applied", "before_its_answer", "after_its_answer"
MOMENTS = (UNHEARD, BEFORE, HEARD)
# Until another controller starts.
PAUSE_SECONDS = 3.0
# Each way of a request takes a millisecond; between them, it is applied but not answered.
_WAY_SECONDS = 0.001
_DELAY_SECONDS = {BEFORE: 0.0, UNHEARD: 0.0015, HEARD: 0.0025}


def build_fate() -> Fate:
    """Build the fate of a request without a crash."""
    return Fate(_WAY_SECONDS, _WAY_SECONDS)


def crash(when: str, kill: Callable[[], object], start: Callable[[], object]) -> Fate:
    """Kill the controller at this moment of its write, and start another one after a pause.

    Returns the fate of the write.
    """
    loop = asyncio.get_running_loop()
    loop.call_later(_DELAY_SECONDS[when], kill)
    loop.call_later(PAUSE_SECONDS, start)
    return Fate(_WAY_SECONDS, _WAY_SECONDS, is_lost=when == BEFORE)


def at_each_moment(
    names: str, cases: Iterable[Any], *, share: int = 1
) -> Callable[[Callable[..., Any]], Any]:
    """Parametrize a test by cases and ``when``, the moment of the crash.

    Args:
        names: the test's parameters for a case, separated by commas.
        cases: a value for each of them.
        share: ``make test`` tries every case whose number, from 1, is a multiple of this one.
    """
    return pytest.mark.parametrize(f"{names},when", list(_assign_suites(cases, share)))


def _assign_suites(cases: Iterable[Any], share: int) -> Iterator[Any]:
    for number, case in enumerate(cases, start=1):
        values = case if isinstance(case, tuple) else (case,)
        quotient, rest = divmod(number, share)
        # By the case's number in its suite: in each suite, the moments take turns.
        turn = (number - quotient if rest else quotient) % len(MOMENTS)
        for when in MOMENTS:
            if when != MOMENTS[turn]:
                marks: Any = pytest.mark.exhaustive
            else:
                marks = pytest.mark.slow if rest else ()
            yield pytest.param(*values, when, marks=marks)
