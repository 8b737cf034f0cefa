"""Objects whose metadata is decoded at once, and all else when it is needed. Pure.

To decode a Framework of 1.4 MB can take 0.1 s of the event loop, but metadata tells which object it
is, and whether it is new. So the event itself costs little, and several events of one object cost
one decode.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from framework.kube.resources import Object
from framework.kube.stream import decode_event

_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


class DeferredObject(dict[str, Any]):
    """An object that has only ``metadata``, and of it only the fields of ``_Metadata``."""

    __slots__ = ("_line",)

    def __init__(self, metadata: Object, line: bytes) -> None:
        """Keep the line of a watch that has the whole object."""
        super().__init__(metadata=metadata)
        self._line = line

    def decode(self) -> Object:
        """Decode the whole object.

        Raises:
            BrokenStreamError: it is not a JSON object.
        """
        return decode_event(self._line)[1]


class _Metadata(msgspec.Struct):
    """The fields of metadata that are decoded at once: identity, version and deletion."""

    name: Any = None
    namespace: Any = None
    uid: Any = None
    resourceVersion: Any = None  # noqa: N815 the name in JSON
    generation: Any = None
    deletionTimestamp: Any = None  # noqa: N815 the name in JSON


class _Object(msgspec.Struct):
    metadata: _Metadata


class _Event(msgspec.Struct):
    type: str
    object: _Object


_decode_identity = msgspec.json.Decoder(_Event).decode


def defer_object(obj: Object) -> Object:
    """Pack a decoded object again, because as Python objects it takes many times the memory."""
    metadata = obj.get("metadata")
    line = msgspec.json.encode({"type": "ADDED", "object": obj})
    return DeferredObject(_select(metadata if isinstance(metadata, dict) else {}), line)


def decode_deferred_event(line: bytes) -> tuple[str, Object]:
    """Decode one line of a watch; the object of a change is a ``DeferredObject``.

    Raises:
        BrokenStreamError: it is no event.
    """
    try:
        event = _decode_identity(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # It says what is wrong, and cuts what is nested too deep.
        return decode_event(line)
    if event.type not in _CHANGES:
        return decode_event(line)
    return event.type, DeferredObject(_select(msgspec.structs.asdict(event.object.metadata)), line)


def _select(metadata: Mapping[str, Any]) -> Object:
    values = {name: metadata.get(name) for name in _Metadata.__struct_fields__}
    return {name: value for name, value in values.items() if value is not None}
