"""Deletes dependents of owners and contents of namespaces and CRDs, as cluster controllers do.

A step makes the smallest write of one decision.
"""

from collections.abc import Callable

from localcluster.apiserver.engine.deletion import CRD_FINALIZER, Deleter
from localcluster.apiserver.engine.garbage import GarbageCollector, release
from localcluster.apiserver.engine.state import NAMESPACES_KEY, Reference, State
from localcluster.apiserver.engine.strategy import Strategy
from localcluster.apiserver.engine.writes import may_go
from localcluster.apiserver.model import builtins, objects
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.objects import ObjectKey
from localcluster.apiserver.model.options import BACKGROUND, DeleteOptions
from localcluster.apiserver.model.registry import ResourceType, TypeKey

DEFINITIONS_KEY = builtins.CUSTOM_RESOURCE_DEFINITIONS.key


class Collector:
    """Checks the objects that ``state`` queued, one at a time, in their order."""

    def __init__(
        self, state: State, deleter: Deleter, strategy_of: Callable[[ResourceType], Strategy]
    ) -> None:
        """Collect in ``state`` through ``deleter``."""
        self._state = state
        self._deleter = deleter
        self._strategy_of = strategy_of
        self._garbage = GarbageCollector(state, deleter, strategy_of)

    def step(self) -> bool:
        """Do the first step that is due; return False if none is."""
        while self._state.collection_queue:
            reference = next(iter(self._state.collection_queue))
            if self._check(reference):
                return True
            # Remove an object only if it needed no write: a written object is checked again.
            self._state.collection_queue.pop(reference, None)
        return False

    def _check(self, reference: Reference) -> bool:
        type_key, key = reference
        rt = self._state.registry.find_key(type_key)
        obj = self._state.find(type_key, key)
        if rt is None or obj is None:
            return False
        if objects.is_terminating(obj):
            if type_key == NAMESPACES_KEY and self._empty_namespace(key, obj):
                return True
            if type_key == DEFINITIONS_KEY and self._empty_definition(key, obj):
                return True
        return self._garbage.step(rt, reference)

    def _empty_namespace(self, key: ObjectKey, obj: Object) -> bool:
        """Delete an object of a terminating namespace, or the namespace if it is empty."""
        namespace = key[1]
        is_empty = True
        for type_key in self._state.types_held():
            for held in sorted(self._state.all_of(type_key)):
                if held[0] != namespace:
                    continue
                is_empty = False
                if self._delete(type_key, held):
                    return True
        if not is_empty or not objects.get_path(obj, "spec", "finalizers"):
            return False
        final = objects.with_path(obj, None, "spec", "finalizers")
        if may_go(obj, final):
            self._state.remove(NAMESPACES_KEY, key)
        else:
            self._state.commit(NAMESPACES_KEY, key, final)
        return True

    def _empty_definition(self, key: ObjectKey, obj: Object) -> bool:
        """Delete an object of a terminating definition, or the definition if none is left."""
        finalizers = objects.finalizers_of(obj)
        if CRD_FINALIZER not in finalizers:
            return False
        type_key = (obj["spec"]["group"], obj["spec"]["names"]["plural"])
        held = sorted(self._state.all_of(type_key))
        if held:
            return any(self._delete(type_key, item) for item in held)
        release(self._state, (DEFINITIONS_KEY, key), obj, CRD_FINALIZER)
        return True

    def _delete(self, type_key: TypeKey, key: ObjectKey) -> bool:
        rt = self._state.registry.find_key(type_key)
        held = self._state.find(type_key, key)
        if rt is None or held is None or objects.is_terminating(held):
            return False
        before = self._state.resource_version
        self._deleter.delete(self._strategy_of(rt), key, DeleteOptions(propagation=BACKGROUND))
        return self._state.resource_version != before
