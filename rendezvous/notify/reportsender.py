"""Sends the reports of restarts in place in a thread of its own.

A slow API server answers a request only after seconds. Meanwhile the next epoch may come, and then
the process must end at once.

1. ``report_end`` and ``report_start`` replace the value that is not sent yet, and wake the thread.
2. The thread sends the newest values. It sends them again as long as the API server does not take
   them (``Acknowledger``).
3. ``finish`` waits for that: after the end of the Pod, no report of it is sent.

Example: rank 0 reports ``1 4``, and the API server does not answer. The process of another rank
fails: rank 0 ends its process at once, and reports ``1 5`` later.
"""

import threading
from typing import Callable, Dict

from framework.agent.report import LineReporter
from rendezvous.notify.acknowledge import Acknowledger
from rendezvous.process.turns import start_turns

_LOOK_SECONDS = 1.0
_FINISH_SECONDS = 5.0


class ReportSender:
    """The newest reports of one Pod."""

    def __init__(self, reports: Acknowledger, reporter: LineReporter) -> None:
        """Send through ``reports``, which only the thread uses."""
        self._reports = reports
        self._reporter = reporter
        self._changed = threading.Condition()
        self._unsent: Dict[Callable[[str], None], str] = {}
        self._is_sending = False
        self._is_pending = False

    def start(self) -> None:
        """Send in a thread, which ends with the program."""
        start_turns("reports", lambda: self.turn(_LOOK_SECONDS), self._reporter)

    def report_end(self, report: str) -> None:
        """Report the end of a process, encoded."""
        self._put(self._reports.report_end, report)

    def report_start(self, report: str) -> None:
        """Report the start of an epoch, or the members that are missing, encoded."""
        self._put(self._reports.report_start, report)

    def finish(self) -> None:
        """Wait until all reports are sent, 5 s at most, unless the API server refuses them."""
        with self._changed:
            self._changed.wait_for(self._is_finished, _FINISH_SECONDS)

    def _is_finished(self) -> bool:
        # A refusal is of an earlier report: a report that is not sent yet may be accepted.
        is_answered = not (self._unsent or self._is_sending)
        return is_answered and (self._reports.is_refused or not self._is_pending)

    def _put(self, send: Callable[[str], None], report: str) -> None:
        with self._changed:
            self._unsent[send] = report
            self._changed.notify_all()

    def turn(self, wait_seconds: float = 0.0) -> None:
        """Wait at most ``wait_seconds`` for a report, and send all that are due."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._unsent), wait_seconds)
            reports, self._unsent = self._unsent, {}
            self._is_sending = bool(reports)
            self._is_pending = self._is_sending or self._reports.is_pending
        for send, report in reports.items():
            send(report)
        self._reports.flush()
        with self._changed:
            self._is_sending, self._is_pending = False, self._reports.is_pending
            self._changed.notify_all()
