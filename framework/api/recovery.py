"""The types of restarts in place: docs/design/recovery.md. Not in the original."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from framework.api.avoiding import AvoidNodesSpec
from framework.api.leaving import LeaveNodesSpec

# Why an epoch was decided: the reasons in the status.
RESTARTED = "RestartedInPlace"
NOT_IN_PLACE = "NotInPlace"
PERMANENT_FAILURE = "PermanentFailure"
BUDGET_USED_UP = "BudgetUsedUp"


@dataclass(frozen=True, slots=True)
class InPlaceSpec:
    """Restart in place: at most ``max_restarts`` within ``within_seconds``. Not in the original."""

    max_restarts: int = 0
    within_seconds: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecoverySpec:
    """How a role recovers from failures of its processes. Not in the original."""

    in_place: InPlaceSpec | None = None
    leave_nodes: LeaveNodesSpec | None = None
    avoid_nodes: AvoidNodesSpec | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RoleRestarts:
    """The times of the counted restarts in place of a role, the oldest first."""

    role: str = ""
    times: tuple[datetime, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FailedProcess:
    """A process that failed, as the agent of its Pod reported it."""

    role: str = ""
    """Role of its Task."""
    index: int = 0
    """Index of its Task."""
    fingerprint: str = ""
    """Fingerprint of its Pod."""
    epoch: int = 0
    """Epoch of the process."""
    code: int = 0
    """Exit code of the process."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Wire fields that this version does not know; they are written back."""


@dataclass(frozen=True, slots=True)
class StartBarrierStatus:
    """The start barrier of the current members, since all their Pods run."""

    since: int = 0
    """Generation since which the gang has these members."""
    begin_time: datetime | None = None
    """When the controller first knew that all their Pods run."""
    started_epoch: int | None = None
    """The newest epoch that their agents reported as started; None: none yet."""
    is_served: bool = False
    """Whether agents of the attempt have ever reported a start: there are such agents."""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecoveryStatus:
    """The epochs of an attempt. Not in the original."""

    epoch: int = 0
    """The current epoch."""
    decided_time: datetime | None = None
    """When the epoch was decided; None for epoch 0."""
    reason: str = ""
    """CamelCase: RestartedInPlace, or why a report is refused; "" for epoch 0."""
    first_failed: FailedProcess | None = None
    """The first of the processes whose failures led to the epoch."""
    restarts: tuple[RoleRestarts, ...] = ()
    """Counted restarts, by role."""
    refused: tuple[str, ...] = ()
    """Fingerprints of the Pods of refused reports."""
    start_barrier: StartBarrierStatus | None = None
    """The start barrier of the newest members; None before all their Pods run."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Wire fields that this version does not know; they are written back."""
