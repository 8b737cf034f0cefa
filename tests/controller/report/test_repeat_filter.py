"""Messages that repeat: the first at once, then fewer and fewer."""

from datetime import UTC, datetime

from controller.report.repeat_filter import RepeatFilter
from framework.clock import ManualClock

START = datetime(2026, 1, 1, tzinfo=UTC)


def count_admitted(clock: ManualClock, repeats: RepeatFilter, seconds: float) -> int:
    """Repeat a message ten times a second."""
    admitted = 0
    for _ in range(round(seconds * 10)):
        admitted += repeats.admit("key") is not None
        clock.advance(0.1)
    return admitted


def test_first_message_is_logged_at_once_and_repetitions_at_growing_intervals() -> None:
    clock = ManualClock(START)
    repeats = RepeatFilter(clock)
    assert count_admitted(clock, repeats, 0.1) == 1
    assert count_admitted(clock, repeats, 600) <= 10
    assert count_admitted(clock, repeats, 3600) <= 13


def test_message_has_the_number_of_those_left_out() -> None:
    clock = ManualClock(START)
    repeats = RepeatFilter(clock)
    answers = [repeats.admit("key") for _ in range(4)]
    clock.advance(1)
    assert (answers, repeats.admit("key")) == ([{}, None, None, None], {"left_out": 3})


def test_other_messages_are_not_left_out() -> None:
    repeats = RepeatFilter(ManualClock(START))
    assert [repeats.admit(key) for key in "abab"] == [{}, {}, None, None]


def test_message_that_comes_again_after_a_while_begins_anew() -> None:
    clock = ManualClock(START)
    repeats = RepeatFilter(clock)
    count_admitted(clock, repeats, 60)
    clock.advance(700)
    assert repeats.admit("key") is not None
    clock.advance(1)
    assert repeats.admit("key") is not None


def test_number_of_keys_is_bounded() -> None:
    repeats = RepeatFilter(ManualClock(START))
    for number in range(30_000):
        repeats.admit(number)
    assert len(repeats._rows) == 20_000
