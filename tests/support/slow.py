"""Marks the cases of a table that ``make test`` leaves to ``make test-slow``."""

from collections.abc import Iterable
from typing import Any

import pytest


def keep_first(cases: Iterable[Any], count: int = 1) -> list[Any]:
    """Mark all cases after the first ``count`` as slow: each runs whole programs for seconds."""
    values = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [
        pytest.param(*value, marks=pytest.mark.slow if number >= count else ())
        for number, value in enumerate(values)
    ]
