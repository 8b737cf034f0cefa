"""Records Frameworks in their entries: from lists, watches, and the answers to our own requests.

Spec and metadata are those of the newest version. The status is our own, except while the stored
one is trusted (``status_trust``). A UID that was seen deleted does not come back.
"""

from collections.abc import Set as AbstractSet

from controller.store.entries import Entries
from controller.store.entry import Entry
from controller.store.frameworks import (
    decode_framework,
    decode_status,
    take,
    take_read,
    take_written,
)
from controller.store.object_identity import (
    is_newer_framework,
    is_version_of,
    name_key,
    read_meta,
)
from controller.store.objects import discard_object
from controller.store.status_trust import StatusTrust
from framework.api.types import FrameworkStatus
from framework.kube.deferred import DeferredObject
from framework.kube.resources import Object


class FrameworkRecords:
    """The Frameworks of all entries."""

    def __init__(self, entries: Entries, trust: StatusTrust) -> None:
        """Record into ``entries``; ``trust`` decides about stored statuses."""
        self._entries = entries
        self._trust = trust

    def apply(self, wire: Object) -> None:
        """Take a Framework that a watch, a list or the answer to a delete shows."""
        entry = self._entries.open(name_key(wire))
        if entry is None or not is_newer_framework(wire, entry.observed.version):
            return
        if read_meta(wire).get("uid") in self._entries.gone:
            return
        if isinstance(wire, DeferredObject):
            self._keep_undecoded(entry, wire)
        else:
            self._take_framework(entry, wire)
        self._entries.notify(entry)

    def _keep_undecoded(self, entry: Entry, wire: DeferredObject) -> None:
        known = entry.observed
        version = known.version
        if version is None or version.uid != read_meta(wire).get("uid"):
            self._start_incarnation(entry)
            known.framework = known.fault = known.kept = None
            known.is_status_ours = False
        is_stored = known.framework is None or self._trust.is_stored_trusted(entry)
        if known.is_stripped:
            is_stored |= known.is_status_undecoded
        elif known.undecoded is not None and is_stored != known.is_status_undecoded:
            # Only one of the two versions brings its status, so decode the first version now.
            decode_framework(entry)
            self._keep_undecoded(entry, wire)
            return
        known.undecoded, known.is_status_undecoded = wire, is_stored

    def remove(self, wire: Object) -> None:
        """Take the end of a Framework; the garbage collector deletes its objects."""
        entry = self._entries.find(name_key(wire))
        self._entries.gone.add(str(read_meta(wire).get("uid")))
        if entry is None:
            return
        known = entry.observed.version
        if known is None or known.uid == read_meta(wire).get("uid"):
            self.drop(entry)

    def remove_unseen(self, entry: Entry, seen: AbstractSet[str], resource_version: str) -> None:
        """Record the end of the Framework of an entry if a whole list does not have it.

        ``seen``: the names that the list has for this entry.
        """
        del resource_version
        if not seen:
            self._clear(entry)

    def forget_all(self) -> None:
        """Forget all Frameworks: a restore of the server's storage may have undone them."""
        for entry in self._entries.walk():
            known = entry.observed
            known.framework = known.undecoded = known.kept = None
            known.is_status_ours = False

    def require_refresh(self, entry: Entry) -> None:
        """Record that a write may have been applied or not: only a live GET can show which."""
        entry.observed.needs_refresh = True

    def record_status(self, entry: Entry, wire: Object, status: FrameworkStatus) -> None:
        """Take the answer to our own status write.

        A watch may have shown a later edit of the user meanwhile: its spec stays.
        """
        take_written(entry, wire, status)

    def refresh(self, entry: Entry, wire: Object) -> None:
        """Take a live GET after a write of unknown result: it shows the persisted status.

        A late answer about a former Framework of this name changes nothing.
        """
        if read_meta(wire).get("uid") in self._entries.gone:
            return
        decode_framework(entry)
        entry.observed.needs_refresh = False
        if is_version_of(wire, entry.observed.version):
            take_read(entry, wire, is_stored=True)
        else:
            self._take_framework(entry, wire)
        self._entries.notify(entry)

    def rebase(self, entry: Entry, wire: Object) -> None:
        """Take a live GET after a conflict, or of a Framework that is stripped.

        Its version and spec count, and our own status if it is known.
        A late answer about a former Framework of this name changes nothing.
        """
        if read_meta(wire).get("uid") in self._entries.gone:
            return
        self._take_framework(entry, wire)
        self._entries.notify(entry)

    def fetch(self, entry: Entry, wire: Object) -> None:
        """Take a live GET of a stripped Framework in its turn; ``on_change`` is not called."""
        if read_meta(wire).get("uid") not in self._entries.gone:
            self._take_framework(entry, wire)

    def drop(self, entry: Entry) -> None:
        """Record that the Framework is gone; a late event does not bring it back."""
        if entry.observed.version is not None:
            self._entries.gone.add(entry.observed.version.uid)
        self._clear(entry)

    def _clear(self, entry: Entry) -> None:
        entry.observed.framework = entry.observed.undecoded = entry.observed.kept = None
        entry.observed.fault = None
        entry.observed.wire_status = None
        entry.observed.needs_refresh = False
        self._start_incarnation(entry)
        self._entries.notify(entry)

    def _take_framework(self, entry: Entry, wire: Object) -> None:
        decode_framework(entry)
        if is_version_of(wire, entry.observed.version):
            take_read(entry, wire, is_stored=self._trust.is_stored_trusted(entry))
        else:
            self._start_incarnation(entry)
            entry.observed.is_status_ours = False
            take(entry, wire, is_stored=True)

    def _start_incarnation(self, entry: Entry) -> None:
        """Forget the answers to requests for another Framework of this name."""
        if entry.observed.version is not None:
            self._entries.gone.add(entry.observed.version.uid)
        if entry.observed.unconfirmed:
            decode_status(entry)
        entry.observed.undecoded = None
        entry.observed.incarnation += 1
        for kind, name in entry.observed.unconfirmed:
            # No watch has shown these objects, so no watch would report their end.
            discard_object(entry, kind, name)
        entry.observed.live.clear()
        entry.observed.unconfirmed.clear()
