"""Sums of Kubernetes quantities."""

import pytest

from cli.why.quantities import add_quantities

SUMS = [
    ("4", "1", 2, "6"),
    ("1Gi", "512Mi", 2, "2048Mi"),
    ("0", "1Gi", 3, "3Gi"),
    ("500m", "1", 1, "1500m"),
    ("1500m", "500m", 1, "2000m"),
    ("1k", "1Ki", 1, "2024"),
    ("1", "1e3", 1, None),
    ("x", "1", 1, None),
]


@pytest.mark.parametrize(("used", "amount", "count", "expected"), SUMS)
def test_sum_of_quantities(used: str, amount: str, count: int, expected: str | None) -> None:
    assert add_quantities(used, amount, count) == expected
