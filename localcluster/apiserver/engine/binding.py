"""The subresource ``pods/binding``, which assigns a Pod to a node."""

from typing import Any

from localcluster.apiserver.bodies import reading
from localcluster.apiserver.engine.state import State
from localcluster.apiserver.engine.writes import Writer
from localcluster.apiserver.model import errors, objects
from localcluster.apiserver.model.builtins import PODS
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.objects import ObjectKey
from localcluster.apiserver.model.options import WriteOptions
from localcluster.apiserver.model.registry import ResourceType

BINDING = ResourceType("", "v1", "bindings", "Binding", wire_type="Binding")
_POD_BINDING = ResourceType("", "v1", "pods/binding", "Pod")


def bind_pod(
    state: State, writer: Writer, key: ObjectKey, body: Any, options: WriteOptions
) -> Object:
    """Assign a Pod to the node that a Binding names; return a Status of success.

    Raises:
        StatusError: 404, 409 for a Pod that has a node or terminates, 422 without a node.
    """
    binding = reading.read_body(BINDING, body, options)
    name = key[1]
    node = objects.get_path(binding, "target", "name")
    if not node:
        raise errors.invalid(BINDING, name, [errors.required("target.name")])
    old = writer.find(PODS, key)
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
    now = objects.format_time(state.clock.now())
    conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": now})
    writer.settle(PODS, key, old, new, dry_run=options.dry_run)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
