import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.api.nesting import cut_deep_values, is_deeper
from tests.support.measuring.cost import assert_costs_at_most

LEAVES = st.none() | st.booleans() | st.integers() | st.text(alphabet='a"\\[]{}é', max_size=8)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('a"\\]}', max_size=3), inner)
    ),
)
MIB = 2**20


def cut(value: Any, depth: int) -> Any:
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        return None
    if isinstance(value, dict):
        return {key: cut(item, depth - 1) for key, item in value.items()}
    return [cut(item, depth - 1) for item in value]


@given(value=VALUES, depth=st.integers(0, 5), indent=st.sampled_from([None, 1]))
def test_values_nested_deeper_become_null(value: Any, depth: int, indent: int | None) -> None:
    raw = json.dumps(value, indent=indent).encode()
    assert json.loads(cut_deep_values(raw, depth)) == cut(value, depth)
    assert is_deeper(value, depth) is (cut(value, depth) != value)


@given(raw=st.binary(max_size=60) | st.text('[]{}":,\\a', max_size=60).map(str.encode))
def test_any_bytes_are_cut(raw: bytes) -> None:
    assert isinstance(cut_deep_values(raw, 1), bytes)


def test_is_deeper_counts_levels_of_objects_and_arrays() -> None:
    value = {"a": [{"b": [1]}]}
    assert [is_deeper(value, depth) for depth in range(6)] == [True, True, True, True, False, False]
    assert not is_deeper("text", 0)


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * MIB,
        b"]" * MIB,
        b'{"a":' * (MIB // 5),
        b'"\\' * (MIB // 2),
        b'"\\"' * (MIB // 3),
        b'"' * MIB,
        b'[""],' * (MIB // 5),
        (b'{"a":' * 9000 + b"1" + b"}" * 9000) * 20,
    ],
)
def test_a_mebibyte_is_cut_in_a_second(raw: bytes) -> None:
    assert_costs_at_most(1.0, lambda: cut_deep_values(raw))
