"""The watch of rank 0 over a gang of which no member comes or goes: who is behind, and who acts."""

import pytest

from rendezvous.core.hangs.reports import (
    AgentReport,
    Answer,
    ProcessReport,
)
from rendezvous.core.hangs.watch import GangWatch
from tests.rendezvous.watchedgangs import LIMITS, RANKS, Gang
from tests.support.measuring.cost import assert_costs_at_most


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("where", ["stopped", "sleep", "lock", "late"])
def test_hung_rank_is_named_once_and_acts(where: str, seed: int) -> None:
    gang = Gang(seed)
    for _ in range(gang.random.randint(1, 4)):
        gang.step()
        assert gang.let_pass(gang.random.uniform(1.0, 50.0)) == []
    hung = gang.random.randrange(RANKS)
    before = gang.steps[hung]
    if where == "late":
        gang.step()
        gang.steps[hung] = before
    gang.stopped[hung] = where == "stopped"
    gang.stacks[hung] = where
    started = gang.now
    found = gang.let_pass(69.0)
    assert len(found) == 1
    assert found[0].behind == (f"worker/{hung}",)
    assert found[0].acting == (("worker", hung, ""),)
    assert (found[0].waiting_count, found[0].step) == (RANKS - 1, before)
    assert found[0].waiting == tuple(f"worker/{i}" for i in range(RANKS) if i != hung)
    seconds = gang.answers[0].verdict.seconds if gang.answers[0].verdict else 0.0
    assert LIMITS.step_seconds <= seconds < gang.now - started + 50.0


@pytest.mark.parametrize("seed", range(20))
def test_declared_pause_of_one_rank_is_no_hang(seed: int) -> None:
    gang = Gang(seed)
    gang.step()
    saver = gang.random.randrange(RANKS)
    gang.paused[saver] = gang.now + 300.0
    assert gang.let_pass(299.0) == []
    gang.paused[saver], gang.changed[saver] = 0.0, gang.now
    gang.step()
    assert gang.let_pass(59.0) == []


def test_step_between_request_and_stacks_cancels_the_verdict() -> None:
    gang = Gang()
    gang.step()
    gang.let_pass(59.0)
    while not any(answer.ask for answer in gang.answers):
        gang.report(0)
        gang.now += 0.3
    gang.step()
    assert gang.let_pass(50.0) == []
    assert {answer.ask for answer in gang.answers} == {0}


def test_agent_that_is_silent_is_behind_and_another_one_acts() -> None:
    gang = Gang()
    gang.step()
    gang.let_pass(4.0)
    gang.silent = {5}
    found = gang.let_pass(80.0)
    assert [verdict.behind for verdict in found] == [("worker/5",)]
    assert found[0].acting == (("worker", 0, ""),)


def test_agent_without_stacks_holds_the_verdict_for_10_seconds_only() -> None:
    gang = Gang()
    gang.step()
    gang.stacks[3] = "sleep"
    gang.let_pass(59.0)
    never = [2]
    while not gang.answers[0].verdict and gang.now < 1100.0:
        for index in range(RANKS):
            gang.report(index)
            gang.asked[never[0]] = 0
        gang.now += 1.0
    assert 1070.0 <= gang.now <= 1073.0
    assert gang.answers[0].verdict is not None
    assert gang.answers[0].verdict.behind == ("worker/3",)


def test_ranks_that_do_not_differ_are_all_named_and_one_member_acts() -> None:
    gang = Gang()
    gang.step()
    found = gang.let_pass(80.0)
    assert [verdict.behind for verdict in found] == [tuple(f"worker/{i}" for i in range(RANKS))]
    assert found[0].acting == (("worker", 0, ""),)


def test_process_of_a_pod_with_several_is_named_by_its_rank() -> None:
    watch = GangWatch(LIMITS, 0)
    processes = [ProcessReport(rank, 4 if rank == 5 else 5, None, 70.0) for rank in range(8)]
    verdict = None
    for now in (100.0, 101.0, 102.0, 112.0):
        for index in range(2):
            report = AgentReport((0, 0), 1, tuple(processes[4 * index : 4 * index + 4]))
            verdict = watch.take(("worker", index), report, now).verdict
    assert verdict is not None
    assert (verdict.behind, verdict.acting) == (("worker/1 rank 5",), (("worker", 1, ""),))
    assert (verdict.step, verdict.waiting_count) == (4, 7)


def test_answer_to_a_process_that_moves_has_no_verdict() -> None:
    gang = Gang()
    gang.step()
    assert gang.let_pass(80.0)
    gang.report(0)
    gang.now += 0.01
    gang.steps[3], gang.changed[3] = 7, gang.now
    assert gang.report(3) == Answer()


def test_member_that_has_no_process_for_long_is_listed() -> None:
    gang = Gang()
    gang.watch.take(("worker", 3), AgentReport(gang.run, 0, ()), gang.now)
    for later, expected in ((599.0, ()), (600.0, ("worker/3",))):
        at = gang.now + later
        gang.watch.take(("worker", 3), AgentReport(gang.run, 0, ()), at)
        assert gang.watch.list_without_processes(at) == expected


@pytest.mark.parametrize("first_seconds", [7200.0, float("inf")])
def test_rank_that_compiles_longer_than_the_first_steps_of_others_is_no_hang(
    first_seconds: float,
) -> None:
    gang = Gang()
    gang.watch = GangWatch(LIMITS._replace(first_seconds=first_seconds), 0)
    gang.reporting = set(range(RANKS)) - {3}
    gang.step()
    gang.now += 5.0
    gang.step()
    longest = 1800.0 if first_seconds == float("inf") else first_seconds
    assert gang.let_pass(longest - 10.0) == []
    assert gang.let_pass(40.0)


def test_gang_is_not_judged_while_a_member_has_no_process() -> None:
    gang = Gang()
    gang.step()
    for _ in range(200):
        gang.let_pass(1.0)
        answer = gang.watch.take(("worker", 3), AgentReport(gang.run, 0, ()), gang.now)
        assert answer == Answer()


def test_gang_of_which_one_rank_reports_steps_is_judged_by_that_one() -> None:
    gang = Gang()
    gang.reporting = {0}
    for _ in range(20):
        gang.step()
        assert gang.let_pass(40.0) == []
    assert gang.watch.list_without_steps(gang.now) == tuple(f"worker/{i}" for i in range(1, RANKS))
    (found,) = gang.let_pass(75.0)
    assert (found.behind_count, found.waiting_count, found.step) == (RANKS, 0, 19)
    assert found.acting == (("worker", 0, ""),)


def test_gang_of_which_one_rank_has_reported_one_step_names_no_healthy_rank() -> None:
    gang = Gang()
    gang.reporting = {0}
    gang.step()
    (found,) = gang.let_pass(LIMITS.first_seconds + 40.0)
    assert (found.behind_count, found.waiting_count, found.step) == (RANKS, 0, 0)
    assert found.acting == (("worker", 0, ""),)


def test_rank_that_never_had_a_step_is_behind_if_the_others_had_one() -> None:
    gang = Gang()
    gang.step()
    gang.reporting = set(range(RANKS)) - {3}
    (found,) = gang.let_pass(630.0)
    assert (found.behind, found.step) == (("worker/3",), -1)


@pytest.mark.parametrize("steps", [100, 101])
def test_evaluation_after_the_last_step_is_no_hang(steps: int) -> None:
    gang = Gang()
    for _ in range(steps):
        gang.step()
    assert gang.let_pass(590.0) == []
    assert gang.let_pass(40.0)


def test_step_beyond_the_total_is_not_the_last_one() -> None:
    gang = Gang()
    for _ in range(102):
        gang.step()
    assert gang.let_pass(80.0)


def test_hang_after_the_last_step_is_found_though_the_first_has_no_limit() -> None:
    gang = Gang()
    gang.watch = GangWatch(LIMITS._replace(first_seconds=float("inf")), 0)
    for _ in range(101):
        gang.step()
    assert gang.let_pass(1790.0) == []
    assert gang.let_pass(40.0)


def test_first_step_of_a_total_of_zero_is_not_the_last_one() -> None:
    watch = GangWatch(LIMITS, 0)
    answers = [
        watch.take(("worker", 0), AgentReport((1, 0), 1, (process,)), now)
        for now in (100.0, 165.0, 166.0, 180.0)
        for process in [ProcessReport(0, 0, 0, now - 100.0, moved_seconds=now - 90.0)]
    ]
    assert answers[-1].verdict is not None


def test_pause_that_ends_early_holds_the_gang_no_longer() -> None:
    gang = Gang()
    gang.step()
    gang.paused[3] = gang.now + 3600.0
    assert gang.let_pass(30.0) == []
    gang.paused[3] = 0.0
    assert gang.let_pass(70.0)


def test_report_of_a_gang_that_trains_costs_little_for_any_number_of_ranks() -> None:
    watch = GangWatch(LIMITS, 0)

    def report(pods: int, now: float) -> None:
        for index in range(pods):
            processes = tuple(ProcessReport(8 * index + i, 10, None, 1.0) for i in range(8))
            at = now + 0.005 * index
            watch.take(("worker", index), AgentReport((1, 0), 0, processes), at)

    report(1000, 1000.0)
    assert_costs_at_most(100e-6 * 1000, lambda: report(1000, 1005.0))


def test_straggler_is_named_though_all_end_a_step_together() -> None:
    gang = Gang()
    gang.step()
    gang.let_pass(2.0)
    assert gang.watch.list_stragglers() == ()
    gang.busy[6] = 1.7
    gang.let_pass(4.0)
    assert gang.watch.list_stragglers() == ("worker/6",)


@pytest.mark.parametrize("waiting", [1, 3, 4])
def test_rank_that_waits_for_those_in_a_pause_is_no_straggler(waiting: int) -> None:
    gang = Gang()
    gang.step()
    gang.let_pass(4.0)
    gang.paused = [gang.now + 300.0] * (RANKS - waiting) + [0.0] * waiting
    gang.let_pass(250.0)
    gang.paused = [0.0] * RANKS
    gang.step()
    gang.busy = [1.0] * (RANKS - waiting) + [250.0] * waiting
    gang.let_pass(4.0)
    assert gang.watch.list_stragglers() == ()
    assert [report.busy_seconds for _, report in gang.watch.list_ranks()][-1] == 0.0
    gang.busy[0] = 2.0
    gang.let_pass(4.0)
    assert gang.watch.list_stragglers() == ("worker/0",)
    gang.busy = [1.0] * (RANKS - 1) + [2.0]
    for _ in range(10):
        gang.step()
        gang.let_pass(10.0)
    assert gang.watch.list_stragglers() == (f"worker/{RANKS - 1}",)


def test_straggler_is_named_while_one_rank_writes_checkpoints() -> None:
    gang = Gang()
    gang.step()
    gang.paused[0] = gang.now + 30.0
    gang.busy = [1.0, *[30.0] * (RANKS - 2), 60.0]
    gang.let_pass(4.0)
    assert gang.watch.list_stragglers() == (f"worker/{RANKS - 1}",)


def test_step_of_a_silent_rank_is_outdated_when_others_have_ended_two() -> None:
    gang = Gang()
    for _ in range(5):
        gang.step()
        gang.let_pass(4.0)
    gang.silent = {3}
    gang.let_pass(30.0)
    assert gang.watch.list_outdated(gang.now) == (), "all wait for it, as far as is known"
    for _ in range(3):
        gang.step()
        gang.let_pass(4.0)
    assert gang.watch.list_outdated(gang.now) == ("worker/3",)
    gang.silent = set()
    gang.let_pass(4.0)
    assert gang.watch.list_outdated(gang.now) == ()
