"""Keeps only the fields of a scaler that decisions read, and needs little memory for it.

The definitions keep unknown fields, and a scaler of 1.4 MB may be 50 MB of Python objects. So its
JSON is split, and only known fields are decoded.
"""

from typing import Any, TypeAlias

import msgspec

from framework.kinds.scaling.types import ScalerKind
from framework.kube.deferred import DeferredObject
from framework.kube.resources import Object
from framework.kube.stream import decode_object

Shape: TypeAlias = "dict[str, Shape] | list[Shape] | None"
"""The known fields of an object, those of each item of a list, or None: everything."""

_STATUS: Shape = {
    "phase": None,
    "conditions": [
        dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"), None)
    ],
    "toDeletePods": None,
    "addPods": None,
    "launcherUID": None,
    "jobUID": None,
    "order": None,
    "failure": {"reason": None, "message": None},
}
_METADATA: Shape = dict.fromkeys(
    (
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "ownerReferences",
    ),
    None,
)
_SPEC: dict[str, "Shape"] = {
    "selector": {"name": None},
    "script": None,
    "timeout": None,
    "env": [dict.fromkeys(("name", "value", "valueFrom"), None)],
    "backoffLimit": None,
}
_WORKERS: dict[ScalerKind, dict[str, "Shape"]] = {
    ScalerKind.SCALE_IN: {"toDelete": {"count": None, "podNames": None}},
    ScalerKind.SCALE_OUT: {"toAdd": {"count": None}},
}

_split_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_split_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def trim_scaler(kind: ScalerKind, obj: Object) -> Object:
    """Return the known fields of a scaler.

    Raises:
        BrokenStreamError: the server sent an object that cannot be read.
    """
    if isinstance(obj, DeferredObject):
        fields = obj.split()
    else:
        fields = _split_object(msgspec.json.encode(obj))
    shapes: dict[str, Shape] = {
        "metadata": _METADATA,
        "spec": _SPEC | _WORKERS[kind],
        "status": _STATUS,
    }
    return {name: _pick(fields[name], shape) for name, shape in shapes.items() if name in fields}


def _pick(raw: msgspec.Raw, shape: Shape) -> Any:
    """Decode the fields of a shape; a value of another form is decoded as it is."""
    try:
        if isinstance(shape, dict):
            fields = _split_object(raw)
            return {name: _pick(fields[name], shape[name]) for name in shape if name in fields}
        if isinstance(shape, list):
            return [_pick(item, shape[0]) for item in _split_list(raw)]
    except (msgspec.DecodeError, RecursionError):
        pass
    return decode_object(b'{"value":' + bytes(raw) + b"}")["value"]
