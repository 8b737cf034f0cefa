"""The annotations of agents about processes and epochs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.api.epochreports import (
    EpochStart,
    ProcessEnd,
    encode_end,
    encode_start,
    parse_end,
    parse_start,
)

EPOCHS = st.integers(0, 999_999_999)
PRINTS = st.text("0123456789abcdef", min_size=8, max_size=8)


@given(EPOCHS, st.integers(1, 255))
def test_end_survives_its_text(epoch: int, code: int) -> None:
    assert parse_end(encode_end(ProcessEnd(epoch, code))) == ProcessEnd(epoch, code)


@given(st.integers(1, 999_999_999), EPOCHS, st.lists(PRINTS, max_size=20))
def test_start_survives_its_text_with_the_first_ten(
    since: int, epoch: int, missing: list[str]
) -> None:
    text = encode_start(EpochStart(since, epoch, tuple(missing)))
    assert parse_start(text) == EpochStart(since, epoch, tuple(missing[:10]))


@pytest.mark.parametrize(
    "text",
    ["", "5", "7 -1", "7 05", "0 5", "7 5 ", "7 5 89ABCDEF", "7 5 8", "7 1234567890", "7 5\n"],
)
def test_other_texts_are_no_start(text: str) -> None:
    assert parse_start(text) is None
