"""Reports the progress of the gang, from the agent of rank 0 to the controller.

It has a thread of its own, so that a slow API server delays no report of a rank. It sends at most
one request in 15 s, and after a refusal one in 5 minutes, because a right or a policy is missing.
The first request comes after a random time: gangs may start together. ``finish`` adds a request at
the end.

The thread starts with the first progress, so only rank 0 has it.

Rules: docs/design/recovery.md, "Progress in the status".
"""

import threading
from functools import partial
from typing import Optional

from framework.agent.clock import AgentClock
from framework.agent.report import LineReporter
from framework.api.trainingprogress import TrainingProgress, encode_training_progress
from rendezvous.notify.acknowledge import Acknowledger
from rendezvous.process.turns import start_turns

PERIOD_SECONDS = 15.0
_REFUSED_SECONDS = 300.0
_LOOK_SECONDS = 1.0


class ProgressReport:
    """The newest progress, and when it may be sent."""

    def __init__(self, reports: Acknowledger, reporter: LineReporter, clock: AgentClock) -> None:
        """Send through ``reports``, which no other part uses."""
        self._reports = reports
        self._reporter = reporter
        self._clock = clock
        self._shown: Optional[TrainingProgress] = None
        self._sent = ""
        self._is_started = False
        self._sending = threading.Lock()
        self._due_at = clock.monotonic() + clock.uniform(0.0, PERIOD_SECONDS)

    def show(self, progress: TrainingProgress) -> None:
        """Take the progress of the gang. A thread reports it, which ends with the program."""
        self.take(progress)
        if not self._is_started:
            self._is_started = True
            rest = partial(self._clock.sleep, _LOOK_SECONDS)
            start_turns("progress-report", self.turn, self._reporter, rest)

    def take(self, progress: TrainingProgress) -> None:
        """Take the progress of the gang."""
        self._shown = progress

    def turn(self) -> None:
        """Send the progress if it has changed and a request is due."""
        with self._sending:
            if self._shown is not None and self._clock.monotonic() >= self._due_at:
                self._send(self._shown)

    def finish(self, progress: TrainingProgress) -> None:
        """Send the last progress now, unless the last request was refused."""
        with self._sending:
            self._shown = progress
            if not self._reports.is_refused:
                self._send(progress)

    def _send(self, shown: TrainingProgress) -> None:
        text = encode_training_progress(shown)
        if text != self._sent:
            self._sent = text
            self._reports.report_progress(text)
        else:
            self._reports.flush()
        pause = _REFUSED_SECONDS if self._reports.is_refused else PERIOD_SECONDS
        self._due_at = self._clock.monotonic() + pause
