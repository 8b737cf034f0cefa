"""The thread of an agent that reports progress, answers in rank 0, and follows verdicts."""

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest

from framework.agent.report import LineReporter
from framework.api.trainingprogress import TrainingProgress
from rendezvous.core.hangs.reports import (
    AgentReport,
    Answer,
    ProcessReport,
    Verdict,
    encode_answer,
    encode_report,
)
from rendezvous.progress import hangs, hangserver
from rendezvous.progress.progresslink import NoMemberError
from tests.rendezvous.gangs import BROKEN_MEMBERS, write_members
from tests.rendezvous.watchedgangs import LIMITS, RANKS, REPORT_SECONDS, Gang
from tests.support.fakes.agentclock import VirtualClock


def test_next_rank_0_knows_that_the_members_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gang = Gang()
    gang.step()
    clock = VirtualClock()
    member = hangs.Member(("worker", 1), "", lambda: (1, 0), lambda _: None)
    watcher = build_watcher(member, clock)
    watcher._link = NoLink()  # type: ignore[assignment]  # a fake
    clock.now = gang.now
    show_roster(monkeypatch, build_roster(1, range(RANKS)))
    watcher.turn()
    gang.now += 100.0
    clock.now = gang.now
    show_roster(monkeypatch, build_roster(0, range(1, RANKS), 2))
    watcher.turn()
    gang.watch, gang.silent = watcher._server._watch, {0}
    assert gang.let_pass(LIMITS.first_seconds - REPORT_SECONDS) == []


def test_member_without_processes_is_named_in_the_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    show_roster(monkeypatch, build_roster(0, range(RANKS)))
    member = hangs.Member(("worker", 0), "", lambda: (1, 0), lambda _: None)
    clock = VirtualClock()
    watcher = build_watcher(member, clock)
    for _ in range(700):
        watcher._server.answer(("worker", 3, ""), encode_report(AgentReport((1, 0), 0, ())))
        clock.now += 1.0
    errors = capsys.readouterr().err
    assert errors.count("no hang is found, because worker/3 has no process with steps now") == 1


def test_step_of_the_gang_is_not_that_of_a_silent_rank_which_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent of worker/1 is cut off or frozen; its process may go on."""
    show_roster(monkeypatch, build_roster(0, range(3)))
    shown: list[TrainingProgress] = []
    member = hangs.Member(("worker", 0), "", lambda: (1, 0), lambda _: None, shown.append)
    clock = VirtualClock()
    watcher = build_watcher(member, clock)
    for second in range(60):
        for index in range(3):
            if index == 1 and second > 5:
                continue
            process = ProcessReport(index, second, 100, 0.0, moved_seconds=1.0)
            report = encode_report(AgentReport((1, 0), 0, (process,)))
            watcher._server.answer(("worker", index, ""), report)
        clock.now += 1.0
    assert shown[-1].step >= 54
    assert shown[-1].slowest == "worker/1"
    errors = capsys.readouterr().err
    assert errors.count("no report from worker/1, though others go on") == 1


@pytest.mark.parametrize("content", BROKEN_MEMBERS)
def test_broken_file_of_the_members_does_not_end_the_watch(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_members(tmp_path, content)
    monkeypatch.setenv("BARRIER_WORKING_DIR", str(tmp_path))
    member = hangs.Member(("worker", 0), "own", lambda: (1, 0), lambda _: None)
    clock = VirtualClock()
    watcher = build_watcher(member, clock)
    before = clock.now
    with pytest.raises(OSError, match="no roster of an agent"):
        watcher._link.serve()
    watcher._rest()
    assert clock.now > before


def build_watcher(member: hangs.Member, clock: VirtualClock) -> hangs.HangWatcher:
    reporter = LineReporter("test", is_json=False)
    return hangs.HangWatcher(LIMITS, member, Pages(), reporter, clock)  # type: ignore[arg-type]  # fakes


def show_roster(monkeypatch: pytest.MonkeyPatch, roster: SimpleNamespace) -> None:
    for module in (hangs, hangserver):
        monkeypatch.setattr(module, "roster", lambda: roster)


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
    show_roster(monkeypatch, build_roster(0, range(2)))
    member = hangs.Member(("worker", 0), "own", lambda: (1, 0), acted.append)
    watcher = build_watcher(member, VirtualClock())
    acting = (("worker", 0, pod),)
    verdict = Verdict(5, (1, 0), ("worker/0",), 1, ("worker/1",), 1, 9, 70.0, acting)
    watcher._link = Link(verdict)  # type: ignore[assignment]  # a fake
    for _ in range(5):
        watcher.turn()
    assert acted == ended


class NoLink:
    """Of a Pod that is no member."""

    def exchange(self, _report: object) -> object:
        raise NoMemberError


def test_pod_that_leaves_does_not_warn_of_a_watch_without_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    show_roster(monkeypatch, build_roster(-1, range(1, 3)))
    member = hangs.Member(("worker", 0), "own", lambda: (1, 0), lambda _: None)
    clock = VirtualClock()
    watcher = build_watcher(member, clock)
    watcher._link = NoLink()  # type: ignore[assignment]  # a fake
    for _ in range(100):
        watcher.turn()
        clock.now += 5.0
    assert capsys.readouterr().err == ""
