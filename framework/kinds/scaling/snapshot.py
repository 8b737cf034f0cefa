"""What one decision about the scalers of a TrainingJob reads, and the actions it may ask for."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from framework.api.scalerequest import ScaleResult
from framework.api.types import Framework
from framework.kinds.compiled import WantedWorkers
from framework.kinds.scaling.types import Scaler, ScalerStatus


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The TrainingJob."""

    name: str
    """Its name, and that of its Framework."""
    uid: str
    """Its UID."""
    slots: int = 1
    """Processes per worker."""
    min_workers: int | None = None
    """``minReplicas`` of the workers."""
    max_workers: int | None = None
    """``maxReplicas`` of the workers."""
    is_resizing: bool = False
    """Whether its workers are about to change because ``replicas`` or its spec say so: no scaler
    starts in such a turn."""
    end: str = ""
    """Why it takes no scaler any more, for example "has succeeded"; "" if it does."""
    is_faulty: bool = False
    """Whether that is because its spec has faults, which can be corrected."""
    is_final: bool = False
    """Whether its workers never change again: it has ended, or it is being deleted."""


@dataclass(frozen=True, slots=True)
class LauncherFacts:
    """The launcher's Pod, the request for its agent, and the agent's answer."""

    pod_uid: str = ""
    """UID of the Pod; "" while the launcher does not run."""
    has_agent: bool = False
    """Whether an agent in the Pod has acknowledged a generation."""
    request_uid: str = ""
    """UID of the scaler in the attempt's ConfigMap; "" for none."""
    result: ScaleResult | None = None
    """The newest result of the agent."""


@dataclass(frozen=True, slots=True)
class ScalingSnapshot:
    """A TrainingJob with its scalers at one moment.

    No object may be older than the last write of the caller: otherwise a scaler that has ended
    would be taken for one in progress.
    """

    now: datetime
    """The time."""
    job: JobFacts | None = None
    """The TrainingJob; None if there is none of this name."""
    framework: Framework | None = None
    """Its Framework; None if there is none."""
    launcher: LauncherFacts = field(default_factory=LauncherFacts)
    """Its launcher."""
    scalers: tuple[Scaler, ...] = ()
    """All scalers that name the job and are not being deleted."""


@dataclass(frozen=True, slots=True)
class AddOwner:
    """Make the job with this UID an owner of a scaler; its controller, unless it has another."""

    scaler: Scaler
    uid: str


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write the status of a scaler, with its resourceVersion as precondition."""

    scaler: Scaler
    status: ScalerStatus


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """Write the encoded request into the attempt's ConfigMap."""

    request: str


@dataclass(frozen=True, slots=True)
class ClearRequest:
    """Remove the request with this UID from the attempt's ConfigMap."""

    uid: str


@dataclass(frozen=True, slots=True)
class SetWorkers:
    """Make these the wanted workers of the Framework: compile the job with them."""

    workers: WantedWorkers


Action: TypeAlias = AddOwner | WriteStatus | WriteRequest | ClearRequest | SetWorkers


@dataclass(frozen=True, slots=True)
class ScalingDecision:
    """What to do now.

    ``current`` is the title of the scaler in progress, "" if there is none; ``wake_at`` is when to
    decide again without a change of an object.
    """

    actions: tuple[Action, ...] = ()
    current: str = ""
    wake_at: datetime | None = None
