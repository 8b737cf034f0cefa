"""The Snapshot: everything a decision reads, gathered by the observer.

Missing objects are None or absent from a mapping, never an exception.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus

from controller.core.actions import ActionKey, ObjectKind
from framework.api.pods import ConfigMapView, PodView
from framework.api.roster import Roster
from framework.api.types import Framework


@dataclass(frozen=True, slots=True)
class Failure:
    """An action that failed: HTTP code (0: no answer), texts, how often, when again, and when.

    ``consecutive_failures``: how often in a row requests of this verb, kind and name failed, in all
    attempts.
    """

    code: int
    message: str
    body: str
    count: int
    not_before: datetime
    failed_at: datetime | None = None
    consecutive_failures: int = 1

    @property
    def is_unknown(self) -> bool:
        """Return whether the server may have carried it out all the same."""
        return self.code == 0 or self.code >= HTTPStatus.INTERNAL_SERVER_ERROR


@dataclass(frozen=True, slots=True)
class PublishedRoster:
    """What the attempt ConfigMap carries now, and when this controller last wrote it."""

    roster: Roster | None = None
    progress: str = ""
    has_version_annotation: bool = False
    published_at: datetime | None = None
    progress_checked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """The memory of the controller, in bytes.

    ``budget_bytes`` of ``limit_bytes`` may be filled; ``free_bytes`` are not used and not promised
    to another Framework.
    """

    limit_bytes: int
    budget_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One Framework and its world as far as the controller knows it.

    ``framework.status`` is what our last write or read returned. ``pods`` maps names to the Pods
    that carry the Framework's label. ``live``: what the last live GET or believed deletion found
    under a name, a UID or "" for nothing, with no create sent and no other object seen there
    since. ``unconfirmed``: own creates that no watch has shown yet,
    with the time of the create. ``end_versions``: per Pod UID the resourceVersion at which it was
    first seen ended or deleted: the order in which Pods ended, where times of one second tie.
    ``object_bytes``: of the Framework without its status, in JSON. ``memory``: None for no limit.
    ``gang_key_owner``: UID of the ConfigMap whose gang key is known to be created, "" for none.
    ``proven``: UIDs of Pods and of the ConfigMap that a controller is known to have created for
    this Framework, by the answer to the create or by the object's creation proof.
    """

    framework: Framework
    now: datetime
    configmap: ConfigMapView | None = None
    pods: Mapping[str, PodView] = field(default_factory=dict)
    in_flight: AbstractSet[ActionKey] = frozenset()
    failures: Mapping[ActionKey, Failure] = field(default_factory=dict)
    live: Mapping[tuple[ObjectKind, str], str] = field(default_factory=dict)
    unconfirmed: Mapping[tuple[ObjectKind, str], datetime] = field(default_factory=dict)
    end_versions: Mapping[str, int] = field(default_factory=dict)
    gang_key_owner: str = ""
    published: PublishedRoster = field(default_factory=PublishedRoster)
    proven: AbstractSet[str] = frozenset()
    object_bytes: int = 0
    memory: MemoryBudget | None = None
