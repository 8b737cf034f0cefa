"""Reports of restarts in place are sent in a thread: docs/design/recovery.md, "Steps"."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from framework.agent.report import LineReporter
from rendezvous.notify import reportsender
from rendezvous.notify.reportsender import ReportSender
from tests.support.waiting import wait_until


class Acknowledger:
    """Sends reports to an API server that answers when the test says so."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.sending = threading.Event()
        self.sent: list[str] = []
        self.is_refused = False
        self.is_pending = False

    def report_end(self, report: str) -> None:
        self.sending.set()
        self.answers.wait()
        self.sent.append(f"end {report}")

    def report_start(self, report: str) -> None:
        self.sending.set()
        self.answers.wait()
        self.sent.append(f"start {report}")

    def flush(self) -> None:
        """Nothing is pending."""


@pytest.fixture
def reports() -> Iterator[Acknowledger]:
    reports = Acknowledger()
    yield reports
    reports.answers.set()


def start_sender(reports: Any) -> ReportSender:
    sender = ReportSender(reports, LineReporter("test", is_json=False))
    sender.start()
    return sender


def test_slow_api_server_delays_no_caller_and_gets_only_the_newest_report(
    reports: Acknowledger,
) -> None:
    sender = start_sender(reports)
    sender.report_start("1 4")
    reports.sending.wait()
    for epoch in (5, 6):
        sender.report_start(f"1 {epoch}")
    sender.report_end("6 137")
    assert reports.sent == []
    reports.answers.set()
    wait_until(lambda: reports.sent == ["start 1 4", "start 1 6", "end 6 137"])


def test_finish_waits_until_the_report_is_sent(reports: Acknowledger) -> None:
    sender = start_sender(reports)
    sender.report_start("1 4")
    finishing = threading.Thread(target=sender.finish)
    finishing.start()
    reports.answers.set()
    finishing.join()
    assert reports.sent == ["start 1 4"]


@pytest.mark.parametrize("is_refused", [True, False])
def test_finish_ends_although_the_report_is_not_sent(
    reports: Acknowledger, monkeypatch: pytest.MonkeyPatch, *, is_refused: bool
) -> None:
    if not is_refused:
        monkeypatch.setattr(reportsender, "_FINISH_SECONDS", 0.1)
    reports.is_refused = is_refused
    sender = start_sender(reports)
    sender.report_start("1 4")
    sender.finish()
    assert reports.sent == []


def test_report_that_failed_is_sent_again_before_the_end(reports: Acknowledger) -> None:
    reports.answers.set()
    reports.is_pending = True
    sender = ReportSender(reports, LineReporter("test", is_json=False))  # type: ignore[arg-type]  # a fake
    sender.report_start("1 4")
    sender.turn()
    assert not sender._is_finished()
    reports.is_pending = False
    sender.turn()
    assert sender._is_finished()


def test_end_waits_for_a_report_that_follows_a_refused_one(reports: Acknowledger) -> None:
    sender = start_sender(reports)
    reports.is_refused = reports.is_pending = True
    sender.report_start("1 4")
    reports.sending.wait()
    ends = threading.Thread(target=sender.finish)
    ends.start()
    assert reports.sent == []
    reports.answers.set()
    ends.join()
    assert reports.sent == ["start 1 4"]
