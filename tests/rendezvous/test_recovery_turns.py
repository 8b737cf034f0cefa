"""The recovery of one Pod in virtual time: its deadlines, with a barrier that the test controls.

``test_restart_in_place`` has the rest, with agents as processes.
"""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from framework.agent.exitcodes import ExitCode
from framework.agent.report import LineReporter
from framework.api.roster import Leaving, RosterRecovery, fingerprint_uid
from rendezvous.core.recovery import BarrierKey
from rendezvous.notify import acknowledge
from rendezvous.notify.acknowledge import Acknowledger
from rendezvous.notify.reportsender import ReportSender
from rendezvous.process.sharedmemory import SharedMemory
from rendezvous.recovery import recovery as module
from tests.rendezvous.gangs import build_role, build_roster, get_uid
from tests.rendezvous.recoverypods import (
    ANSWER_SECONDS,
    GIVE_UP_SECONDS,
    GRACE_SECONDS,
    LATE,
    LONGEST_SPREAD_SECONDS,
    RESTART_SECONDS,
    SERVER_SECONDS,
    START_SECONDS,
    Barrier,
    Pod,
)
from tests.support.fakes.agentclock import VirtualClock


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch) -> Pod:
    monkeypatch.setattr(module, "StartBarrier", Barrier)
    return Pod()


def test_members_that_do_not_come_are_reported_after_the_deadline_and_again(pod: Pod) -> None:
    pod.start_epoch(0)
    pod.publish(1)
    pod.barrier.missing = (LATE,)
    pod.turn()
    pod.turn(GRACE_SECONDS + RESTART_SECONDS - 0.1)
    assert pod.start_reports == ["1 0"]
    pod.turn(0.2)
    assert pod.start_reports == ["1 0", f"1 1 {LATE}"]
    pod.turn(GRACE_SECONDS + RESTART_SECONDS - 0.1)
    assert len(pod.start_reports) == 2
    pod.turn(0.2)
    assert pod.start_reports == ["1 0", f"1 1 {LATE}", f"1 1 {LATE}"]


def test_agents_of_a_new_generation_have_longer_to_come(pod: Pod) -> None:
    """On a busy node, an agent takes longer to start than a process to end."""
    pod.publish(0)
    pod.barrier.missing = (LATE,)
    pod.turn()
    pod.turn(GRACE_SECONDS + START_SECONDS - 0.1)
    assert pod.start_reports == []
    pod.turn(0.2)
    assert pod.start_reports == [f"1 0 {LATE}"]


def test_deadline_of_the_start_barrier_begins_when_all_pods_run_and_ends_with_the_release(
    pod: Pod,
) -> None:
    pod.publish(0, running=False)
    pod.barrier.missing = (LATE,)
    pod.turn(1000.0)
    assert pod.start_reports == [], "an image may be pulled for long"
    pod.barrier.missing = ()
    pod.start_epoch(0)
    pod.barrier.missing = (LATE,)
    pod.turn(1000.0)
    assert pod.start_reports == ["1 0"], "it has started"


def test_agents_of_a_gang_that_is_not_full_report_but_do_not_end(pod: Pod) -> None:
    """The roster does not say whether the containers of all members run."""
    pod.publish(0, running=False, wanted=4)
    pod.barrier.missing = (LATE,)
    pod.turn()
    pod.turn(GRACE_SECONDS + START_SECONDS)
    assert pod.start_reports == [f"1 0 {LATE}"]
    pod.turn(GIVE_UP_SECONDS)
    assert pod.code is None


def test_agent_that_waits_names_the_pod_that_serves_in_the_turn_of_its_rank(pod: Pod) -> None:
    pod.publish(0)
    pod.barrier.missing, pod.barrier.server = (), (7, LATE)
    pod.turn()
    pod.turn(SERVER_SECONDS + 6.9)
    assert pod.start_reports == []
    pod.turn(0.2)
    assert pod.start_reports == [f"1 0 {LATE}"]
    pod.turn(SERVER_SECONDS - 30.0)
    assert len(pod.start_reports) == 1, "the controller has the report"


@pytest.mark.usefixtures("pod")
def test_agents_of_ten_ranks_name_the_pod_that_serves() -> None:
    reported = []
    for rank in range(1, 20):
        pod = Pod()
        pod.publish(0)
        pod.barrier.server = (rank, LATE)
        pod.turn()
        pod.turn(GIVE_UP_SECONDS - 1.0)
        reported += [rank] * bool(pod.start_reports)
    assert reported == list(range(1, 11))


def test_agent_that_nobody_answers_ends_where_all_pods_run(pod: Pod) -> None:
    pod.publish(0)
    pod.turn()
    pod.turn(GIVE_UP_SECONDS - 0.1)
    codes = [pod.code]
    pod.turn(0.2)
    assert [*codes, pod.code] == [None, ExitCode.TRANSIENT_CONFLICT]
    assert pod.started == []


def test_agent_whose_own_process_is_not_gone_names_and_ends_nothing(pod: Pod) -> None:
    """It has not come to the start barrier itself: others name it."""
    pod.start_epoch(0)
    pod.recovery.follow_end(9)
    pod.barrier.server = (1, LATE)
    pod.publish(1)
    pod.turn()
    pod.turn(GIVE_UP_SECONDS + 1.0)
    assert (pod.start_reports, pod.code) == (["1 0"], None)


def test_next_epoch_has_a_deadline_of_its_own(pod: Pod) -> None:
    pod.start_epoch(0)
    pod.publish(1)
    pod.barrier.missing = (LATE,)
    pod.turn()
    pod.turn(GRACE_SECONDS + RESTART_SECONDS - 0.1)
    pod.publish(2)
    pod.turn(0.2)
    assert pod.start_reports == ["1 0"]
    assert pod.barrier.target == BarrierKey(1, 2)
    pod.turn(GRACE_SECONDS + RESTART_SECONDS)
    assert pod.start_reports == ["1 0", f"1 2 {LATE}"]


def test_killed_process_is_reported_and_the_others_end_without_a_wait(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No timer is on the way, and no line of the log, whose reader may be slow, comes before."""
    events: list[str] = []
    monkeypatch.setattr(pod.recovery._reporter, "say", lambda text, **_: events.append(text))
    monkeypatch.setattr(pod, "report_end", events.append)
    pod.start_epoch(0)
    events.clear()
    began = pod.clock.now
    pod.recovery.follow_end(137)
    pod.recovery.turn()
    assert events == ["0 137", "waiting for a restart in place: epoch 0 has failed"]
    other = Pod()
    other.start_epoch(0)
    monkeypatch.setattr(other, "end", lambda: events.append("end"))
    other.publish(1)
    other.recovery.turn()
    assert events[2:] == ["end"]
    assert (pod.clock.now, other.clock.now) == (began, began)


def test_report_without_an_answer_ends_the_pod_with_the_code_of_its_process(pod: Pod) -> None:
    pod.start_epoch(0)
    pod.end_process(9)
    pod.turn()
    pod.turn(ANSWER_SECONDS - 0.1)
    assert (pod.ended_reports, pod.code) == (["0 9"], None)
    pod.turn(0.2)
    assert (pod.code, pod.started) == (9, ["0"])


def test_process_that_is_not_killed_is_reported_later_if_it_still_must_be(pod: Pod) -> None:
    """The processes of its peers have failed, too, because the first one was killed."""
    pod.start_epoch(0)
    pod.end_process(1)
    pod.turn()
    assert pod.ended_reports == []
    pod.turn(LONGEST_SPREAD_SECONDS)
    assert pod.ended_reports == ["0 1"]
    pod.start_epoch(1)
    pod.end_process(1)
    pod.turn()
    pod.publish(2)
    pod.turn()
    pod.turn(LONGEST_SPREAD_SECONDS)
    assert pod.ended_reports == ["0 1"], "epoch 2 has answered it"
    pod.start_epoch(2)
    pod.end_process(137)
    pod.turn()
    assert pod.ended_reports == ["0 1", "2 137"]


@pytest.mark.usefixtures("pod")
def test_few_of_a_thousand_peers_write_a_report_before_the_next_epoch() -> None:
    """All of their processes fail with the first one; 0.2 s later, the controller has answered.

    Every fiftieth of them is looked at.
    """
    pods = [Pod(jitter=part / 20) for part in range(20)]
    for pod in pods:
        pod.start_epoch(0, members=1000)
        pod.end_process(1)
        pod.turn()
        for _ in range(10):
            pod.turn(0.02)
        pod.publish(1, members=1000)
        pod.turn()
        pod.turn(LONGEST_SPREAD_SECONDS)
    assert 1 <= sum(len(pod.ended_reports) for pod in pods) <= 3, "at most 150 of 1,000"
    assert all(pod.barrier.target == BarrierKey(1, 1) for pod in pods)


def test_shared_memory_is_not_cleaned_before_the_first_process(pod: Pod, tmp_path: Path) -> None:
    pod.recovery._shared_memory = SharedMemory(str(tmp_path))
    (tmp_path / "of-a-sidecar").touch()
    pod.start_epoch(0)
    (tmp_path / "of-the-process").touch()
    pod.end_process(137)
    pod.start_epoch(1)
    assert [path.name for path in tmp_path.iterdir()] == ["of-a-sidecar"]


@pytest.mark.parametrize(
    ("repeats_refused", "expected"), [(False, 1), (True, 5)], ids=["drain", "restart in place"]
)
def test_report_that_is_refused_is_repeated_with_longer_pauses(
    monkeypatch: pytest.MonkeyPatch,
    *,
    repeats_refused: bool,
    expected: int,
) -> None:
    head = SimpleNamespace(status=403, retry_after_seconds=None)
    answer = SimpleNamespace(head=head, describe=lambda: "403 Forbidden")
    sent: list[object] = []

    class Refusing:
        def __init__(self, *_: object) -> None:
            """Connect to nothing."""

        def fetch(self, *request: object) -> object:
            sent.append(request)
            return answer

    monkeypatch.setattr(acknowledge, "Connection", Refusing)
    clock, reporter = VirtualClock(), LineReporter("test", is_json=False)
    target: Any = SimpleNamespace(pod="p", namespace="d", identity=SimpleNamespace(pod_uid="u"))
    access: Any = None
    reports = Acknowledger(access, clock, target, reporter, repeats_refused=repeats_refused)
    reports.report_end("4 137")
    for _ in range(90):
        clock.now += 1.0
        reports.flush()
    assert len(sent) == expected
    head.status = 200
    clock.now += 100.0
    reports.flush()
    known = len(sent)
    clock.now += 100.0
    reports.flush()
    assert len(sent) == known, "it is answered"


def test_refused_report_ends_the_pod_at_once(pod: Pod) -> None:
    pod.start_epoch(0)
    pod.end_process(9)
    pod.turn()
    pod.publish(1, refused=(fingerprint_uid(get_uid("worker", 0)),))
    pod.turn()
    assert (pod.code, pod.started) == (9, ["0"])


def test_fault_of_the_recovery_ends_the_program(
    pod: Pod, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: BarrierKey) -> None:
        raise RuntimeError("no threads are left")

    monkeypatch.setattr(pod.barrier, "gather", fail)
    pod.publish(0)
    pod.recovery.run()
    assert pod.code == ExitCode.UNKNOWN
    assert "no threads are left" in "".join(capsys.readouterr())


def test_failed_pod_ends_the_process_if_its_role_restarts_in_place(pod: Pod) -> None:
    pod.start_epoch(0)
    pod.publish_incomplete(2, "ps", 2)
    pod.turn()
    assert pod.ends == 0, "worker 2 was deleted, and did not fail"
    pod.publish_incomplete(3, "worker", 2)
    pod.turn()
    assert pod.ends == 1
    assert pod.barrier.target == BarrierKey(1, 0), "no other agent comes to it again"


def publish_waiting(pod: Pod, since: int, *leaving: Leaving, complete: bool = False) -> None:
    """Publish members whose gang waits for others, or is not shown yet."""
    recovery = RosterRecovery(0, since, ("worker",))
    roster = build_roster(build_role("worker", 2), generation=since)
    roster = roster._replace(complete=complete, leaving=leaving, recovery=recovery)
    pod.recovery.observe(roster, is_ready=False)
    pod.turn()


LEAVES = Leaving("worker", 2, LATE, 2, "2026-01-01T00:00:00Z")


def test_report_is_held_back_while_a_peer_leaves_and_the_log_says_so(
    pod: Pod, capsys: pytest.CaptureFixture[str]
) -> None:
    pod.start_epoch(0)
    publish_waiting(pod, 2, LEAVES)
    pod.end_process(1)
    pod.turn(LONGEST_SPREAD_SECONDS)
    assert pod.ended_reports == []
    assert "is started again when the gang is complete" in "".join(capsys.readouterr())
    publish_waiting(pod, 3, complete=True)
    pod.turn(LONGEST_SPREAD_SECONDS)
    assert pod.ended_reports == [], "it is shown in a moment"
    publish_waiting(pod, 4)
    pod.turn(LONGEST_SPREAD_SECONDS)
    assert pod.ended_reports == ["0 1"]


@pytest.mark.parametrize(
    ("leaving", "complete"),
    [((), False), ((LEAVES._replace(role="ps"),), False), ((LEAVES,), True)],
)
def test_failed_process_is_reported_if_no_peer_leaves_for_which_the_gang_waits(
    pod: Pod,
    leaving: tuple[Leaving, ...],
    complete: bool,  # noqa: FBT001  a parameter
) -> None:
    pod.start_epoch(0)
    publish_waiting(pod, 2, *leaving, complete=complete)
    pod.end_process(137)
    pod.turn(LONGEST_SPREAD_SECONDS)
    assert pod.ended_reports == ["0 137"]


def test_pod_that_is_no_member_keeps_its_process_until_it_ends(pod: Pod) -> None:
    pod.start_epoch(0)
    pod.publish_incomplete(2, "worker", 0)
    pod.turn()
    assert pod.ends == 0
    pod.end_process(9)
    pod.turn()
    assert (pod.ended_reports, pod.code) == ([], 9)


def test_report_of_the_start_comes_before_the_process_and_is_sent_before_the_end(
    pod: Pod,
) -> None:
    """The success of a process must not be seen before the start of its epoch."""
    order: list[str] = []
    pod.start = lambda env: order.append("process " + env["FB_EPOCH"])  # type: ignore[method-assign]  # of this Pod
    pod.report_start = lambda report: order.append("report " + report)  # type: ignore[method-assign]  # of this Pod
    pod.publish(0)
    pod.turn()
    pod.barrier.release(BarrierKey(1, 0), is_serving=True)
    pod.turn()
    assert order == ["report 1 0", "process 0"]
    pod.end_process(0)
    pod.turn()
    pod.turn()
    assert (pod.code, pod.finishes) == (0, 1)


def test_slow_report_of_a_start_does_not_delay_the_end_of_the_process(pod: Pod) -> None:
    answers, sending = threading.Event(), threading.Event()

    def report(_: str) -> None:
        sending.set()
        answers.wait()

    slow: Any = SimpleNamespace(
        report_start=report, flush=lambda: None, is_refused=False, is_pending=False
    )
    sender = ReportSender(slow, LineReporter("test", is_json=False))
    sender.start()
    pod.recovery._reports = sender
    pod.publish(0)
    pod.turn()
    pod.barrier.release(BarrierKey(1, 0), is_serving=True)
    pod.turn()
    sending.wait()
    pod.publish(1)
    pod.turn()
    assert pod.ends == 1
    answers.set()
