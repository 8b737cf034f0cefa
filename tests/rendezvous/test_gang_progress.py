"""How far the gang is, as rank 0 measures it from the reports of all ranks."""

import pytest

from framework.api.trainingprogress import TrainingProgress
from rendezvous.core.hangs.gangprogress import GangMeter
from rendezvous.core.hangs.reports import ProcessReport
from tests.support.measuring.cost import assert_grows_at_most

RUN = (1, 0)


def report(
    rank: int, step: int | None, total: int | None = 100, busy: float = 0.0
) -> ProcessReport:
    return ProcessReport(rank, step, total, 0.0, busy_seconds=busy)


def name(*reports: ProcessReport) -> list[tuple[str, ProcessReport]]:
    return [(f"worker/{each.rank}", each) for each in reports]


def test_before_the_first_step_there_is_nothing() -> None:
    meter = GangMeter()
    assert meter.follow(7, RUN, [], (), 0.0) is None
    assert meter.follow(7, RUN, name(report(0, None), report(1, None)), (), 1.0) is None


def test_processes_that_are_started_anew_have_the_last_step_without_a_rate() -> None:
    meter = GangMeter()
    for second in range(10):
        ranks = name(report(0, second, busy=1.0), report(1, second, busy=2.0))
        meter.follow(7, RUN, ranks, ("worker/1",), float(second))
    found = meter.follow(8, (1, 1), name(report(0, None), report(1, None)), (), 10.0)
    assert found == TrainingProgress(8, 9, 100, None, "", 0, ())
    found = meter.follow(8, (1, 1), name(report(0, 4), report(1, 4)), (), 11.0)
    assert found == TrainingProgress(8, 4, 100, None, "", 0, ())


def test_the_gang_is_as_far_as_its_slowest_rank() -> None:
    found = GangMeter().follow(7, RUN, name(report(0, 12), report(1, 9), report(2, 11)), (), 0.0)
    assert found is not None
    assert (found.generation, found.step, found.total) == (7, 9, 100)
    assert found.steps_per_second is None


def test_a_rank_that_reports_no_steps_does_not_count() -> None:
    found = GangMeter().follow(7, RUN, name(report(0, None, None), report(1, 9)), (), 0.0)
    assert found is not None
    assert (found.step, found.slowest) == (9, "")


def test_of_ranks_with_one_step_the_slowest_is_the_one_with_the_longest_own_part() -> None:
    ranks = name(report(0, 9, busy=0.1), report(1, 9, busy=0.3), report(2, 9, busy=0.2))
    found = GangMeter().follow(7, RUN, ranks, (), 0.0)
    assert found is not None
    assert found.slowest == "worker/1"


def test_a_rank_that_is_one_step_behind_by_chance_is_not_the_slowest() -> None:
    ranks = name(report(0, 8, busy=0.1), report(1, 9, busy=0.3), report(2, 9, busy=0.1))
    found = GangMeter().follow(7, RUN, ranks, (), 0.0)
    assert found is not None
    assert found.slowest == "worker/1"


def follow_steps(*steps: int, busy: float = 1.0) -> str:
    """The slowest rank after a minute with 5 steps per second; then the ranks are at ``steps``."""
    meter = GangMeter()
    for second in range(60):
        meter.follow(7, RUN, name(*(report(i, 5 * second) for i in range(3))), (), float(second))
    ranks = name(*(report(i, step, 1000, busy) for i, step in enumerate(steps)))
    found = meter.follow(7, RUN, ranks, (), 60.0)
    assert found is not None
    return found.slowest


def test_ranks_that_differ_by_the_age_of_their_reports_have_no_slowest() -> None:
    assert follow_steps(300, 324, 310) == ""
    assert follow_steps(300, 400, 400) == "worker/0"


def list_slowest(every: int, rate: int, *, stuck_at: int = 10**9) -> list[str]:
    """The slowest rank at each look of 20 minutes.

    Each of 8 ranks ends ``rate`` steps a second and reports every ``every`` of them; their agents
    report every 5 s, one after the other. The first rank ends no step after ``stuck_at`` s.
    """
    meter, known, found = GangMeter(), dict[int, int](), []
    for tenth in range(20 * 60 * 10):
        for rank in range(8):
            if tenth % 50 == rank * 50 // 8:
                seconds = tenth / 10 if rank else min(tenth / 10, stuck_at)
                known[rank] = int(seconds * rate) // every * every
        if tenth % 50 == 25 and len(known) == 8:
            ranks = name(*(report(rank, step, 10**6) for rank, step in sorted(known.items())))
            progress = meter.follow(7, RUN, ranks, (), tenth / 10)
            assert progress is not None
            found.append(progress.slowest)
    return found


@pytest.mark.parametrize(
    ("every", "rate"), [(1, 5), (10, 1), (50, 5), (100, 5), (100, 2), (500, 20), (1000, 5)]
)
def test_ranks_that_report_every_few_steps_have_no_slowest(every: int, rate: int) -> None:
    assert set(list_slowest(every, rate)) == {""}


@pytest.mark.parametrize(("every", "rate"), [(1, 5), (50, 5), (500, 20)])
def test_rank_that_ends_no_step_is_the_slowest_also_then(every: int, rate: int) -> None:
    found = list_slowest(every, rate, stuck_at=600)
    assert set(found[: 600 // 5 - 2]) == {""}
    # The others are two of their reports, and 10 s, ahead.
    first = (600 + 10 + 3 * max(5, every // rate)) // 5
    assert set(found[first:]) == {"worker/0"}


def test_ranks_whose_own_parts_differ_by_chance_have_no_slowest() -> None:
    ranks = name(report(0, 9, busy=0.10), report(1, 9, busy=0.11), report(2, 9, busy=0.1))
    found = GangMeter().follow(7, RUN, ranks, (), 0.0)
    assert found is not None
    assert found.slowest == ""


def test_ranks_that_do_not_differ_have_no_slowest() -> None:
    found = GangMeter().follow(7, RUN, name(report(0, 9), report(1, 9)), (), 0.0)
    assert found is not None
    assert found.slowest == ""


def test_the_rate_is_that_of_the_last_minute() -> None:
    meter, found = GangMeter(), None
    for second in range(600):
        # One step each 2 s, and from 300 s on, one each 5 s.
        step = second // 2 if second < 300 else 150 + (second - 300) // 5
        found = meter.follow(7, RUN, name(report(0, step), report(1, step + 1)), (), float(second))
        if second == 299:
            assert found is not None
            assert found.steps_per_second is not None
            assert abs(found.steps_per_second - 0.5) < 0.02
    assert found is not None
    assert found.steps_per_second is not None
    assert abs(found.steps_per_second - 0.2) < 0.01


def test_steps_longer_than_a_minute_have_a_rate() -> None:
    meter, found = GangMeter(), None
    for second in range(0, 1000, 5):
        found = meter.follow(7, RUN, name(report(0, second // 200)), (), float(second))
    assert found is not None
    assert found.steps_per_second is not None
    assert abs(found.steps_per_second - 0.005) < 0.001


def test_the_rate_of_a_gang_that_stands_still_falls() -> None:
    meter = GangMeter()
    for second in range(100):
        meter.follow(7, RUN, name(report(0, second)), (), float(second))
    found = meter.follow(7, RUN, name(report(0, 99)), (), 1000.0)
    assert found is not None
    assert found.steps_per_second is not None
    assert found.steps_per_second < 0.1


def test_the_rate_begins_again_after_a_restart_and_after_a_step_back() -> None:
    meter = GangMeter()
    meter.follow(7, RUN, name(report(0, 1)), (), 0.0)
    moved = meter.follow(7, RUN, name(report(0, 11)), (), 10.0)
    back = meter.follow(7, RUN, name(report(0, 5)), (), 20.0)
    again = meter.follow(7, RUN, name(report(0, 10)), (), 30.0)
    restarted = meter.follow(8, (1, 1), name(report(0, 20)), (), 40.0)
    assert [each and each.steps_per_second for each in (moved, back, again, restarted)] == [
        1.0,
        None,
        0.5,
        None,
    ]


def test_stragglers_are_counted_and_named() -> None:
    stragglers = tuple(f"worker/{index}" for index in range(3))
    found = GangMeter().follow(7, RUN, name(report(0, 9)), stragglers, 0.0)
    assert found is not None
    assert (found.straggler_count, found.stragglers) == (3, stragglers)


def test_the_outdated_step_of_a_silent_rank_does_not_count_and_the_rank_is_named() -> None:
    meter = GangMeter()
    meter.follow(7, RUN, name(report(0, 40), report(1, 40), report(2, 40)), (), 0.0)
    ranks = name(report(0, 47), report(1, 12, 200), report(2, 48))
    found = meter.follow(7, RUN, ranks, (), 20.0, outdated=("worker/1",))
    assert found is not None
    assert (found.step, found.total, found.slowest) == (47, 100, "worker/1")


def test_silent_ranks_alone_say_nothing_new() -> None:
    """The others were started anew, and have ended no step yet."""
    meter = GangMeter()
    meter.follow(7, RUN, name(report(0, 40), report(1, 40)), (), 0.0)
    ranks = name(report(0, 50), report(1, None, None))
    found = meter.follow(7, RUN, ranks, (), 20.0, outdated=("worker/0",))
    assert found == TrainingProgress(7, 40, 100, None, "", 0, ())


def test_many_silent_ranks_cost_little() -> None:
    """For example all of a zone: rank 0 measures ten times per second near the end."""
    ranks = [(f"worker/{index}", report(index, 9)) for index in range(4000)]
    silent = tuple(rank for rank, _ in ranks[:2000])
    assert_grows_at_most(
        4,
        lambda: GangMeter().follow(7, RUN, ranks, (), 0.0),
        lambda: GangMeter().follow(7, RUN, ranks, (), 0.0, silent),
    )
