"""The watch over a gang's progress, in the agent of rank 0: it asks for stacks, then judges.

No I/O, no clock: times are given. Steps:

1. Each agent reports its processes every few seconds, and gets an answer at once.
2. If the gang stands still (``progress``), the next answers ask all agents for stacks.
3. When all have answered, or after 10 s, the verdict names the ranks that are behind. It is in all
   further answers, until the gang moves, its members change, or a process is started anew.
4. The verdict names the members that act: their agents end their processes. The first of these
   rules that fits decides:

   - Some ranks wait for others: the members with a rank that is behind, except for those whose
     agent is silent. Does not fit if all of them are silent.
   - Without restart in place, if all of these are silent or a member has not reported: no member,
     because the end of a healthy Pod does not replace a lost one.
   - Otherwise: the first member that is not silent. With restart in place, all start anew by this.

5. If the gang still stands still after 60 s, the watch asks again, for another verdict. If a member
   that was to act does not report any more, or no member was to act, only after the time for the
   first step: the others wait for the next Pod of a member.

The watch waits for a report of each member, for 20 s at most since the members or the run changed:
a member that has not reported may be in a declared pause. A member that reports no process cannot
be judged, so the gang is not judged.

When members come or go, processes that go on may have to wait for a new Pod. So until each of them
has ended a step, there is no verdict for the time of a first step, and none while one is missing.

An agent is silent if it has not reported for 10 s. Its processes count as stopped: its Pod may be
frozen, or its node lost. If other ranks have ended two steps since its last report, only its
connection was lost: its step is outdated.

Invariants: if a step ends after the stacks were asked for, there is no verdict; no answer to a Pod
has a verdict about its predecessor; without restart in place, no member acts for a silent one.

Example: worker/3 hangs in step 41. After 60 s without a step, answers have ``ask: 1``. The stacks
of seven workers are equal. The verdict is ``worker/3``, which ends its process; the others restart
because it has failed.

``observation`` has the reports, ``judgement`` the decision, ``comparison`` the slow ranks.

Rules: docs/design/recovery.md, "Hangs".
"""

from typing import List, Mapping, Tuple

from rendezvous.core.hangs import comparison
from rendezvous.core.hangs.judgement import Judgement, State, judge
from rendezvous.core.hangs.observation import (
    Change,
    MemberKey,
    MemberReport,
    ObservedGang,
    ObservedProcess,
)
from rendezvous.core.hangs.progress import (
    StandstillLimits,
    bound_first_seconds,
    compute_active_until,
)
from rendezvous.core.hangs.reports import AgentReport, Answer, ProcessReport

# A judgement takes some microseconds for each process, in the thread of the hub.
_LEAST_JUDGE_SECONDS = 0.2
_JUDGE_SECONDS_PER_RANK = 1e-4


class GangWatch:
    """Watches the progress of all ranks, in the agent of rank 0."""

    def __init__(self, limits: StandstillLimits, first_ask: int) -> None:
        """Start without members.

        ``first_ask`` is a random number. An agent that has answered another watch, of another
        rank 0, must not count as one that has answered this one.
        """
        self._limits = limits
        self._shortest = limits._replace(first_seconds=bound_first_seconds(limits))
        self._gang = ObservedGang()
        self._movement = _Movement(self._shortest)
        self._judgement = Judgement(State.MOVING, first_ask)
        self._judge_at = float("-inf")

    def take(
        self, member: MemberKey, report: AgentReport, now: float, fingerprint: str = ""
    ) -> Answer:
        """Take the report of the Pod of a member; return the answer."""
        if not self._gang.accepts(report):
            return Answer()
        change = self._gang.take(member, report, now, fingerprint)
        if change is Change.NEW_RUN:
            self._movement.find(self._gang.reports)
        moving_until = self._movement.follow(member, self._gang.reports)
        if change is not Change.NONE or now < moving_until:
            # At once: this answer must not have a verdict about the process before.
            self._judgement = self._judgement.withdraw()
        if now >= max(self._movement.until, self._judge_at):
            self._judgement = judge(self._judgement, self._gang, self._limits, now)
            count = sum(len(known.report.processes) for known in self._gang.reports.values())
            self._judge_at = now + max(_LEAST_JUDGE_SECONDS, count * _JUDGE_SECONDS_PER_RANK)
        return self._judgement.to_answer()

    def expect(
        self, members: Mapping[MemberKey, str], now: float, *, is_gang_complete: bool = True
    ) -> None:
        """Take the members with a rank, with the fingerprints of their Pods; forget others.

        ``is_gang_complete`` says whether no member is missing that the others have to wait for.
        """
        if self._gang.expect(members, now, is_gang_complete=is_gang_complete):
            self._movement.find(self._gang.reports)
            self._judgement = self._judgement.withdraw()

    def forget(self) -> None:
        """Forget all reports: those to another rank 0 are newer."""
        self._gang.reports.clear()
        self._movement.find({})
        self._judgement = self._judgement.withdraw()

    @property
    def run(self) -> Tuple[int, int]:
        """The newest run of the processes."""
        return self._gang.run

    def list_ranks(self) -> List[Tuple[str, ProcessReport]]:
        """List the ranks, as ``comparison``."""
        return comparison.list_ranks(self._gang)

    def list_stragglers(self) -> Tuple[str, ...]:
        """List the slow ranks, as ``comparison``."""
        return comparison.list_stragglers(self._gang)

    def list_outdated(self, now: float) -> Tuple[str, ...]:
        """List the silent ranks whose steps are outdated, as ``comparison``."""
        return comparison.list_outdated(self._gang, now)

    def list_without_steps(self, now: float) -> Tuple[str, ...]:
        """List the ranks without steps, as ``comparison``."""
        return comparison.list_without_steps(self._gang, self._shortest, now)

    def list_without_processes(self, now: float) -> Tuple[str, ...]:
        """List the members without processes, as ``comparison``."""
        return comparison.list_without_processes(self._gang, self._shortest.first_seconds, now)


class _Movement:
    """A cache: until when the gang moves at least, by the report of one member.

    So while the gang trains, a report costs nothing for the other members.
    """

    def __init__(self, limits: StandstillLimits) -> None:
        """Start without reports."""
        self._limits = limits
        self._member: MemberKey = ("", 0)
        self.until = float("-inf")

    def follow(self, member: MemberKey, reports: Mapping[MemberKey, MemberReport]) -> float:
        """Take the new report of a member; return until when the gang moves at least by it."""
        until = self._compute_until(member, reports[member])
        if until >= self.until:
            self.until, self._member = until, member
        elif self._member == member:
            self.find(reports)
        return until

    def find(self, reports: Mapping[MemberKey, MemberReport]) -> None:
        """Find the member by which the gang moves longest."""
        ends = {member: self._compute_until(member, known) for member, known in reports.items()}
        self._member = max(ends, key=ends.__getitem__, default=("", 0))
        self.until = ends.get(self._member, float("-inf"))

    def _compute_until(self, member: MemberKey, known: MemberReport) -> float:
        if not known.report.processes:
            # It may report no more, because its Pod ends.
            return known.at + max(self._limits)
        processes = (ObservedProcess(member, "", each, known.at) for each in known.report.processes)
        ranks = (process.describe_progress(0, known.at) for process in processes)
        return max(compute_active_until(rank, self._limits) for rank in ranks)
