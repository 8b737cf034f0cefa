"""Restart in place: executes the decisions of ``core.recovery`` about the command of ``run``.

It has a thread of its own, so that a slow API server or the wait for a roster does not delay it:

1. Wait for an event: a roster (the agent's thread), the end of the command (the main thread), the
   release of the start barrier (its thread); or for 1 s.
2. Decide, and execute the actions in their order.
3. If the start barrier has not released its members in time, report the Pods that have not come
   (``barrierdeadline``).

Invariants: only this thread changes the memory; the command starts only by its order, and with the
variables of the members with which the start barrier has released all agents (``ShownMembers``).

Example: the command ends with 137. ``4 137`` is written into the annotation of the own Pod. The
roster has epoch 5: this agent comes to the start barrier, and starts the command with FB_EPOCH=5.

Rules: docs/design/recovery.md, "Steps".
"""

import queue
from typing import Callable, Dict, FrozenSet, Mapping, NamedTuple, Optional, Tuple

from framework.agent.clock import AgentClock
from framework.agent.exitcodes import ExitCode
from framework.agent.report import LineReporter
from framework.agent.signals import SIGNAL_EXIT_BASE
from framework.api.epochreports import EpochStart, ProcessEnd, encode_end, encode_start
from framework.api.roster import Roster, fingerprint_uid
from rendezvous.core.recovery import (
    Action,
    BarrierKey,
    EndProcess,
    Event,
    Exit,
    Gather,
    KillProcess,
    Phase,
    ProcessEnded,
    ProcessGone,
    ProcessHung,
    RecoveryMemory,
    Released,
    RosterSeen,
    StartProcess,
    Tick,
    WriteReport,
    step,
)
from rendezvous.notify.reportsender import ReportSender
from rendezvous.process.sharedmemory import find_shared_memory
from rendezvous.process.wrapper import Wrapper
from rendezvous.recovery.barrierdeadline import BarrierDeadline, RunningPods, find_running_pods
from rendezvous.recovery.startbarrier import UNKNOWN_MEMBERS, ShownMembers, StartBarrier

EPOCH_ENV = "FB_EPOCH"
_TICK_SECONDS = 1.0
# When a process is killed, the processes of its peers often fail, too. Their reports are spread
# over this time: most are no longer needed when they are due, because the next epoch has come.
_SPREAD_SECONDS_PER_MEMBER = 0.002
_LONGEST_SPREAD_SECONDS = 2.0


class OwnPod(NamedTuple):
    """The facts and settings of a Pod that its recovery needs."""

    uid: str
    """Its UID."""
    stop_grace_seconds: float
    """How long the command may take to end after SIGTERM."""
    get_env: Callable[[], Mapping[str, str]]
    """Returns the variables of the current generation."""


class Recovery:
    """The recovery of one Pod. Other threads call ``observe`` and ``follow_...``."""

    def __init__(
        self,
        own_pod: OwnPod,
        wrapper: Wrapper,
        reports: ReportSender,
        reporter: LineReporter,
        clock: AgentClock,
    ) -> None:
        """Restart the command of ``wrapper``."""
        self._own_pod = own_pod
        self._fingerprint = fingerprint_uid(own_pod.uid)
        self._wrapper = wrapper
        self._reports = reports
        self._reporter = reporter
        self._clock = clock
        self._memory = RecoveryMemory()
        self._events: queue.Queue[Event] = queue.Queue()
        self._shown = ShownMembers()
        self._barrier = StartBarrier(self._follow_release, self._shown.get_mark, reporter, clock)
        self._shared_memory = find_shared_memory()
        self._seen: Optional[RosterSeen] = None
        self._members = 0
        self._written = ""
        self._unsent = ""
        self._send_at = 0.0
        self._serving: Optional[BarrierKey] = None
        self._released: Dict[BarrierKey, str] = {}
        # Role and index of each member with which the process was started.
        self._peers: FrozenSet[Tuple[str, int]] = frozenset()
        self._running_pods = RunningPods()
        grace = own_pod.stop_grace_seconds
        self._deadline = BarrierDeadline(self._barrier, reports.report_start, grace, clock)

    def observe(self, roster: Roster, is_ready: bool) -> None:  # noqa: FBT001  a callback
        """Take a roster; ``is_ready``: it is complete, and its members are shown."""
        recovery = roster.recovery
        if recovery is None:
            return
        roles = tuple(role for role in roster.roles if role.name in recovery.roles)
        self._members = sum(len(role.members) for role in roles)
        since = recovery.deadline_since
        self._running_pods = find_running_pods(roles, since) if is_ready else RunningPods()
        if is_ready:
            self._shown.show(roles, self._own_pod.get_env())
        seen = RosterSeen(
            BarrierKey(recovery.since, recovery.epoch),
            is_refused=self._fingerprint in recovery.refused,
            is_ready=is_ready,
            is_member=any(m.fingerprint == self._fingerprint for r in roles for m in r.members),
            # A failure that its role tolerates stays listed: the process has started without it.
            has_failed_peer=any((f.role, f.index) in self._peers for f in roster.failed),
            has_leaving_peer=not roster.complete
            and any(entry.role in recovery.roles for entry in roster.leaving),
            is_complete=roster.complete,
        )
        if seen != self._seen:
            self._seen = seen
            self._events.put(seen)

    def follow_end(self, code: int) -> None:
        """Record that the command has ended with this code. It may have left processes."""
        self._events.put(ProcessEnded(code))

    def follow_gone(self) -> None:
        """Record that all processes of the command have ended."""
        self._events.put(ProcessGone())

    def follow_hang(self, run: Tuple[int, int]) -> None:
        """Record that the process of this run hangs: the other members wait for it."""
        self._events.put(ProcessHung(BarrierKey(*run), ExitCode.HUNG))

    @property
    def run_number(self) -> Tuple[int, int]:
        """The run of the process: its generation and epoch."""
        return self._memory.running

    def _follow_release(self, target: BarrierKey, is_serving: bool, mark: str = "") -> None:  # noqa: FBT001  a callback
        if is_serving:
            self._serving = target
        self._released[target] = mark
        self._events.put(Released(target))

    def run(self) -> None:
        """Follow events until the program ends."""
        try:
            while True:
                self.turn(_TICK_SECONDS)
        except Exception as e:  # noqa: BLE001  (a thread's fault would be lost)
            self._reporter.say(
                f"a bug of the restart in place ends the program: {type(e).__name__}: {e}", "error"
            )
            self._wrapper.give_up(ExitCode.UNKNOWN)

    def turn(self, wait_seconds: float = 0.0) -> None:
        """Wait at most ``wait_seconds`` for an event, decide, and execute the actions."""
        if self._unsent:
            left = self._send_at - self._clock.monotonic()
            wait_seconds = min(wait_seconds, max(0.0, left))
        try:
            event = self._events.get(block=wait_seconds > 0, timeout=wait_seconds)
        except queue.Empty:
            event = Tick()
        phase = self._memory.phase
        actions, self._memory = step(self._memory, event, self._clock.monotonic())
        if self._memory.phase is Phase.HELD and phase is not Phase.HELD:
            self._reporter.say(
                "a peer leaves: the command is started again when the gang is complete"
            )
        for action in actions:
            self._carry_out(action)
        self._send_end()
        fault = self._deadline.follow(self._memory, self._running_pods)
        if fault:
            self._give_up(fault)

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, WriteReport):
            self._write_end(action)
        elif isinstance(action, EndProcess):
            self._wrapper.end()
        elif isinstance(action, KillProcess):
            self._wrapper.kill()
        elif isinstance(action, Gather):
            self._barrier.gather(action.barrier)
        elif isinstance(action, StartProcess):
            self._start(action.epoch)
        elif isinstance(action, Exit):
            if action.reason:
                self._reporter.say(f"ends with {action.code}: {action.reason}", "warning")
            if action.code == 0:
                # The controller must know of the start, or it ends a Pod that has started.
                self._reports.finish()
            self._wrapper.give_up(action.code)

    def _write_end(self, action: WriteReport) -> None:
        report = encode_end(ProcessEnd(action.epoch, action.code))
        if report != self._written:
            self._written = report
            is_killed = action.code > SIGNAL_EXIT_BASE
            spread = min(self._members * _SPREAD_SECONDS_PER_MEMBER, _LONGEST_SPREAD_SECONDS)
            delay = 0.0 if is_killed else self._clock.uniform(0.0, spread)
            self._unsent, self._send_at = report, self._clock.monotonic() + delay
            self._send_end()
            # After the report: the reader of the log may be slow.
            self._reporter.say(f"waiting for a restart in place: epoch {action.epoch} has failed")

    def _send_end(self) -> None:
        """Send the report when it is due, unless there is a next epoch by then."""
        if self._memory.phase is not Phase.REPORTED:
            self._unsent = ""
        elif self._unsent and self._clock.monotonic() >= self._send_at:
            self._reports.report_end(self._unsent)
            self._unsent = ""

    def _start(self, epoch: int) -> None:
        shown = self._shown.find(self._released.pop(self._memory.running, ""))
        self._released.clear()
        if shown is None:
            self._give_up(UNKNOWN_MEMBERS)
            return
        self._peers = shown.tasks
        if self._shared_memory is not None:
            self._shared_memory.clean()
            self._shared_memory.remember()
        self._reporter.say(f"epoch {epoch} starts", epoch=epoch)
        if self._serving == self._memory.running:
            # Before a process starts: the success of one must not be seen before the report.
            self._reports.report_start(encode_start(EpochStart(*self._memory.running)))
        self._wrapper.start({**(shown.env or self._own_pod.get_env()), EPOCH_ENV: str(epoch)})

    def _give_up(self, fault: str) -> None:
        self._memory = RecoveryMemory(phase=Phase.LEFT)
        self._carry_out(Exit(ExitCode.TRANSIENT_CONFLICT, fault))
