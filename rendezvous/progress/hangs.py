"""Hangs: the agents of a gang share the progress of their processes, and end a process that hangs.

It has a thread of its own, in each agent of ``run`` that looks for hangs or whose gang reports its
progress to the status. Each turn:

1. Read the progress of the own processes.
2. Report it to the agent of rank 0, which answers at once.
3. If the answer asks for stacks, print the stacks of the own processes, and report again.
4. If the answer has a verdict, print it. If the verdict names this Pod, end the processes: with
   restart in place, they are killed and reported with 202; otherwise ``run`` ends with 202.

The agent of rank 0 also answers all reports (``hangserver``). When the command has succeeded, each
agent reports its last steps, and the agent of rank 0 reports the last step of the gang.

Invariant: an agent acts at most once for each verdict, and only if the verdict names its own Pod.

Example: with restart in place, worker/3 hangs in step 41, and the others wait for it. After the
limit, rank 0 answers each report with a request for stacks, and then with the verdict that worker/3
is behind. All agents print it. The agent of worker/3 kills its processes and reports 202, and the
next epoch starts.

Rules: docs/design/recovery.md, "Hangs".
"""

import contextlib
import threading
from typing import Callable, NamedTuple, Optional, Tuple

from framework.agent.clock import AgentClock
from framework.agent.report import LineReporter
from framework.api.trainingprogress import TrainingProgress
from rendezvous.core.hangs.progress import StandstillLimits
from rendezvous.core.hangs.reports import (
    AgentReport,
    Answer,
    ProcessReport,
    Verdict,
    decode_answer,
    encode_report,
)
from rendezvous.process.turns import start_turns
from rendezvous.progress.hangserver import HangServer, VerdictLog
from rendezvous.progress.progresslink import NoMemberError, ProgressLink
from rendezvous.progress.progresspages import ProgressPages
from rendezvous.site.peers import GangKeyError, roster
from rendezvous.site.peers.barriers.hub import answer_reports

_REPORTS_PER_LIMIT = 12
_LEAST_SECONDS, _MOST_SECONDS = 0.1, 5.0
# Rank 0 is unreachable for a moment when its agent starts or another Pod becomes rank 0.
_UNREACHABLE_SECONDS = 60.0
_LOOK_SECONDS = 0.5
PORT_TAKEN = (
    "progress: no hang is found, because another program of this Pod, which is rank 0, uses the "
    "port of FB_BARRIER_PORT"
)
_GRACE_REPORTS = 2
# How long the last report, and the wait for the last reports of others, may delay the end of a Pod.
# Meanwhile rank 0 looks as often as it measures (``_LAST_MEASURE_SECONDS`` in ``hangserver``).
_FINISH_SECONDS, _LEVEL_SECONDS, _LEVEL_LOOK_SECONDS = 2.0, 1.0, 0.1


class Member(NamedTuple):
    """The Pod of an agent, and the calls that read, end and report its processes."""

    task: Tuple[str, int]
    """Its role and index."""
    fingerprint: str
    """Fingerprint of the Pod."""
    get_run: Callable[[], Tuple[int, int]]
    """Returns the run of its processes; a greater one is newer."""
    end: Callable[[Tuple[int, int]], None]
    """Ends the processes of this run, because they hang."""
    show: Callable[[TrainingProgress], None] = lambda _: None
    """In rank 0: takes the progress of the gang. The thread of the hub calls it."""
    show_last: Callable[[TrainingProgress], None] = lambda _: None
    """In rank 0: takes the progress of the gang at its end."""


class HangWatcher:
    """The part of one agent in the search for hangs."""

    def __init__(
        self,
        limits: StandstillLimits,
        member: Member,
        pages: ProgressPages,
        reporter: LineReporter,
        clock: AgentClock,
    ) -> None:
        """Watch the processes of ``pages``; answer the other agents if this one is rank 0."""
        self._member = member
        self._pages = pages
        self._reporter = reporter
        self._clock = clock
        self._link = ProgressLink()
        shortest = min(limits) / _REPORTS_PER_LIMIT
        self._seconds = min(_MOST_SECONDS, max(_LEAST_SECONDS, shortest))
        self._verdicts = VerdictLog(reporter)
        self._server = HangServer(limits, self._verdicts, member.show, reporter, clock)
        self._is_finishing = False
        self._exchanging = threading.Lock()
        self._answered = 0
        self._judged: Optional[Tuple[int, Tuple[int, int]]] = None
        self._reached_at = clock.monotonic()
        answer_reports(self._server.answer)

    @property
    def verdict(self) -> str:
        """The last verdict as a message; "" if no hang was found."""
        return self._verdicts.last

    def start(self) -> None:
        """Watch in a thread, which ends with the program."""
        start_turns("progress", self.turn, self._reporter, self._rest)

    def _rest(self) -> None:
        """Wait for the next turn. If this Pod becomes rank 0 meanwhile, serve at once."""
        end = self._clock.monotonic() + self._seconds
        while self._clock.monotonic() < end:
            self._clock.sleep(min(_LOOK_SECONDS, self._seconds))
            # The next turn logs the error. The file may also be invalid for a moment.
            with contextlib.suppress(Exception):
                if not self._link.serve():
                    self._reporter.say_once(PORT_TAKEN, "warning")

    def turn(self) -> None:
        """Report once, and act on the answer."""
        answer = self._report()
        if answer.ask not in {0, self._answered}:
            self._pages.take_stacks()
            self._answered = answer.ask
            answer = self._report()
        if answer.verdict is not None:
            self._follow(answer.verdict)

    def finish(self) -> None:
        """Report the last steps of the command, which has succeeded; in rank 0, those of the gang.

        Takes 2 s at most.
        """
        last = threading.Thread(target=self._finish, name="progress-end", daemon=True)
        last.start()
        last.join(_FINISH_SECONDS)

    def _finish(self) -> None:
        self._is_finishing = True
        self._server.measure_often()
        with self._exchanging:
            processes = self._pages.observe_last()
        steps = [process.step for process in processes if process.step is not None]
        self._report(processes)
        if roster().rank != 0 or not steps:
            return
        # The other ranks end at the same time; their last reports may arrive in a moment.
        deadline = self._clock.monotonic() + _LEVEL_SECONDS
        while self._clock.monotonic() < deadline:
            if self._server.measured is not None and self._server.measured.step >= max(steps):
                break
            self._clock.sleep(_LEVEL_LOOK_SECONDS)
            self._report(processes)
        if self._server.measured is not None:
            self._member.show_last(self._server.measured)

    def _report(self, last: Tuple[ProcessReport, ...] = ()) -> Answer:
        """Report the processes, or ``last``; return the answer."""
        with self._exchanging:
            if self._is_finishing and not last:
                return Answer()
            return self._exchange(last or self._pages.observe())

    def _exchange(self, processes: Tuple[ProcessReport, ...]) -> Answer:
        report = AgentReport(self._member.get_run(), self._answered, processes)
        now = self._clock.monotonic()
        try:
            self._server.observe_members(now)
            answer = decode_answer(self._link.exchange(encode_report(report)))
        except NoMemberError:
            answer = Answer()  # not a member: its progress is not compared
        except (OSError, ValueError, TypeError, KeyError, GangKeyError) as e:
            if now - self._reached_at >= _UNREACHABLE_SECONDS:
                text = f"progress: rank 0 is not reached, so no hang is found: {e}"
                self._reporter.say_once(text, "warning")
            return Answer()
        self._reached_at = now
        return answer

    def _follow(self, verdict: Verdict) -> None:
        if self._judged == (verdict.number, verdict.run):
            return
        self._verdicts.say(verdict)
        own = (*self._member.task, self._member.fingerprint)
        if own in verdict.acting and verdict.run == self._member.get_run():
            if not self._is_still_true(verdict):
                return  # if only the answer was lost, the next answer has the verdict again
            self._reporter.say("the processes of this Pod are killed, because the gang hangs")
            self._member.end(verdict.run)
        self._judged = verdict.number, verdict.run

    def _is_still_true(self, verdict: Verdict) -> bool:
        """Return whether the verdict still holds; in rank 0, after the others had time to get it.

        The hub ends with this agent. Without the wait, the other agents could not log the verdict.
        """
        if roster().rank != 0:
            return True
        self._clock.sleep(_GRACE_REPORTS * self._seconds)
        now = self._report().verdict
        return now is not None and now.number == verdict.number
