"""The store: all that the controller knows, one Entry per Framework.

1. The informers pass on the objects of lists and watches, by kind: ``apply``, ``remove``,
   ``replace``.
2. Executor and writer pass on the server's answers to our own requests: to ``frameworks``
   (``framework_records``) or to ``objects`` (``object_records``). An answer counts like an event
   that came early.
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

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.store import provenance
from controller.store.entries import Entries
from controller.store.entry import Entry
from controller.store.framework_records import FrameworkRecords
from controller.store.object_identity import owner_key, read_meta
from controller.store.object_records import ObjectRecords
from controller.store.published import refresh_published
from controller.store.status_trust import StatusTrust
from controller.store.take_over import TakeOver
from framework.clock import Clock
from framework.kube.resources import Object


class _Records(Protocol):
    """Records the objects of one kind that lists and watches show."""

    def apply(self, wire: Object) -> None: ...

    def remove(self, wire: Object) -> None: ...

    def remove_unseen(
        self, entry: Entry, seen: AbstractSet[str], resource_version: str
    ) -> None: ...

    def forget_all(self) -> None: ...


class Store:
    """All entries. ``on_change`` is called with the key of every entry that changed."""

    def __init__(self, on_change: Callable[[str], None], clock: Clock | None = None) -> None:
        """Start empty. ``clock``: for the times in entries, and for the trust in statuses."""
        self._entries = Entries(on_change, clock)
        self.trust = StatusTrust(self._entries.read_clock)
        self.frameworks = FrameworkRecords(self._entries, self.trust)
        self.take_over = TakeOver(self._entries, self.frameworks, self.trust)
        kinds = ObjectKind.POD, ObjectKind.CONFIGMAP
        self.objects = {kind: ObjectRecords(kind, self._entries) for kind in kinds}
        self._records: dict[ObjectKind, _Records] = {
            ObjectKind.FRAMEWORK: self.frameworks,
            **self.objects,
        }

    def __len__(self) -> int:
        """Count the Frameworks."""
        return len(self._entries)

    def find(self, key: str) -> Entry | None:
        """Find an entry by ``namespace/name``."""
        return self._entries.find(key)

    def walk(self) -> Iterator[Entry]:
        """Walk all entries."""
        return self._entries.walk()

    def forget_if_empty(self, key: str) -> None:
        """Drop an entry about which nothing is known."""
        entry = self._entries.find(key)
        if entry is not None and entry.is_empty:
            self._entries.drop(key)

    def apply(self, kind: ObjectKind, wire: Object) -> None:
        """Take an object that a watch or a list shows."""
        self._records[kind].apply(wire)

    def remove(self, kind: ObjectKind, wire: Object) -> None:
        """Take the DELETED event of a watch: an object is gone, or left the selector."""
        self._records[kind].remove(wire)

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
        records = self._records[kind]
        if is_reset:
            self._entries.gone.clear()
            records.forget_all()
        seen: dict[str, set[str]] = {}
        for wire in items:
            seen.setdefault(owner_key(kind, wire), set()).add(str(read_meta(wire).get("name")))
            records.apply(wire)
        for entry in list(self._entries.walk()):
            records.remove_unseen(entry, seen.get(entry.key, frozenset()), resource_version)

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
            entry.observed.published, published_at=now, readiness_checked_at=None
        )

    def record_readiness_check(self, entry: Entry, at: datetime) -> None:
        """Record when the gang's readiness was computed last."""
        entry.observed.published = replace(entry.observed.published, readiness_checked_at=at)

    def settle(self, entry: Entry) -> None:
        """Check the creation proofs of new objects, and read the roster if it is new.

        Afterwards ``lacks_roster`` says whether the roster must be read live first.
        """
        provenance.check_objects(entry)
        refresh_published(entry)
