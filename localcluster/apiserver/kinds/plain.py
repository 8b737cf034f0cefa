"""The small built-in kinds, for example ConfigMap, Secret, Service, Event and Deployment.

Only the rules that matter for clients of this project.
"""

import base64

from localcluster.apiserver.engine.strategy import Strategy
from localcluster.apiserver.model import errors, names
from localcluster.apiserver.model.errors import (
    Cause,
    Object,
    invalid_value,
    not_supported,
    required,
)

MAX_SECRET_BYTES = 1024 * 1024


class ConfigMapStrategy(Strategy):
    """Keys, size and immutability of a ConfigMap."""

    def object_faults(self, obj: Object) -> list[Cause]:
        """Check keys and size."""
        text, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        found = _key_faults(obj, "data") + _key_faults(obj, "binaryData")
        detail = "duplicate of key present in binaryData"
        found += [invalid_value(f"data[{key}]", key, detail) for key in text if key in binary]
        size = sum(len(value.encode()) for value in text.values())
        size += sum(map(_decoded_size, binary.values()))
        if size > MAX_SECRET_BYTES:
            found.append(errors.too_long("[]", MAX_SECRET_BYTES))
        return found

    def update_faults(self, new: Object, old: Object) -> list[Cause]:
        """Check that an immutable ConfigMap is unchanged."""
        found = _immutable_faults(new, old, ("data", "binaryData"))
        return found + self.object_faults(new)


def _key_faults(obj: Object, field: str) -> list[Cause]:
    return [
        invalid_value(f"{field}[{key}]", key, fault)
        for key in obj.get(field) or {}
        for fault in names.config_key_faults(key)
    ]


def _decoded_size(text: str) -> int:
    return len(text) * 3 // 4 - text[-2:].count("=")


def _immutable_faults(new: Object, old: Object, fields: tuple[str, ...]) -> list[Cause]:
    if not old.get("immutable"):
        return []
    detail = "field is immutable when `immutable` is set"
    changed = [name for name in fields if (new.get(name) or {}) != (old.get(name) or {})]
    if not new.get("immutable"):
        changed.insert(0, "immutable")
    return [errors.not_allowed(name, detail) for name in changed]


class SecretStrategy(Strategy):
    """Keys, size and type of a Secret."""

    def apply_defaults(self, obj: Object) -> None:
        """Set the type; fold ``stringData`` into ``data``."""
        obj.setdefault("type", "Opaque")
        text = obj.pop("stringData", None) or {}
        if text:
            encoded = {
                key: base64.b64encode(value.encode()).decode() for key, value in text.items()
            }
            obj["data"] = {**(obj.get("data") or {}), **encoded}

    def object_faults(self, obj: Object) -> list[Cause]:
        """Check keys and size."""
        found = _key_faults(obj, "data")
        size = sum(map(_decoded_size, (obj.get("data") or {}).values()))
        if size > MAX_SECRET_BYTES:
            found.append(errors.too_long("data", MAX_SECRET_BYTES))
        return found

    def update_faults(self, new: Object, old: Object) -> list[Cause]:
        """Check that the type, and all fields of an immutable Secret, are unchanged."""
        found = _immutable_faults(new, old, ("data",))
        if new.get("type") != old.get("type"):
            found.append(invalid_value("type", new.get("type"), "field is immutable"))
        return found + self.object_faults(new)


class ServiceStrategy(Strategy):
    """Headless and other Services; no address is allocated here."""

    def apply_defaults(self, obj: Object) -> None:
        """Set type, affinity and ports' protocol and target."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        if spec["type"] != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec.get("clusterIP") == "None":
            spec.setdefault("clusterIPs", ["None"])
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port", 0))
        obj.setdefault("status", {"loadBalancer": {}})

    def prepare_create(self, obj: Object) -> None:
        """Start with an empty status."""
        obj["status"] = {"loadBalancer": {}}

    def object_faults(self, obj: Object) -> list[Cause]:
        """Check type and ports."""
        spec = obj.get("spec") or {}
        kinds = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
        found: list[Cause] = []
        if spec.get("type") not in kinds:
            found.append(not_supported("spec.type", spec.get("type"), kinds))
        ports = spec.get("ports") or []
        if not ports and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
            found.append(required("spec.ports"))
        for index, port in enumerate(ports):
            path = f"spec.ports[{index}]"
            found += port_faults(f"{path}.port", port.get("port", 0))
            if isinstance(port.get("targetPort"), int):
                found += port_faults(f"{path}.targetPort", port["targetPort"])
            if len(ports) > 1 and not port.get("name"):
                found.append(required(f"{path}.name"))
        return found


MAX_PORT = 65535


def port_faults(path: str, port: int) -> list[Cause]:
    """Check a port number."""
    if 1 <= port <= MAX_PORT:
        return []
    return [invalid_value(path, port, f"must be between 1 and {MAX_PORT}, inclusive")]


class NamespaceStrategy(Strategy):
    """The finalizer that keeps a namespace until it is empty, its phase and its label."""

    def apply_defaults(self, obj: Object) -> None:
        """Set the label of each namespace."""
        meta = obj["metadata"]
        if meta.get("name"):
            labels = meta.get("labels") or {}
            meta["labels"] = {**labels, "kubernetes.io/metadata.name": meta["name"]}

    def prepare_create(self, obj: Object) -> None:
        """Set the phase Active and the finalizer."""
        self.apply_defaults(obj)
        finalizers = (obj.get("spec") or {}).get("finalizers") or []
        if "kubernetes" not in finalizers:
            finalizers = [*finalizers, "kubernetes"]
        obj["spec"] = {"finalizers": finalizers}
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, new: Object, old: Object) -> None:
        """Keep the finalizers: only their subresource changes them."""
        super().prepare_update(new, old)
        new["spec"] = dict(old.get("spec") or {})


class EventStrategy(Strategy):
    """Events are about an object of their own namespace."""

    def apply_defaults(self, obj: Object) -> None:
        """Set the fields of each Event."""
        for name in ("reportingComponent", "reportingInstance"):
            obj.setdefault(name, "")

    def object_faults(self, obj: Object) -> list[Cause]:
        """Check the namespace of the object of the Event."""
        involved = (obj.get("involvedObject") or {}).get("namespace", "")
        own = obj["metadata"].get("namespace", "")
        if involved != own and not (not involved and own == "default"):
            detail = "does not match event.namespace"
            return [invalid_value("involvedObject.namespace", involved, detail)]
        return []


class DeploymentStrategy(Strategy):
    """A Deployment is stored; no controller here creates Pods for it."""

    create_warning = "a local cluster stores Deployments, and runs no Pods of them"


PLAIN_KINDS: dict[str, type[Strategy]] = {
    "configmaps": ConfigMapStrategy,
    "deployments": DeploymentStrategy,
    "events": EventStrategy,
    "namespaces": NamespaceStrategy,
    "secrets": SecretStrategy,
    "services": ServiceStrategy,
}
"""By the name of the resource; other kinds have no rules of their own."""
