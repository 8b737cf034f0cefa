"""The garbage collector of owners, in single steps.

It checks only objects that ``state`` queued because they, their owners or their dependents
changed. Each decision is that of kube-controller-manager's collector.
"""

from collections.abc import Callable, Iterable

from localcluster.apiserver.engine.deletion import Deleter
from localcluster.apiserver.engine.state import Reference, State
from localcluster.apiserver.engine.strategy import Strategy
from localcluster.apiserver.engine.writes import may_go
from localcluster.apiserver.model import objects
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.metadata import FOREGROUND_FINALIZER, ORPHAN_FINALIZER
from localcluster.apiserver.model.options import BACKGROUND, FOREGROUND, ORPHAN, DeleteOptions
from localcluster.apiserver.model.registry import ResourceType

SOLID, WAITING, DANGLING = "solid", "waiting", "dangling"


class GarbageCollector:
    """Deletes objects without owners, and owners that waited for their dependents."""

    def __init__(
        self, state: State, deleter: Deleter, strategy_of: Callable[[ResourceType], Strategy]
    ) -> None:
        """Collect in ``state`` through ``deleter``."""
        self._state = state
        self._deleter = deleter
        self._strategy_of = strategy_of

    def step(self, rt: ResourceType, reference: Reference) -> bool:
        """Do the step that is due for an object; return whether it wrote."""
        obj = self._state.find(*reference)
        if obj is None:
            return False
        if objects.is_terminating(obj):
            return self._release_owner(reference, obj)
        return bool(objects.owners_of(obj)) and self._collect(rt, reference, obj)

    def _release_owner(self, reference: Reference, obj: Object) -> bool:
        finalizers = objects.finalizers_of(obj)
        uid = obj["metadata"]["uid"]
        dependents = self._state.dependents_of(uid)
        if ORPHAN_FINALIZER in finalizers:
            for dependent in dependents:
                self._drop_owners(dependent, [uid])
            self._drop_finalizer(reference, ORPHAN_FINALIZER)
            return True
        if FOREGROUND_FINALIZER not in finalizers:
            return False
        if any(self._blocks(dependent, uid) for dependent in dependents):
            return False
        self._drop_finalizer(reference, FOREGROUND_FINALIZER)
        return True

    def _blocks(self, dependent: Reference, uid: str) -> bool:
        obj = self._state.find(*dependent)
        return obj is not None and any(
            owner["uid"] == uid and owner.get("blockOwnerDeletion")
            for owner in objects.owners_of(obj)
        )

    def _collect(self, rt: ResourceType, reference: Reference, obj: Object) -> bool:
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
        policy = self._policy(
            obj, standing.values(), has_dependents=bool(self._state.dependents_of(uid))
        )
        before = self._state.resource_version
        options = DeleteOptions(uid=uid, propagation=policy)
        self._deleter.delete(self._strategy_of(rt), reference[1], options)
        return self._state.resource_version != before

    @staticmethod
    def _policy(obj: Object, standing: Iterable[str], *, has_dependents: bool) -> str:
        finalizers = objects.finalizers_of(obj)
        if WAITING in standing and has_dependents:
            return FOREGROUND
        if ORPHAN_FINALIZER in finalizers:
            return ORPHAN
        return FOREGROUND if FOREGROUND_FINALIZER in finalizers else BACKGROUND

    def _classify(self, owner: Object, dependent: Reference) -> str:
        if owner["uid"] in self._state.absent_owners:
            return DANGLING
        rt = self._state.registry.find_kind(owner["apiVersion"], owner["kind"])
        if rt is None:
            return SOLID
        namespace = dependent[1][0]
        if rt.namespaced and not namespace:
            return SOLID
        key = (namespace if rt.namespaced else "", owner["name"])
        found = self._state.find(rt.key, key)
        if found is None or found["metadata"]["uid"] != owner["uid"]:
            return DANGLING
        waits = objects.is_terminating(found) and FOREGROUND_FINALIZER in objects.finalizers_of(
            found
        )
        return WAITING if waits else SOLID

    def _drop_owners(self, reference: Reference, uids: list[str]) -> None:
        obj = self._state.find(*reference)
        if obj is not None:
            kept = [owner for owner in objects.owners_of(obj) if owner["uid"] not in uids]
            self._state.commit(*reference, objects.with_metadata(obj, ownerReferences=kept or None))

    def _drop_finalizer(self, reference: Reference, finalizer: str) -> None:
        obj = self._state.find(*reference)
        if obj is not None:
            release(self._state, reference, obj, finalizer)


def release(state: State, reference: Reference, obj: Object, finalizer: str) -> None:
    """Remove a finalizer of a terminating object, and the object if it was the last one."""
    kept = objects.without_items(objects.finalizers_of(obj), finalizer)
    after = objects.with_metadata(obj, finalizers=kept or None)
    if may_go(obj, after):
        state.remove(*reference)
    else:
        state.commit(*reference, after)
