"""A matrix of crashes has each case at each moment; ``make test-exhaustive`` has all but one."""

from collections import Counter

import pytest

from tests.support.crashmoments import MOMENTS, at_each_moment

NUMBER = 48


@pytest.mark.parametrize("share", [1, 3, 4, 8])
def test_each_case_is_tried_at_one_moment_outside_test_exhaustive(share: int) -> None:
    mark = at_each_moment("kind,write", [("a", write) for write in range(NUMBER)], share=share)
    names, cases = mark.mark.args  # type: ignore[attr-defined]  # a MarkDecorator
    assert names == "kind,write,when"
    assert len({case.values for case in cases}) == len(cases) == NUMBER * len(MOMENTS)
    moments: dict[str, list[str]] = {"test": [], "slow": [], "exhaustive": []}
    tried = set()
    for case in cases:
        suite = case.marks[0].name if case.marks else "test"
        moments[suite].append(case.values[-1])
        if suite != "exhaustive":
            tried.add(case.values[:-1])
    assert len(moments["test"]) == NUMBER // share
    assert len(moments["slow"]) == NUMBER - NUMBER // share
    assert len(tried) == NUMBER
    # The moments take turns in each suite.
    for suite in filter(None, moments.values()):
        counts = Counter(suite)
        assert set(counts) == set(MOMENTS)
        assert max(counts.values()) <= 2 * min(counts.values())
