"""The watch of rank 0 over a gang: agents that report every 2 s of virtual time."""

import json
import random
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.agent.report import LineReporter
from rendezvous.core.hangreports import (
    MAX_NAMED,
    MAX_PROCESSES,
    NO_RUN,
    AgentReport,
    Answer,
    ProcessReport,
    Verdict,
    decode_answer,
    decode_report,
    encode_answer,
    encode_report,
)
from rendezvous.core.hangs import GangWatch
from rendezvous.core.progress import Limits
from rendezvous.progress import hangs
from rendezvous.progress.progresslink import NoMemberError
from rendezvous.site.peers.barrier_protocol import MAX_LINE_BYTES
from tests.rendezvous.gangs import BROKEN_MEMBERS, write_members
from tests.support.fakes.agentclock import VirtualClock
from tests.support.measuring.cost import assert_costs_at_most

LIMITS = Limits(step_seconds=60.0, first_seconds=600.0)
RANKS = 8
REPORT_SECONDS = 2.0


class Gang:
    """Agents with a process each. They answer requests for stacks with their next report."""

    def __init__(self, seed: int = 0, count: int = RANKS) -> None:
        self.random = random.Random(seed)
        self.watch = GangWatch(LIMITS, 0)
        self.now = 1000.0
        self.run = (1, 0)
        self.steps: list[int | None] = [None] * count
        self.changed = [self.now] * count
        self.moved: list[float | None] = [None] * count
        self.paused = [0.0] * count
        self.stopped = [False] * count
        self.stacks = ["all_reduce"] * count
        self.asked = [0] * count
        self.answers = [Answer()] * count
        self.busy = [1.0] * count
        self.silent: set[int] = set()
        self.reporting = set(range(count))
        self.started = self.now

    def step(self) -> None:
        for index, step in enumerate(self.steps):
            self.moved[index] = None if step is None else self.changed[index]
            self.steps[index] = 0 if step is None else step + 1
            self.changed[index] = self.now

    def report(self, index: int) -> Answer:
        moved = self.moved[index]
        process = ProcessReport(
            index,
            self.steps[index],
            100,
            self.now - self.changed[index],
            max(0.0, self.paused[index] - self.now),
            self.stopped[index],
            self.stacks[index] if self.asked[index] and not self.stopped[index] else "",
            self.busy[index],
            None if moved is None else self.now - moved,
        )
        if index not in self.reporting:
            process = ProcessReport(index, None, None, self.now - self.started)
        report = decode_report(
            json.loads(
                json.dumps(encode_report(AgentReport(self.run, self.asked[index], (process,))))
            )
        )
        answer = self.watch.take(("worker", index), report, self.now)
        answer = decode_answer(json.loads(json.dumps(encode_answer(answer))))
        self.asked[index] = answer.ask or self.asked[index]
        self.answers[index] = answer
        return answer

    def let_pass(self, seconds: float) -> list[Verdict]:
        """All agents report, in any order; return the verdicts."""
        found: dict[Verdict, None] = {}
        end = self.now + seconds
        while self.now < end:
            order = [i for i in range(len(self.steps)) if i not in self.silent]
            self.random.shuffle(order)
            for index in order:
                self.now += REPORT_SECONDS / len(self.steps)
                verdict = self.report(index).verdict
                if verdict is not None:
                    found[verdict._replace(seconds=0.0)] = None
        return list(found)


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


def test_answer_to_a_new_pod_has_no_verdict_about_its_predecessor() -> None:
    gang = Gang()
    gang.step()
    gang.stacks[3] = "sleep"
    assert gang.let_pass(80.0)
    gang.report(0)
    start = AgentReport(gang.run, 0, (ProcessReport(3, None, None, 0.1),))
    answer = gang.watch.take(("worker", 3), start, gang.now + 0.01, "another Pod")
    assert answer == Answer()


def test_answer_to_a_process_that_moves_has_no_verdict() -> None:
    gang = Gang()
    gang.step()
    assert gang.let_pass(80.0)
    gang.report(0)
    gang.now += 0.01
    gang.steps[3], gang.changed[3] = 7, gang.now
    assert gang.report(3) == Answer()


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


def test_next_rank_0_knows_that_the_members_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gang = Gang()
    gang.step()
    clock = VirtualClock()
    member = hangs.Member(("worker", 1), "", lambda: (1, 0), lambda _: None)
    reporter = LineReporter("test", is_json=False)
    watcher = hangs.HangWatcher(LIMITS, member, Pages(), reporter, clock)  # type: ignore[arg-type]
    watcher._link = NoLink()  # type: ignore[assignment]
    clock.now = gang.now
    monkeypatch.setattr(hangs, "roster", lambda: build_roster(1, range(RANKS)))
    watcher.turn()
    gang.now += 100.0
    clock.now = gang.now
    monkeypatch.setattr(hangs, "roster", lambda: build_roster(0, range(1, RANKS), 2))
    watcher.turn()
    gang.watch, gang.silent = watcher._watch, {0}
    assert gang.let_pass(LIMITS.first_seconds - REPORT_SECONDS) == []


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


def test_member_that_has_no_process_for_long_is_listed() -> None:
    gang = Gang()
    gang.watch.take(("worker", 3), AgentReport(gang.run, 0, ()), gang.now)
    for later, expected in ((599.0, ()), (600.0, ("worker/3",))):
        at = gang.now + later
        gang.watch.take(("worker", 3), AgentReport(gang.run, 0, ()), at)
        assert gang.watch.list_without_processes(at) == expected


def test_member_without_processes_is_named_in_the_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hangs, "roster", lambda: build_roster(0, range(RANKS)))
    member = hangs.Member(("worker", 0), "", lambda: (1, 0), lambda _: None)
    clock = VirtualClock()
    reporter = LineReporter("test", is_json=False)
    watcher = hangs.HangWatcher(LIMITS, member, Pages(), reporter, clock)  # type: ignore[arg-type]
    for _ in range(700):
        watcher._answer(("worker", 3, ""), encode_report(AgentReport((1, 0), 0, ())))
        clock.now += 1.0
    errors = capsys.readouterr().err
    assert errors.count("no hang is found, because worker/3 has no process with steps now") == 1


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


@pytest.mark.parametrize("content", BROKEN_MEMBERS)
def test_broken_file_of_the_members_does_not_end_the_watch(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_members(tmp_path, content)
    monkeypatch.setenv("BARRIER_WORKING_DIR", str(tmp_path))
    member = hangs.Member(("worker", 0), "own", lambda: (1, 0), lambda _: None)
    clock = VirtualClock()
    reporter = LineReporter("test", is_json=False)
    watcher = hangs.HangWatcher(LIMITS, member, Pages(), reporter, clock)  # type: ignore[arg-type]
    before = clock.now
    with pytest.raises(OSError, match="no roster of an agent"):
        watcher._link.serve()
    watcher._rest()
    assert clock.now > before


def test_gang_is_not_judged_while_a_member_has_no_process() -> None:
    gang = Gang()
    gang.step()
    for _ in range(200):
        gang.let_pass(1.0)
        answer = gang.watch.take(("worker", 3), AgentReport(gang.run, 0, ()), gang.now)
        assert answer == Answer()


def build_roster(rank: int, members: Iterable[int], generation: int = 1) -> SimpleNamespace:
    ranked = [SimpleNamespace(role="worker", index=i, fingerprint="") for i in members]
    return SimpleNamespace(rank=rank, generation=generation, ranked=ranked, is_complete=True)


class Pages:
    """Those of rank 0, which is behind."""

    def observe(self) -> tuple[ProcessReport, ...]:
        return (ProcessReport(0, 9, None, 300.0),)


class Link:
    """Answers with a verdict; the second answer is lost."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.count = 0

    def exchange(self, _report: object) -> object:
        self.count += 1
        if self.count == 2:
            raise OSError("timed out")
        return encode_answer(Answer(0, self.verdict))


@pytest.mark.parametrize(("pod", "ended"), [("own", [(1, 0)]), ("of before", [])])
def test_rank_0_acts_once_though_an_answer_is_lost(
    pod: str, ended: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    acted: list[tuple[int, int]] = []
    monkeypatch.setattr(hangs, "roster", lambda: build_roster(0, range(2)))
    member = hangs.Member(("worker", 0), "own", lambda: (1, 0), acted.append)
    reporter = LineReporter("test", is_json=False)
    watcher = hangs.HangWatcher(LIMITS, member, Pages(), reporter, VirtualClock())  # type: ignore[arg-type]
    acting = (("worker", 0, pod),)
    verdict = Verdict(5, (1, 0), ("worker/0",), 1, ("worker/1",), 1, 9, 70.0, acting)
    watcher._link = Link(verdict)  # type: ignore[assignment]
    for _ in range(5):
        watcher.turn()
    assert acted == ended


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
    for now in (100.0, 165.0, 166.0, 180.0):
        process = ProcessReport(0, 0, 0, now - 100.0, moved_seconds=now - 90.0)
        answer = watch.take(("worker", 0), AgentReport((1, 0), 1, (process,)), now)
    assert answer.verdict is not None


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


class NoLink:
    """Of a Pod that is no member."""

    def exchange(self, _report: object) -> object:
        raise NoMemberError


def test_pod_that_leaves_does_not_warn_of_a_watch_without_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hangs, "roster", lambda: build_roster(-1, range(1, 3)))
    member = hangs.Member(("worker", 0), "own", lambda: (1, 0), lambda _: None)
    clock = VirtualClock()
    reporter = LineReporter("test", is_json=False)
    watcher = hangs.HangWatcher(LIMITS, member, Pages(), reporter, clock)  # type: ignore[arg-type]
    watcher._link = NoLink()  # type: ignore[assignment]
    for _ in range(100):
        watcher.turn()
        clock.now += 5.0
    assert capsys.readouterr().err == ""


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


def test_lines_of_the_largest_gang_fit() -> None:
    gang = Gang(count=1000)
    gang.step()
    gang.changed = [gang.now - 60.0] * 1000
    gang.let_pass(2.0)
    verdicts = gang.let_pass(12.0)
    assert verdicts[0].behind_count == 1000
    assert len(verdicts[0].behind) == MAX_NAMED
    longest = "r" * 63
    names = (f"{longest}/9999 rank 99999",) * MAX_NAMED
    named = verdicts[0]._replace(
        behind=names, waiting=names, acting=((longest, 9999, "f" * 16),) * MAX_NAMED
    )
    assert len(json.dumps(encode_answer(Answer(1, named)))) < MAX_LINE_BYTES - 500
    process = ProcessReport(
        10**6, 10**9, 10**9, 10**6, 10**6, stack="f" * 32, busy_seconds=10**4 + 0.123456
    )
    report = AgentReport((10**6, 10**6), 10**6, (process,) * 32)
    assert len(encode_report(report)["processes"]) == MAX_PROCESSES
    assert len(json.dumps(encode_report(report))) < MAX_LINE_BYTES - 400
    garbage = report._replace(processes=(process._replace(step=2**62 - 1, total=2**62 - 1),) * 32)
    assert len(json.dumps(encode_report(garbage))) < MAX_LINE_BYTES - 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


@given(JSON, JSON, JSON)
def test_anything_else_is_refused(run: object, answered: object, processes: object) -> None:
    for decode, wire in (
        (decode_report, {"run": run, "answered": answered, "processes": processes}),
        (decode_answer, {"ask": answered, "verdict": processes}),
    ):
        try:
            decoded = decode(wire)
        except (ValueError, TypeError, KeyError):
            continue
        assert isinstance(decoded, (AgentReport, Answer))
