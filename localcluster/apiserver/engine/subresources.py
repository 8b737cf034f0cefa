"""Subresources that are no part of their object: scale, and a Pod's binding and eviction.

Called by ``storage``. The status subresource goes the way of an update instead.
"""

from typing import Any

from localcluster.apiserver.bodies import reading
from localcluster.apiserver.engine.deletion import Deleter
from localcluster.apiserver.engine.state import State
from localcluster.apiserver.engine.strategy import Strategy
from localcluster.apiserver.engine.writes import Writer
from localcluster.apiserver.model import errors, objects
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.objects import ObjectKey
from localcluster.apiserver.model.options import DeleteOptions, WriteOptions
from localcluster.apiserver.model.registry import ResourceType, ScaleFields

SCALE = ResourceType("autoscaling", "v1", "scales", "Scale", wire_type="Scale")
BINDING = ResourceType("", "v1", "bindings", "Binding", wire_type="Binding")
_POD_BINDING = ResourceType("", "v1", "pods/binding", "Pod")
EVICTION = ResourceType("policy", "v1", "evictions", "Eviction", wire_type="Eviction")


class Subresources:
    """Reads and writes subresources of one state."""

    def __init__(self, state: State, writer: Writer, deleter: Deleter) -> None:
        """Write into ``state``."""
        self._state = state
        self._writer = writer
        self._deleter = deleter

    def scale_of(self, rt: ResourceType, obj: Object) -> Object:
        """Return the Scale of an object of a type that has one."""
        fields = _scale_fields(rt)
        meta = obj["metadata"]
        kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        status: Object = {"replicas": objects.get_path(obj, *fields.status_replicas) or 0}
        selector = objects.get_path(obj, *fields.label_selector) if fields.label_selector else None
        if selector:
            status["selector"] = selector
        replicas = objects.get_path(obj, *fields.spec_replicas)
        return {
            "apiVersion": SCALE.api_version,
            "kind": SCALE.kind,
            "metadata": {name: meta[name] for name in kept if name in meta},
            "spec": {} if replicas is None else {"replicas": replicas},
            "status": status,
        }

    def update(
        self,
        strategy: Strategy,
        key: ObjectKey,
        subresource: str,
        body: Any,
        options: WriteOptions,
    ) -> Object:
        """Replace the scale of an object; return the new Scale."""
        rt = strategy.rt
        if subresource == "finalize" and rt.plural == "namespaces":
            return self._finalize(rt, key, body, options)
        if subresource != "scale":
            raise errors.method_not_supported(rt, "update")
        fields = _scale_fields(rt)
        scale = reading.read_body(SCALE, body, options)
        replicas = objects.get_path(scale, "spec", "replicas") or 0
        if replicas < 0:
            detail = "should be a non-negative integer"
            cause = errors.invalid_value("spec.replicas", replicas, detail)
            raise errors.invalid(SCALE, key[1], [cause])
        old = self._writer.find(rt, key)
        wanted_version = scale["metadata"].get("resourceVersion")
        new = objects.copy_json(old)
        new = objects.with_path(new, replicas, *fields.spec_replicas)
        if wanted_version:
            new = objects.with_metadata(new, resourceVersion=wanted_version)
        changed = self._writer.replace(strategy, old, objects.copy_json(new), options, None)
        return self.scale_of(rt, changed)

    def _finalize(
        self, rt: ResourceType, key: ObjectKey, body: Any, options: WriteOptions
    ) -> Object:
        old = self._writer.find(rt, key)
        given = reading.read_body(rt, body, options)
        finalizers = objects.get_path(given, "spec", "finalizers")
        new = objects.with_path(objects.copy_json(old), finalizers or None, "spec", "finalizers")
        changed = self._writer.settle(rt, key, old, new, dry_run=options.dry_run)
        copied: Object = objects.copy_json(changed)
        return copied

    def create(
        self,
        strategy: Strategy,
        key: ObjectKey,
        subresource: str,
        body: Any,
        options: WriteOptions,
    ) -> Object:
        """POST to a subresource of a Pod; return a Status of success."""
        if strategy.rt.plural != "pods" or subresource not in ("binding", "eviction"):
            raise errors.method_not_supported(strategy.rt, "create")
        if subresource == "binding":
            self._bind(strategy, key, body, options)
        else:
            self._evict(strategy, key, body, options)
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "code": 201,
        }

    def _bind(self, strategy: Strategy, key: ObjectKey, body: Any, options: WriteOptions) -> None:
        rt = strategy.rt
        binding = reading.read_body(BINDING, body, options)
        node = objects.get_path(binding, "target", "name")
        if not node:
            raise errors.invalid(BINDING, key[1], [errors.required("target.name")])
        old = self._writer.find(rt, key)
        name = key[1]
        if objects.is_terminating(old):
            why = f"pod {name} is being deleted, cannot be assigned to a host"
            raise errors.conflict(_POD_BINDING, name, why)
        assigned = objects.get_path(old, "spec", "nodeName")
        if assigned:
            why = f"pod {name} is already assigned to node {errors.quote(assigned)}"
            raise errors.conflict(_POD_BINDING, name, why)
        new: Object = objects.copy_json(old)
        new["spec"]["nodeName"] = node
        conditions = new.setdefault("status", {}).setdefault("conditions", [])
        conditions[:] = [item for item in conditions if item.get("type") != "PodScheduled"]
        now = objects.format_time(self._state.clock.now())
        conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": now})
        self._writer.settle(rt, key, old, new, dry_run=options.dry_run)

    def _evict(self, strategy: Strategy, key: ObjectKey, body: Any, options: WriteOptions) -> None:
        eviction = reading.read_body(EVICTION, body, options)
        asked = eviction.get("deleteOptions") or {}
        preconditions = asked.get("preconditions") or {}
        wanted = DeleteOptions(
            uid=preconditions.get("uid"),
            resource_version=preconditions.get("resourceVersion"),
            grace_seconds=asked.get("gracePeriodSeconds"),
            propagation=asked.get("propagationPolicy"),
            dry_run=options.dry_run,
        )
        self._deleter.delete(strategy, key, wanted)


def _scale_fields(rt: ResourceType) -> ScaleFields:
    if rt.scale is None:
        raise errors.StatusError(404, "NotFound", "the server could not find the resource")
    return rt.scale
