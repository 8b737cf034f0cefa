"""Objects whose metadata is decoded first, and the other fields when they are needed. Pure.

To decode a Framework of 1.4 MB can take 0.1 s of the event loop, but metadata shows which object it
is, and whether it is new. So the event itself costs little, and several events of one object cost
one decode.

An object may wait for long: in a controller that does not lead, as long as another one leads. So
``managedFields``, which no program reads and which may be most of an object, is not kept.
``KeptJson`` limits the bytes of all objects that wait. Beyond the limit, an object keeps only its
identity (``keep_in``), and must be read again before it is decoded.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from framework.kube.keptjson import Kept, KeptJson
from framework.kube.resources import Object
from framework.kube.stream import decode_event

_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})
# The fields of metadata that are decoded: identity, version and deletion.
_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "generation", "deletionTimestamp")
_UNREAD = "managedFields"


class DeferredObject(dict[str, Any]):
    """An object with only ``metadata``, and in it only the fields ``_IDENTITY``."""

    __slots__ = ("_kept", "_line", "length", "unread_bytes")

    def __init__(self, metadata: Object, line: bytes, unread_bytes: int) -> None:
        """Keep the line of a watch that has the object.

        Args:
            metadata: the fields that are decoded.
            line: the line, without ``managedFields``.
            unread_bytes: length of ``managedFields`` in JSON, with its key.
        """
        super().__init__(metadata=metadata)
        self._line = line
        self._kept: Kept | None = None
        self.length = len(line)
        """Approximate bytes of the object in JSON, without ``managedFields``."""
        self.unread_bytes = unread_bytes

    @property
    def is_stripped(self) -> bool:
        """Return whether only the identity is left."""
        return not self._line

    def keep_in(self, budget: KeptJson) -> None:
        """Count the JSON in a budget; if there is no room, keep only the identity."""
        namespace = self["metadata"].get("namespace")
        self._kept = None
        self._kept = budget.keep(str(namespace or ""), self.length)
        if self._kept is None:
            self._line = b""

    def decode(self) -> Object:
        """Decode the object, without its ``managedFields``.

        Raises:
            BrokenStreamError: it is not a JSON object.
        """
        return decode_event(self._line)[1]

    def read_field(self, name: str, *, max_bytes: int) -> Any:
        """Decode one field; None if the object has none, or one that is too long or unreadable."""
        try:
            raw = _split_event(self._line).object.get(name, b"null")
            return None if len(memoryview(raw)) > max_bytes else msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    def measure_field(self, name: str) -> int:
        """Return the bytes of one field in JSON; 0 if the object has none, or is unreadable."""
        try:
            return len(memoryview(_split_event(self._line).object.get(name, b"")))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return 0

    def split(self) -> dict[str, msgspec.Raw]:
        """Return the fields of the object as JSON.

        Raises:
            BrokenStreamError: it is not a JSON object.
        """
        try:
            return _split_event(self._line).object
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            obj = self.decode()  # reports the fault, and replaces values nested too deep
            return {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in obj.items()}


class _Event(msgspec.Struct):
    """An event whose object is split into its fields, none of them decoded."""

    type: str
    object: dict[str, msgspec.Raw]


_split_event = msgspec.json.Decoder(_Event).decode
_split_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def defer_object(obj: Object) -> DeferredObject:
    """Pack a decoded object again, because as Python objects it takes many times the memory."""
    metadata, unread_bytes = obj.get("metadata"), 0
    if isinstance(metadata, dict) and _UNREAD in metadata:
        unread_bytes = _measure_unread(msgspec.json.encode(metadata[_UNREAD]))
        metadata = {key: value for key, value in metadata.items() if key != _UNREAD}
        obj = {**obj, "metadata": metadata}
    line = msgspec.json.encode({"type": "ADDED", "object": obj})
    identity = _select(metadata if isinstance(metadata, dict) else {})
    return DeferredObject(identity, line, unread_bytes)


def decode_deferred_event(line: bytes) -> tuple[str, Object]:
    """Decode one line of a watch; the object of a change is a ``DeferredObject``.

    Raises:
        BrokenStreamError: it is no event.
    """
    try:
        event = _split_event(line)
        fields = _split_object(event.object.get("metadata", b"null"))
        identity = {name: msgspec.json.decode(fields.get(name, b"null")) for name in _IDENTITY}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # It reports the fault, and replaces values nested too deep.
        return decode_event(line)
    if event.type not in _CHANGES:
        return decode_event(line)
    unread, unread_bytes = fields.pop(_UNREAD, None), 0
    if unread is not None:
        unread_bytes = _measure_unread(unread)
        event.object["metadata"] = msgspec.Raw(msgspec.json.encode(fields))
        line = msgspec.json.encode(event)
    return event.type, DeferredObject(_select(identity), line, unread_bytes)


def strip_object(metadata: Object, length: int) -> DeferredObject:
    """Build an object that keeps only its identity; it was read before."""
    stripped = DeferredObject(_select(metadata), b"", 0)
    stripped.length = length
    return stripped


def defer_item(item: bytes) -> DeferredObject:
    """Read an object of a list, and decode only its identity.

    Raises:
        BrokenStreamError: it is not a JSON object.
    """
    obj = decode_deferred_event(b'{"type":"ADDED","object":%b}' % item)[1]
    return obj if isinstance(obj, DeferredObject) else defer_object(obj)


def _measure_unread(value: bytes | msgspec.Raw) -> int:
    return len(f',"{_UNREAD}":') + len(memoryview(value))


def _select(metadata: Mapping[str, Any]) -> Object:
    values = {name: metadata.get(name) for name in _IDENTITY}
    return {name: value for name, value in values.items() if value is not None}
