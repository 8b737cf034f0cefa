"""The store: what the controller knows, one Entry per Framework.

Fed by the informers (what watches show) and by the executor and the worker (what the server
returned for our own requests). A result of our own counts like an event that came early. Two
rules keep it honest: a resourceVersion of an object never goes back, and an object that left a
watch without being seen terminating is not believed to be gone:
docs/design/state-machines.md, "Absence".

Our own status is authoritative, but a candidate for leadership has none: while another leads, and
for a while after, what is stored is trusted until we have written a status ourselves. So it is at
the start of a controller that always acts: the process before it may have sent a write.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

from controller.core.actions import ObjectKind
from controller.store import provenance
from controller.store.entry import (
    Entry,
    measure_object,
    name_key,
    owner_key,
    parse_object,
    parse_version,
    read_meta,
)
from controller.store.packed_templates import pack_metadata, pack_templates
from controller.store.versions import (
    has_roster_beyond,
    is_newer_framework,
    is_older,
    is_overtaken,
    is_same_version,
)
from framework.api import codec
from framework.api.fielderrors import FieldErrors
from framework.api.pods import (
    ConfigMapView,
    ObjectView,
    PodView,
    drop_long_roster,
)
from framework.api.types import FrameworkStatus
from framework.clock import Clock
from framework.kube.resources import Object

_REMEMBERED_UIDS = 100_000
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
# A status write that the controller before us had sent may arrive so long after we began to act.
_LATE_WRITE_SECONDS = 60.0


class Store:
    """All entries. ``on_change`` is told the key of every entry that changed."""

    def __init__(self, on_change: Callable[[str], None], clock: Clock | None = None) -> None:
        """Start empty. ``clock``: for the times entries keep, and for ``follow``."""
        self._entries: dict[str, Entry] = {}
        self._on_change = on_change
        self._clock = clock
        self._trusted_until = -math.inf
        # UIDs seen deleted: an answer to our own request that comes later brings none back.
        self._gone: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        """Count the Frameworks."""
        return sum(1 for entry in self._entries.values() if entry.framework is not None)

    def find(self, key: str) -> Entry | None:
        """Find an entry by ``namespace/name``."""
        return self._entries.get(key)

    def forget_if_empty(self, key: str) -> None:
        """Drop an entry about which nothing is known."""
        entry = self._entries.get(key)
        if entry is not None and entry.is_empty:
            del self._entries[key]

    # --- who leads ----------------------------------------------------------------------------

    def follow(self) -> None:
        """Trust every status that is stored: another controller leads."""
        self._trusted_until = math.inf

    def expect_late_writes(self) -> None:
        """Begin to act: a status write of the controller before us may be on its way still."""
        self._trusted_until = self._read_clock() + _LATE_WRITE_SECONDS

    def take_over(self, items: Iterable[Object]) -> None:
        """Begin to lead, with a list of all Frameworks taken since we do.

        The watch may be behind what the leader before us wrote. It is not replaced by the list,
        because it may be ahead of that too: what the two do not agree on is read live.
        """
        self.expect_late_writes()
        confirmed = set()
        for wire in items:
            entry = self._entries.get(name_key(wire))
            known = entry.framework if entry else None
            if entry is None or known is None or known.metadata.uid != read_meta(wire).get("uid"):
                continue
            confirmed.add(entry.key)
            self.apply_framework(wire)
        for entry in self._entries.values():
            if entry.framework is not None and entry.key not in confirmed:
                entry.needs_refresh = True

    def _is_stored_trusted(self, entry: Entry) -> bool:
        return entry.status_written_at is None and self._read_clock() < self._trusted_until

    def _read_clock(self) -> float:
        return self._clock.monotonic() if self._clock else 0.0

    # --- Frameworks ---------------------------------------------------------------------------

    def apply_framework(self, wire: Object) -> None:
        """Take a Framework that a watch or a list shows."""
        entry = self._open(name_key(wire))
        if entry is None or not is_newer_framework(entry, wire):
            return
        if read_meta(wire).get("uid") in self._gone:
            return
        self._take_framework(entry, wire)
        self._on_change(entry.key)

    def remove_framework(self, wire: Object) -> None:
        """Take a Framework's end; garbage collection does the rest."""
        entry = self._entries.get(name_key(wire))
        self._note_gone(str(read_meta(wire).get("uid")))
        if entry is None:
            return
        known = entry.framework
        if known is None or known.metadata.uid == read_meta(wire).get("uid"):
            self.drop_framework(entry)

    def replace_frameworks(self, items: Iterable[Object], *, is_reset: bool = False) -> None:
        """Take the whole list; Frameworks not in it are gone.

        ``is_reset``: the server's storage was restored from a backup, so that what is known may
        never have happened: everything is taken as if seen for the first time.
        """
        if is_reset:
            self._gone.clear()
            for entry in self._entries.values():
                entry.framework = None
                entry.status_written_at = None
        seen = set()
        for wire in items:
            seen.add(name_key(wire))
            self.apply_framework(wire)
        for entry in [e for e in self._entries.values() if e.key not in seen]:
            self._drop(entry)

    def record_status(self, entry: Entry, wire: Object, status: FrameworkStatus) -> None:
        """Take what the server returned for our own status write.

        A watch may have shown a later edit of the user meanwhile: its spec stays.
        """
        entry.wire_status = wire.get("status")
        entry.is_diverged = False
        entry.needs_refresh = False
        known = entry.framework
        if known is None or known.metadata.uid != read_meta(wire).get("uid"):
            return
        if is_newer_framework(entry, wire):
            metadata = pack_metadata(codec.decode_metadata(wire))
            spec = known.spec
            if metadata.generation != known.metadata.generation:
                spec = pack_templates(codec.decode_spec(wire.get("spec")))
            known = replace(known, metadata=metadata, spec=spec)
        entry.framework = replace(known, status=status)

    def refresh_framework(self, entry: Entry, wire: Object) -> None:
        """Take a live GET after a write whose fate is unknown: what it shows is persisted."""
        known = entry.framework
        entry.needs_refresh = False
        if known is None or known.metadata.uid != read_meta(wire).get("uid"):
            self._take_framework(entry, wire)
        else:
            self._take(entry, wire, self._take_stored)
        self._on_change(entry.key)

    def rebase_framework(self, entry: Entry, wire: Object) -> None:
        """Take a live GET after a conflict: its version and spec, but our own status."""
        self._take_framework(entry, wire)
        self._on_change(entry.key)

    def drop_framework(self, entry: Entry) -> None:
        """Take certainty that the Framework is gone; a watch that is behind brings none back."""
        if entry.framework is not None:
            self._note_gone(entry.framework.metadata.uid)
        self._drop(entry)

    def _drop(self, entry: Entry) -> None:
        entry.framework = None
        entry.fault = None
        entry.wire_status = None
        entry.needs_refresh = False
        self._forget_outcomes(entry)
        self._on_change(entry.key)

    def _take_framework(self, entry: Entry, wire: Object) -> None:
        known = entry.framework
        if known is None or known.metadata.uid != read_meta(wire).get("uid"):
            self._forget_outcomes(entry)
            entry.status_written_at = None
            self._take(entry, wire, self._take_stored)
        elif self._is_stored_trusted(entry):
            self._take(entry, wire, self._take_stored)
        else:
            self._take(entry, wire, self._take_edit)

    def _take(self, entry: Entry, wire: Object, take: Callable[[Entry, Object], None]) -> None:
        try:
            take(entry, wire)
            entry.fault = None
        except FieldErrors as e:
            entry.framework = None
            entry.fault = e

    def _take_edit(self, entry: Entry, wire: Object) -> None:
        known = entry.framework
        if known is None:
            return
        metadata = pack_metadata(codec.decode_metadata(wire))
        spec = pack_templates(codec.decode_spec(wire.get("spec")))
        entry.framework = replace(known, metadata=metadata, spec=spec)
        entry.object_bytes = measure_object(wire)
        entry.is_diverged = wire.get("status") != entry.wire_status

    def _forget_outcomes(self, entry: Entry) -> None:
        """Forget what became of the actions for another Framework of this name, and was told."""
        entry.blocked = None
        entry.changed_at = None
        for kind, name in entry.unconfirmed:
            # No watch shows these, so none would ever say that they are gone.
            self._discard(entry, kind, name)
        entry.forget_failures()
        entry.live.clear()
        entry.unconfirmed.clear()

    def _take_stored(self, entry: Entry, wire: Object) -> None:
        framework = codec.decode_framework(wire)
        entry.framework = replace(
            framework,
            metadata=pack_metadata(framework.metadata),
            spec=pack_templates(framework.spec),
        )
        entry.object_bytes = measure_object(wire)
        entry.wire_status = wire.get("status")
        entry.is_diverged = False

    # --- Pods and ConfigMaps ------------------------------------------------------------------

    def apply_pod(self, wire: Object) -> None:
        """Take a Pod that a watch or a list shows."""
        self._apply(wire, ObjectKind.POD)

    def remove_pod(self, wire: Object) -> None:
        """Take a watch's word that a Pod is gone, or left the selector."""
        self._remove(wire, ObjectKind.POD)

    def replace_pods(
        self,
        items: Iterable[Object],
        resource_version: str,
        *,
        is_reset: bool = False,
    ) -> None:
        """Take the whole list of Pods; ``is_reset`` as for Frameworks."""
        if is_reset:
            self._forget_objects(ObjectKind.POD)
        seen: dict[str, set[str]] = {}
        for wire in items:
            key = owner_key(ObjectKind.POD, wire)
            seen.setdefault(key, set()).add(str(read_meta(wire).get("name")))
            self.apply_pod(wire)
        for entry in list(self._entries.values()):
            for pod in list(entry.pods.values()):
                if pod.name not in seen.get(entry.key, ()):
                    self._vanish(entry, ObjectKind.POD, pod, resource_version)

    def apply_configmap(self, wire: Object) -> None:
        """Take an attempt ConfigMap that a watch or a list shows."""
        self._apply(wire, ObjectKind.CONFIGMAP)

    def remove_configmap(self, wire: Object) -> None:
        """Take a watch's word that a ConfigMap is gone, or left the selector."""
        self._remove(wire, ObjectKind.CONFIGMAP)

    def replace_configmaps(
        self,
        items: Iterable[Object],
        resource_version: str,
        *,
        is_reset: bool = False,
    ) -> None:
        """Take the whole list of attempt ConfigMaps; ``is_reset`` as for Frameworks."""
        if is_reset:
            self._forget_objects(ObjectKind.CONFIGMAP)
        seen = set()
        for wire in items:
            seen.add(owner_key(ObjectKind.CONFIGMAP, wire))
            self.apply_configmap(wire)
        for entry in list(self._entries.values()):
            if entry.configmap is not None and entry.key not in seen:
                self._vanish(entry, ObjectKind.CONFIGMAP, entry.configmap, resource_version)

    def record_own(self, entry: Entry, kind: ObjectKind, wire: Object, now: datetime) -> bool:
        """Take what the server returned for our own create or live GET of one of ours.

        Returns:
            False when the watch has told its end already.
        """
        return self._record_own(entry, kind, parse_object(kind, wire), now)

    def record_created(self, entry: Entry, kind: ObjectKind, wire: Object, now: datetime) -> bool:
        """Take the answer to our own create: it proves that the object is ours."""
        view = parse_object(kind, wire)
        is_there = self._record_own(entry, kind, view, now)
        provenance.note_created(entry, (kind, view.name), view)
        return is_there

    def _record_own(
        self, entry: Entry, kind: ObjectKind, view: PodView | ConfigMapView, now: datetime
    ) -> bool:
        if view.uid in self._gone:
            return False
        entry.live[kind, view.name] = view.uid
        if (kind, view.name) in entry.unconfirmed or not self._is_watched(entry, kind, view):
            entry.unconfirmed[kind, view.name] = now
        self._put_newer(entry, kind, view)
        return True

    def record_terminating(self, entry: Entry, kind: ObjectKind, wire: Object) -> None:
        """Take what the server returned for our own delete of an object that still exists."""
        view = parse_object(kind, wire)
        if view.uid not in self._gone:
            self._put_newer(entry, kind, view)

    def record_absent(self, entry: Entry, kind: ObjectKind, name: str, uid: str | None) -> None:
        """Take certainty that a name is free, or that the instance ``uid`` is gone.

        Not from an answer that time has overtaken: see ``Entry.name_revisions``.
        """
        known = entry.find_object(kind, name)
        if known is not None and (uid is None or known.uid == uid):
            self._discard(entry, kind, name)
            known = None
        entry.live[kind, name] = known.uid if known else ""
        entry.unconfirmed.pop((kind, name), None)

    def record_foreign(self, entry: Entry, kind: ObjectKind, name: str, uid: str) -> None:
        """Take certainty that the name belongs to an object that is not ours."""
        self._discard(entry, kind, name)
        entry.live[kind, name] = uid
        entry.unconfirmed.pop((kind, name), None)

    def _apply(self, wire: Object, kind: ObjectKind) -> None:
        entry = self._open(owner_key(kind, wire))
        if entry is None:
            return
        meta = read_meta(wire)
        name = str(meta.get("name"))
        known = entry.find_object(kind, name)
        if known is not None and is_same_version(meta, known):
            # Not parsed again: a new list may hold a hundred thousand Pods, nearly all unchanged.
            entry.unconfirmed.pop((kind, name), None)
            return
        view = parse_object(kind, wire)
        if view.uid in self._gone or (known is not None and is_older(view, known)):
            return
        entry.unconfirmed.pop((kind, view.name), None)
        if known is not None and known.resource_version == view.resource_version:
            return
        self._put(entry, kind, view)
        self._on_change(entry.key)

    def _remove(self, wire: Object, kind: ObjectKind) -> None:
        entry = self._entries.get(owner_key(kind, wire))
        name, uid = str(read_meta(wire).get("name")), read_meta(wire).get("uid")
        known = entry.find_object(kind, name) if entry else None
        is_going = read_meta(wire).get("deletionTimestamp") is not None
        if uid and is_going:
            # Not one that only left the selector: a live GET must be able to bring it back.
            self._note_gone(str(uid))
        if entry is None or known is None or known.uid != uid or is_overtaken(wire, known):
            return
        entry.record_end_version(known.uid, read_meta(wire).get("resourceVersion"))
        self._end(entry, kind, known, is_believed=known.is_terminating or is_going)

    def _vanish(
        self,
        entry: Entry,
        kind: ObjectKind,
        view: ObjectView,
        resource_version: str,
    ) -> None:
        if parse_version(view.resource_version) <= parse_version(resource_version):
            # A list says nothing of what no watch has shown: it may lack our label.
            is_watched = (kind, view.name) not in entry.unconfirmed
            self._end(entry, kind, view, is_believed=view.is_terminating and is_watched)

    def _end(self, entry: Entry, kind: ObjectKind, view: ObjectView, *, is_believed: bool) -> None:
        name = kind, view.name
        entry.live.pop(name, None)
        if is_believed:
            self._discard(entry, kind, view.name)
            entry.unconfirmed.pop(name, None)
            entry.record_free_name(name)
        elif entry.is_delete_in_flight(view.uid) and self._clock is not None:
            # The answer to our own request tells; if it is lost, a live GET a while later.
            entry.unconfirmed[name] = self._clock.now()
        else:
            # It may only have left the selector: it stands until a live GET, due now, has told.
            entry.unconfirmed[name] = _LONG_AGO
        self._on_change(entry.key)

    # --- places -------------------------------------------------------------------------------

    def _forget_objects(self, kind: ObjectKind) -> None:
        """Forget all objects of a kind and the ends that were seen: some may be undone."""
        self._gone.clear()
        for entry in self._entries.values():
            if kind is ObjectKind.POD:
                entry.pods.clear()
                entry.end_versions.clear()
            else:
                entry.configmap = None
                entry.own_configmap = entry.gang_key_owner = ""
            for known in entry.live, entry.unconfirmed:
                for name in [name for name in known if name[0] is kind]:
                    known.pop(name)
            provenance.forget(entry)
            # Its list may not be here yet: what is decided from must not be of another history.
            entry.needs_refresh = True
            self._on_change(entry.key)

    def _is_watched(self, entry: Entry, kind: ObjectKind, view: ObjectView) -> bool:
        """Return whether the watch has shown this version of the object, or a newer one."""
        known = entry.find_object(kind, view.name)
        return known is not None and known.uid == view.uid and not is_older(known, view)

    def _put_newer(self, entry: Entry, kind: ObjectKind, view: PodView | ConfigMapView) -> None:
        known = entry.find_object(kind, view.name)
        if known is None or is_older(known, view) or has_roster_beyond(known, view):
            self._put(entry, kind, view)

    def _note_gone(self, uid: str) -> None:
        self._gone[uid] = None
        while len(self._gone) > _REMEMBERED_UIDS:
            self._gone.popitem(last=False)

    def _open(self, key: str) -> Entry | None:
        namespace, _, name = key.partition("/")
        if not namespace or not name:
            return None
        return self._entries.setdefault(key, Entry(namespace, name))

    def _put(self, entry: Entry, kind: ObjectKind, view: PodView | ConfigMapView) -> None:
        entry.drop_stale_live_result((kind, view.name), view.uid)
        before = entry.find_object(kind, view.name)
        provenance.note_seen(entry, (kind, view.name), before, view)
        if before is None or before.uid != view.uid:
            entry.increment_name_revision((kind, view.name))
        if isinstance(view, PodView):
            known = entry.pods.get(view.name)
            if view.pod_ip and (known is None or known.pod_ip != view.pod_ip):
                entry.addressed_at = self._read_clock()
            entry.pods[view.name] = view
            if view.is_ended or view.is_terminating:
                entry.record_end_version(view.uid, view.resource_version)
        else:
            # Anybody may create ConfigMaps of such names.
            entry.configmap = view if view.uid in entry.proven else drop_long_roster(view)

    def _discard(self, entry: Entry, kind: ObjectKind, name: str) -> None:
        view = entry.find_object(kind, name)
        if view is not None:
            provenance.note_gone(entry, (kind, name), view)
        if kind is ObjectKind.POD:
            entry.pods.pop(name, None)
        else:
            entry.configmap = None

    def walk(self) -> Iterator[Entry]:
        """Walk all entries."""
        return iter(self._entries.values())
