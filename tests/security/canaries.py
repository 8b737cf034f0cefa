"""Pod templates in which every text is a distinct canary: a text that occurs in no other place.

The fields come from the table of Kubernetes' own schema that the local API server decodes with, so
a new field of Kubernetes is covered as soon as it is known here.
"""

import base64
import copy
import re
from collections.abc import Callable
from typing import Any

from localcluster.apiserver.bodies.wire import FieldType, struct_types

Object = dict[str, Any]

_FORM = re.compile(r"canary[0-9]{5}")
# An object may have only one of these fields; a list has an item for each.
_UNIONS: dict[str, tuple[str, ...]] = {
    "Probe": ("exec", "grpc", "httpGet", "tcpSocket"),
    "LifecycleHandler": ("exec", "httpGet", "sleep", "tcpSocket"),
    "EnvVar": ("value", "valueFrom"),
    "EnvVarSource": (
        "configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef",
    ),
    "EnvFromSource": ("configMapRef", "secretRef"),
    "Volume": tuple(name for name in struct_types()["Volume"] if name != "name"),
    "VolumeProjection": tuple(struct_types()["VolumeProjection"]),
}  # fmt: skip
_NUMBERS: dict[str, Any] = {"i": 1, "l": 1, "f": 1.0, "b": False, "q": "1"}
_TIME = "2026-01-01T00:00:00Z"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Canaries:
    """Makes canaries and knows the field of each."""

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}

    def build_template(self) -> Object:
        """Build a Pod template with all fields of the schema; as a whole it is not valid."""
        metadata = self._build("ObjectMeta", "metadata", 0)
        metadata["annotations"][LAST_APPLIED] = self.make("metadata.annotations[last-applied]")
        spec = self._build("PodSpec", "spec", 0)
        # Containers of each kind of handler.
        for kind in ("containers", "initContainers"):
            spec[kind] = [self._build("Container", f"spec.{kind}[]", v) for v in range(5)]
        return {"metadata": metadata, "spec": spec}

    def make(self, path: str) -> str:
        """Make the canary of a path."""
        canary = f"canary{len(self.paths):05d}"
        self.paths[canary] = path
        return canary

    def find(self, text: str) -> dict[str, str]:
        """Find the canaries in a text, each with its path."""
        return {found: self.paths.get(found, "?") for found in set(_FORM.findall(text))}

    def find_fields(self, template: Object) -> set[str]:
        """Find the fields of a template that hold canaries."""
        return set(self.find(repr(template)).values())

    def _build(self, struct: str, path: str, variant: int) -> Object:
        union = _UNIONS.get(struct, ())
        chosen = union[variant % len(union)] if union else ""
        return {
            name: self._fill(field, f"{path}.{name}".lstrip("."), variant)
            for name, field in struct_types()[struct].items()
            if name not in union or name == chosen
        }

    def _fill(self, field: FieldType, path: str, variant: int) -> Any:
        if field.code == "struct":
            return self._build(field.name, path, variant)
        if field.code == "list" and field.item is not None:
            item = field.item
            count = len(_UNIONS[item.name]) if item.name in _UNIONS else 1
            # Each way to give a variable's value.
            count += len(_UNIONS["EnvVarSource"]) if item.name == "EnvVar" else 0
            return [
                self._fill(item, f"{path}[]", v if count > 1 else variant) for v in range(count)
            ]
        if field.code == "map" and field.item is not None:
            key = self.make(f"{path}[key]")
            return {f"example.com/{key}": self._fill(field.item, f"{path}[value]", variant)}
        return self._fill_scalar(field.code, path)

    def _fill_scalar(self, code: str, path: str) -> Any:
        if code in _NUMBERS:
            return _NUMBERS[code]
        if code in "tm":
            return _TIME
        if code == "B":
            return base64.b64encode(self.make(path).encode()).decode()
        return {"x": self.make(path)} if code == "*" else self.make(path)


def build_valid(template: Object, is_valid: Callable[[Object], list[str]]) -> Object:
    """Remove from a template the fields for which an API server refuses it.

    Args:
        template: of ``build_template``.
        is_valid: asks the server; returns the fields that it names, none if it accepts the Pod.
    """
    metadata = {name: template["metadata"][name] for name in ("annotations", "labels")}
    spec = {k: v for k, v in template["spec"].items() if k not in _OF_THE_CLUSTER}
    spec["restartPolicy"] = "Never"
    for container in (*spec["containers"], *spec["initContainers"]):
        for mount in container["volumeMounts"]:
            mount["name"] = spec["volumes"][0]["name"]
            del mount["subPathExpr"]
    valid: Object = copy.deepcopy({"metadata": metadata, "spec": spec})
    faults: list[str] = []
    for _ in range(20):
        faults = is_valid(valid)
        if not faults:
            return valid
        for fault in faults:
            _remove(valid, re.findall(r"[^.\[\]]+", fault))
        valid = _without_nulls(valid)
    raise AssertionError(f"the server refuses on: {faults}")


# They name objects that the cluster does not have, or bind the Pod to a node.
_OF_THE_CLUSTER = {"nodeName", "priority", "priorityClassName", "runtimeClassName"}


def _remove(obj: Any, steps: list[str]) -> None:
    """Remove a field; if it is missing, the item of a list that lacks it."""
    items: list[tuple[list[Any], int]] = []
    for position, step in enumerate(steps):
        if isinstance(obj, list) and step.isdecimal() and int(step) < len(obj):
            items.append((obj, int(step)))
            obj = obj[int(step)]
        elif isinstance(obj, dict) and step in obj:
            if position == len(steps) - 1 or not isinstance(obj[step], (dict, list)):
                del obj[step]
                return
            obj = obj[step]
        else:
            break
    if items:
        listed, index = items[-1]
        listed[index] = None


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value if v is not None] if isinstance(value, list) else value
