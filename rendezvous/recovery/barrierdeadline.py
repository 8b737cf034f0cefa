"""The deadlines of the start barrier, as the agent of one Pod measures them.

They run while this agent waits for the newest start barrier, and all members run as far as the
roster shows:

1. The agent that serves the barrier reports the Pods that have not come, after the time that they
   may need.
2. After 600 s, an agent that waits there reports the Pod that serves: the agent of rank 1 first,
   the agent of each next rank 1 s later. One report is enough, so ranks above 10 report nothing.
3. After 1200 s, an agent ends: the controller is away, or its account may not report.

Reports are repeated after the same time. While this agent waits, the success of another member
postpones no deadline, also if it begins a new generation.

Example: rank 0 hangs. After 601 s the agent of rank 1 reports ``7 5 89abcdef``: generation 7, epoch
5, and the fingerprint of the Pod of rank 0. The controller ends its Task.

Rules: docs/design/recovery.md, "Steps".
"""

from typing import Callable, NamedTuple, Optional, Tuple

from framework.agent.clock import AgentClock
from framework.api.epochreports import SERVER_SECONDS, START_SECONDS, EpochStart, encode_start
from framework.api.roster import RoleRoster
from rendezvous.core.recovery import BarrierKey, RecoveryMemory
from rendezvous.recovery.startbarrier import StartBarrier

# A restart in place needs less time than START_SECONDS: it ends processes, and starts no Pod.
_RESTART_SECONDS = 30.0
_GIVE_UP_SECONDS = 1200.0
_LAST_REPORTING_RANK = 10


class RunningPods(NamedTuple):
    """Whether the Pods of the newest generation run."""

    all_run: bool = False
    """Whether all wanted Pods run."""
    all_may_run: bool = False
    """Whether all members may run. The roster does not show it while wanted Pods are no members."""
    deadline_since: int = 0
    """The generation from which the deadlines count: members have only succeeded since then."""


def find_running_pods(roles: Tuple[RoleRoster, ...], deadline_since: int) -> RunningPods:
    """Find whether the Pods of these roles run; they are of a generation that is ready."""
    return RunningPods(
        all_run=all(role.running for role in roles),
        all_may_run=all(role.running or _lacks_members(role) for role in roles),
        deadline_since=deadline_since,
    )


def _lacks_members(role: RoleRoster) -> bool:
    return len(role.members) + len(role.completed) < role.wanted


class BarrierDeadline:
    """Reports the Pods that keep the start barrier from releasing its members."""

    def __init__(
        self,
        barrier: StartBarrier,
        report: Callable[[str], None],
        stop_grace_seconds: float,
        clock: AgentClock,
    ) -> None:
        """Call ``report`` with each encoded report."""
        self._barrier = barrier
        self._report = report
        self._stop_grace_seconds = stop_grace_seconds
        self._clock = clock
        self._target = BarrierKey(0, 0)
        self._began_at = 0.0
        self._reported_at = 0.0
        self._followed_at = 0.0

    def follow(self, memory: RecoveryMemory, pods: RunningPods) -> str:
        """Send the report that is due; return why this agent ends, or ""."""
        target, now = memory.newest, self._clock.monotonic()
        passed, self._followed_at = now - self._followed_at, now
        if not memory.is_member or target <= memory.running:
            self._target = BarrierKey(0, 0)
            return ""
        if not pods.all_may_run:
            # The time in which a member does not run does not count. The time before still counts
            # if the same members continue.
            self._began_at += passed
            self._reported_at += passed
            return ""
        if not self._is_same_wait(target, pods):
            self._began_at = self._reported_at = now
        self._target = target
        is_restart = pods.deadline_since <= memory.running.generation
        missing = self._list_missing(memory, now, is_restart=is_restart)
        if missing:
            self._reported_at = now
            self._report(encode_start(EpochStart(*target, missing)))
        if (
            now < self._began_at + _GIVE_UP_SECONDS
            or not pods.all_run
            or memory.gathering != target
        ):
            return ""
        return f"not all members have come to the start barrier in {_GIVE_UP_SECONDS:.0f} s"

    def _is_same_wait(self, target: BarrierKey, pods: RunningPods) -> bool:
        """Return whether this is the same wait, from which members have only succeeded."""
        before = self._target
        return target.epoch == before.epoch and pods.deadline_since <= before.generation

    def _list_missing(
        self, memory: RecoveryMemory, now: float, *, is_restart: bool
    ) -> Tuple[str, ...]:
        """List the fingerprints of the Pods to report now."""
        seconds = _RESTART_SECONDS if is_restart else START_SECONDS
        if now < self._reported_at + self._stop_grace_seconds + seconds:
            return ()
        server: Optional[Tuple[int, str]] = self._barrier.find_server()
        if server is None:
            return self._barrier.list_missing(memory.newest)
        rank, fingerprint = server
        is_due = now >= self._reported_at + SERVER_SECONDS + rank
        may_report = rank <= _LAST_REPORTING_RANK and memory.gathering == memory.newest
        return (fingerprint,) if is_due and may_report else ()
