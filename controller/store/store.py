"""The store: all that the controller knows, one Entry per Framework.

1. The informers pass on the objects of lists and watches, by kind: ``apply``, ``remove``,
   ``replace``.
2. Executor and writer pass on the server's answers to our own requests: ``record_...``. An answer
   counts like an event that came early.
3. Each change of an entry calls ``on_change`` with its key.
4. Before a decision, ``settle`` checks the creation proofs of new objects and reads the roster.
5. A Framework that a watch or a list shows is kept undecoded (``Observed.undecoded``). The worker
   decodes it in the turn of its namespace. So several versions that come between two turns cost
   one decode.
6. The room for JSON is limited (``KeptJson``). Of a Framework without room, only the identity is
   kept (``Observed.is_stripped``): the worker reads it live in its turn, and strips it again
   afterwards (``frameworks.put_away``).

Invariants:
- A status that is not decoded yet is decoded before an object of its Framework ends, because it
  may prove whose the object was. If it is stripped, the object is kept as unconfirmed instead.
- The resourceVersion of an object never goes back.
- An object that left a watch without being seen terminating stays until a live GET has shown that
  it is absent. An object that was seen deleted does not come back by a late answer.
- Our own status is authoritative: an edit brings spec and metadata only. A process that has not
  written a status yet has no status of its own. So it trusts the stored one while another
  controller leads and for a while after, because a write of that controller may still arrive.

Example: a user removes our label from a running Pod. The watch shows DELETED without a
deletionTimestamp; the Pod stays in the entry as unconfirmed, the next decision asks for a live GET,
and its answer puts the Pod back.

Rules: docs/design/state-machines.md, "Absence".
"""

import math
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import UTC, datetime

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.store import provenance
from controller.store.entry import Entry
from controller.store.frameworks import (
    decode_framework,
    decode_status,
    take,
    take_read,
    take_written,
)
from controller.store.gone import GoneUids
from controller.store.object_identity import (
    is_newer_framework,
    is_older,
    is_overtaken,
    is_same_version,
    is_version_of,
    name_key,
    owner_key,
    parse_object,
    parse_version,
    read_meta,
)
from controller.store.objects import (
    discard_object,
    forget_objects,
    is_watched,
    put_newer,
    put_object,
)
from controller.store.published import refresh_published
from framework.api.pods import ConfigMapView, ObjectView, PodView
from framework.api.types import FrameworkStatus
from framework.clock import Clock
from framework.kube.deferred import DeferredObject
from framework.kube.resources import Object

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
# A status write of the former leader may arrive until this long after we began to act.
_LATE_WRITE_SECONDS = 60.0


class Store:
    """All entries. ``on_change`` is called with the key of every entry that changed."""

    def __init__(self, on_change: Callable[[str], None], clock: Clock | None = None) -> None:
        """Start empty. ``clock``: for the times in entries, and for ``follow``."""
        self._entries: dict[str, Entry] = {}
        self._on_change = on_change
        self._clock = clock
        self._trusted_until = -math.inf
        self._gone = GoneUids()

    def __len__(self) -> int:
        """Count the Frameworks."""
        return sum(1 for entry in self._entries.values() if entry.observed.version is not None)

    def find(self, key: str) -> Entry | None:
        """Find an entry by ``namespace/name``."""
        return self._entries.get(key)

    def forget_if_empty(self, key: str) -> None:
        """Drop an entry about which nothing is known."""
        entry = self._entries.get(key)
        if entry is not None and entry.is_empty:
            del self._entries[key]

    # --- leadership ----------------------------------------------------------------------------

    def follow(self) -> None:
        """Trust every status that is stored: another controller leads."""
        self._trusted_until = math.inf

    def expect_late_writes(self) -> None:
        """Begin to act: a status write of the former leader may still be on its way."""
        self._trusted_until = self._read_clock() + _LATE_WRITE_SECONDS

    def confirm(self, items: Iterable[Object]) -> set[str]:
        """Take a page of the list of all Frameworks that is read after we became the leader.

        The watch may be behind the last writes of the former leader. The list does not replace its
        versions, because the watch may also be ahead of the list: a Framework for which the two
        differ is read live.

        Returns:
            The keys of the known Frameworks that the page contains.
        """
        confirmed = set()
        for wire in items:
            entry = self._entries.get(name_key(wire))
            known = entry.observed.version if entry else None
            if entry is None or known is None or known.uid != read_meta(wire).get("uid"):
                continue
            confirmed.add(entry.key)
            self.apply_framework(wire)
        return confirmed

    def finish_take_over(self, confirmed: AbstractSet[str]) -> None:
        """Begin to lead; let the Frameworks be read live that no page of the list has confirmed."""
        self.expect_late_writes()
        for entry in self._entries.values():
            if entry.observed.version is not None and entry.key not in confirmed:
                entry.observed.needs_refresh = True

    def _is_stored_trusted(self, entry: Entry) -> bool:
        return not entry.observed.is_status_ours and self._read_clock() < self._trusted_until

    def _read_clock(self) -> float:
        return self._clock.monotonic() if self._clock else 0.0

    # --- what watches show --------------------------------------------------------------------

    def apply(self, kind: ObjectKind, wire: Object) -> None:
        """Take an object that a watch or a list shows."""
        if kind is ObjectKind.FRAMEWORK:
            self.apply_framework(wire)
        else:
            self._apply_object(kind, wire)

    def remove(self, kind: ObjectKind, wire: Object) -> None:
        """Take the DELETED event of a watch: an object is gone, or left the selector."""
        if kind is ObjectKind.FRAMEWORK:
            self._remove_framework(wire)
        else:
            self._remove_object(kind, wire)

    def replace(
        self,
        kind: ObjectKind,
        items: Iterable[Object],
        resource_version: str,
        *,
        is_reset: bool = False,
    ) -> None:
        """Take the whole list of a kind; objects not in it are gone, or left the selector.

        ``is_reset``: the server's storage was restored from a backup, so the known objects may
        never have existed there. All objects are taken as if they were seen for the first time.
        """
        if is_reset:
            self._forget_kind(kind)
        seen: dict[str, set[str]] = {}
        for wire in items:
            seen.setdefault(owner_key(kind, wire), set()).add(str(read_meta(wire).get("name")))
            self.apply(kind, wire)
        for entry in list(self._entries.values()):
            self._remove_unseen(entry, kind, seen.get(entry.key, set()), resource_version)

    def _remove_unseen(
        self, entry: Entry, kind: ObjectKind, seen: set[str], resource_version: str
    ) -> None:
        if kind is ObjectKind.FRAMEWORK:
            if not seen:
                self._drop(entry)
            return
        for view in entry.observed.list_objects(kind):
            if view.name not in seen:
                self._vanish(entry, kind, view, resource_version)

    # --- Frameworks ---------------------------------------------------------------------------

    def apply_framework(self, wire: Object) -> None:
        """Take a Framework that a watch, a list or the answer to a delete shows."""
        entry = self._open(name_key(wire))
        if entry is None or not is_newer_framework(wire, entry.observed.version):
            return
        if read_meta(wire).get("uid") in self._gone:
            return
        if isinstance(wire, DeferredObject):
            self._keep_undecoded(entry, wire)
        else:
            self._take_framework(entry, wire)
        self._on_change(entry.key)

    def _keep_undecoded(self, entry: Entry, wire: DeferredObject) -> None:
        known = entry.observed
        version = known.version
        if version is None or version.uid != read_meta(wire).get("uid"):
            self._start_incarnation(entry)
            known.framework = known.fault = known.kept = None
            known.is_status_ours = False
        is_stored = known.framework is None or self._is_stored_trusted(entry)
        if known.is_stripped:
            is_stored |= known.is_status_undecoded
        elif known.undecoded is not None and is_stored != known.is_status_undecoded:
            # The status of one of the two versions is taken, and that of the other one is not.
            decode_framework(entry)
            self._keep_undecoded(entry, wire)
            return
        known.undecoded, known.is_status_undecoded = wire, is_stored

    def _remove_framework(self, wire: Object) -> None:
        """Take the end of a Framework; the garbage collector deletes its objects."""
        entry = self._entries.get(name_key(wire))
        self._gone.add(str(read_meta(wire).get("uid")))
        if entry is None:
            return
        known = entry.observed.version
        if known is None or known.uid == read_meta(wire).get("uid"):
            self.drop_framework(entry)

    def record_status(self, entry: Entry, wire: Object, status: FrameworkStatus) -> None:
        """Take the answer to our own status write.

        A watch may have shown a later edit of the user meanwhile: its spec stays.
        """
        take_written(entry, wire, status)

    def refresh_framework(self, entry: Entry, wire: Object) -> None:
        """Take a live GET after a write of unknown result: it shows the persisted status.

        A late answer about a former Framework of this name changes nothing.
        """
        if read_meta(wire).get("uid") in self._gone:
            return
        decode_framework(entry)
        entry.observed.needs_refresh = False
        if is_version_of(wire, entry.observed.version):
            take_read(entry, wire, is_stored=True)
        else:
            self._take_framework(entry, wire)
        self._on_change(entry.key)

    def rebase_framework(self, entry: Entry, wire: Object) -> None:
        """Take a live GET after a conflict, or of a Framework that is stripped.

        Its version and spec count, and our own status if it is known.
        A late answer about a former Framework of this name changes nothing.
        """
        if read_meta(wire).get("uid") in self._gone:
            return
        self._take_framework(entry, wire)
        self._on_change(entry.key)

    def fetch_framework(self, entry: Entry, wire: Object) -> None:
        """Take a live GET of a stripped Framework in its turn; ``on_change`` is not called."""
        if read_meta(wire).get("uid") not in self._gone:
            self._take_framework(entry, wire)

    def drop_framework(self, entry: Entry) -> None:
        """Record that the Framework is gone; a late event does not bring it back."""
        if entry.observed.version is not None:
            self._gone.add(entry.observed.version.uid)
        self._drop(entry)

    def _drop(self, entry: Entry) -> None:
        entry.observed.framework = entry.observed.undecoded = entry.observed.kept = None
        entry.observed.fault = None
        entry.observed.wire_status = None
        entry.observed.needs_refresh = False
        self._start_incarnation(entry)
        self._on_change(entry.key)

    def _take_framework(self, entry: Entry, wire: Object) -> None:
        decode_framework(entry)
        if is_version_of(wire, entry.observed.version):
            take_read(entry, wire, is_stored=self._is_stored_trusted(entry))
        else:
            self._start_incarnation(entry)
            entry.observed.is_status_ours = False
            take(entry, wire, is_stored=True)

    def _start_incarnation(self, entry: Entry) -> None:
        """Forget the answers to requests for another Framework of this name."""
        if entry.observed.version is not None:
            self._gone.add(entry.observed.version.uid)
        if entry.observed.unconfirmed:
            decode_status(entry)
        entry.observed.undecoded = None
        entry.observed.incarnation += 1
        for kind, name in entry.observed.unconfirmed:
            # No watch has shown these objects, so no watch would report their end.
            discard_object(entry, kind, name)
        entry.observed.live.clear()
        entry.observed.unconfirmed.clear()

    # --- answers to our own requests ----------------------------------------------------------

    def require_refresh(self, entry: Entry) -> None:
        """Record that a write may have been applied or not: only a live GET can show which."""
        entry.observed.needs_refresh = True

    def record_sent(self, entry: Entry, key: ActionKey) -> None:
        """Record that an action is sent: a create invalidates the last live GET of its name."""
        if key.verb is Verb.CREATE:
            entry.observed.live.pop((key.kind, key.name), None)
            entry.observed.increment_name_revision((key.kind, key.name), entry.outcomes.in_flight)

    def record_gang_key(self, entry: Entry, owner_uid: str) -> None:
        """Record that the gang key of a ConfigMap exists."""
        entry.observed.gang_key_owner = owner_uid

    def record_unanswered_gang_key(self, entry: Entry) -> None:
        """Record that the create of a gang key may have been applied: a Secret may be ours."""
        entry.observed.own_configmap = ""

    def record_generation(self, entry: Entry, now: datetime) -> None:
        """Record that a generation of the roster was published now."""
        entry.observed.published = replace(
            entry.observed.published, published_at=now, progress_checked_at=None
        )

    def record_progress_check(self, entry: Entry, at: datetime) -> None:
        """Record when the gang's progress was computed last."""
        entry.observed.published = replace(entry.observed.published, progress_checked_at=at)

    def settle(self, entry: Entry) -> None:
        """Check the creation proofs of new objects, and read the roster if it is new.

        Afterwards ``lacks_roster`` says whether the roster must be read live first.
        """
        provenance.check_objects(entry)
        refresh_published(entry)

    def record_own(self, entry: Entry, kind: ObjectKind, wire: Object, now: datetime) -> bool:
        """Take the answer to our own create, or to a live GET of an object of ours.

        Returns:
            False if the watch has already shown the end of this object.
        """
        return self._record_own(entry, kind, parse_object(kind, wire), now)

    def record_created(self, entry: Entry, kind: ObjectKind, wire: Object, now: datetime) -> bool:
        """Take the answer to our own create: it proves that the object is ours."""
        view = parse_object(kind, wire)
        is_there = self._record_own(entry, kind, view, now)
        provenance.record_created(entry, (kind, view.name), view)
        if kind is ObjectKind.CONFIGMAP:
            entry.observed.own_configmap = view.uid
        return is_there

    def _record_own(
        self, entry: Entry, kind: ObjectKind, view: PodView | ConfigMapView, now: datetime
    ) -> bool:
        if view.uid in self._gone:
            return False
        decode_status(entry)
        entry.observed.live[kind, view.name] = view.uid
        if (kind, view.name) in entry.observed.unconfirmed or not is_watched(entry, kind, view):
            entry.observed.unconfirmed[kind, view.name] = now
        put_newer(entry, kind, view, self._read_clock())
        return True

    def record_terminating(self, entry: Entry, kind: ObjectKind, wire: Object) -> None:
        """Take the answer to our own delete of an object that still exists."""
        view = parse_object(kind, wire)
        if view.uid not in self._gone:
            decode_status(entry)
            put_newer(entry, kind, view, self._read_clock())

    def record_absent(self, entry: Entry, kind: ObjectKind, name: str, uid: str | None) -> None:
        """Record that a name is free, or that the instance ``uid`` is gone.

        The caller ignores answers that are out of date: see ``Observed.name_revisions``.
        """
        known = entry.observed.find_object(kind, name)
        if known is not None and (uid is None or known.uid == uid):
            decode_status(entry)
            discard_object(entry, kind, name)
            known = None
        entry.observed.live[kind, name] = known.uid if known else ""
        entry.observed.unconfirmed.pop((kind, name), None)

    def record_foreign(self, entry: Entry, kind: ObjectKind, name: str, uid: str) -> None:
        """Record that a name belongs to an object that is not ours."""
        decode_status(entry)
        discard_object(entry, kind, name)
        entry.observed.live[kind, name] = uid
        entry.observed.unconfirmed.pop((kind, name), None)

    # --- Pods and ConfigMaps ------------------------------------------------------------------

    def _apply_object(self, kind: ObjectKind, wire: Object) -> None:
        entry = self._open(owner_key(kind, wire))
        if entry is None:
            return
        meta = read_meta(wire)
        name = str(meta.get("name"))
        known = entry.observed.find_object(kind, name)
        if known is not None and is_same_version(meta, known):
            # Do not parse it again: most of the hundred thousand Pods of a new list are unchanged.
            entry.observed.unconfirmed.pop((kind, name), None)
            return
        view = parse_object(kind, wire)
        if view.uid in self._gone or (known is not None and is_older(view, known)):
            return
        entry.observed.unconfirmed.pop((kind, view.name), None)
        if known is not None and known.resource_version == view.resource_version:
            return
        if known is not None and known.uid != view.uid:
            decode_status(entry)
        put_object(entry, kind, view, self._read_clock())
        self._on_change(entry.key)

    def _remove_object(self, kind: ObjectKind, wire: Object) -> None:
        entry = self._entries.get(owner_key(kind, wire))
        name, uid = str(read_meta(wire).get("name")), read_meta(wire).get("uid")
        known = entry.observed.find_object(kind, name) if entry else None
        is_going = read_meta(wire).get("deletionTimestamp") is not None
        if uid and is_going:
            # An object that only left the selector is not added: a live GET may bring it back.
            self._gone.add(str(uid))
        if entry is None or known is None or known.uid != uid or is_overtaken(wire, known):
            return
        entry.observed.record_end_version(known.uid, read_meta(wire).get("resourceVersion"))
        last = parse_object(kind, wire)
        if isinstance(last, PodView) and last.disruption:
            entry.observed.record_disruption(last.uid, last.disruption)
        self._end(entry, kind, known, is_believed=known.is_terminating or is_going)

    def _vanish(
        self,
        entry: Entry,
        kind: ObjectKind,
        view: ObjectView,
        resource_version: str,
    ) -> None:
        if parse_version(view.resource_version) <= parse_version(resource_version):
            # An object that no watch has shown may lack our label: the list proves nothing then.
            is_shown = (kind, view.name) not in entry.observed.unconfirmed
            self._end(entry, kind, view, is_believed=view.is_terminating and is_shown)

    def _end(self, entry: Entry, kind: ObjectKind, view: ObjectView, *, is_believed: bool) -> None:
        name = kind, view.name
        entry.observed.live.pop(name, None)
        is_readable = not (entry.observed.is_stripped and entry.observed.is_status_undecoded)
        if is_believed and is_readable:
            decode_status(entry)
            discard_object(entry, kind, view.name)
            entry.observed.unconfirmed.pop(name, None)
            entry.observed.record_free_name(name)
        elif entry.outcomes.is_delete_in_flight(view.uid) and self._clock is not None:
            # The answer to our own delete shows the end. If it is lost, a live GET follows later.
            entry.observed.unconfirmed[name] = self._clock.now()
        else:
            # It may only have left the selector: keep it, and let the next decision read it live.
            entry.observed.unconfirmed[name] = _LONG_AGO
        self._on_change(entry.key)

    def _forget_kind(self, kind: ObjectKind) -> None:
        """Forget all objects of a kind, and the deletions: a restore may have undone them."""
        self._gone.clear()
        for entry in self._entries.values():
            if kind is ObjectKind.FRAMEWORK:
                known = entry.observed
                known.framework = known.undecoded = known.kept = None
                known.is_status_ours = False
                continue
            forget_objects(entry, kind)
            # The list of Frameworks may come later: do not decide from a status of before.
            entry.observed.needs_refresh = True
            self._on_change(entry.key)

    def _open(self, key: str) -> Entry | None:
        namespace, _, name = key.partition("/")
        if not namespace or not name:
            return None
        return self._entries.setdefault(key, Entry(namespace, name))

    def walk(self) -> Iterator[Entry]:
        """Walk all entries."""
        return iter(self._entries.values())
