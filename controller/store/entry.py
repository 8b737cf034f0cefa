"""An Entry: all that is known about one Framework, and how objects say whose they are.

Made and kept by ``store``; read by the observer, the executor, the worker and the writer.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.core.snapshot import Failure, PublishedRoster
from framework.api import constants, naming
from framework.api.fielderrors import FieldErrors
from framework.api.pods import (
    ConfigMapView,
    PodView,
    parse_configmap,
    parse_owner,
    parse_pod,
)
from framework.api.types import Framework
from framework.kube.resources import Object

Name = tuple[ObjectKind, str]
# Of objects that came and went, beside those that are in use.
_MOST_NAMES = 2 * constants.MAX_TASK_NUMBER


@dataclass(frozen=True, slots=True)
class Refusal:
    """A status the server does not take, of one Framework's generation, and what it said."""

    uid: str
    generation: int
    message: str

    def is_of(self, framework: Framework) -> bool:
        """Return whether a status decided from this Framework's spec would be refused again."""
        meta = framework.metadata
        return (meta.uid, meta.generation) == (self.uid, self.generation)


@dataclass(slots=True)
class Entry:
    """All that is known about one Framework of one name.

    ``framework`` is None before it is seen and while ``fault`` says why it cannot be read. Its
    status is our own last write, or what was stored when it was first seen. ``object_bytes``: of it
    without its status, in JSON.
    ``retry_after_seconds``: for so long the server asked us to wait. ``refusal``: the last
    status decided cannot be stored. ``blocked``: reason and message of the condition that was
    written because no decision can be. ``sent``: what was sent since the last decision, which
    therefore did not know of it. ``name_revisions``: per name, how often an object may have been
    created; an answer to a request sent before the latest increment says nothing of the new object.
    ``own_configmap``: UID of the ConfigMap that was returned for our own create last, "" once a
    create of its gang key was not answered.
    ``gang_key_owner``: UID of the ConfigMap whose gang key was created; no watch shows Secrets.
    ``failed_keys``: the key of a failure by its verb, kind and name; of those there is one failure
    at most. ``read_configmap``: the form of the ConfigMap that ``published`` is of. The last four
    belong to ``provenance``: UIDs of the objects that are known to be ours, names of the objects to
    be looked at, keys with which all others were looked at, and UIDs by the proof of an object that
    is gone.
    """

    namespace: str
    name: str
    framework: Framework | None = None
    fault: FieldErrors | None = None
    wire_status: Any = None
    object_bytes: int = 0
    is_diverged: bool = False
    needs_refresh: bool = False
    retry_after_seconds: float = 0.0
    refusal: Refusal | None = None
    blocked: tuple[str, str] | None = None
    configmap: ConfigMapView | None = None
    read_configmap: ConfigMapView | None = None
    published: PublishedRoster = field(default_factory=PublishedRoster)
    pods: dict[str, PodView] = field(default_factory=dict)
    live: dict[Name, str] = field(default_factory=dict)
    live_limit: int = _MOST_NAMES
    in_flight: set[ActionKey] = field(default_factory=set)
    sent: set[ActionKey] = field(default_factory=set)
    failures: dict[ActionKey, Failure] = field(default_factory=dict)
    failed_keys: dict[tuple[Verb, ObjectKind, str], ActionKey] = field(default_factory=dict)
    unconfirmed: dict[Name, datetime] = field(default_factory=dict)
    end_versions: dict[str, int] = field(default_factory=dict)
    name_revisions: Counter[Name] = field(default_factory=Counter)
    own_configmap: str = ""
    gang_key_owner: str = ""
    status_written_at: float | None = None
    changed_at: float | None = None
    addressed_at: float | None = None
    decision_seconds: float = 0.0
    proven: set[str] = field(default_factory=set)
    unchecked: set[Name] = field(default_factory=set)
    checked_keys: tuple[str, ...] = ()
    spent_proofs: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_empty(self) -> bool:
        """Return whether nothing at all is known any more."""
        known = self.framework or self.fault or self.configmap or self.pods or self.in_flight
        return not known

    def find_object(self, kind: ObjectKind, name: str) -> PodView | ConfigMapView | None:
        """Find the Pod of a name, or the ConfigMap whatever its name."""
        return self.pods.get(name) if kind is ObjectKind.POD else self.configmap

    @property
    def lacks_roster(self) -> bool:
        """Return whether the roster of our own ConfigMap was not kept: a live GET brings it."""
        known = self.configmap
        return known is not None and known.roster is None and known.uid in self.proven

    def is_delete_in_flight(self, uid: str) -> bool:
        """Return whether we are deleting this instance right now."""
        return any(
            key.verb is Verb.DELETE and key.identity.partition("/")[0] == uid
            for key in self.in_flight
        )

    def put_failure(self, key: ActionKey, failure: Failure) -> None:
        """Remember how an action failed."""
        self.failures[key] = failure
        self.failed_keys[key.verb, key.kind, key.name] = key

    def drop_failure(self, key: ActionKey) -> None:
        """Forget how an action failed, if it did."""
        if self.failures.pop(key, None) is not None:
            del self.failed_keys[key.verb, key.kind, key.name]

    def drop_former_failure(self, key: ActionKey) -> int:
        """Drop the failure of the same name for an attempt that is over, or they would pile up.

        Ten thousand creates may fail at every try: they are not walked here.

        Returns:
            How many consecutive failures it counted.
        """
        known = self.failed_keys.get((key.verb, key.kind, key.name))
        if known is None or known == key:
            return 0
        count = self.failures[known].consecutive_failures
        self.drop_failure(known)
        return count

    def forget_failures(self) -> None:
        """Forget all failures."""
        self.failures.clear()
        self.failed_keys.clear()

    def record_end_version(self, uid: str, resource_version: Any) -> None:
        """Remember in which order Pods ended; an attempt's Pods are enough."""
        self.end_versions.setdefault(uid, parse_version(resource_version))
        if len(self.end_versions) > 2 * constants.MAX_TASK_NUMBER:
            del self.end_versions[next(iter(self.end_versions))]

    def increment_name_revision(self, name: Name) -> None:
        """Count that an object of this name may have been created.

        Only answers to requests in flight compare the number. The other names are dropped when
        there are many, because any tenant may create Pods of new names with our label.
        """
        self.name_revisions[name] += 1
        if len(self.name_revisions) > _MOST_NAMES + 2 * len(self.in_flight):
            awaited = {(key.kind, key.name) for key in self.in_flight}
            self.name_revisions = Counter({name: self.name_revisions[name] for name in awaited})

    def record_free_name(self, name: Name) -> None:
        """Remember that a name is free; when there are many, only those of the attempt's Pods."""
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
            # So that the next time is as far away as this one was.
            self.live_limit = _MOST_NAMES + 2 * len(self.live)

    def drop_stale_live_result(self, name: Name, uid: str) -> None:
        """Drop what a live GET said about a name when another object is seen there."""
        if self.live.get(name, uid) != uid:
            del self.live[name]


def find_recorded_uid(framework: Framework | None, kind: ObjectKind, name: str) -> str | None:
    """Find the UID that the status names for an object, None if it names none."""
    if framework is None or framework.status is None:
        return None
    attempt = framework.status.attempt_status
    if kind is ObjectKind.CONFIGMAP:
        return attempt.configmap_uid
    parsed = naming.parse_pod_name(name)
    role = attempt.find_role(parsed[1].role) if parsed else None
    if parsed is None or role is None or parsed[1].index >= len(role.tasks):
        return None
    return role.tasks[parsed[1].index].attempt_status.pod_uid


def parse_object(kind: ObjectKind, wire: Object) -> PodView | ConfigMapView:
    """Trim a Pod or a ConfigMap to its view."""
    return parse_pod(wire) if kind is ObjectKind.POD else parse_configmap(wire)


def read_meta(wire: Object) -> Object:
    """Read an object's metadata, {} if it has none."""
    meta = wire.get("metadata")
    return meta if isinstance(meta, dict) else {}


def measure_object(wire: Object) -> int:
    """Measure an object without its status, in bytes of JSON."""
    return len(msgspec.json.encode({key: wire[key] for key in wire if key != "status"}))


def name_key(framework: Object) -> str:
    """Build the key of a Framework: its own name, whatever labels a user gave it."""
    meta = read_meta(framework)
    return f"{meta.get('namespace') or ''}/{meta.get('name') or ''}"


def owner_key(kind: ObjectKind, wire: Object) -> str:
    """Build the key of the Framework a Pod or a ConfigMap belongs to; "/" if it names none.

    What a user may change tells least: only a Pod that no attempt owns goes by its label.
    """
    meta = read_meta(wire)
    if kind is ObjectKind.CONFIGMAP:
        name = naming.parse_configmap_name(str(meta.get("name") or ""))
    else:
        name = _read_owner(meta) or _read_label(meta)
    return f"{meta.get('namespace') or ''}/{name}" if name else "/"


def _read_owner(meta: Object) -> str | None:
    owner = parse_owner(meta)
    if owner is None or owner.kind != constants.CONFIGMAP_KIND:
        return None
    return naming.parse_configmap_name(owner.name)


def _read_label(meta: Object) -> str | None:
    for source in (meta.get("labels"), meta.get("annotations")):
        if isinstance(source, dict) and source.get(constants.FRAMEWORK_NAME):
            return str(source[constants.FRAMEWORK_NAME])
    return None


def parse_version(text: Any) -> int:
    """Parse a resourceVersion, 0 if it is none."""
    try:
        return int(text)
    except (TypeError, ValueError):
        return 0
