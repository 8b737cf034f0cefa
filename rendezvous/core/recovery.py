"""The part of an agent in a restart in place: when its process ends, and when it starts. Pure.

Phases of the process::

    Gathering --released--------------------------> Running
    Running   --process failed--------------------> Reported
    Running   --the same, while a peer leaves-----> Held
    Running   --next generation or epoch----------> Stopping
    Running   --Pod of a peer failed--------------> Stopping
    Running   --process succeeded-----------------> Left
    Running   --process ended, no member----------> Left
    Running   --process hangs---------------------> Hung
    Stopping  --process ended---------------------> Gathering
    Held      --next generation or epoch----------> Gathering
    Held      --Pod of a peer failed or left------> Gathering
    Held      --no peer leaves any more-----------> Reported
    Held      --no member-------------------------> Left
    Hung      --process failed, or 10 s-----------> Reported
    Hung      --the same, while a peer leaves-----> Held
    Hung      --next generation or epoch----------> Stopping
    Hung      --Pod of a peer failed or left------> Stopping
    Hung      --the same, no member---------------> Left
    Hung      --process succeeded-----------------> Left
    Reported  --next epoch------------------------> Gathering
    Reported  --refused, or no answer for 60 s----> Left
    Reported  --no member-------------------------> Left

In Gathering, the agent comes to the start barrier of the newest generation and epoch when this
generation is complete and shown, this Pod is a member of it, and nothing is left of the process.
Until then, it comes to no start barrier. This start barrier is always newer than the one before:
only a newer generation or epoch leads out of Running and Reported to Gathering.

Invariants:

- A process starts only after the start barrier of the newest generation and epoch that this agent
  has seen has released it, and only when no process is left.
- An agent whose Pod is not a member ends no process, and starts none.
- An agent in Left does nothing more.
- A process that fails when the newest generation is not complete and lists a peer that leaves may
  have lost its connection to that peer. It is not reported as long as this is so, nor while a
  complete generation after it is not shown yet. It is started again in that generation.
- A report is repeated until it is answered, and is always that of the process that ended last. An
  answer counts also if it is in a generation that is not complete.

Example: epoch 4 runs. The process is killed: Reported, WriteReport(4, 137). The roster has epoch 5:
Gathering, Gather(7, 5). Released(7, 5): Running, StartProcess(5).

Rules: docs/design/recovery.md, "Steps".
"""

import enum
from typing import NamedTuple, Tuple, Union

ANSWER_SECONDS = 60.0
# A process that waits in the kernel does not end by SIGKILL.
_KILL_SECONDS = 10.0
# Why an agent ends with the code of its process.
REFUSED = "the controller refuses to restart it in place"
UNANSWERED = f"the controller has not answered for {ANSWER_SECONDS:.0f} s"
NO_MEMBER = "this Pod is no member of the gang"


class Phase(enum.Enum):
    """The phase of the process of this Pod."""

    GATHERING = "Gathering"
    RUNNING = "Running"
    HUNG = "Hung"
    HELD = "Held"
    REPORTED = "Reported"
    STOPPING = "Stopping"
    LEFT = "Left"


class BarrierKey(NamedTuple):
    """Identifies a start barrier by its generation and epoch."""

    generation: int
    epoch: int


_NONE = BarrierKey(0, 0)


class RosterSeen(NamedTuple):
    """A generation, with its epoch."""

    barrier: BarrierKey
    """Its start barrier."""
    is_refused: bool = False
    """Whether the report of this Pod is refused."""
    is_ready: bool = True
    """Whether it is complete, and its members are shown."""
    is_member: bool = True
    """Whether this Pod is a member; a Pod that leaves is not."""
    has_failed_peer: bool = False
    """Whether the Pod of a member with which the process was started failed or left, and has no
    successor yet."""
    has_leaving_peer: bool = False
    """Whether it is not complete, and the Pod of a peer leaves."""
    is_complete: bool = False
    """Whether it is complete, but its members may not be shown yet."""


class ProcessEnded(NamedTuple):
    """The process ended. Processes that it started may be left."""

    code: int


class ProcessGone(NamedTuple):
    """All that the process left is gone, too."""


class Released(NamedTuple):
    """All members have come to a start barrier."""

    barrier: BarrierKey


class ProcessHung(NamedTuple):
    """The gang stands still, and the other members wait for this one."""

    barrier: BarrierKey
    """The start barrier after which the process was started."""
    code: int
    """The code that is reported in place of the exit code of the process."""


class Tick(NamedTuple):
    """Time has passed."""


Event = Union[RosterSeen, ProcessEnded, ProcessGone, ProcessHung, Released, Tick]


class WriteReport(NamedTuple):
    """Write the report into the annotation of the own Pod."""

    epoch: int
    code: int


class EndProcess(NamedTuple):
    """End the process and all that it has started."""


class KillProcess(NamedTuple):
    """Kill the process and all that it has started: it would not react to SIGTERM."""


class Gather(NamedTuple):
    """Come to a start barrier, and leave the one before."""

    barrier: BarrierKey


class StartProcess(NamedTuple):
    """Start the process."""

    epoch: int


class Exit(NamedTuple):
    """End the agent, and so the Pod; ``reason`` is "" where the process succeeded."""

    code: int
    reason: str = ""


Action = Union[WriteReport, EndProcess, KillProcess, Gather, StartProcess, Exit]


class RecoveryMemory(NamedTuple):
    """The memory of an agent. Times are monotonic seconds."""

    phase: Phase = Phase.GATHERING
    """The phase of the process."""
    newest: BarrierKey = _NONE
    """The newest generation and epoch that were seen."""
    is_ready: bool = False
    """Whether the newest generation is complete, and its members are shown."""
    is_member: bool = True
    """Whether this Pod is a member of the newest generation."""
    has_leaving_peer: bool = False
    """Whether the Pod of a peer leaves, and no complete generation has been shown since."""
    is_gone: bool = True
    """Whether nothing is left of the process before."""
    gathering: BarrierKey = _NONE
    """The start barrier at which this agent waits; BarrierKey(0, 0): none."""
    running: BarrierKey = _NONE
    """The start barrier after which the last process was started."""
    code: int = 0
    """Exit code of the process, for a report that is written or held back."""
    killed_at: float = 0.0
    """When the process was killed because it hung."""
    reported_at: float = 0.0
    """When the report was written first."""


class RecoverySteps(NamedTuple):
    """Actions in their order, and what to remember."""

    actions: Tuple[Action, ...]
    memory: RecoveryMemory


def step(memory: RecoveryMemory, event: Event, now: float) -> RecoverySteps:
    """Decide the actions after an event."""
    if memory.phase is Phase.LEFT:
        return RecoverySteps((), memory)
    if isinstance(event, RosterSeen):
        return _follow_roster(memory, event, now)
    if isinstance(event, ProcessEnded):
        return _follow_end(memory._replace(is_gone=False), event.code, now)
    if isinstance(event, ProcessGone):
        return _gather(memory._replace(is_gone=True))
    if isinstance(event, Released):
        return _start(memory, event.barrier)
    if isinstance(event, ProcessHung):
        return _kill(memory, event, now)
    return _follow_time(memory, now)


def _follow_time(memory: RecoveryMemory, now: float) -> RecoverySteps:
    if memory.phase is Phase.HUNG and now - memory.killed_at >= _KILL_SECONDS:
        # Continue as if it had ended. The next start barrier waits until it is gone.
        return _follow_end(memory._replace(is_gone=False), memory.code, now)
    if memory.phase is not Phase.REPORTED:
        return RecoverySteps((), memory)
    if now - memory.reported_at >= ANSWER_SECONDS:
        return _leave(memory, memory.code, UNANSWERED)
    return RecoverySteps((WriteReport(memory.running.epoch, memory.code),), memory)


def _follow_roster(memory: RecoveryMemory, seen: RosterSeen, now: float) -> RecoverySteps:
    is_reported = memory.phase is Phase.REPORTED
    if seen.is_refused and is_reported:
        return _leave(memory, memory.code, REFUSED)
    if seen.barrier < memory.newest or seen.barrier.epoch < memory.newest.epoch:
        return RecoverySteps((), memory)
    # At one start barrier, the members change only because some succeed, and these have started. So
    # the start barrier has released this agent, too, and it does not wait for the new members.
    is_ready = seen.is_ready or (seen.is_complete and seen.barrier == memory.gathering)
    memory = memory._replace(newest=seen.barrier, is_ready=is_ready, is_member=seen.is_member)
    # A complete generation that is not shown yet will be shown in a moment. Until then, the peer
    # counts as leaving.
    is_awaited = memory.has_leaving_peer and seen.is_complete and not seen.is_ready
    memory = memory._replace(has_leaving_peer=seen.has_leaving_peer or is_awaited)
    if memory.phase in {Phase.RUNNING, Phase.HUNG}:
        return _end(memory) if _ends_process(memory, seen) else RecoverySteps((), memory)
    if memory.phase in {Phase.REPORTED, Phase.HELD} and not seen.is_member:
        return _leave(memory, memory.code, NO_MEMBER)
    if memory.phase is Phase.HELD:
        return _follow_held(memory, seen, now)
    if is_reported and seen.barrier.epoch > memory.running.epoch:
        memory = memory._replace(phase=Phase.GATHERING)
    return _gather(memory)


def _follow_held(memory: RecoveryMemory, seen: RosterSeen, now: float) -> RecoverySteps:
    """Decide on a report that is held back, as on a process that runs."""
    if _ends_process(memory, seen):
        return _gather(memory._replace(phase=Phase.GATHERING))
    return RecoverySteps((), memory) if memory.has_leaving_peer else _report(memory, now)


def _ends_process(memory: RecoveryMemory, seen: RosterSeen) -> bool:
    if not seen.is_member or seen.barrier <= memory.running:
        return False
    # A generation that is not complete ends no process, unless the gang cannot go on.
    is_next_epoch = seen.barrier.epoch > memory.running.epoch
    return seen.is_ready or is_next_epoch or seen.has_failed_peer


def _end(memory: RecoveryMemory) -> RecoverySteps:
    # A process that hangs was killed already.
    actions = () if memory.phase is Phase.HUNG else (EndProcess(),)
    return RecoverySteps(actions, memory._replace(phase=Phase.STOPPING))


def _kill(memory: RecoveryMemory, event: ProcessHung, now: float) -> RecoverySteps:
    is_running = memory.phase is Phase.RUNNING and event.barrier == memory.running
    if not is_running or not memory.is_member:
        return RecoverySteps((), memory)
    memory = memory._replace(phase=Phase.HUNG, code=event.code, killed_at=now)
    return RecoverySteps((KillProcess(),), memory)


def _follow_end(memory: RecoveryMemory, code: int, now: float) -> RecoverySteps:
    if memory.phase is Phase.HUNG:
        # A process that succeeds in the last moment did not hang.
        memory, code = memory._replace(phase=Phase.RUNNING), code and memory.code
    if memory.phase is Phase.STOPPING:
        return _gather(memory._replace(phase=Phase.GATHERING))
    if memory.phase is not Phase.RUNNING:
        return RecoverySteps((), memory)
    if code == 0 or not memory.is_member:
        return _leave(memory, code, NO_MEMBER if code else "")
    memory = memory._replace(code=code)
    if memory.newest > memory.running and memory.has_leaving_peer:
        return RecoverySteps((), memory._replace(phase=Phase.HELD))
    return _report(memory, now)


def _report(memory: RecoveryMemory, now: float) -> RecoverySteps:
    memory = memory._replace(phase=Phase.REPORTED, reported_at=now)
    return RecoverySteps((WriteReport(memory.running.epoch, memory.code),), memory)


def _gather(memory: RecoveryMemory) -> RecoverySteps:
    """Come to the newest start barrier, if this agent may; leave an older one."""
    if memory.phase is not Phase.GATHERING:
        return RecoverySteps((), memory)
    if not (memory.is_ready and memory.is_member and memory.is_gone):
        return RecoverySteps((), memory._replace(gathering=_NONE))
    if memory.gathering == memory.newest:
        return RecoverySteps((), memory)
    return RecoverySteps((Gather(memory.newest),), memory._replace(gathering=memory.newest))


def _start(memory: RecoveryMemory, barrier: BarrierKey) -> RecoverySteps:
    if memory.phase is not Phase.GATHERING or barrier != memory.gathering:
        return RecoverySteps((), memory)
    memory = memory._replace(phase=Phase.RUNNING, running=barrier, gathering=_NONE)
    return RecoverySteps((StartProcess(barrier.epoch),), memory)


def _leave(memory: RecoveryMemory, code: int, reason: str) -> RecoverySteps:
    return RecoverySteps((Exit(code, reason),), memory._replace(phase=Phase.LEFT))
