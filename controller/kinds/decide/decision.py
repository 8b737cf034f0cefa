"""The input and the output of a decision about a job. Pure.

The stages of a Decision are executed in order, the actions of a stage at the same time. A stage
begins after all actions of the stage before it have succeeded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from controller.core.decision import EventType
from framework.kinds.compiled import Object, WantedWorkers
from framework.kinds.trainingjob.status import ScalerEnd


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The reason why an object that the job needs cannot be created."""

    reason: str
    """``NameTaken`` or ``Refused``."""
    message: str
    """Object, fault and remedy."""


@dataclass(frozen=True, slots=True)
class ServiceView:
    """A Service that exists."""

    uid: str
    form: str
    """Digest of its spec, see ``services.compute_form``."""
    is_headless: bool | None = None
    """Whether it is headless, or has an address; None if it has neither, as an ExternalName. The
    API server changes no headless Service to one with an address, nor back."""
    creator: str = ""
    """Public key of the controller process that created it; "" if an older version did."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A job, and those of its objects that exist."""

    job: Object
    """The job as the API server has it."""
    framework: Object | None
    """The Framework with its name, of any creator; None if none is known."""
    services: Mapping[str, ServiceView]
    """Services that the job owns and a controller has created, by name."""
    now: datetime
    """Time of conditions that change."""
    workers: WantedWorkers | None = None
    """The wanted workers of a TrainingJob, if a scaler decides them; None for those of its spec."""
    has_new_workers: bool = False
    """Whether a scaler changes ``workers`` now."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the Framework with the changes of scalers."""
    scaled_workers: Object | None = None
    """The same for the status of a TrainingJob, which stays when the Framework is deleted."""
    scaler: str = ""
    """Scaler that is in progress: ``ScaleIn:namespace/name``; "" if there is none."""
    scaler_end: ScalerEnd | None = None
    """How the scaler ended that the status of the job names; None if none has ended."""
    obstacle: Obstacle | None = None
    """Why the execution of the last decision stopped; None if it did not."""
    has_settled_services: bool = False
    """Whether an earlier decision found all Services as wanted, and since then neither they nor the
    spec of the job have changed: then the Services are not compiled again."""
    creator_key: str = ""
    """Public key of this controller process; "" if it signs nothing."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object; if it exists and the job owns it, this succeeds, too."""

    body: Object


@dataclass(frozen=True, slots=True)
class TryCreate:
    """Ask in a dry run whether an object can be created: its name is free, no policy refuses it."""

    body: Object


@dataclass(frozen=True, slots=True)
class CreateKey:
    """Create the Secret ``body`` with a new ssh key; succeeds if the job owns it already."""

    body: Object


@dataclass(frozen=True, slots=True)
class Replace:
    """Replace the Framework, if it is still of the version in ``body``."""

    body: Object


@dataclass(frozen=True, slots=True)
class Patch:
    """Set fields of the object with this UID; it may be gone."""

    kind: str
    name: str
    uid: str
    fields: Mapping[str, object]
    """Value by the JSON pointer of its field."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the object with this UID; it may be gone."""

    kind: str
    """``Service``."""
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write the status of the job, if it is still of the version in the Snapshot."""

    status: Object


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """Record an Event about the job."""

    type: EventType
    reason: str
    message: str


Action: TypeAlias = (
    Create | TryCreate | CreateKey | Replace | Patch | Delete | WriteStatus | EmitEvent
)


@dataclass(frozen=True, slots=True)
class Decision:
    """The actions for a job, and when to decide again."""

    stages: tuple[tuple[Action, ...], ...] = field(default=())
    """Actions by stage; no stage is empty."""
    is_blocked: bool = False
    """Whether to decide again after a pause, because no event shows the end of the obstacle."""
    has_more: bool = False
    """Whether to decide again in the next turn, because one decision creates only some objects."""
    has_settled_services: bool = False
    """Whether the Services were compared, and all are as wanted."""
