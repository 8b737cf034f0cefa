"""The state of a Framework and of its Tasks, as ``run``, ``describe`` and ``tree`` show it. Pure.

``cli.running.viewbuilder`` builds a ``GangView`` from ``FrameworkObjects``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from framework.api.naming import TaskKey
from framework.kube.resources import Object

NEW = "New"
"""The word for a Framework that no controller has seen."""
PENDING = "Pending"
"""The word for an attempt whose Pod does not exist yet."""
LEFT_RUNNING = "LeftRunning"
"""The word for a Task that has ended with its Framework, and whose Pod runs on."""
SUSPENDED = "Suspended"
"""The word for a Framework that waits until a user resumes it."""


@dataclass(frozen=True, slots=True)
class FrameworkObjects:
    """The known objects of one Framework. Missing objects are None or absent."""

    name: str
    """Name of the Framework."""
    namespace: str
    """Its namespace."""
    framework: Object | None = None
    """The Framework; None before it was read."""
    configmap: Object | None = None
    """The ConfigMap of the attempt."""
    pods: Mapping[str, Object] | None = None
    """Pods by name; None while they are not known, or may not be read."""
    warnings: Mapping[str, str] | None = None
    """Message of the newest Warning event of a Pod, by the Pod's UID."""


class TaskPhase(Enum):
    """The part of its attempt that a Task has reached."""

    WAITING = auto()
    """The containers of its Pod have not run yet."""
    RUNNING = auto()
    """Its containers run."""
    RESTARTING = auto()
    """It runs, and a container was started again after its end; ``note`` describes that end."""
    RETRYING = auto()
    """Its attempt is over, and the next attempt has not begun."""
    ENDED = auto()
    """It ends, or has ended."""


@dataclass(frozen=True, slots=True)
class TaskLine:
    """One Task, as a line of progress shows it."""

    key: TaskKey
    """Role and index."""
    state: str
    """The word for its state, or for its result when it is Completed."""
    attempt: int
    """Number of its attempt."""
    note: str
    """Why it waits, or how it ended; "" if there is nothing to say."""
    code: int | None = None
    """Completion code of its last attempt."""
    end: str = ""
    """How its attempt ended, without its output; "" if it has not ended."""
    diagnostics: str = ""
    """The explained diagnostics of its last attempt; "" if there are none."""
    message: tuple[str, Sequence[str]] | None = None
    """A container and the last lines of its message, if ``diagnostics`` does not have all."""
    phase: TaskPhase = TaskPhase.ENDED
    """The part of its attempt that it has reached."""
    is_own_failure: bool = False
    """Whether it failed by itself, not because the gang ended."""
    is_in_init: bool = False
    """Whether an init container of its Pod runs; the barrier is one."""


class GangPhase(Enum):
    """The part of its life that a Framework has reached."""

    ACTIVE = auto()
    """Its attempt has not ended."""
    ENDING = auto()
    """Its attempt is over, and its Pods are being deleted."""
    RETRYING = auto()
    """Its attempt is over, and the next attempt has not begun."""
    SUSPENDED = auto()
    """It has no Pods until a user resumes it."""
    SUCCEEDED = auto()
    """It is Completed and has succeeded."""
    FAILED = auto()
    """It is Completed and has not succeeded."""


@dataclass(frozen=True, slots=True)
class GangView:
    """One Framework, as progress shows it."""

    name: str
    """Name of the Framework."""
    state: str
    """The word for its state, or for its result when it is Completed."""
    attempt: int
    """Number of its attempt."""
    note: str
    """Why it waits, or how it ended; "" if there is nothing to say."""
    tasks: tuple[TaskLine, ...]
    """Its Tasks, without those that were scaled down and have ended."""
    end: str = ""
    """Why its attempt failed; "" if it has not failed."""
    phase: GangPhase = GangPhase.ACTIVE
    """The part of its life that it has reached."""
    lacks_controller: bool = False
    """Whether no controller has seen it for longer than a controller needs; ``note`` says so."""
    is_blocked: bool = False
    """Whether the controller cannot continue, except in a pause; ``note`` says why."""
    unguarded_roles: frozenset[str] = frozenset()
    """Roles whose failed Tasks fail no Framework, without the explicit -1 that allows it."""
    epoch: str = ""
    """The epoch of its processes and why it began; "" if they have not restarted in place."""
    training: str = ""
    """The last reported progress of its training; "" if no agent has reported it."""
    restart: tuple[TaskKey, str] | None = None
    """The Task whose process failed before the last restart in place, and a note about it."""

    @property
    def is_completed(self) -> bool:
        """Return whether it has ended for good."""
        return self.phase in {GangPhase.SUCCEEDED, GangPhase.FAILED}

    @property
    def is_succeeded(self) -> bool:
        """Return whether it has ended for good, and has succeeded."""
        return self.phase is GangPhase.SUCCEEDED

    def list_own_failures(self) -> Sequence[TaskLine]:
        """List the Tasks that failed by themselves: the cause is there."""
        return [line for line in self.tasks if line.is_own_failure]
