"""The Snapshot: everything that one decision reads. The observer builds it.

A missing object is None, or missing in a mapping; it is never an exception.
"""

import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus

from controller.core.actions import ActionKey, ObjectKind
from controller.core.waits import Wait
from framework.api.nodes import NodeNotices
from framework.api.pods import ConfigMapView, PodView
from framework.api.roster import Roster
from framework.api.types import Framework


@dataclass(frozen=True, slots=True)
class Failure:
    """How an action failed."""

    code: int
    """HTTP status; 0 if there was no answer."""
    message: str
    """Text of the answer, for users."""
    body: str
    """Body of the answer."""
    count: int
    """How often this action failed, without a success in between."""
    not_before: datetime
    """When it may be sent again."""
    failed_at: datetime | None = None
    """When it failed last."""
    consecutive_failures: int = 1
    """How often requests of the same verb, kind and name failed, over all attempts."""

    @property
    def is_unknown(self) -> bool:
        """Return whether the server may have carried out the request."""
        return self.code == 0 or self.code >= HTTPStatus.INTERNAL_SERVER_ERROR


@dataclass(frozen=True, slots=True)
class PublishedRoster:
    """The roster and the readiness that the attempt ConfigMap carries."""

    roster: Roster | None = None
    readiness: str = ""
    has_version_annotation: bool = False
    """Whether the ConfigMap names the version of the roster's format."""
    published_at: datetime | None = None
    """When this controller last published a generation."""
    readiness_checked_at: datetime | None = None
    """When this controller last checked the readiness, since that generation."""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """The memory of the controller, in bytes."""

    limit_bytes: int
    """Limit of the process."""
    budget_bytes: int
    """Part of the limit that Frameworks may use."""
    free_bytes: int
    """Part of the budget that is neither used nor promised to another Framework."""
    free_json_bytes: int = sys.maxsize
    """Room for the JSON of this Framework."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One Framework, and everything that the controller knows about it."""

    framework: Framework
    """Its status is what our last write or read returned."""
    now: datetime
    """The current time."""
    configmap: ConfigMapView | None = None
    """The object with the name of the attempt ConfigMap. Another client may have created it."""
    pods: Mapping[str, PodView] = field(default_factory=dict)
    """By name, the Pods with the label of the Framework."""
    in_flight: AbstractSet[ActionKey] = frozenset()
    """Requests that are sent and not answered."""
    failures: Mapping[ActionKey, Failure] = field(default_factory=dict)
    """By action, its failure, if its last answer was one."""
    live: Mapping[tuple[ObjectKind, str], str] = field(default_factory=dict)
    """By name, the UID that the last live GET or deletion showed; "" for no object. A create of the
    name, and a later object with another UID, remove the entry."""
    unconfirmed: Mapping[tuple[ObjectKind, str], datetime] = field(default_factory=dict)
    """By name, when an object was created that no watch has shown yet."""
    end_versions: Mapping[str, int] = field(default_factory=dict)
    """By UID of a Pod, the resourceVersion at which it was first seen finished or deleted. It gives
    the order of ends within one second."""
    disruptions: Mapping[str, str] = field(default_factory=dict)
    """By UID of a Pod, the reason of its condition DisruptionTarget, also when it is gone."""
    gang_key_owner: str = ""
    """UID of the ConfigMap whose gang key is known to be created; "" for none."""
    published: PublishedRoster = field(default_factory=PublishedRoster)
    """The roster and the readiness that agents can read now."""
    proven: AbstractSet[str] = frozenset()
    """UIDs of Pods and ConfigMaps that a controller created for this Framework, as the answer to a
    create or a creation proof shows."""
    object_bytes: int = 0
    """Size of the Framework without its status, in bytes of JSON."""
    memory: MemoryBudget | None = None
    """None for no limit."""
    nodes: Mapping[str, NodeNotices] = field(default_factory=dict)
    """By name, the nodes that Tasks are to leave; none if nodes are not watched."""
    knows_nodes: bool = False
    """Whether nodes are watched, and their last list did not fail."""
    waited: Mapping[Wait, float] = field(default_factory=dict)
    """How long the decisions of this controller have waited, in seconds of the monotonic clock."""
