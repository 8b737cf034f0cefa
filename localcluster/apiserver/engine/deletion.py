"""Deletes one object: preconditions, grace, finalizers, then removal.

The order of decisions is that of kube-apiserver's generic registry, including the write that
precedes the removal of a Pod (watchers see it MODIFIED, then DELETED).
"""

from datetime import timedelta

from localcluster.apiserver.engine.state import State
from localcluster.apiserver.engine.strategy import Strategy
from localcluster.apiserver.engine.writes import get_namespace_finalizers
from localcluster.apiserver.model import errors, objects
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.metadata import FOREGROUND_FINALIZER, ORPHAN_FINALIZER
from localcluster.apiserver.model.objects import ObjectKey
from localcluster.apiserver.model.options import FOREGROUND, ORPHAN, DeleteOptions
from localcluster.apiserver.model.registry import ResourceType

CRD_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_IMMORTAL_NAMESPACES = ("default", "kube-system", "kube-public")


class Deleter:
    """Deletes objects of one state."""

    def __init__(self, state: State) -> None:
        """Delete from ``state``."""
        self._state = state

    def delete(self, strategy: Strategy, key: ObjectKey, options: DeleteOptions) -> Object:
        """Delete an object, or mark it; return its last state, or the marked object.

        Without the object, this raises StatusError 404; if a precondition does not hold, 409.
        """
        rt = strategy.rt
        obj = self._state.find(rt.key, key)
        if obj is None:
            raise errors.not_found(rt, key[1])
        _check_preconditions(rt, obj, options)
        if get_namespace_finalizers(obj):
            return self._begin_namespace(rt, key, obj, options)
        if rt.plural == "customresourcedefinitions":
            return self._begin_definition(rt, key, obj, options)
        return self._decide(strategy, key, obj, options)

    def _begin_definition(
        self, rt: ResourceType, key: ObjectKey, obj: Object, options: DeleteOptions
    ) -> Object:
        """Hold a definition until its objects are gone (``collection`` deletes them)."""
        if objects.is_terminating(obj):
            return obj
        finalizers = objects.without_items(objects.finalizers_of(obj), CRD_FINALIZER)
        now = objects.format_time(self._state.clock.now())
        held = objects.with_metadata(
            obj, deletionTimestamp=now, finalizers=[*finalizers, CRD_FINALIZER]
        )
        return self._write(rt, key, held, options)

    def _decide(
        self, strategy: Strategy, key: ObjectKey, obj: Object, options: DeleteOptions
    ) -> Object:
        rt = strategy.rt
        finalizers = wanted_finalizers(rt, obj, options.propagation)
        marked, is_pending, grace = self._mark_graceful(strategy, obj, options.grace_seconds)
        if is_pending:
            return obj
        if grace is None:
            if not finalizers:
                return self._remove(rt, key, obj, options)
            marked = self._mark_waiting(obj)
        marked = objects.with_metadata(marked, finalizers=finalizers or None)
        written = self._write(rt, key, marked, options)
        if finalizers or grace:
            return written
        return self._remove(rt, key, written, options)

    def _mark_graceful(
        self, strategy: Strategy, obj: Object, asked: int | None
    ) -> tuple[Object, bool, int | None]:
        """Return the marked object, whether it is unchanged, and the grace period."""
        meta = obj["metadata"]
        if objects.is_terminating(obj):
            given = meta.get("deletionGracePeriodSeconds")
            supports = strategy.grace_seconds(obj, asked) is not None
            if given is None or not supports:
                return obj, False, None
            if asked is None or asked >= given:
                return obj, True, None
            ends = objects.parse_time(meta["deletionTimestamp"])
            ends += timedelta(seconds=asked - given)
            return _marked(obj, objects.format_time(ends), asked), False, asked
        grace = strategy.grace_seconds(obj, asked)
        if grace is None:
            return obj, False, None
        ends = self._state.clock.now() + timedelta(seconds=grace)
        return _next_generation(_marked(obj, objects.format_time(ends), grace)), False, grace

    def _mark_waiting(self, obj: Object) -> Object:
        """Mark an object without grace that waits for its finalizers."""
        meta = obj["metadata"]
        now = objects.format_time(self._state.clock.now())
        if meta.get("deletionGracePeriodSeconds") is None:
            obj = _next_generation(obj)
        stamp = meta.get("deletionTimestamp")
        return _marked(obj, now if stamp is None or stamp > now else stamp, 0)

    def _begin_namespace(
        self, rt: ResourceType, key: ObjectKey, obj: Object, options: DeleteOptions
    ) -> Object:
        if key[1] in _IMMORTAL_NAMESPACES:
            raise errors.forbidden(rt, key[1], "this namespace may not be deleted")
        if objects.is_terminating(obj):
            return obj
        now = objects.format_time(self._state.clock.now())
        marked = objects.with_metadata(obj, deletionTimestamp=now)
        marked = objects.with_path(marked, "Terminating", "status", "phase")
        finalizers = wanted_finalizers(rt, obj, options.propagation)
        marked = objects.with_metadata(marked, finalizers=finalizers or None)
        return self._write(rt, key, marked, options)

    def _write(
        self, rt: ResourceType, key: ObjectKey, marked: Object, options: DeleteOptions
    ) -> Object:
        if options.dry_run or marked == self._state.find(rt.key, key):
            return marked
        return self._state.commit(rt.key, key, marked)

    def _remove(
        self, rt: ResourceType, key: ObjectKey, obj: Object, options: DeleteOptions
    ) -> Object:
        if not options.dry_run:
            self._state.remove(rt.key, key)
        return obj


def _marked(obj: Object, ends: str, grace: int) -> Object:
    return objects.with_metadata(obj, deletionTimestamp=ends, deletionGracePeriodSeconds=grace)


def _next_generation(obj: Object) -> Object:
    generation = obj["metadata"].get("generation", 0)
    return objects.with_metadata(obj, generation=generation + 1) if generation else obj


def wanted_finalizers(rt: ResourceType, obj: Object, policy: str | None) -> list[str]:
    """Return the finalizers of an object after its deletion with a propagation policy.

    Without a policy, the object's own finalizers decide: an object with ``foregroundDeletion`` is
    deleted in the foreground.
    """
    current = objects.finalizers_of(obj)
    if not rt.collects_garbage:
        return objects.without_items(current, ORPHAN_FINALIZER, FOREGROUND_FINALIZER)
    if policy is None:
        return current
    kept = objects.without_items(current, ORPHAN_FINALIZER, FOREGROUND_FINALIZER)
    if policy == ORPHAN:
        wanted = [*kept, ORPHAN_FINALIZER]
    elif policy == FOREGROUND:
        wanted = [*kept, FOREGROUND_FINALIZER]
    else:
        wanted = kept
    return current if set(wanted) == set(current) else wanted


def _check_preconditions(rt: ResourceType, obj: Object, options: DeleteOptions) -> None:
    meta = obj["metadata"]
    name, version = meta["name"], options.resource_version
    named = ResourceType(rt.group, rt.version, rt.kind, rt.kind)
    if options.uid is not None and options.uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({meta['uid']}). The object might have been deleted and then recreated"
        )
        raise errors.conflict(named, name, why)
    if version is not None and version != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the "
            f"ResourceVersion in record ({meta['resourceVersion']}). The object might have been "
            "modified"
        )
        raise errors.conflict(named, name, why)
