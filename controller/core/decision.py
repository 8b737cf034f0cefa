"""The Decision: what the worker stores, publishes, sends and reports, in this order."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from controller.core.actions import Action, Urgency
from controller.core.waits import Wait
from framework.api.roster import Roster
from framework.api.types import FrameworkStatus


class EventType(StrEnum):
    """Type of a Kubernetes event."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Event:
    """An event on the Framework."""

    type: EventType
    reason: str
    message: str


class SnapshotTrigger(StrEnum):
    """Why an object is logged before it is replaced: docs/design/failure-handling.md, "History"."""

    FRAMEWORK_RETRY = "OnFrameworkRetry"
    FRAMEWORK_DELETION = "OnFrameworkDeletion"
    TASK_RETRY = "OnTaskRetry"
    TASK_DELETION = "OnTaskDeletion"
    POD_DELETION = "OnPodDeletion"


class LoggedPart(NamedTuple):
    """The fields of one part of an object that the history log shows."""

    value: Any
    is_cut: bool


class BodySource(Protocol):
    """Builds the body of an object snapshot."""

    def build(self) -> dict[str, Any]:
        """Build the body."""


@dataclass(frozen=True, slots=True)
class ObjectSnapshot:
    """A stored object to log before it is replaced.

    ``source`` is the body, or builds it when it is logged: one decision may retry ten thousand
    Tasks, and all their bodies together would fill the memory.
    """

    trigger: SnapshotTrigger
    subject: str
    source: dict[str, Any] | BodySource

    @property
    def body(self) -> dict[str, Any]:
        """The fields that the log shows, in their wire form."""
        return self.source if isinstance(self.source, dict) else self.source.build()


@dataclass(frozen=True, slots=True)
class Publication:
    """A PATCH of the attempt ConfigMap: a new generation, or only the readiness."""

    configmap_name: str
    configmap_uid: str
    resource_version: str
    """With the UID, the precondition of the PATCH."""
    roster: Roster | None
    """None leaves the roster as it is."""
    readiness: str
    """Text of the annotation; "" removes it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of one decision about one Framework."""

    status: FrameworkStatus | None = None
    """To be written; None if nothing changed."""
    urgency: Urgency = Urgency.NONE
    """How soon the status must be written. AGAIN: decide again as soon as it is."""
    publication: Publication | None = None
    """To be published; None if the roster and the readiness stay as they are."""
    readiness_checked_at: datetime | None = None
    """When the gang's readiness was computed; None if it was not."""
    actions: tuple[Action, ...] = ()
    """To be sent after the status is written. Actions with the urgency NONE may be sent before."""
    events: tuple[Event, ...] = ()
    """To be recorded after the status is written."""
    snapshots: tuple[ObjectSnapshot, ...] = ()
    """To be logged after the status is written."""
    wake_at: datetime | None = None
    """When to decide again even if nothing changes; None for no such time."""
    waits: frozenset[Wait] = frozenset()
    """Waits of this decision. The worker measures how long each lasts."""
