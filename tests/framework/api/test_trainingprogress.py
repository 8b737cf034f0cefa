"""The annotation with the training progress, from the agent of rank 0."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.api.trainingprogress import (
    MAX_CHARS,
    MAX_NUMBER,
    TrainingProgress,
    encode_training_progress,
    parse_training_progress,
)

EXAMPLE = TrainingProgress(
    generation=7,
    step=41200,
    total=100000,
    steps_per_second=3.25,
    slowest="worker/3",
    straggler_count=2,
    stragglers=("worker/3", "worker/7 rank 57"),
)


def test_the_text_is_that_of_the_docs() -> None:
    text = "7 41200 100000 3.25 worker/3 2 worker/3 worker/7:57"
    assert encode_training_progress(EXAMPLE) == text
    assert parse_training_progress(text) == EXAMPLE


def test_what_is_not_known_is_a_dash() -> None:
    progress = TrainingProgress(1, 0, None, None, "", 0, ())
    assert encode_training_progress(progress) == "1 0 - - - 0"
    assert parse_training_progress("1 0 - - - 0") == progress


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "0 1 - - - 0",
        "1 -1 - - - 0",
        "1 01 - - - 0",
        "1 1 - - - 0 ",
        "1 1 - - - 0\n",
        "1 1 - nan - 0",
        "1 1 - 1e9 - 0",
        "1 1 - - Worker/1 0",
        "1 1 - - worker/1\x1b[31m 0",
        "1 1 - - worker 0",
        "1 1 - - - 6 " + " ".join(f"worker/{i}" for i in range(6)),
        "1 1" + "0" * 18 + " - - - 0",
        "\u0661 1 - - - 0",
    ],
)
def test_other_texts_are_none(text: str) -> None:
    assert parse_training_progress(text) is None


_NAMES = st.from_regex(
    r"[a-z0-9]{1,63}/(0|[1-9][0-9]{0,3})( rank (0|[1-9][0-9]{0,5}))?", fullmatch=True
)


@given(
    progress=st.builds(
        TrainingProgress,
        generation=st.integers(1, 10**12),
        step=st.integers(0, 2**62),
        total=st.none() | st.integers(0, 2**62),
        steps_per_second=st.none() | st.floats(0, 1e12),
        slowest=st.just("") | _NAMES,
        straggler_count=st.integers(0, 10**12),
        stragglers=st.lists(_NAMES, max_size=20).map(tuple),
    )
)
def test_every_text_is_short_and_can_be_parsed(progress: TrainingProgress) -> None:
    text = encode_training_progress(progress)
    found = parse_training_progress(text)
    assert len(text) <= MAX_CHARS
    assert found is not None
    assert found.step == min(progress.step, MAX_NUMBER)
    assert found.slowest == progress.slowest
    assert found.stragglers == progress.stragglers[: len(found.stragglers)]
    if progress.steps_per_second is not None and 0.01 <= progress.steps_per_second < 1e8:
        assert found.steps_per_second == pytest.approx(progress.steps_per_second, rel=0.01)
    assert encode_training_progress(found) == text
