"""Deletes dependents of owners and contents of namespaces and CRDs, as cluster controllers do.

``state`` queues the objects to check: those that changed, and their owners or dependents.
``Collector`` takes the first one and does the smallest write that is due for it:

1. A terminating namespace or definition: delete an object in it; if none is left, release it.
2. Another terminating object: release it from the finalizer for its dependents.
3. An object whose owners are gone: delete it, or drop the references if an owner still exists.

Each decision is that of kube-controller-manager.
"""

from collections.abc import Callable, Iterable

from localcluster.apiserver.engine.deletion import CRD_FINALIZER, Deleter
from localcluster.apiserver.engine.state import NAMESPACES_KEY, Reference, State
from localcluster.apiserver.engine.strategy import Strategy
from localcluster.apiserver.engine.writes import may_go
from localcluster.apiserver.model import builtins, objects
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.metadata import FOREGROUND_FINALIZER, ORPHAN_FINALIZER
from localcluster.apiserver.model.objects import ObjectKey
from localcluster.apiserver.model.options import BACKGROUND, FOREGROUND, ORPHAN, DeleteOptions
from localcluster.apiserver.model.registry import ResourceType, TypeKey

DEFINITIONS_KEY = builtins.CUSTOM_RESOURCE_DEFINITIONS.key
SOLID, WAITING, DANGLING = "solid", "waiting", "dangling"
"""An owner exists, is being deleted in the foreground, or is gone."""


class Collector:
    """Checks the objects that ``state`` queued, one at a time, in their order."""

    def __init__(
        self, state: State, deleter: Deleter, strategy_of: Callable[[ResourceType], Strategy]
    ) -> None:
        """Collect in ``state`` through ``deleter``."""
        self._state = state
        self._deleter = deleter
        self._strategy_of = strategy_of

    def step(self) -> bool:
        """Do the first step that is due; return False if none is."""
        while self._state.collection_queue:
            reference = next(iter(self._state.collection_queue))
            if self._check(reference):
                return True
            # Only an object without a write leaves the queue: a written one is checked again.
            self._state.collection_queue.pop(reference, None)
        return False

    def _check(self, reference: Reference) -> bool:
        """Do the step that is due for an object; return whether it wrote."""
        type_key, key = reference
        obj = self._state.find(*reference)
        if obj is None:
            return False
        if not objects.is_terminating(obj):
            return bool(objects.owners_of(obj)) and self._collect(reference, obj)
        if type_key == NAMESPACES_KEY and self._empty_namespace(key, obj):
            return True
        if type_key == DEFINITIONS_KEY and self._empty_definition(key, obj):
            return True
        return self._release_owner(reference, obj)

    # --- Contents of namespaces and definitions ---------------------------------------------------

    def _empty_namespace(self, key: ObjectKey, obj: Object) -> bool:
        """Delete an object of a terminating namespace, or the namespace if it is empty."""
        is_empty = True
        for type_key in self._state.types_held():
            held = sorted(item for item in self._state.all_of(type_key) if item[0] == key[1])
            is_empty = is_empty and not held
            if any(self._delete(type_key, item) for item in held):
                return True
        if not is_empty or not objects.get_path(obj, "spec", "finalizers"):
            return False
        self._settle((NAMESPACES_KEY, key), obj, objects.with_path(obj, None, "spec", "finalizers"))
        return True

    def _empty_definition(self, key: ObjectKey, obj: Object) -> bool:
        """Delete an object of a terminating definition, or the definition if none is left."""
        if CRD_FINALIZER not in objects.finalizers_of(obj):
            return False
        type_key = (obj["spec"]["group"], obj["spec"]["names"]["plural"])
        held = sorted(self._state.all_of(type_key))
        if held:
            return any(self._delete(type_key, item) for item in held)
        self._release((DEFINITIONS_KEY, key), obj, CRD_FINALIZER)
        return True

    def _delete(
        self, type_key: TypeKey, key: ObjectKey, uid: str | None = None, policy: str = BACKGROUND
    ) -> bool:
        """Delete an object that is not terminating yet; return whether this wrote."""
        rt = self._state.registry.find_key(type_key)
        held = self._state.find(type_key, key)
        if rt is None or held is None or objects.is_terminating(held):
            return False
        before = self._state.resource_version
        options = DeleteOptions(uid=uid, propagation=policy)
        self._deleter.delete(self._strategy_of(rt), key, options)
        return self._state.resource_version != before

    # --- Owners and dependents --------------------------------------------------------------------

    def _release_owner(self, reference: Reference, obj: Object) -> bool:
        finalizers = objects.finalizers_of(obj)
        uid = obj["metadata"]["uid"]
        dependents = self._state.dependents_of(uid)
        if ORPHAN_FINALIZER in finalizers:
            for dependent in dependents:
                self._drop_owners(dependent, [uid])
            # Read again: an object may name itself as its owner.
            self._release(reference, self._state.find(*reference) or obj, ORPHAN_FINALIZER)
            return True
        if FOREGROUND_FINALIZER not in finalizers:
            return False
        if any(self._blocks(dependent, uid) for dependent in dependents):
            return False
        self._release(reference, obj, FOREGROUND_FINALIZER)
        return True

    def _blocks(self, dependent: Reference, uid: str) -> bool:
        obj = self._state.find(*dependent)
        return obj is not None and any(
            owner["uid"] == uid and owner.get("blockOwnerDeletion")
            for owner in objects.owners_of(obj)
        )

    def _collect(self, reference: Reference, obj: Object) -> bool:
        standing = {
            owner["uid"]: self._classify(owner, reference) for owner in objects.owners_of(obj)
        }
        gone = [uid for uid, state in standing.items() if state != SOLID]
        if not gone:
            return False
        if len(gone) < len(standing):
            self._drop_owners(reference, gone)
            return True
        uid = obj["metadata"]["uid"]
        policy = _choose_policy(
            obj, standing.values(), has_dependents=bool(self._state.dependents_of(uid))
        )
        return self._delete(*reference, uid, policy)

    def _classify(self, owner: Object, dependent: Reference) -> str:
        if owner["uid"] in self._state.absent_owners:
            return DANGLING
        rt = self._state.registry.find_kind(owner["apiVersion"], owner["kind"])
        namespace = dependent[1][0]
        if rt is None or (rt.namespaced and not namespace):
            return SOLID
        found = self._state.find(rt.key, (namespace if rt.namespaced else "", owner["name"]))
        if found is None or found["metadata"]["uid"] != owner["uid"]:
            return DANGLING
        is_foreground = FOREGROUND_FINALIZER in objects.finalizers_of(found)
        return WAITING if is_foreground and objects.is_terminating(found) else SOLID

    def _drop_owners(self, reference: Reference, uids: list[str]) -> None:
        obj = self._state.find(*reference)
        if obj is not None:
            kept = [owner for owner in objects.owners_of(obj) if owner["uid"] not in uids]
            self._state.commit(*reference, objects.with_metadata(obj, ownerReferences=kept or None))

    def _release(self, reference: Reference, obj: Object, finalizer: str) -> None:
        """Remove a finalizer of a terminating object, and the object if it was the last one."""
        kept = objects.without_items(objects.finalizers_of(obj), finalizer)
        self._settle(reference, obj, objects.with_metadata(obj, finalizers=kept or None))

    def _settle(self, reference: Reference, before: Object, after: Object) -> None:
        if may_go(before, after):
            self._state.remove(*reference)
        else:
            self._state.commit(*reference, after)


def _choose_policy(obj: Object, standing: Iterable[str], *, has_dependents: bool) -> str:
    finalizers = objects.finalizers_of(obj)
    if WAITING in standing and has_dependents:
        return FOREGROUND
    if ORPHAN_FINALIZER in finalizers:
        return ORPHAN
    return FOREGROUND if FOREGROUND_FINALIZER in finalizers else BACKGROUND
