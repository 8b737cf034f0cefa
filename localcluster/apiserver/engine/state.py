"""The stored objects, the version counter and the log of writes.

Every write goes through ``State``. It has no rules of kinds. It keeps an index of owners, and a
queue of the objects that the garbage collector has to check.
"""

from collections.abc import Callable

from framework.clock import Clock, UidSource
from localcluster.apiserver.engine.history import Change, History
from localcluster.apiserver.model import objects
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.objects import ObjectKey
from localcluster.apiserver.model.registry import Registry, TypeKey

Reference = tuple[TypeKey, ObjectKey]
"""One stored object."""

NAMESPACES_KEY: TypeKey = ("", "namespaces")


class State:
    """Everything the API server holds."""

    def __init__(
        self, clock: Clock, uids: UidSource, registry: Registry, history_limit: int
    ) -> None:
        """Start empty, at resource version 0."""
        self.clock = clock
        self.uids = uids
        self.registry = registry
        self.resource_version = 0
        self.history = History(history_limit)
        self.collection_queue: dict[Reference, None] = {}
        """Objects that the garbage collector has to check, in order of the causes."""
        self.absent_owners: set[str] = set()
        """UIDs of deleted owners to which objects still refer."""
        self.observers: list[Callable[[Change], None]] = []
        """Called for every write before watches see it."""
        self._objects: dict[TypeKey, dict[ObjectKey, Object]] = {}
        self._dependents: dict[str, dict[Reference, None]] = {}
        self._written: dict[Reference, Object] = {}
        """The written form of objects that ``read_anew`` shows in another form."""

    def find(self, type_key: TypeKey, key: ObjectKey) -> Object | None:
        """Return the stored object, which must not be changed; None if absent."""
        return self._objects.get(type_key, {}).get(key)

    def all_of(self, type_key: TypeKey) -> dict[ObjectKey, Object]:
        """Return all objects of a type; neither the map nor they may be changed."""
        return self._objects.get(type_key, {})

    def types_held(self) -> list[TypeKey]:
        """Return the types that have stored objects."""
        return [key for key, held in self._objects.items() if held]

    def dependents_of(self, uid: str) -> list[Reference]:
        """Return the objects that name this UID as an owner."""
        return list(self._dependents.get(uid, ()))

    def commit(self, type_key: TypeKey, key: ObjectKey, after: Object) -> Object:
        """Write an object; return it as stored, with its new resource version.

        The storage keeps ``after``, so the caller must not change it afterwards.
        """
        version = str(self.resource_version + 1)
        stored = {**after, "metadata": {**after["metadata"], "resourceVersion": version}}
        self._write((type_key, key), stored)
        return stored

    def remove(self, type_key: TypeKey, key: ObjectKey) -> None:
        """Remove an object."""
        self._write((type_key, key), None)

    def _write(self, reference: Reference, after: Object | None) -> None:
        type_key, key = reference
        held = self._objects.setdefault(type_key, {})
        before = held.get(key)
        self._written.pop(reference, None)
        self.resource_version += 1
        if after is None:
            held.pop(key, None)
        else:
            held[key] = after
        self._index(reference, before, after)
        self._queue_for_collection(reference, before, after)
        change = Change(type_key, key, before, after, self.resource_version)
        for observer in self.observers:
            observer(change)
        self.history.append(change)

    def at(self, type_key: TypeKey, resource_version: int) -> dict[ObjectKey, Object]:
        """Return the objects of a type as they were at an older version (or 410)."""
        then = dict(self.all_of(type_key))
        for change in reversed(self.history.since(resource_version, type_key)):
            if change.before is None:
                then.pop(change.object_key, None)
            else:
                then[change.object_key] = change.before
        return then

    def read_anew(self, type_key: TypeKey, read: Callable[[Object], Object]) -> None:
        """Show all objects of a type in the form that ``read`` returns, without a write."""
        held = self._objects.get(type_key, {})
        for key, shown in held.items():
            written = self._written.setdefault((type_key, key), shown)
            held[key] = read(written)

    def _index(self, reference: Reference, before: Object | None, after: Object | None) -> None:
        was = _owner_uids(before)
        now = _owner_uids(after)
        if was == now:
            return
        for uid in was:
            if uid not in now:
                held = self._dependents[uid]
                held.pop(reference, None)
                if not held:
                    del self._dependents[uid]
                    self.absent_owners.discard(uid)
        for uid in now:
            self._dependents.setdefault(uid, {})[reference] = None

    def _queue_for_collection(
        self, reference: Reference, before: Object | None, after: Object | None
    ) -> None:
        latest = after if after is not None else before
        if latest is None:
            return
        namespace = reference[1][0]
        metadata = latest["metadata"]
        if after is None:
            self._queue_after_removal(metadata, namespace)
        elif metadata.get("ownerReferences") or metadata.get("deletionTimestamp"):
            self.collection_queue[reference] = None
            if metadata.get("deletionTimestamp"):
                self.collection_queue.update(
                    dict.fromkeys(self._dependents.get(metadata["uid"], ()))
                )
        if before is not None:
            self._queue_owners(before, namespace)

    def _queue_after_removal(self, metadata: Object, namespace: str) -> None:
        dependents = self._dependents.get(metadata["uid"])
        if dependents:
            self.absent_owners.add(metadata["uid"])
            self.collection_queue.update(dict.fromkeys(dependents))
        if namespace:
            owner = self.find(NAMESPACES_KEY, ("", namespace))
            if owner is not None and objects.is_terminating(owner):
                self.collection_queue[NAMESPACES_KEY, ("", namespace)] = None

    def _queue_owners(self, before: Object, namespace: str) -> None:
        for owner in objects.owners_of(before):
            rt = self.registry.find_kind(owner["apiVersion"], owner["kind"])
            if rt is not None:
                key = (namespace if rt.namespaced else "", owner["name"])
                self.collection_queue[rt.key, key] = None


def _owner_uids(obj: Object | None) -> tuple[str, ...]:
    if obj is None:
        return ()
    return tuple(owner["uid"] for owner in obj["metadata"].get("ownerReferences") or ())
