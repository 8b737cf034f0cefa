"""Marks the cases of a table that ``make test`` leaves to other suites."""

from collections.abc import Iterable
from typing import Any

import pytest


def keep_first(cases: Iterable[Any], count: int = 1, *, slow_count: int | None = None) -> list[Any]:
    """Mark the cases after the first ``count``: each case runs whole programs for seconds.

    ``make test-slow`` runs the next ``slow_count`` cases (None: all others), and
    ``make test-exhaustive`` the rest. In tests/node and tests/consumers, give ``slow_count=0``: the
    rest runs only with ARGS='-m node' or ARGS='-m consumers'.
    """
    marked = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        marks: Any = ()
        if number >= count:
            marks = pytest.mark.slow
        if slow_count is not None and number >= count + slow_count:
            marks = pytest.mark.exhaustive
        marked.append(pytest.param(*values, marks=marks))
    return marked
