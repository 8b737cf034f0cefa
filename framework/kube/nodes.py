"""Reads the few fields of a Node that decisions need, and skips the rest.

A Node has 10 to 50 kB of JSON, most of it status: images, capacities, conditions.
"""

from typing import Any

import msgspec

from framework.api.nodes import NodeView, build_node, encode_node
from framework.kube.deferred import DeferredObject
from framework.kube.resources import Object
from framework.kube.stream import BrokenStreamError


class _Spec(msgspec.Struct):
    unschedulable: Any = None
    taints: Any = None


_decode_spec = msgspec.json.Decoder(_Spec).decode


def read_node(obj: Object) -> NodeView:
    """Read a Node of a list or a watch; an unreadable field counts as absent."""
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(obj, DeferredObject):
        spec = obj.get("spec")
        fields = spec if isinstance(spec, dict) else {}
        return build_node(name, fields.get("unschedulable"), fields.get("taints"))
    try:
        decoded = _decode_spec(obj.split().get("spec", b"null"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, BrokenStreamError):
        return build_node(name, None, None)
    return build_node(name, decoded.unschedulable, decoded.taints)


def trim_node(obj: Object) -> Object:
    """Keep only the fields that are read, so that a list of nodes needs little memory."""
    return encode_node(read_node(obj))
