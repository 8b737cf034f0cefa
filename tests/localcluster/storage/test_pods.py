"""Pods: defaults, validation, what may change, binding and status; quantities."""

import pytest

from localcluster.apiserver.model.quantities import canonical_quantity


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("1", "1"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1e3", "1e3"),
        ("2000", "2k"),
        ("0", "0"),
        ("0Mi", "0"),
        ("-1", "-1"),
        ("100", "100"),
        ("1E", "1E"),
        ("512", "512"),
        ("0.5Gi", "512Mi"),
    ],
)
def test_quantities_come_back_in_canonical_form(given: str, canonical: str) -> None:
    assert canonical_quantity(given) == canonical


@pytest.mark.parametrize("text", ["", "abc", "1 Gi", "1X", "1Gii", "--1", "1e", "e3", "."])
def test_malformed_quantity_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match"):
        canonical_quantity(text)
