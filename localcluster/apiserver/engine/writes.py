"""Stores the object of a create, an update, a patch or a binding.

The order of the checks is kube-apiserver's: decode, defaults, namespace, preparation by the kind,
metadata rules, validation, then the write.
"""

from typing import Any

from localcluster.apiserver.bodies import reading
from localcluster.apiserver.engine.state import NAMESPACES_KEY, State
from localcluster.apiserver.engine.strategy import Strategy
from localcluster.apiserver.model import errors, metadata, objects
from localcluster.apiserver.model.builtins import PODS
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.objects import ObjectKey
from localcluster.apiserver.model.options import WriteOptions
from localcluster.apiserver.model.registry import ResourceType

MAX_OBJECT_BYTES = 3 * 1024 * 1024 // 2
_NAME_ATTEMPTS = 8
_BINDING = ResourceType("", "v1", "bindings", "Binding", wire_type="Binding")
_POD_BINDING = ResourceType("", "v1", "pods/binding", "Pod")


def key_of(rt: ResourceType, namespace: str | None, name: str) -> ObjectKey:
    """Return the key of an object of a type; a namespaced type needs a namespace (400)."""
    if not rt.namespaced:
        return "", name
    if not namespace:
        raise errors.bad_request("an empty namespace may not be set when a resource name is used")
    return namespace, name


class Writer:
    """Creates and changes objects of one state; a refused write raises ``StatusError``."""

    def __init__(self, state: State) -> None:
        """Write into ``state``."""
        self._state = state

    def create(
        self,
        strategy: Strategy,
        namespace: str | None,
        body: Any,
        options: WriteOptions,
    ) -> Object:
        """Store a new object and return it, as stored."""
        rt = strategy.rt
        obj = reading.read_body(rt, body, options)
        strategy.apply_defaults(obj)
        self._place(rt, namespace, obj)
        self._stamp(rt, obj)
        strategy.prepare_create(obj)
        causes = metadata.create_faults(rt, obj) + strategy.create_faults(obj)
        if causes:
            raise errors.invalid(rt, obj["metadata"].get("name", ""), causes)
        key = objects.object_key(obj)
        if self._state.find(rt.key, key) is not None:
            raise errors.already_exists(rt, key[1])
        _check_size(obj)
        if strategy.create_warning:
            options.warnings.append(strategy.create_warning)
        if options.dry_run:
            return obj
        return self._state.commit(rt.key, key, obj)

    def _place(self, rt: ResourceType, namespace: str | None, obj: Object) -> None:
        meta = obj["metadata"]
        given = meta.get("namespace", "")
        wanted = (namespace or "") if rt.namespaced else ""
        if rt.namespaced and not wanted:
            raise errors.bad_request("namespace is required for this resource")
        if given and given != wanted:
            raise _namespace_mismatch()
        meta.pop("namespace", None)
        if not wanted:
            return
        meta["namespace"] = wanted
        owner = self._state.find(NAMESPACES_KEY, ("", wanted))
        if owner is None:
            message = f"namespaces {errors.quote(wanted)} not found"
            details = {"name": wanted, "kind": "namespaces"}
            raise errors.StatusError(404, "NotFound", message, details)
        if objects.is_terminating(owner):
            raise _namespace_terminating(rt, meta.get("name", ""), wanted)

    def _stamp(self, rt: ResourceType, obj: Object) -> None:
        meta = obj["metadata"]
        if meta.get("resourceVersion"):
            message = "resourceVersion should not be set on objects to be created"
            raise errors.StatusError(500, "", message)
        for name in _SERVER_FIELDS:
            meta.pop(name, None)
        meta["uid"] = self._state.uids.new_uid()
        meta["creationTimestamp"] = objects.format_time(self._state.clock.now())
        base = meta.get("generateName")
        if base and not meta.get("name"):
            meta["name"] = self._free_name(rt, meta.get("namespace", ""), base, meta["uid"])

    def _free_name(self, rt: ResourceType, namespace: str, base: str, uid: str) -> str:
        name = ""
        for attempt in range(_NAME_ATTEMPTS):
            name = metadata.generate_name(base, uid, attempt)
            if self._state.find(rt.key, (namespace, name)) is None:
                break
        return name

    def update(
        self,
        strategy: Strategy,
        key: ObjectKey,
        body: Any,
        options: WriteOptions,
        subresource: str | None,
    ) -> Object:
        """Replace an object, or one subresource of it; return it as stored."""
        rt = strategy.rt
        old = self.find(rt, key)
        new = reading.read_body(rt, body, options)
        _check_identity(rt, key, new)
        uid = new["metadata"].get("uid")
        if uid and uid != old["metadata"]["uid"]:
            why = f"UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
            raise errors.conflict(rt, key[1], f"Precondition failed: {why}")
        version = new["metadata"].get("resourceVersion")
        if not version or version == "0":
            if not rt.allows_unconditional_update:
                detail = "must be specified for an update"
                cause = errors.invalid_value("metadata.resourceVersion", 0, detail)
                raise errors.invalid(rt, key[1], [cause])
            new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        return self.replace(strategy, old, new, options, subresource)

    def find(self, rt: ResourceType, key: ObjectKey) -> Object:
        """Return the stored object (404 if it is absent)."""
        found = self._state.find(rt.key, key)
        if found is None:
            raise errors.not_found(rt, key[1])
        return found

    def revise(
        self,
        strategy: Strategy,
        old: Object,
        patched: Any,
        options: WriteOptions,
        subresource: str | None,
    ) -> Object:
        """Store the result of a patch of ``old``."""
        rt = strategy.rt
        new = reading.read_patched(rt, patched, options)
        _check_identity(rt, objects.object_key(old), new)
        if not new["metadata"].get("resourceVersion"):
            new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        return self.replace(strategy, old, new, options, subresource)

    def replace(
        self,
        strategy: Strategy,
        old: Object,
        new: Object,
        options: WriteOptions,
        subresource: str | None,
    ) -> Object:
        """Write ``new`` over ``old`` after all rules of an update."""
        rt = strategy.rt
        key = objects.object_key(old)
        if new["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]:
            raise errors.conflict(rt, key[1])
        strategy.apply_defaults(new)
        metadata.carry_over(old, new)
        if subresource == "status":
            strategy.prepare_status(new, old)
            causes = strategy.status_faults
        else:
            strategy.prepare_update(new, old)
            causes = strategy.update_faults
        found = metadata.update_faults(rt, old, new) + causes(new, old)
        if found:
            raise errors.invalid(rt, key[1], found)
        return self.settle(rt, key, old, new, dry_run=options.dry_run)

    def bind(self, key: ObjectKey, body: Any, options: WriteOptions) -> Object:
        """Assign a Pod to the node that a Binding names; return a Status of success.

        A Pod that has a node, or terminates, is a conflict (409).
        """
        binding = reading.read_body(_BINDING, body, options)
        name = key[1]
        node = objects.get_path(binding, "target", "name")
        if not node:
            raise errors.invalid(_BINDING, name, [errors.required("target.name")])
        old = self.find(PODS, key)
        if objects.is_terminating(old):
            why = f"pod {name} is being deleted, cannot be assigned to a host"
            raise errors.conflict(_POD_BINDING, name, why)
        assigned = objects.get_path(old, "spec", "nodeName")
        if assigned:
            why = f"pod {name} is already assigned to node {errors.quote(assigned)}"
            raise errors.conflict(_POD_BINDING, name, why)
        now = objects.format_time(self._state.clock.now())
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
        conditions = objects.get_path(old, "status", "conditions") or ()
        others = [item for item in conditions if item.get("type") != "PodScheduled"]
        new = objects.with_path(old, node, "spec", "nodeName")
        new = objects.with_path(new, [*others, scheduled], "status", "conditions")
        self.settle(PODS, key, old, new, dry_run=options.dry_run)
        success = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
        return {**success, "status": "Success", "code": 201}

    def settle(
        self, rt: ResourceType, key: ObjectKey, old: Object, new: Object, *, dry_run: bool
    ) -> Object:
        """Write a checked change; nothing if equal, a removal if no finalizer is left."""
        if objects.is_same_json(new, old):
            return old
        if may_go(old, new):
            if not dry_run:
                self._state.remove(rt.key, key)
            return new
        _check_size(new)
        return new if dry_run else self._state.commit(rt.key, key, new)


_SERVER_FIELDS = (
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
    "managedFields",
    "resourceVersion",
)


def may_go(old: Object, new: Object) -> bool:
    """Return whether a change removes the last finalizers of an object that waits only for them."""
    if objects.finalizers_of(new) or not objects.is_terminating(old):
        return False
    if get_namespace_finalizers(new):
        return False
    return not old["metadata"].get("deletionGracePeriodSeconds")


def get_namespace_finalizers(obj: Object) -> list[str]:
    """Return ``spec.finalizers`` of a Namespace, nothing for other kinds."""
    if obj.get("kind") != "Namespace" or obj.get("apiVersion") != "v1":
        return []
    return list(objects.get_path(obj, "spec", "finalizers") or ())


def _check_identity(rt: ResourceType, key: ObjectKey, new: Object) -> None:
    meta = new["metadata"]
    if meta.get("name", "") != key[1]:
        message = (
            f"the name of the object ({meta.get('name', '')}) does not match the name on the URL "
            f"({key[1]})"
        )
        raise errors.bad_request(message)
    if not rt.namespaced:
        meta.pop("namespace", None)
        return
    if meta.get("namespace", key[0]) != key[0]:
        raise _namespace_mismatch()
    meta["namespace"] = key[0]


def _namespace_mismatch() -> errors.StatusError:
    return errors.bad_request(
        "the namespace of the provided object does not match the namespace sent on the request"
    )


def _namespace_terminating(rt: ResourceType, name: str, namespace: str) -> errors.StatusError:
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    error = errors.forbidden(rt, name, why)
    text = f"namespace {namespace} is being terminated"
    error.causes = [errors.Cause("NamespaceTerminating", "metadata.namespace", text)]
    return error


def _check_size(obj: Object) -> None:
    if objects.json_size(obj) > MAX_OBJECT_BYTES:
        raise errors.too_large()
