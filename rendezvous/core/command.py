"""The command of ``run``: when it starts, gets signals and is killed, and when ``run`` ends. Pure.

``choose_order`` turns a notification into an order, in the agent's thread. In the main thread,
``decide`` turns an event into actions, which ``process.wrapper`` executes. Events are orders,
signals, the end of the command or of all processes that it left, and the ends of time limits.

When the command has ended, the first rule that applies gives the next step:

1. FAIL was ordered: exit with the code of the order; with 0 if the command has succeeded.
2. The program is ending (SIGTERM, SIGINT or STOP): exit with the code of the command.
3. It restarts in place: report the end at once, kill the processes that it left, and report when
   they are gone. ``core.recovery`` orders the next start, and FB_ON_CHANGE has no effect.
4. RESTART was ordered: start it again with the variables of the order.
5. It is paused: wait for the RESTART of the next generation. It is paused because a peer has failed
   (PAUSE), or because it has failed itself while a peer leaves: it may have lost its connection.
6. Exit with the code of the command.

Invariants: at most one command runs; after SIGTERM or SIGINT to the program, or STOP, no command
starts; between SIGTERM and its end, the command gets no second SIGTERM, because some programs abort
the checkpoint that they write after the first.

Example: FB_ON_CHANGE=restart, and the gang grows. RESTART: SendSignal(SIGTERM). The command writes
its checkpoint: Ended(143) leads to KillSession, KillLeftovers and StartCommand with the new
variables. If it has not ended after the grace period: GraceOver leads to KillSession.
"""

import enum
import signal
from typing import Mapping, NamedTuple, Optional, Tuple, Union

from framework.agent.exitcodes import ExitCode
from framework.agent.signals import ENDING_SIGNALS, SIGNAL_EXIT_BASE
from rendezvous.core.notifying.notification import CHANGED, FAILED, LEAVING, PEER_LEAVING, Notify

# A process that waits in the kernel does not end by SIGKILL.
_FAIL_SECONDS = 10.0
# Pause between two checks that the processes which a command left are gone.
_LEFTOVER_SECONDS = 0.5
_TERMINATED_CODE = SIGNAL_EXIT_BASE + signal.SIGTERM


class OrderKind(enum.Enum):
    """The orders of the agent's threads."""

    START = "start"  # start the command with the variables of the order
    PAUSE = "pause"  # end the command, because a peer has failed; the next RESTART starts it
    RESTART = "restart"  # end the command, and start it with new variables
    END = "end"  # end the command (restart in place)
    KILL = "kill"  # kill the command, which would not react to SIGTERM (restart in place)
    FAIL = "fail"  # kill the command, and exit with the code of the order in 10 s at most
    LEAVE = "leave"  # exit if the command is paused: this Pod leaves, so no RESTART will come
    STOP = "stop"  # end the command and exit, because the attempt completes
    EXIT = "exit"  # exit with the code of the order, before there is a command


class Order(NamedTuple):
    """An order. A ``Finish`` with its number follows when it is carried out."""

    kind: OrderKind
    env: Mapping[str, str] = {}
    exit_code: int = 0
    number: int = 0


class Signalled(NamedTuple):
    """The program got a signal."""

    number: int


class Ended(NamedTuple):
    """The command has ended. It may have left processes."""

    code: int


class Gone(NamedTuple):
    """All processes that the command left are gone."""


class StartFailed(NamedTuple):
    """The command cannot be started."""

    exit_code: int


class GraceOver(NamedTuple):
    """The time ``kill_at`` has come."""


class FailTimeOver(NamedTuple):
    """The time ``forced_exit.at`` has come."""


Event = Union[Order, Signalled, Ended, Gone, StartFailed, GraceOver, FailTimeOver]


class SendSignal(NamedTuple):
    """Send a signal to the command."""

    number: int


class KillSession(NamedTuple):
    """Kill the command and its process group, also after it has ended."""


class KillLeftovers(NamedTuple):
    """Kill all processes that the command left: they would hold ports and devices."""


class StartCommand(NamedTuple):
    """Start the command with these variables."""

    env: Mapping[str, str]


class ReportEnd(NamedTuple):
    """Report the end of the command to the recovery, and kill the processes that it left."""

    code: int


class ReportGone(NamedTuple):
    """Report to the recovery that all processes of the command are gone."""


class Finish(NamedTuple):
    """Let the caller of an order go on."""

    number: int


class Say(NamedTuple):
    """Log a line."""

    text: str
    level: str = "info"


Action = Union[
    SendSignal, KillSession, KillLeftovers, StartCommand, ReportEnd, ReportGone, Finish, Say
]


class Process(enum.Enum):
    """The state of the command."""

    NONE = "none"  # no command runs
    RUNNING = "running"
    TERMINATED = "terminated"  # it runs, and the program got SIGTERM
    LEFT = "left"  # it has ended, and processes that it left may run (restart in place)


class AtEnd(enum.Enum):
    """The consequence of the end of the command, if no order says otherwise."""

    EXIT = "exit"  # the program exits
    PAUSE = "pause"  # the program waits for RESTART
    ENDING = "ending"  # the program exits, and starts no command any more


class LeavingPod(enum.Enum):
    """Whose Pod leaves."""

    NONE = "none"
    PEER = "peer"  # a peer's, and no complete generation has come since
    OWN = "own"  # the command may write its checkpoint; it is not started again


class ForcedExit(NamedTuple):
    """The exit that FAIL ordered."""

    code: int
    """The exit code of the order."""
    at: float
    """When the program exits, though the command has not ended."""


class CommandMemory(NamedTuple):
    """The state of the command and of the program. Times are monotonic seconds."""

    process: Process = Process.NONE
    """The state of the command."""
    at_end: AtEnd = AtEnd.EXIT
    """The consequence of its end."""
    leaving: LeavingPod = LeavingPod.NONE
    """Whose Pod leaves. ``choose_order`` writes it, and each start of the command."""
    restart: Optional[Order] = None
    """The RESTART that waits for the end of the command."""
    kill_at: Optional[float] = None
    """When the command is killed, after the SIGTERM of an order."""
    forced_exit: Optional[ForcedExit] = None
    """The exit that FAIL ordered, if it did."""
    exit_code: Optional[int] = None
    """The program exits with this code; None: it goes on."""

    @property
    def is_running(self) -> bool:
        """Return whether the command runs."""
        return self.process in {Process.RUNNING, Process.TERMINATED}


class CommandSettings(NamedTuple):
    """The settings of the decision."""

    stop_grace_seconds: float
    """From SIGTERM to SIGKILL."""
    restarts_in_place: bool = False
    """Whether ``core.recovery`` decides about the next start."""


class CommandSteps(NamedTuple):
    """Actions in their order, and the next memory."""

    actions: Tuple[Action, ...]
    memory: CommandMemory


# --- The agent's thread ---------------------------------------------------------------------------


def choose_order(
    memory: CommandMemory, notification: Notify, own: Tuple[str, int]
) -> Tuple[Optional[OrderKind], CommandMemory]:
    """Choose the order for a notification, with FB_ON_CHANGE=restart; ``own``: role and index."""
    event, diff = notification.event, notification.diff
    if event == LEAVING or any((peer.role, peer.index) == own for peer in diff.removed):
        return OrderKind.LEAVE, memory._replace(leaving=LeavingPod.OWN)
    if memory.leaving is LeavingPod.OWN:
        return None, memory
    if event == PEER_LEAVING:
        return None, memory._replace(leaving=LeavingPod.PEER)
    if event != CHANGED:
        return (OrderKind.PAUSE if event == FAILED else None), memory
    # When a member has succeeded, the others end in a moment, too.
    is_same_gang = diff.is_empty or diff.is_only_success
    if memory.at_end is AtEnd.PAUSE or not is_same_gang:
        return OrderKind.RESTART, memory
    return None, memory._replace(leaving=LeavingPod.NONE)


# --- The main thread ------------------------------------------------------------------------------


def decide(
    memory: CommandMemory, event: Event, settings: CommandSettings, now: float
) -> CommandSteps:
    """Decide on an event."""
    if isinstance(event, Order):
        return _follow_order(memory, event, settings, now)
    if isinstance(event, Signalled):
        return _forward(memory, event.number)
    if isinstance(event, Ended):
        return _follow_end(memory, event.code, settings)
    if isinstance(event, Gone):
        return CommandSteps((ReportGone(),), memory._replace(process=Process.NONE))
    if isinstance(event, StartFailed):
        return _exit(memory._replace(process=Process.NONE), event.exit_code)
    if isinstance(event, GraceOver):
        said = Say("the command did not end in time, it is killed", "warning")
        return CommandSteps((said, KillSession()), memory._replace(kill_at=None))
    said = Say("the command does not end though it is killed", "error")
    steps = _exit(
        memory, memory.forced_exit.code if memory.forced_exit is not None else ExitCode.UNKNOWN
    )
    return steps._replace(actions=(said,))


def compute_wait(memory: CommandMemory, now: float) -> Optional[float]:
    """Compute how many seconds the main thread may wait for an event; None: without a limit."""
    waits = [] if memory.kill_at is None else [max(0.0, memory.kill_at - now)]
    if memory.forced_exit is not None or (not waits and memory.process is Process.LEFT):
        waits.append(_LEFTOVER_SECONDS)
    return min(waits, default=None)


def _forward(memory: CommandMemory, number: int) -> CommandSteps:
    if number in (signal.SIGTERM, signal.SIGINT):
        memory = memory._replace(at_end=AtEnd.ENDING)
    if not memory.is_running:
        is_end = number in ENDING_SIGNALS
        return _exit(memory, SIGNAL_EXIT_BASE + number) if is_end else CommandSteps((), memory)
    if number != signal.SIGTERM:
        return CommandSteps((SendSignal(number),), memory)
    is_first = memory.kill_at is None
    memory = memory._replace(process=Process.TERMINATED)
    return CommandSteps((SendSignal(number),) if is_first else (), memory)


def _follow_order(
    memory: CommandMemory, order: Order, settings: CommandSettings, now: float
) -> CommandSteps:
    is_ending = memory.at_end is AtEnd.ENDING
    if order.kind is OrderKind.RESTART and memory.is_running and not is_ending:
        # Its ``Finish`` follows at the end of the command.
        replaced = () if memory.restart is None else (Finish(memory.restart.number),)
        steps = _ask_to_end(memory._replace(restart=order), settings, now)
        return CommandSteps((*replaced, *steps.actions), steps.memory)
    steps = _carry_out(memory, order, settings, now)
    return CommandSteps((*steps.actions, Finish(order.number)), steps.memory)


def _carry_out(
    memory: CommandMemory, order: Order, settings: CommandSettings, now: float
) -> CommandSteps:
    if order.kind is OrderKind.EXIT:
        return _exit(memory, order.exit_code)
    if order.kind is OrderKind.STOP:
        memory = memory._replace(at_end=AtEnd.ENDING)
    if memory.is_running:
        return _follow_running(memory, order, settings, now)
    return _follow_idle(memory, order)


def _follow_idle(memory: CommandMemory, order: Order) -> CommandSteps:
    """Carry out an order while no command runs."""
    is_paused = memory.at_end is AtEnd.PAUSE
    if order.kind is OrderKind.STOP or (order.kind is OrderKind.LEAVE and is_paused):
        return _exit(memory, _TERMINATED_CODE)
    if order.kind is OrderKind.RESTART and is_paused:
        return _start(memory._replace(at_end=AtEnd.EXIT), order)
    if order.kind is OrderKind.START and memory.at_end is not AtEnd.ENDING:
        return _start(memory, order)
    return CommandSteps((), memory)


def _follow_running(
    memory: CommandMemory, order: Order, settings: CommandSettings, now: float
) -> CommandSteps:
    """Carry out an order to the running command."""
    if order.kind is OrderKind.PAUSE and memory.at_end is not AtEnd.ENDING:
        return _ask_to_end(memory._replace(at_end=AtEnd.PAUSE), settings, now)
    if order.kind in {OrderKind.END, OrderKind.STOP}:
        return _ask_to_end(memory, settings, now)
    if order.kind is OrderKind.FAIL:
        earlier = memory.forced_exit.at if memory.forced_exit is not None else float("inf")
        forced = ForcedExit(order.exit_code, min(earlier, now + _FAIL_SECONDS))
        memory = memory._replace(forced_exit=forced)
    is_kill = order.kind in {OrderKind.KILL, OrderKind.FAIL}
    return CommandSteps((KillSession(),) if is_kill else (), memory)


def _ask_to_end(memory: CommandMemory, settings: CommandSettings, now: float) -> CommandSteps:
    """Send SIGTERM to the running command, unless it got one."""
    if memory.kill_at is not None or memory.process is Process.TERMINATED:
        return CommandSteps((), memory)
    memory = memory._replace(kill_at=now + settings.stop_grace_seconds)
    return CommandSteps((SendSignal(signal.SIGTERM),), memory)


def _follow_end(memory: CommandMemory, code: int, settings: CommandSettings) -> CommandSteps:
    memory = memory._replace(process=Process.NONE, kill_at=None)
    if memory.forced_exit is not None:
        steps = _exit(memory, code and memory.forced_exit.code)  # it may have succeeded meanwhile
        return steps._replace(actions=(KillLeftovers(),))
    said: Tuple[Action, ...] = ()
    if code == ExitCode.HUNG:
        said = (Say("the command ended with 202, which is reported as a hang", "warning"),)
    restart, memory = memory.restart, memory._replace(restart=None)
    if restart is not None:
        said += (Finish(restart.number),)
    if memory.leaving is LeavingPod.PEER and code != 0 and memory.at_end is not AtEnd.ENDING:
        memory = memory._replace(at_end=AtEnd.PAUSE)
    steps = _decide_next(memory, code, restart, settings)
    return CommandSteps((*said, *steps.actions), steps.memory)


def _decide_next(
    memory: CommandMemory, code: int, restart: Optional[Order], settings: CommandSettings
) -> CommandSteps:
    """Apply rules 2 to 6."""
    is_last = restart is None and memory.at_end is AtEnd.EXIT and not settings.restarts_in_place
    if memory.at_end is AtEnd.ENDING or is_last:
        return _exit(memory, code)
    text = f"the command ended with {code}"
    if settings.restarts_in_place:
        # The report first: the reader of the log may be slow.
        actions = (KillSession(), ReportEnd(code), Say(text))
        return CommandSteps(actions, memory._replace(process=Process.LEFT))
    if restart is None:
        said = Say(text + ", it is started again when the gang is complete")
        return CommandSteps((KillSession(), KillLeftovers(), said), memory)
    steps = _start(memory._replace(at_end=AtEnd.EXIT), restart)
    said = Say(text + ", it is started again")
    return CommandSteps((KillSession(), KillLeftovers(), said, *steps.actions), steps.memory)


def _start(memory: CommandMemory, order: Order) -> CommandSteps:
    leaving = LeavingPod.OWN if memory.leaving is LeavingPod.OWN else LeavingPod.NONE
    memory = memory._replace(process=Process.RUNNING, leaving=leaving)
    return CommandSteps((StartCommand(order.env),), memory)


def _exit(memory: CommandMemory, code: int) -> CommandSteps:
    return CommandSteps((), memory._replace(exit_code=code))
