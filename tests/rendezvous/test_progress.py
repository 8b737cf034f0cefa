"""Hangs are found, and named: gangs that train in virtual time, one rank of which may hang."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rendezvous.core.hangs.progress import (
    RankProgress,
    Standstill,
    StandstillLimits,
    find_standstill,
    find_stragglers,
)

LIMITS = StandstillLimits(step_seconds=60.0, first_seconds=600.0)
RANKS = 8


class Training:
    """Ranks that meet in each step; the test says where one hangs, and who pauses."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.ranks = [RankProgress(rank, None, 0.0) for rank in range(RANKS)]

    def step(self, hung: int | None = None, where: str = "") -> None:
        """All take a step, and report it as soon as they have met; a rank may hang in it."""
        self.now += max(self.random.uniform(0.1, 20.0) for _ in self.ranks)
        if hung is None:
            for index, rank in enumerate(self.ranks):
                reached = (rank.step or 0) + 1 if rank.step is not None else 0
                at = self.now + self.random.uniform(0.0, 0.5)
                self.ranks[index] = rank._replace(step=reached, changed_at=at)
            self.now += 0.5
            return
        for index, rank in enumerate(self.ranks):
            is_hung = index == hung
            stopped = is_hung and where == "stopped"
            stack = "" if stopped else where if is_hung else "torch all_reduce"
            self.ranks[index] = rank._replace(is_stopped=stopped, stack=stack)

    def find(self, seconds: float) -> Standstill | None:
        return find_standstill(self.ranks, LIMITS, self.now + seconds)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("where", ["stopped", "train sleep", "threading acquire"])
def test_rank_that_hangs_is_named(where: str, seed: int) -> None:
    training = Training(seed)
    for _ in range(training.random.randint(1, 5)):
        training.step()
        assert training.find(0.0) is None
    hung = training.random.randrange(RANKS)
    training.step(hung, where)
    assert training.find(0.0) is None
    found = training.find(61.0)
    assert found is not None
    assert found.behind == (hung,)
    assert found.waiting == tuple(rank for rank in range(RANKS) if rank != hung)


@pytest.mark.parametrize("seed", range(20))
def test_declared_pause_is_no_hang_until_it_is_over(seed: int) -> None:
    training = Training(seed)
    training.step()
    saver = training.random.randrange(RANKS)
    until = training.now + 900.0
    training.ranks[saver] = training.ranks[saver]._replace(paused_until=until)
    assert find_standstill(training.ranks, LIMITS, until + 59.0) is None
    found = find_standstill(training.ranks, LIMITS, until + 60.0)
    assert found is not None
    assert found.since == until


def rank(number: int, step: int | None, at: float = 0.0, stack: str = "") -> RankProgress:
    return RankProgress(number, step, at, stack=stack)


def test_rank_with_the_lowest_step_is_behind_with_any_stacks() -> None:
    ranks = [rank(0, 41, stack="a"), rank(1, 40, stack="b"), rank(2, 41, stack="b")]
    assert find_standstill(ranks, LIMITS, 60.0) == Standstill((1,), (0, 2), 0.0)


def test_ranks_that_wait_may_be_at_different_places_of_a_loop() -> None:
    waits = ["mainstepredu", "mainstepredupoll", "mainstepreduslee"]
    ranks = [rank(i, 40, stack=stack) for i, stack in enumerate([*waits, "mainload"])]
    assert find_standstill(ranks, LIMITS, 60.0) == Standstill((3,), (0, 1, 2), 0.0)
    ranks = [rank(0, 40, stack="mainstep"), rank(1, 40, stack="mainload")]
    assert find_standstill(ranks, LIMITS, 60.0) == Standstill((0, 1), (), 0.0), "not clear"


def test_first_step_may_take_longer_than_the_next_ones() -> None:
    ranks = [rank(0, None), rank(1, None)]
    assert find_standstill(ranks, LIMITS, 599.0) is None
    assert find_standstill(ranks, LIMITS, 600.0) == Standstill((0, 1), (), 0.0)
    one = [rank(0, None), rank(1, 0)]
    assert find_standstill(one, LIMITS, 599.0) is None, "rank 0 compiles"


def test_rank_without_steps_is_behind_only_if_it_is_stopped() -> None:
    silent = RankProgress(0, None, 0.0, has_no_steps=True)
    others = [rank(1, 40, 1700.0), rank(2, 41, 1700.0)]
    assert find_standstill([silent, *others], LIMITS, 1760.0) == Standstill((1,), (0, 2), 1700.0)
    others = [rank(1, 41, 1700.0, "a"), rank(2, 41, 1700.0, "a")]
    assert find_standstill([silent, *others], LIMITS, 1760.0) == Standstill((0, 1, 2), (), 1700.0)
    stopped = silent._replace(is_stopped=True)
    assert find_standstill([stopped, *others], LIMITS, 1760.0) == Standstill((0,), (1, 2), 1700.0)


def test_rank_without_steps_holds_a_gang_for_1800_seconds_at_most() -> None:
    ranks = [RankProgress(0, None, 0.0, has_no_steps=True), rank(1, 40)]
    for first_seconds, seconds in ((600.0, 600.0), (float("inf"), 1800.0)):
        limits = StandstillLimits(60.0, first_seconds)
        assert find_standstill(ranks, limits, seconds - 1.0) is None
        assert find_standstill(ranks, limits, seconds) is not None


def test_training_that_may_be_over_has_the_longer_limit() -> None:
    last = [rank(i, 99)._replace(is_last=True) for i in range(2)]
    assert find_standstill(last, LIMITS, 599.0) is None
    assert find_standstill(last, LIMITS, 600.0) is not None
    assert find_standstill([*last, rank(2, 98)], LIMITS, 60.0) == Standstill((2,), (0, 1), 0.0)


def test_gang_without_ranks_does_not_stand_still() -> None:
    assert find_standstill([], LIMITS, 1e9) is None


def test_slow_rank_is_a_straggler_for_as_long_as_it_is_slow() -> None:
    steps = {number: [1.0, 1.1, 0.9] for number in range(RANKS)}
    assert find_stragglers(steps, 1.5) == ()
    assert find_stragglers({**steps, 3: [1.0, 9.0, 1.0]}, 1.5) == (), "one slow step"
    assert find_stragglers({**steps, 3: [2.0, 1.0, 2.0]}, 1.5) == (3,)
    assert find_stragglers({0: [1.0], 1: [9.0]}, 1.5) == ()
    assert find_stragglers({**steps, 8: []}, 1.5) == ()


def build_progress(number: int) -> st.SearchStrategy[RankProgress]:
    return st.builds(
        RankProgress,
        st.just(number),
        st.none() | st.integers(0, 3),
        st.floats(0, 100),
        st.floats(0, 100),
        st.booleans(),
        st.sampled_from(["", "a", "b"]),
        st.booleans(),
        st.booleans(),
    ).map(lambda each: each._replace(has_no_steps=each.has_no_steps and each.step is None))


@given(
    st.integers(1, 6).flatmap(lambda count: st.tuples(*map(build_progress, range(count)))),
    st.floats(0, 1000),
)
def test_ranks_are_behind_or_wait_and_a_standstill_lasts(
    ranks: tuple[RankProgress, ...], now: float
) -> None:
    found = find_standstill(ranks, LIMITS, now)
    if found is None:
        return
    assert found.behind
    assert sorted(found.behind + found.waiting) == list(range(len(ranks)))
    # A step that is outdated is not compared: its agent is silent, so it is not known any more.
    known = (each for each in ranks if not (each.has_no_steps or each.is_outdated))
    steps = {each.rank: -1 if each.step is None else each.step for each in known}
    behind, waiting = ([steps[i] for i in each if i in steps] for each in found[:2])
    assert max([-1, *behind]) <= min([9, *waiting])
    assert all(each.paused_until <= now for each in ranks)
    assert find_standstill(ranks, LIMITS, now + 1.0) == found
