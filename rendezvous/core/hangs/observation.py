"""The newest reports of all members of a gang, in the agent of rank 0. No I/O, no clock.

``ObservedGang`` stores reports and members. ``judgement`` decides whether the gang stands still,
``comparison`` finds slow ranks. Role and index identify a member, a fingerprint its Pod.
"""

import enum
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from rendezvous.core.hangs.progress import RankProgress
from rendezvous.core.hangs.reports import NO_RUN, AgentReport, ProcessReport

_SILENT_SECONDS = 10.0
# Two reports of the slowest agents, and the time for a connection.
_COMPLETE_SECONDS = 20.0

MemberKey = Tuple[str, int]
"""The role and the index of a Task."""


class Change(enum.Enum):
    """The change of the processes that a report shows."""

    NONE = "none"
    NEW_RUN = "new run"
    NEW_POD = "new Pod"


class MemberReport(NamedTuple):
    """The newest report of a member, and its time."""

    fingerprint: str
    """The fingerprint of the Pod."""
    report: AgentReport
    """The report."""
    at: float
    """When it came."""
    empty_since: Optional[float]
    """Since when it reports no process; None if it reports some."""
    paused: Mapping[int, float]
    """The ranks of its processes that had a declared pause, with the times of the last one."""

    def is_silent(self, now: float) -> bool:
        """Return whether the agent has not reported for too long."""
        return now - self.at >= _SILENT_SECONDS


class ObservedProcess(NamedTuple):
    """A process of a member, with the time of its report."""

    member: MemberKey
    """Its member."""
    name: str
    """The name of its rank, for messages."""
    report: ProcessReport
    """Its report."""
    at: float
    """When the report came."""

    def describe_progress(self, number: int, now: float) -> RankProgress:
        """Describe its progress, under this number."""
        step, total, pause = self.report.step, self.report.total, self.report.pause_seconds
        # Steps count from 0 or from 1. After a step beyond the total, the total is not known.
        is_last = (
            step is not None and total is not None and total > 0 and total - 1 <= step <= total
        )
        return RankProgress(
            rank=number,
            step=step,
            changed_at=self.at - self.report.quiet_seconds,
            paused_until=self.at + pause if pause > 0 else float("-inf"),
            is_stopped=self.report.is_stopped or now - self.at >= _SILENT_SECONDS,
            stack=self.report.stack,
            is_last=is_last,
        )


class ObservedGang:
    """The members of a gang and their newest reports."""

    def __init__(self) -> None:
        """Start without members."""
        self.reports: Dict[MemberKey, MemberReport] = {}
        self.members: Mapping[MemberKey, str] = {}
        self.run = NO_RUN
        self._is_gang_complete = True
        # When members or processes changed last; None before the first report.
        self._changed_at: Optional[float] = None
        # When members came or went while processes ran.
        self._regrouped_at = float("-inf")

    def accepts(self, report: AgentReport) -> bool:
        """Return whether a report is of the newest run, or of a newer one."""
        return self._changed_at is None or report.run >= self.run

    def take(self, member: MemberKey, report: AgentReport, now: float, fingerprint: str) -> Change:
        """Take a report that is accepted; return the change that it shows."""
        change = Change.NONE
        if report.run > self.run or self._changed_at is None:
            self.run, self._changed_at = report.run, now
            self.reports.clear()
            change = Change.NEW_RUN
        before = self.reports.get(member)
        if before is not None and before.fingerprint != fingerprint:
            self._changed_at = self._regrouped_at = now
            change = Change.NEW_POD
        empty_since = (before and before.empty_since) or now
        paused = before.paused if before is not None else {}
        self.reports[member] = MemberReport(
            fingerprint,
            report,
            now,
            None if report.processes else empty_since,
            _update_pauses(paused, report, now),
        )
        return change

    def expect(
        self, members: Mapping[MemberKey, str], now: float, *, is_gang_complete: bool
    ) -> bool:
        """Take the members with a rank, and forget others; return whether they changed."""
        self._is_gang_complete = is_gang_complete
        if members == self.members:
            return False
        is_first, self.members = not self.members, dict(members)
        for member, known in list(self.reports.items()):
            if self.members.get(member) != known.fingerprint:
                del self.reports[member]
        self._changed_at = now
        if not is_first:
            self._regrouped_at = now
        return True

    def is_complete(self, now: float) -> bool:
        """Return whether all members have reported, or had the time to."""
        is_late = self._changed_at is not None and now - self._changed_at >= _COMPLETE_SECONDS
        return is_late or all(member in self.reports for member in self.members)

    def is_regrouping(self, ranks: Sequence[RankProgress], longest: float, now: float) -> bool:
        """Return whether ranks may still wait for the members to be complete again."""
        is_early = now - self._regrouped_at < longest or not self._is_gang_complete
        return is_early and any(rank.changed_at <= self._regrouped_at for rank in ranks)

    def list_processes(self) -> List[ObservedProcess]:
        """List the processes of all members, in order of the members."""
        processes = []
        for member, known in sorted(self.reports.items()):
            reports = known.report.processes
            for report in reports:
                name = name_rank(member, report.rank if len(reports) > 1 else -1)
                processes.append(ObservedProcess(member, name, report, known.at))
        return processes


def describe_ranks(processes: Sequence[ObservedProcess], now: float) -> List[RankProgress]:
    """Describe the progress of all ranks; the number of a rank is its position in ``processes``.

    The progress of a rank without a step is not known if another rank has reported two steps since
    the first one was started, or if most ranks have no step: often only rank 0 prints its steps.
    The step of a silent rank is outdated if another rank has reported two steps since the last
    report of the silent one.
    """
    reporting = sum(process.report.step is not None for process in processes)
    are_few = 0 < reporting < len(processes) - reporting
    moved_at = max(
        (p.at - p.report.moved_seconds for p in processes if p.report.moved_seconds is not None),
        default=float("-inf"),
    )
    ranks = [process.describe_progress(i, now) for i, process in enumerate(processes)]
    return [
        rank._replace(
            has_no_steps=rank.step is None and (are_few or rank.changed_at < moved_at),
            is_outdated=now - process.at >= _SILENT_SECONDS and process.at < moved_at,
        )
        for rank, process in zip(ranks, processes)
    ]


def name_rank(member: MemberKey, rank: int) -> str:
    """Name a rank of a member; with -1, the member."""
    task = f"{member[0]}/{member[1]}"
    return task if rank < 0 else f"{task} rank {rank}"


def _update_pauses(
    before: Mapping[int, float], report: AgentReport, now: float
) -> Mapping[int, float]:
    """Compute when the processes of a report had their last declared pause."""
    return {
        process.rank: now if process.pause_seconds > 0 else before[process.rank]
        for process in report.processes
        if process.pause_seconds > 0 or process.rank in before
    }
