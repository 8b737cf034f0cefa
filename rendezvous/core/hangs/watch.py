"""The watch over a gang's progress, in the agent of rank 0: it asks for stacks, then judges.

No I/O, no clock: times are given. Steps:

1. Each agent reports its processes every few seconds, and gets an answer at once.
2. If the gang stands still (``progress``), the next answers ask all agents for stacks.
3. When all have answered, or after 10 s, the verdict names the ranks that are behind. It is in all
   further answers, until the gang moves, its members change, or a process is started anew.
4. The agents of the members that are to act end their processes. These are the members with a rank
   that is behind, without those whose agent is silent; the first other member if no rank differs
   from the others. If all that are behind are silent, the first other member acts with restart in
   place, by which all start anew. Otherwise nobody acts: the end of a healthy Pod does not replace
   a lost one.
5. If the gang still stands still after 60 s, the watch asks again, for another verdict. If a member
   that was to act does not report any more, or nobody was to act, only after the time for the first
   step: the others wait for the next Pod of a member.

The watch waits for a report of each member, for 20 s at most since the members or the run changed:
one that has not reported may be in a declared pause. A member that reports no process has none that
can be judged, so the gang is not judged.

When members come or go, processes that go on may have to wait for a new Pod. So until each of them
has ended a step, there is no verdict for the time of a first step, and none while one is missing.

An agent is silent if it has not reported for 10 s. Its processes count as stopped: its Pod may be
frozen, or its node lost.

Invariants: if a step ends after the stacks were asked for, there is no verdict; no answer to a Pod
has a verdict about its predecessor; without restart in place, no member acts for a silent one.

Example: worker/3 hangs in step 41. After 60 s without a step, answers have ``ask: 1``. The stacks
of seven workers are equal. The verdict is ``worker/3``, which ends its process; the others restart
because it has failed.
"""

from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from rendezvous.core.hangs.progress import (
    RankProgress,
    Standstill,
    StandstillLimits,
    bound_first_seconds,
    compute_active_until,
    find_standstill,
    find_stragglers,
)
from rendezvous.core.hangs.reports import (
    BUSY_WINDOW_SECONDS,
    MAX_NAMED,
    NO_RUN,
    Acting,
    AgentReport,
    Answer,
    ProcessReport,
    Verdict,
)

_STACKS_SECONDS = 10.0
_SILENT_SECONDS = 10.0
# A decision takes some microseconds for each process, in the thread of the hub.
_LEAST_DECIDE_SECONDS = 0.2
_DECIDE_SECONDS_PER_RANK = 1e-4
# Two reports of the slowest agents, and the time for a connection.
_COMPLETE_SECONDS = 20.0
_REPEAT_SECONDS = 60.0
_FACTOR = 1.5

Member = Tuple[str, int]
"""The role and the index of a Task."""


class _Known(NamedTuple):
    """The newest report of a member, and when it came."""

    fingerprint: str
    report: AgentReport
    at: float
    empty_since: Optional[float]
    """Since when it reports no process; None if it reports some."""
    paused: Mapping[int, float]
    """The ranks of its processes that had a declared pause, with the times of the last one."""


class GangWatch:
    """What the agent of rank 0 knows of the progress of all ranks."""

    def __init__(self, limits: StandstillLimits, first_ask: int) -> None:
        """Know of no member.

        ``first_ask`` is a random number. An agent that has answered another watch, of another
        rank 0, must not count as one that has answered this one.
        """
        self._limits = limits
        self._known: Dict[Member, _Known] = {}
        self._members: Mapping[Member, str] = {}
        self._run = NO_RUN
        self._is_gang_complete = True
        self._changed_at: Optional[float] = None
        # When members came or went while processes ran.
        self._regrouped_at = float("-inf")
        self._verdict_at = 0.0
        self._ask = first_ask
        self._asked_at: Optional[float] = None
        self._decided_at = float("-inf")
        self._decide_seconds = _LEAST_DECIDE_SECONDS
        self._verdict: Optional[Verdict] = None
        # Until then the gang moves for sure, by what one member has reported. So while it trains,
        # a report costs nothing for the other members.
        self._moving_until, self._mover = float("-inf"), ("", 0)
        self._shortest = limits._replace(first_seconds=bound_first_seconds(limits))
        self._longest_seconds = max(self._shortest)

    def take(
        self, member: Member, report: AgentReport, now: float, fingerprint: str = ""
    ) -> Answer:
        """Take the report of the Pod of a member; return the answer."""
        if report.run > self._run or self._changed_at is None:
            self._run = report.run
            self._known.clear()
            self._moving_until = float("-inf")
            self._start_anew(now)
        if report.run < self._run:
            return Answer()
        before = self._known.get(member)
        empty_since = (before and before.empty_since) or now
        known = self._known[member] = _Known(
            fingerprint,
            report,
            now,
            None if report.processes else empty_since,
            _note_pauses(before.paused if before is not None else {}, report, now),
        )
        moving_until = self._compute_moving_until(known)
        if before is not None and before.fingerprint != fingerprint:
            self._start_anew(now)
            self._regrouped_at = now
        elif now < moving_until:
            # At once: this answer must not have a verdict about the process before.
            self._asked_at, self._verdict = None, None
        if moving_until >= self._moving_until:
            self._moving_until, self._mover = moving_until, member
        elif self._mover == member:
            self._find_mover()
        is_due = now - self._decided_at >= self._decide_seconds
        if now >= self._moving_until and is_due:
            self._decided_at = now
            self._decide(now)
        return Answer(self._ask if self._asked_at is not None else 0, self._verdict)

    def expect(
        self, members: Mapping[Member, str], now: float, *, is_gang_complete: bool = True
    ) -> None:
        """Take the members with a rank, with the fingerprints of their Pods; forget others.

        ``is_gang_complete`` says whether no member is missing that the others have to wait for.
        """
        self._is_gang_complete = is_gang_complete
        if members == self._members:
            return
        is_first, self._members = not self._members, dict(members)
        for member, known in list(self._known.items()):
            if self._members.get(member) != known.fingerprint:
                del self._known[member]
        self._find_mover()
        self._start_anew(now)
        if not is_first:
            self._regrouped_at = now

    def forget(self) -> None:
        """Forget all reports: those to another rank 0 are newer."""
        self._known.clear()
        self._find_mover()
        self._asked_at, self._verdict = None, None

    def _start_anew(self, now: float) -> None:
        self._asked_at, self._verdict = None, None
        self._changed_at = now

    def _compute_moving_until(self, known: _Known) -> float:
        """Compute until when the gang moves at least, by what this member has reported."""
        if not known.report.processes:
            # It may report no more, because its Pod ends.
            return known.at + self._longest_seconds
        ranks = (_place(0, process, known.at, known.at) for process in known.report.processes)
        return max(compute_active_until(rank, self._shortest) for rank in ranks)

    def _find_mover(self) -> None:
        """Find the member by which the gang moves longest."""
        ends = {member: self._compute_moving_until(k) for member, k in self._known.items()}
        self._mover = max(ends, key=ends.__getitem__, default=("", 0))
        self._moving_until = ends.get(self._mover, float("-inf"))

    def _is_complete(self, now: float) -> bool:
        """Return whether all members have reported, or had the time to."""
        late = self._changed_at is not None and now - self._changed_at >= _COMPLETE_SECONDS
        return late or all(member in self._known for member in self._members)

    @property
    def run(self) -> Tuple[int, int]:
        """The newest run of the processes."""
        return self._run

    def list_ranks(self) -> List[Tuple[str, ProcessReport]]:
        """List the names of the ranks, with their newest reports.

        ``busy_seconds`` is 0 for ranks that have waited for others in a declared pause.
        """
        return [
            (name, report if is_compared else report._replace(busy_seconds=0.0))
            for name, report, is_compared in self._list_compared()
        ]

    def list_stragglers(self) -> Tuple[str, ...]:
        """List the ranks whose own part of a step takes longer than 1.5 times the median's."""
        ranks = self._list_compared()
        busy = {
            i: [report.busy_seconds]
            for i, (_, report, is_compared) in enumerate(ranks)
            if is_compared and report.busy_seconds > 0
        }
        return tuple(ranks[i][0] for i in find_stragglers(busy, _FACTOR))

    def _list_compared(self) -> List[Tuple[str, ProcessReport, bool]]:
        """List names and reports of the ranks, and whether their busy_seconds can be compared.

        While ranks are in a declared pause, the others wait for them, which counts as their own
        part of a step. If most ranks wait, that is usual; else it cannot be compared.
        """
        names, processes = self._list_processes()
        paused = [
            self._known[member].paused.get(report.rank, float("-inf"))
            >= at - max(BUSY_WINDOW_SECONDS, report.moved_seconds or 0.0)
            for (member, _), (report, at) in zip(names, processes)
        ]
        is_usual = 2 * sum(paused) < len(paused)
        return [
            (name, report, is_usual or has_paused)
            for (_, name), (report, _), has_paused in zip(names, processes, paused)
        ]

    def list_without_steps(self, now: float) -> Tuple[str, ...]:
        """List the ranks that report no step, though others do, after the time for the first."""
        names, processes = self._list_processes()
        return tuple(
            names[rank.rank][1]
            for rank in _place_all(processes, now)
            if rank.has_no_steps and now >= compute_active_until(rank, self._shortest)
        )

    def list_without_processes(self, now: float) -> Tuple[str, ...]:
        """List the members that have reported no process for as long as the first step may take."""
        return tuple(
            _name(member, -1, 0)
            for member, known in sorted(self._known.items())
            if known.empty_since is not None
            and now - known.empty_since >= self._shortest.first_seconds
        )

    def _decide(self, now: float) -> None:
        if self._verdict is not None and now < self._compute_repeat_at(self._verdict, now):
            return
        names, processes = self._list_processes()
        self._decide_seconds = max(_LEAST_DECIDE_SECONDS, len(processes) * _DECIDE_SECONDS_PER_RANK)
        ranks = _place_all(processes, now)
        found = find_standstill(ranks, self._limits, now)
        if found is None or self._is_regrouping(ranks, now) or not self._is_complete(now):
            self._asked_at, self._verdict = None, None
            return
        if self._verdict is not None:
            self._asked_at, self._verdict = None, None
        if self._asked_at is None:
            self._ask += 1
            self._asked_at = now
            return
        is_answered = all(k.report.answered == self._ask for k in self._known.values())
        if not is_answered and now - self._asked_at < _STACKS_SECONDS:
            return
        behind, waiting = ([names[i] for i in part] for part in (found.behind, found.waiting))
        self._verdict_at = now
        self._verdict = Verdict(
            number=self._ask,
            run=self._run,
            behind=tuple(name for _, name in behind[:MAX_NAMED]),
            behind_count=len(behind),
            waiting=tuple(name for _, name in waiting[:MAX_NAMED]),
            waiting_count=len(waiting),
            step=_find_step([ranks[i] for i in found.behind], ranks),
            seconds=now - found.since,
            acting=self._choose_acting([member for member, _ in behind], found, now),
        )

    def _compute_repeat_at(self, verdict: Verdict, now: float) -> float:
        """Compute when there may be another verdict."""
        acting = [self._known.get((role, index)) for role, index, _ in verdict.acting]
        is_pod_lost = any(known is None or _is_silent(known.at, now) for known in acting)
        seconds = self._longest_seconds if is_pod_lost or not acting else _REPEAT_SECONDS
        return self._verdict_at + seconds

    def _is_regrouping(self, ranks: Sequence[RankProgress], now: float) -> bool:
        """Return whether ranks may still wait for the members to be complete again."""
        is_early = now - self._regrouped_at < self._longest_seconds or not self._is_gang_complete
        return is_early and any(rank.changed_at <= self._regrouped_at for rank in ranks)

    def _choose_acting(
        self, behind: Sequence[Member], found: Standstill, now: float
    ) -> Tuple[Acting, ...]:
        heard = [each for each in sorted(self._known) if not _is_silent(self._known[each].at, now)]
        acting = [member for member in dict.fromkeys(behind) if member in heard]
        is_member_lost = not acting or any(each not in self._known for each in self._members)
        if acting and found.waiting:
            chosen = acting[:MAX_NAMED]
        elif is_member_lost and self._run == NO_RUN:
            chosen = []
        else:
            # One member is enough for a restart of all.
            chosen = heard[:1]
        return tuple((*member, self._known[member].fingerprint) for member in chosen)

    def _list_processes(
        self,
    ) -> Tuple[List[Tuple[Member, str]], List[Tuple[ProcessReport, float]]]:
        """List members with the names of their ranks, and processes with the times they came."""
        names, processes = [], []
        for member in sorted(self._known):
            known = self._known[member]
            count = len(known.report.processes)
            for process in known.report.processes:
                names.append((member, _name(member, process.rank, count)))
                processes.append((process, known.at))
        return names, processes


def _name(member: Member, rank: int, count: int) -> str:
    task = f"{member[0]}/{member[1]}"
    return task if rank < 0 or count == 1 else f"{task} rank {rank}"


def _note_pauses(
    before: Mapping[int, float], report: AgentReport, now: float
) -> Mapping[int, float]:
    """Note when processes had a declared pause last; only for those of the report."""
    return {
        process.rank: now if process.pause_seconds > 0 else before[process.rank]
        for process in report.processes
        if process.pause_seconds > 0 or process.rank in before
    }


def _is_silent(at: float, now: float) -> bool:
    return now - at >= _SILENT_SECONDS


def _find_step(behind: Sequence[RankProgress], ranks: Sequence[RankProgress]) -> int:
    """Find the lowest step of those behind; if they report none, of all. -1: before the first."""
    reporting = [each for each in behind if not each.has_no_steps]
    reporting = reporting or [each for each in ranks if not each.has_no_steps]
    return min((-1 if each.step is None else each.step for each in reporting), default=-1)


def _place_all(processes: Sequence[Tuple[ProcessReport, float]], now: float) -> List[RankProgress]:
    """Place all ranks.

    Nothing is known of a rank without a step if another one has reported two since it was started,
    or if most ranks have none: often only rank 0 prints its steps.
    """
    reporting = sum(process.step is not None for process, _ in processes)
    are_few = 0 < reporting < len(processes) - reporting
    moved = [at - each.moved_seconds for each, at in processes if each.moved_seconds is not None]
    moved_at = max(moved, default=float("-inf"))
    return [
        _place(index, process, at, now)._replace(
            has_no_steps=process.step is None and (are_few or at - process.quiet_seconds < moved_at)
        )
        for index, (process, at) in enumerate(processes)
    ]


def _place(index: int, process: ProcessReport, at: float, now: float) -> RankProgress:
    step, total = process.step, process.total
    return RankProgress(
        rank=index,
        step=step,
        changed_at=at - process.quiet_seconds,
        paused_until=at + process.pause_seconds if process.pause_seconds > 0 else float("-inf"),
        is_stopped=process.is_stopped or _is_silent(at, now),
        stack=process.stack,
        # Steps count from 0 or from 1. A step beyond the total shows that the total is another one.
        is_last=step is not None and total is not None and total > 0 and total - 1 <= step <= total,
    )
