"""The part of the agent of rank 0 in the search for hangs: it answers the reports of all agents.

The thread of the hub of ``peers.barrier`` calls ``answer`` with each report. It asks ``core.hangs``
for the answer, and logs a verdict. From time to time it also logs the slow ranks and the ranks that
cannot be compared, and measures the progress of the gang.

Each agent has this part and tells it the members, because its Pod may become rank 0.

Rules: docs/design/recovery.md, "Hangs".
"""

import os
import threading
from typing import Any, Callable, Dict, Optional, Tuple

from framework.agent.clock import AgentClock
from framework.agent.report import LineReporter, join_names
from framework.api.trainingprogress import TrainingProgress
from rendezvous.core.hangs.gangprogress import GangMeter
from rendezvous.core.hangs.progress import StandstillLimits
from rendezvous.core.hangs.reports import MAX_NAMED, Verdict, decode_report, encode_answer
from rendezvous.core.hangs.watch import GangWatch
from rendezvous.site.peers import roster

_COMPARE_SECONDS = 10.0
_MEASURE_SECONDS, _LAST_MEASURE_SECONDS = 5.0, 0.1
_ASK_BYTES = 6
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


class VerdictLog:
    """Logs each verdict once: in rank 0, two threads find the same one."""

    def __init__(self, reporter: LineReporter) -> None:
        """Start without a verdict."""
        self._reporter = reporter
        self._lock = threading.Lock()
        self._key: Optional[Tuple[int, Tuple[int, int]]] = None
        self.last = ""

    def say(self, verdict: Verdict) -> None:
        """Log a verdict, unless it is the last one that was logged."""
        with self._lock:
            if self._key == (verdict.number, verdict.run):
                return
            self._key = verdict.number, verdict.run
            self.last = render_verdict(verdict)
            self._reporter.say(self.last, "error")


class HangServer:
    """Answers reports, and compares and measures the ranks.

    ``measured`` is the newest progress of the gang; None before its first step.
    """

    def __init__(
        self,
        limits: StandstillLimits,
        verdicts: VerdictLog,
        show: Callable[[TrainingProgress], None],
        reporter: LineReporter,
        clock: AgentClock,
    ) -> None:
        """Call ``show`` with the progress of the gang."""
        self._verdicts = verdicts
        self._show = show
        self._reporter = reporter
        self._clock = clock
        self._watch = GangWatch(limits, int.from_bytes(os.urandom(_ASK_BYTES), "big"))
        # For the watch: the thread of the hub and that of the agent use it.
        self._watching = threading.Lock()
        self._generation: Optional[int] = None
        self._stragglers: Tuple[str, ...] = ()
        self._compared_at = clock.monotonic()
        self._meter = GangMeter()
        self.measured: Optional[TrainingProgress] = None
        self._measured_at = clock.monotonic()
        self._measures_often = False

    def measure_often(self) -> None:
        """Measure the progress every 0.1 s from now on, because the training ends."""
        self._measures_often = True

    def observe_members(self, now: float) -> None:
        """Update the members, also while another Pod is rank 0: this Pod may become rank 0.

        Raises:
            OSError, ValueError: The volume cannot be read now.
        """
        with self._watching:
            self._follow_members(now)

    def answer(self, member: Tuple[str, int, str], wire: Any) -> Dict[str, Any]:
        """Answer the report of a member; called by the thread of the hub, in rank 0."""
        report = decode_report(wire)
        now = self._clock.monotonic()
        with self._watching:
            self._follow_members(now)
            answer = self._watch.take(member[:2], report, now, member[2])
        if answer.verdict is not None:
            # Log it now: the gang may start again before the own next report.
            self._verdicts.say(answer.verdict)
        if now - self._compared_at >= _COMPARE_SECONDS:
            self._compared_at = now
            with self._watching:
                self._report_stragglers()
                self._report_incomparable(now)
        pause = _LAST_MEASURE_SECONDS if self._measures_often else _MEASURE_SECONDS
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
            self.measured = measured
            self._show(measured)

    def _follow_members(self, now: float) -> None:
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
