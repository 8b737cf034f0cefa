"""The watch of rank 0 while members come, go and are killed: no member waits in vain."""

import pytest

from rendezvous.core.hangs.reports import (
    NO_RUN,
    AgentReport,
    Answer,
    ProcessReport,
)
from rendezvous.core.hangs.watch import GangWatch
from tests.rendezvous.watchedgangs import LIMITS, RANKS, REPORT_SECONDS, Gang


@pytest.mark.parametrize("has_reported", [True, False])
def test_no_healthy_pod_is_killed_for_a_member_that_is_lost(
    has_reported: bool,  # noqa: FBT001  a parameter
) -> None:
    gang = Gang()
    gang.run = NO_RUN
    gang.watch.expect({("worker", index): "" for index in range(RANKS)}, gang.now)
    gang.step()
    if not has_reported:
        gang.silent = {5}
    gang.let_pass(4.0)
    gang.silent = {5}
    found = gang.let_pass(80.0)
    assert [verdict.acting for verdict in found] == [()]
    if has_reported:
        assert found[0].behind == ("worker/5",)
    assert gang.let_pass(LIMITS.first_seconds - 100.0) == found, "no stacks again each minute"


def test_rank_that_hangs_beside_a_lost_member_acts() -> None:
    gang = Gang()
    gang.run = NO_RUN
    gang.step()
    gang.let_pass(4.0)
    gang.silent, gang.stopped[3] = {5}, True
    (found,) = gang.let_pass(69.0)
    assert found.behind == ("worker/3", "worker/5")
    assert found.acting == (("worker", 3, ""),)


def test_new_run_starts_from_nothing_and_an_old_one_is_ignored() -> None:
    gang = Gang()
    gang.step()
    assert gang.let_pass(80.0)
    old = gang.run
    gang.run = (1, 1)
    gang.steps = [None] * RANKS
    gang.changed = [gang.now] * RANKS
    assert gang.let_pass(590.0) == [], "until the first step there is more time"
    gang.run = old
    assert gang.report(0) == Answer()


def test_member_that_is_none_any_more_is_forgotten() -> None:
    gang = Gang()
    gang.step()
    gang.let_pass(4.0)
    gang.steps[1:] = [step + 1 for step in gang.steps[1:] if step is not None]
    gang.silent = {0}
    gang.watch.expect({("worker", index): "" for index in range(1, RANKS)}, gang.now)
    gang.stacks[2] = "sleep"
    assert [verdict.behind for verdict in gang.let_pass(80.0)] == [("worker/2",)]


def test_another_rank_0_gets_stacks_of_its_own() -> None:
    gang = Gang()
    gang.step()
    gang.stacks[3] = "sleep"
    assert gang.let_pass(80.0)
    gang.step()
    gang.watch = GangWatch(LIMITS, 1000)
    gang.stacks[3], gang.stacks[6] = "all_reduce", "sleep"
    (found,) = gang.let_pass(80.0)
    assert (found.behind, found.number) == (("worker/6",), 1001)
    assert set(gang.asked) == {1001}


def test_answer_to_a_new_pod_has_no_verdict_about_its_predecessor() -> None:
    gang = Gang()
    gang.step()
    gang.stacks[3] = "sleep"
    assert gang.let_pass(80.0)
    gang.report(0)
    start = AgentReport(gang.run, 0, (ProcessReport(3, None, None, 0.1),))
    answer = gang.watch.take(("worker", 3), start, gang.now + 0.01, "another Pod")
    assert answer == Answer()


@pytest.mark.parametrize("seed", range(10))
def test_new_rank_0_judges_nobody_before_all_have_reported(seed: int) -> None:
    gang = Gang(seed)
    gang.step()
    gang.changed = [gang.now - 300.0] * RANKS
    gang.watch.expect({("worker", index): "" for index in range(RANKS)}, gang.now)
    saver = gang.random.randrange(RANKS)
    gang.paused[saver] = gang.now + 300.0
    gang.silent = {saver}
    assert gang.let_pass(19.0) == []
    gang.silent = set()
    assert gang.let_pass(270.0) == []


def test_member_that_never_reports_holds_the_verdict_for_20_seconds() -> None:
    gang = Gang()
    gang.step()
    gang.changed = [gang.now - 300.0] * RANKS
    gang.watch.expect({("worker", index): "" for index in range(RANKS + 1)}, gang.now)
    assert gang.let_pass(19.0) == []
    assert gang.let_pass(20.0)


def test_standstill_that_lasts_gets_another_verdict_with_another_member_that_acts() -> None:
    gang = Gang()
    gang.step()
    gang.stacks[3] = "sleep"
    (first,) = gang.let_pass(70.0)
    assert first.acting == (("worker", 3, ""),)
    *_, second = gang.let_pass(80.0)
    assert second.number > first.number
    assert second.acting == first.acting
    gang.silent = {3}
    gang.let_pass(LIMITS.first_seconds)
    *_, last = gang.let_pass(80.0)
    assert last.number > second.number
    assert (last.behind, last.acting) == (("worker/3",), (("worker", 0, ""),))


def leave(gang: Gang, gone: int, *, is_gang_complete: bool = True) -> None:
    gang.silent = {gone}
    rest = {("worker", index): "" for index in range(RANKS) if index != gone}
    gang.watch.expect(rest, gang.now, is_gang_complete=is_gang_complete)


def hang(gang: Gang) -> None:
    """Rank 3 hangs, and is to be killed."""
    gang.watch.expect({("worker", index): "" for index in range(RANKS)}, gang.now)
    gang.step()
    gang.stacks[3] = "sleep"
    (found,) = gang.let_pass(70.0)
    assert found.acting == (("worker", 3, ""),)


@pytest.mark.parametrize("seed", range(5))
def test_ranks_that_wait_for_the_next_pod_are_not_killed(seed: int) -> None:
    gang = Gang(seed)
    hang(gang)
    leave(gang, 3)
    assert gang.let_pass(LIMITS.first_seconds - REPORT_SECONDS) == []


def test_ranks_that_wait_are_not_killed_while_a_member_is_missing() -> None:
    gang = Gang()
    hang(gang)
    leave(gang, 3, is_gang_complete=False)
    assert gang.let_pass(5 * LIMITS.first_seconds) == []
    leave(gang, 3)
    assert gang.let_pass(LIMITS.first_seconds), "the same members, but no more is wanted"


def test_hang_is_found_when_all_have_moved_after_a_change_of_the_members() -> None:
    gang = Gang()
    hang(gang)
    leave(gang, 3)
    gang.let_pass(10.0)
    gang.step()
    gang.stacks[5] = "sleep"
    assert [verdict.behind for verdict in gang.let_pass(70.0)] == [("worker/5",)]


@pytest.mark.parametrize("has_reported", [False, True])
def test_others_are_not_killed_while_a_pod_that_was_killed_is_still_a_member(
    has_reported: bool,  # noqa: FBT001  a parameter
) -> None:
    gang = Gang()
    hang(gang)
    gang.silent = {3}
    if has_reported:
        gang.watch.take(("worker", 3), AgentReport(gang.run, 0, ()), gang.now)
    found = gang.let_pass(LIMITS.first_seconds - 80.0)
    assert {verdict.acting for verdict in found} <= {(("worker", 3, ""),)}


def test_reports_of_the_time_before_another_rank_0_are_forgotten() -> None:
    gang = Gang()
    gang.step()
    gang.let_pass(4.0)
    gang.watch.forget()
    gang.now += 300.0
    gang.watch.expect({("worker", index): "" for index in range(RANKS)}, gang.now)
    gang.silent = {3}
    assert gang.let_pass(19.0) == []
    (found,) = gang.let_pass(10.0)
    assert found.behind_count == RANKS - 1, "nothing is known of rank 3"


@pytest.mark.parametrize("is_stopped", [True, False])
def test_hang_beside_a_silent_agent_whose_process_trains_on_names_the_rank_that_hangs(
    *, is_stopped: bool
) -> None:
    gang = Gang()
    for _ in range(3):
        gang.step()
        gang.let_pass(10)
    gang.silent = {3}
    for _ in range(20):
        gang.step()
        assert gang.let_pass(10) == []
    gang.stacks[5], gang.stopped[5] = "sleep", is_stopped
    (verdict,) = gang.let_pass(100)
    assert verdict.behind == ("worker/5",)
    assert verdict.step == 22
    assert verdict.acting == (("worker", 5, ""),)


def test_silent_agent_is_named_after_outdated_steps_if_no_other_rank_differs() -> None:
    gang = Gang()
    gang.run = (0, 0)
    for _ in range(3):
        gang.step()
        gang.let_pass(10)
    gang.silent = {3}
    for _ in range(3):
        gang.step()
        assert gang.let_pass(10) == []
    (verdict,) = gang.let_pass(100)
    assert (verdict.behind, verdict.waiting_count, verdict.step) == (("worker/3",), 7, 5)
    assert verdict.acting == (), "no healthy Pod ends for it"
