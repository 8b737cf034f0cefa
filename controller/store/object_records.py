"""Records the Pods or the ConfigMaps of Frameworks in their entries.

1. A version that a watch, a list or an answer shows is taken, unless a newer one is known.
2. A watch or a list that has the object no more is believed only if the object was terminating.
   Otherwise it may have left the selector: it stays as unconfirmed, until a live GET has shown
   whether it is absent.
3. The answer to our own create proves that the object is ours.

Rules: docs/design/state-machines.md, "Absence".
"""

from collections.abc import Set as AbstractSet
from datetime import UTC, datetime

from controller.core.actions import ObjectKind
from controller.store import provenance
from controller.store.entries import Entries
from controller.store.entry import Entry
from controller.store.frameworks import decode_status
from controller.store.object_identity import (
    is_older,
    is_overtaken,
    is_same_version,
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
from framework.api.pods import ConfigMapView, ObjectView, PodView
from framework.kube.resources import Object

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class ObjectRecords:
    """The objects of one kind of all entries."""

    def __init__(self, kind: ObjectKind, entries: Entries) -> None:
        """Record objects of ``kind`` into ``entries``."""
        self._kind = kind
        self._entries = entries

    def apply(self, wire: Object) -> None:
        """Take an object that a watch or a list shows."""
        entry = self._entries.open(owner_key(self._kind, wire))
        if entry is None:
            return
        meta = read_meta(wire)
        name = str(meta.get("name"))
        known = entry.observed.find_object(self._kind, name)
        if known is not None and is_same_version(meta, known):
            # Do not parse it again: most of the hundred thousand Pods of a new list are unchanged.
            entry.observed.unconfirmed.pop((self._kind, name), None)
            return
        view = parse_object(self._kind, wire)
        if view.uid in self._entries.gone or (known is not None and is_older(view, known)):
            return
        entry.observed.unconfirmed.pop((self._kind, view.name), None)
        if known is not None and known.resource_version == view.resource_version:
            return
        if known is not None and known.uid != view.uid:
            decode_status(entry)
        put_object(entry, self._kind, view, self._entries.read_clock())
        self._entries.notify(entry)

    def remove(self, wire: Object) -> None:
        """Take the DELETED event of a watch: an object is gone, or left the selector."""
        entry = self._entries.find(owner_key(self._kind, wire))
        name, uid = str(read_meta(wire).get("name")), read_meta(wire).get("uid")
        known = entry.observed.find_object(self._kind, name) if entry else None
        is_going = read_meta(wire).get("deletionTimestamp") is not None
        if uid and is_going:
            # An object that only left the selector is not added: a live GET may bring it back.
            self._entries.gone.add(str(uid))
        if entry is None or known is None or known.uid != uid or is_overtaken(wire, known):
            return
        entry.observed.record_end_version(known.uid, read_meta(wire).get("resourceVersion"))
        last = parse_object(self._kind, wire)
        if isinstance(last, PodView) and last.disruption:
            entry.observed.record_disruption(last.uid, last.disruption)
        self._record_end(entry, known, is_believed=known.is_terminating or is_going)

    def remove_unseen(self, entry: Entry, seen: AbstractSet[str], resource_version: str) -> None:
        """Record the end of the objects of an entry that are not in a whole list.

        ``seen``: the names that the list has for this entry.
        """
        for view in entry.observed.list_objects(self._kind):
            if view.name not in seen:
                self._remove_unlisted(entry, view, resource_version)

    def _remove_unlisted(self, entry: Entry, view: ObjectView, resource_version: str) -> None:
        if parse_version(view.resource_version) <= parse_version(resource_version):
            # An object that no watch has shown may lack our label: the list proves nothing then.
            is_shown = (self._kind, view.name) not in entry.observed.unconfirmed
            self._record_end(entry, view, is_believed=view.is_terminating and is_shown)

    def _record_end(self, entry: Entry, view: ObjectView, *, is_believed: bool) -> None:
        name = self._kind, view.name
        entry.observed.live.pop(name, None)
        is_readable = not (entry.observed.is_stripped and entry.observed.is_status_undecoded)
        if is_believed and is_readable:
            decode_status(entry)
            discard_object(entry, self._kind, view.name)
            entry.observed.unconfirmed.pop(name, None)
            entry.observed.record_free_name(name)
        elif entry.outcomes.is_delete_in_flight(view.uid) and self._entries.clock is not None:
            # The answer to our own delete shows the end. If it is lost, a live GET follows later.
            entry.observed.unconfirmed[name] = self._entries.clock.now()
        else:
            # It may only have left the selector: keep it, and let the next decision read it live.
            entry.observed.unconfirmed[name] = _LONG_AGO
        self._entries.notify(entry)

    def forget_all(self) -> None:
        """Forget all objects of this kind: a restore of the storage may have undone them."""
        for entry in self._entries.walk():
            forget_objects(entry, self._kind)
            # The list of Frameworks may come later: do not decide from a status of before.
            entry.observed.needs_refresh = True
            self._entries.notify(entry)

    def record_own(self, entry: Entry, wire: Object, now: datetime) -> bool:
        """Take the answer to our own create, or to a live GET of an object of ours.

        Returns:
            False if the watch has already shown the end of this object.
        """
        return self._record_own(entry, parse_object(self._kind, wire), now)

    def record_created(self, entry: Entry, wire: Object, now: datetime) -> bool:
        """Take the answer to our own create: it proves that the object is ours."""
        view = parse_object(self._kind, wire)
        is_there = self._record_own(entry, view, now)
        provenance.record_created(entry, (self._kind, view.name), view)
        if self._kind is ObjectKind.CONFIGMAP:
            entry.observed.own_configmap = view.uid
        return is_there

    def _record_own(self, entry: Entry, view: PodView | ConfigMapView, now: datetime) -> bool:
        if view.uid in self._entries.gone:
            return False
        decode_status(entry)
        entry.observed.live[self._kind, view.name] = view.uid
        name = self._kind, view.name
        if name in entry.observed.unconfirmed or not is_watched(entry, self._kind, view):
            entry.observed.unconfirmed[name] = now
        put_newer(entry, self._kind, view, self._entries.read_clock())
        return True

    def record_terminating(self, entry: Entry, wire: Object) -> None:
        """Take the answer to our own delete of an object that still exists."""
        view = parse_object(self._kind, wire)
        if view.uid not in self._entries.gone:
            decode_status(entry)
            put_newer(entry, self._kind, view, self._entries.read_clock())

    def record_absent(self, entry: Entry, name: str, uid: str | None) -> None:
        """Record that a name is free, or that the instance ``uid`` is gone.

        The caller ignores answers that are out of date: see ``Observed.name_revisions``.
        """
        known = entry.observed.find_object(self._kind, name)
        if known is not None and (uid is None or known.uid == uid):
            decode_status(entry)
            discard_object(entry, self._kind, name)
            known = None
        entry.observed.live[self._kind, name] = known.uid if known else ""
        entry.observed.unconfirmed.pop((self._kind, name), None)

    def record_foreign(self, entry: Entry, name: str, uid: str) -> None:
        """Record that a name belongs to an object that is not ours."""
        decode_status(entry)
        discard_object(entry, self._kind, name)
        entry.observed.live[self._kind, name] = uid
        entry.observed.unconfirmed.pop((self._kind, name), None)
