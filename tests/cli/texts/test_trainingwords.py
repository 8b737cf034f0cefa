"""How far a training is, in words."""

import pytest

from cli.texts.trainingwords import describe_training
from framework.api.trainingstatus import TrainingStatus


@pytest.mark.parametrize(
    ("training", "text"),
    [
        (None, ""),
        (TrainingStatus(step=0), "step 0"),
        (
            TrainingStatus(41200, 100000, "3.25", 18092, "worker/3"),
            "step 41200 of 100000, 3.25 steps/s, 5 h left; slowest: worker/3",
        ),
        (TrainingStatus(5, 9, "2", 2), "step 5 of 9, 2 steps/s, 2 s left"),
        (TrainingStatus(5, straggler_count=1, stragglers=("a/1",)), "step 5; 1 straggler: a/1"),
        (
            TrainingStatus(5, straggler_count=7, stragglers=("a/1", "a/2 rank 9")),
            "step 5; 7 stragglers: a/1, a/2 rank 9 and 5 more",
        ),
        (TrainingStatus(5, straggler_count=2), "step 5; 2 stragglers"),
    ],
)
def test_words(training: TrainingStatus | None, text: str) -> None:
    assert describe_training(training) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172800, "2 d")],
)
def test_rest_is_rounded(seconds: int, text: str) -> None:
    training = TrainingStatus(1, remaining_seconds=seconds)
    assert describe_training(training) == f"step 1, {text} left"
