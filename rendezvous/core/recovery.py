"""The part of an agent in a restart in place: when its process ends, and when it starts. Pure.

Phases of the process::

    Gathering --released--------------------------> Running
    Running   --process failed--------------------> Reported
    Running   --next generation or epoch----------> Stopping
    Running   --Pod of a peer failed--------------> Stopping
    Running   --process succeeded-----------------> Left
    Stopping  --process gone----------------------> Gathering
    Reported  --next epoch------------------------> Gathering
    Reported  --refused, or no answer for 60 s----> Left

Invariants:

- A process starts only after the start barrier of the newest generation and epoch that this agent
  has seen has released it, and only when no process is left.
- An agent in Left does nothing more.
- A report is repeated until it is answered, and is always that of the process that ended last.

Example: epoch 4 runs. The process is killed: Reported, WriteReport(4, 137). The roster has epoch 5:
Gathering, Gather(7, 5). Released(7, 5): Running, StartProcess(5).

Rules: docs/design/recovery.md, "Steps".
"""

import enum
from typing import NamedTuple, Tuple, Union

ANSWER_SECONDS = 60.0


class Phase(enum.Enum):
    """What the process of this Pod does."""

    GATHERING = "Gathering"
    RUNNING = "Running"
    REPORTED = "Reported"
    STOPPING = "Stopping"
    LEFT = "Left"


class Target(NamedTuple):
    """A start barrier: that of a generation and an epoch."""

    generation: int
    epoch: int


class RosterSeen(NamedTuple):
    """A complete generation, with its epoch; ``is_refused``: the report of this Pod is refused."""

    target: Target
    is_refused: bool = False


class ProcessEnded(NamedTuple):
    """The process ended, and all that it left is gone."""

    code: int


class Released(NamedTuple):
    """All members have come to a start barrier."""

    target: Target


class PeerFailed(NamedTuple):
    """The Pod of a peer failed: processes start again when the gang is complete."""


class Tick(NamedTuple):
    """Time has passed."""


Event = Union[RosterSeen, ProcessEnded, Released, PeerFailed, Tick]


class WriteReport(NamedTuple):
    """Write the report into the annotation of the own Pod."""

    epoch: int
    code: int


class EndProcess(NamedTuple):
    """End the process and all that it has started."""


class Gather(NamedTuple):
    """Come to a start barrier, and leave the one before."""

    target: Target


class StartProcess(NamedTuple):
    """Start the process."""

    epoch: int


class Exit(NamedTuple):
    """End the agent, and so the Pod."""

    code: int


Action = Union[WriteReport, EndProcess, Gather, StartProcess, Exit]


class RecoveryMemory(NamedTuple):
    """What an agent remembers. Times are monotonic seconds."""

    phase: Phase = Phase.GATHERING
    """What the process does."""
    newest: Target = Target(0, 0)
    """The newest generation and epoch that were seen."""
    running: Target = Target(0, 0)
    """The start barrier after which the last process was started."""
    code: int = 0
    """Exit code of the process that is reported."""
    reported_at: float = 0.0
    """When the report was written first."""


class RecoverySteps(NamedTuple):
    """Actions in their order, and what to remember."""

    actions: Tuple[Action, ...]
    memory: RecoveryMemory


def step(memory: RecoveryMemory, event: Event, now: float) -> RecoverySteps:
    """Decide what an event leads to."""
    if memory.phase is Phase.LEFT:
        return RecoverySteps((), memory)
    if isinstance(event, RosterSeen):
        return _follow_roster(memory, event)
    if isinstance(event, ProcessEnded):
        return _follow_end(memory, event.code, now)
    if isinstance(event, Released):
        return _start(memory, event.target)
    if isinstance(event, PeerFailed):
        is_running = memory.phase is Phase.RUNNING
        return _end(memory) if is_running else RecoverySteps((), memory)
    if memory.phase is not Phase.REPORTED:
        return RecoverySteps((), memory)
    if now - memory.reported_at >= ANSWER_SECONDS:
        return _leave(memory, memory.code)
    return RecoverySteps((WriteReport(memory.running.epoch, memory.code),), memory)


def _follow_roster(memory: RecoveryMemory, seen: RosterSeen) -> RecoverySteps:
    if seen.is_refused and memory.phase is Phase.REPORTED:
        return _leave(memory, memory.code)
    is_newer = seen.target > memory.newest and seen.target.epoch >= memory.newest.epoch
    if not is_newer:
        return RecoverySteps((), memory)
    memory = memory._replace(newest=seen.target)
    if memory.phase is Phase.RUNNING:
        return _end(memory)
    if memory.phase is Phase.GATHERING:
        return _gather(memory)
    if memory.phase is Phase.REPORTED and memory.newest.epoch > memory.running.epoch:
        return _gather(memory)
    return RecoverySteps((), memory)


def _end(memory: RecoveryMemory) -> RecoverySteps:
    return RecoverySteps((EndProcess(),), memory._replace(phase=Phase.STOPPING))


def _follow_end(memory: RecoveryMemory, code: int, now: float) -> RecoverySteps:
    if memory.phase is Phase.STOPPING:
        return _gather(memory)
    if memory.phase is not Phase.RUNNING:
        return RecoverySteps((), memory)
    if code == 0:
        return _leave(memory, 0)
    memory = memory._replace(phase=Phase.REPORTED, code=code, reported_at=now)
    return RecoverySteps((WriteReport(memory.running.epoch, code),), memory)


def _gather(memory: RecoveryMemory) -> RecoverySteps:
    return RecoverySteps((Gather(memory.newest),), memory._replace(phase=Phase.GATHERING))


def _start(memory: RecoveryMemory, target: Target) -> RecoverySteps:
    if memory.phase is not Phase.GATHERING or target != memory.newest:
        return RecoverySteps((), memory)
    memory = memory._replace(phase=Phase.RUNNING, running=target)
    return RecoverySteps((StartProcess(target.epoch),), memory)


def _leave(memory: RecoveryMemory, code: int) -> RecoverySteps:
    return RecoverySteps((Exit(code),), memory._replace(phase=Phase.LEFT))
