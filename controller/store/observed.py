"""Observed: one Framework and its objects, as lists, watches and answers have shown them.

Only ``controller.store`` writes it: tests/controller/test_entry_owners.py.
"""

from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from controller.core.actions import ActionKey, ObjectKind
from controller.core.snapshot import PublishedRoster
from controller.store.object_identity import Version, parse_version, read_version
from framework.api import constants
from framework.api.fielderrors import FieldErrors
from framework.api.pods import ConfigMapView, PodView
from framework.api.types import Framework
from framework.kube.deferred import DeferredObject
from framework.kube.keptjson import Kept

Name: TypeAlias = tuple[ObjectKind, str]
# Names of former objects that are kept, beside the names that are in use.
_MOST_NAMES = 2 * constants.MAX_TASK_NUMBER


@dataclass(slots=True)
class Observed:
    """The newest Framework of one name, and the objects of its attempt."""

    incarnation: int = 0
    """Counts the Frameworks of this name. Outcomes and pacing are of one incarnation."""
    framework: Framework | None = None
    """None before it is seen, and while ``fault`` says why it cannot be read. Its status is our own
    last write, or the status that was stored when the Framework was first seen."""
    fault: FieldErrors | None = None
    """Why the stored Framework cannot be read."""
    undecoded: DeferredObject | None = None
    """The newest version of the Framework that a watch or a list has shown, until it is decoded.
    Until then ``framework`` is an older version of the same Framework, or None. One that is
    stripped must be read live."""
    kept: Kept | None = None
    """The room for the JSON of ``framework`` between two turns."""
    is_status_undecoded: bool = False
    """Whether the status of ``undecoded`` is to be taken too."""
    wire_status: Any = None
    """The stored status, in its wire form."""
    is_status_ours: bool = False
    """Whether this process has written the status of this Framework."""
    is_diverged: bool = False
    """Whether another client has overwritten our status."""
    needs_refresh: bool = False
    """Whether only a live GET can show which status is persisted."""
    object_bytes: int = 0
    """Size of the Framework without its status, in JSON."""
    configmap: ConfigMapView | None = None
    """The object that has the name of the attempt ConfigMap."""
    read_configmap: ConfigMapView | None = None
    """The version of the ConfigMap from which ``published`` was read."""
    published: PublishedRoster = field(default_factory=PublishedRoster)
    """The roster in the attempt's own ConfigMap, and its readiness."""
    pods: dict[str, PodView] = field(default_factory=dict)
    """Pods by name."""
    addressed_at: float | None = None
    """When a Pod got an address last, in seconds of the monotonic clock."""
    live: dict[Name, str] = field(default_factory=dict)
    """UID that the last live GET or believed deletion found under a name, "" for none."""
    live_limit: int = _MOST_NAMES
    """Number of names above which ``live`` is reduced to those of the attempt."""
    unconfirmed: dict[Name, datetime] = field(default_factory=dict)
    """Objects that an answer showed and no watch yet, with the time of the answer."""
    disruptions: dict[str, str] = field(default_factory=dict)
    """By UID of a Pod, why it was disrupted, also when it is gone."""
    end_versions: dict[str, int] = field(default_factory=dict)
    """By the UID of a Pod, the resourceVersion at which it was first seen ended."""
    name_revisions: Counter[Name] = field(default_factory=Counter)
    """How often another object may have taken a name. An answer does not describe an object that
    took the name after the request was sent."""
    own_configmap: str = ""
    """UID of the ConfigMap that our own create returned last; "" once a create of its gang key was
    not answered."""
    gang_key_owner: str = ""
    """UID of the ConfigMap whose gang key is created. No watch shows Secrets."""
    proven: set[str] = field(default_factory=set)
    """UIDs of the objects that a controller is known to have created for this Framework."""
    unchecked: set[Name] = field(default_factory=set)
    """Objects whose creation proof is not checked yet."""
    checked_keys: tuple[str, ...] = ()
    """Public keys with which the objects that are not in ``unchecked`` were checked."""
    spent_proofs: dict[str, str] = field(default_factory=dict)
    """By the creation proof of an object that is gone, the UID of this object."""

    @property
    def version(self) -> Version | None:
        """The newest version of the Framework; None if there is none that can be read."""
        if self.undecoded is not None:
            return read_version(self.undecoded)
        if self.framework is None:
            return None
        meta = self.framework.metadata
        return Version(meta.uid, parse_version(meta.resource_version), meta.generation)

    @property
    def framework_bytes(self) -> int:
        """Return how many bytes of JSON the Framework has, as far as that is known."""
        waiting = self.undecoded.length if self.undecoded is not None else 0
        return max(self.object_bytes, waiting)

    @property
    def is_stripped(self) -> bool:
        """Return whether only a live GET can show the newest version of the Framework."""
        return self.undecoded is not None and self.undecoded.is_stripped

    def find_object(self, kind: ObjectKind, name: str) -> PodView | ConfigMapView | None:
        """Find the Pod of a name, or the ConfigMap, which may have any name."""
        return self.pods.get(name) if kind is ObjectKind.POD else self.configmap

    def list_objects(self, kind: ObjectKind) -> list[PodView] | list[ConfigMapView]:
        """List the Pods, or the ConfigMap if there is one."""
        if kind is ObjectKind.POD:
            return list(self.pods.values())
        return [] if self.configmap is None else [self.configmap]

    @property
    def lacks_roster(self) -> bool:
        """Return whether the roster of our own ConfigMap was not kept: a live GET brings it."""
        known = self.configmap
        return known is not None and known.roster is None and known.uid in self.proven

    def record_disruption(self, uid: str, reason: str) -> None:
        """Record why a Pod is disrupted; it may be gone before the next decision."""
        self.disruptions[uid] = reason
        if len(self.disruptions) > 2 * constants.MAX_TASK_NUMBER:
            del self.disruptions[next(iter(self.disruptions))]

    def record_end_version(self, uid: str, resource_version: Any) -> None:
        """Record at which version a Pod was first seen ended, for the newest Pods only."""
        self.end_versions.setdefault(uid, parse_version(resource_version))
        if len(self.end_versions) > 2 * constants.MAX_TASK_NUMBER:
            del self.end_versions[next(iter(self.end_versions))]

    def increment_name_revision(self, name: Name, in_flight: AbstractSet[ActionKey]) -> None:
        """Record that another object may have taken a name.

        Only the answers to requests in flight need revisions. So the other names are forgotten when
        there are many: any client may create Pods of ever new names with our label.
        """
        self.name_revisions[name] += 1
        if len(self.name_revisions) > _MOST_NAMES + 2 * len(in_flight):
            awaited = {(key.kind, key.name) for key in in_flight}
            kept = {known: self.name_revisions[known] for known in awaited}
            self.name_revisions = Counter(kept)

    def record_free_name(self, name: Name) -> None:
        """Record that a name is free; of many names, keep only those of the attempt's Pods."""
        self.live[name] = ""
        if len(self.live) > self.live_limit:
            status = self.framework.status if self.framework else None
            tasks = status.attempt_status.walk_tasks() if status else ()
            names = {task.attempt_status.pod_name for _, task in tasks}
            self.live = {
                known: uid
                for known, uid in self.live.items()
                if known[0] is not ObjectKind.POD or known[1] in names
            }
            # Raise the limit, so that not each further name causes a reduction.
            self.live_limit = _MOST_NAMES + 2 * len(self.live)

    def drop_stale_live_result(self, name: Name, uid: str) -> None:
        """Drop the result of a live GET when another object is seen under its name."""
        if self.live.get(name, uid) != uid:
            del self.live[name]
