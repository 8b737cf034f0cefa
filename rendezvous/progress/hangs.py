"""Hangs: the agents of a gang share the progress of their processes, and end a process that hangs.

It has a thread of its own, in each agent of ``run`` that looks for hangs or whose gang reports its
progress to the status. Each turn:

1. Read the progress of the own processes.
2. Report it to the agent of rank 0, which answers at once.
3. If the answer asks for stacks, print the stacks of the own processes, and report again.
4. If the answer has a verdict, print it. If the verdict names this Pod, end the processes: with
   restart in place, they are killed and reported with 202; otherwise ``run`` ends with 202.

The agent of rank 0 also answers all reports, in the thread of its hub (``core.hangs``). When the
command has succeeded, each agent reports its last steps, and the agent of rank 0 reports the last
step of the gang.

Invariant: an agent acts at most once for each verdict, and only if the verdict names its own Pod.

Example: with restart in place, worker/3 hangs in step 41, and the others wait for it. After the
limit, rank 0 answers each report with a request for stacks, and then with the verdict that worker/3
is behind. All agents print it. The agent of worker/3 kills its processes and reports 202, and the
next epoch starts.

Rules: docs/design/recovery.md, "Hangs".
"""

import contextlib
import os
import threading
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from framework.agent.clock import AgentClock
from framework.agent.report import LineReporter, join_names
from framework.api.trainingprogress import TrainingProgress
from rendezvous.core.hangs.gangprogress import GangMeter
from rendezvous.core.hangs.progress import StandstillLimits
from rendezvous.core.hangs.reports import (
    MAX_NAMED,
    AgentReport,
    Answer,
    ProcessReport,
    Verdict,
    decode_answer,
    decode_report,
    encode_answer,
    encode_report,
)
from rendezvous.core.hangs.watch import GangWatch
from rendezvous.progress.progresslink import NoMemberError, ProgressLink
from rendezvous.progress.progresspages import ProgressPages
from rendezvous.site.peers import GangKeyError, roster
from rendezvous.site.peers.barriers.hub import answer_reports

_REPORTS_PER_LIMIT = 12
_LEAST_SECONDS, _MOST_SECONDS = 0.1, 5.0
# Rank 0 is unreachable for a moment when its agent starts or another Pod becomes rank 0.
_UNREACHABLE_SECONDS = 60.0
_COMPARE_SECONDS = 10.0
_LOOK_SECONDS = 0.5
PORT_TAKEN = (
    "progress: no hang is found, because another program of this Pod, which is rank 0, uses the "
    "port of FB_BARRIER_PORT"
)
_MEASURE_SECONDS = 5.0
_ASK_BYTES = 6
_GRACE_REPORTS = 2
# How long the last report, and the wait for the last reports of others, may delay the end of a Pod.
_FINISH_SECONDS, _LEVEL_SECONDS, _LEVEL_LOOK_SECONDS = 2.0, 1.0, 0.1
# Warnings about ranks that are not compared: of one, of several.
_WITHOUT_STEPS = (
    "{} reports no step, though others do: their hangs are not named",
    "{} report no step, though others do: their hangs are not named",
)
_WITHOUT_PROCESSES = (
    "no hang is found, because {} has no process with steps now",
    "no hang is found, because {} have no process with steps now",
)
_OUTDATED = (
    "no report from {}, though others go on: its step does not count",
    "no report from {}, though others go on: their steps do not count",
)


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
        self._watch = GangWatch(limits, int.from_bytes(os.urandom(_ASK_BYTES), "big"))
        self._generation: Optional[int] = None
        # For the watch: in rank 0, the thread of the hub uses it, too.
        self._watching = threading.Lock()
        self._stragglers: Tuple[str, ...] = ()
        self._compared_at = clock.monotonic()
        self._meter = GangMeter()
        self._measured: Optional[TrainingProgress] = None
        self._measured_at = clock.monotonic()
        self._is_finishing = False
        self._exchanging = threading.Lock()
        self._answered = 0
        self._judged: Optional[Tuple[int, Tuple[int, int]]] = None
        self._reached_at = clock.monotonic()
        self._verdict = ""
        self._said: Optional[Tuple[int, Tuple[int, int]]] = None
        self._saying = threading.Lock()
        answer_reports(self._answer)

    @property
    def verdict(self) -> str:
        """The last verdict as a message; "" if no hang was found."""
        return self._verdict

    def start(self) -> None:
        """Watch in a thread, which ends with the program."""
        threading.Thread(target=self._run, name="progress", daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                self.turn()
            except Exception as e:  # noqa: BLE001  (a bug here must not fail the Pod)
                self._reporter.say_once(f"progress: {type(e).__name__}: {e}", "error")
            self._rest()

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
        with self._exchanging:
            processes = self._pages.observe_last()
        steps = [process.step for process in processes if process.step is not None]
        self._report(processes)
        if roster().rank != 0 or not steps:
            return
        # The other ranks end at the same time; their last reports may arrive in a moment.
        deadline = self._clock.monotonic() + _LEVEL_SECONDS
        while self._clock.monotonic() < deadline:
            if self._measured is not None and self._measured.step >= max(steps):
                break
            self._clock.sleep(_LEVEL_LOOK_SECONDS)
            self._report(processes)
        if self._measured is not None:
            self._member.show_last(self._measured)

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
            with self._watching:
                self._look(now)
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
        self._say(verdict)
        own = (*self._member.task, self._member.fingerprint)
        if own in verdict.acting and verdict.run == self._member.get_run():
            if not self._is_still_true(verdict):
                return  # if only the answer was lost, the next answer has the verdict again
            self._reporter.say("the processes of this Pod are killed, because the gang hangs")
            self._member.end(verdict.run)
        self._judged = verdict.number, verdict.run

    def _say(self, verdict: Verdict) -> None:
        """Log a verdict once: in rank 0, two threads call this."""
        with self._saying:
            if self._said == (verdict.number, verdict.run):
                return
            self._said = verdict.number, verdict.run
            self._verdict = render_verdict(verdict)
            self._reporter.say(self._verdict, "error")

    def _is_still_true(self, verdict: Verdict) -> bool:
        """Return whether the verdict still holds; in rank 0, after the others had time to get it.

        The hub ends with this agent. Without the wait, the other agents could not log the verdict.
        """
        if roster().rank != 0:
            return True
        self._clock.sleep(_GRACE_REPORTS * self._seconds)
        now = self._report().verdict
        return now is not None and now.number == verdict.number

    def _answer(self, member: Tuple[str, int, str], wire: Any) -> Dict[str, Any]:
        """Answer the report of a member; called by the thread of the hub, in rank 0."""
        report = decode_report(wire)
        now = self._clock.monotonic()
        with self._watching:
            self._look(now)
            answer = self._watch.take(member[:2], report, now, member[2])
        if answer.verdict is not None:
            # Log it now: the gang may start again before the own next report.
            self._say(answer.verdict)
        if now - self._compared_at >= _COMPARE_SECONDS:
            self._compared_at = now
            with self._watching:
                self._report_stragglers()
                self._report_incomparable(now)
        pause = _LEVEL_LOOK_SECONDS if self._is_finishing else _MEASURE_SECONDS
        if now - self._measured_at >= pause:
            self._measure(now)
        return encode_answer(answer)

    def _measure(self, now: float) -> None:
        self._measured_at = now
        generation = self._generation or 0
        with self._watching:
            stragglers, ranks = self._watch.list_stragglers(), self._watch.list_ranks()
            outdated, run = self._watch.list_outdated(now), self._watch.run
        measured = self._meter.follow(generation, run, ranks, stragglers, now, outdated)
        if measured is not None:
            self._measured = measured
            self._member.show(measured)

    def _look(self, now: float) -> None:
        """Update the members, also while another Pod is rank 0: this Pod may become rank 0."""
        gang = roster()
        if gang.generation == self._generation:
            return
        self._generation = gang.generation
        pods = {(peer.role, peer.index): peer.fingerprint for peer in gang.ranked}
        self._watch.expect(pods, now, is_gang_complete=gang.is_complete)
        if gang.rank != 0:
            self._watch.forget()

    def _report_stragglers(self) -> None:
        stragglers = self._watch.list_stragglers()
        new = [name for name in stragglers if name not in self._stragglers]
        self._stragglers = stragglers
        for name in new:
            self._reporter.say_once(f"progress: {name} is slower than the others", "warning")

    def _report_incomparable(self, now: float) -> None:
        watch = self._watch
        for names, texts in (
            (watch.list_without_steps(now), _WITHOUT_STEPS),
            (watch.list_without_processes(now), _WITHOUT_PROCESSES),
            (watch.list_outdated(now), _OUTDATED),
        ):
            if names:
                listed = join_names(names[:MAX_NAMED], len(names))
                text = texts[len(names) > 1].format(listed)
                self._reporter.say_once(f"progress: {text}", "warning")


def render_verdict(verdict: Verdict) -> str:
    """Render which ranks are behind, and which wait for them; at most 10 of each by name."""
    behind = join_names(verdict.behind, verdict.behind_count)
    where = "before the first step" if verdict.step < 0 else f"after step {verdict.step}"
    verb = "is behind" if verdict.behind_count == 1 else "are behind"
    if verdict.waiting_count:
        names = join_names(verdict.waiting, verdict.waiting_count)
        them = "it" if verdict.behind_count == 1 else "them"
        waits = "waits" if verdict.waiting_count == 1 else "wait"
        verb += f"; {verdict.waiting_count} {waits} for {them}: {names}"
    elif verdict.behind_count > 1:
        verb = "do not differ"
    return f"the gang stands still for {verdict.seconds:.0f} s, {where}: {behind} {verb}"
