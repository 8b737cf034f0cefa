"""The few protobuf bodies that kubectl sends: its ``create`` commands and ``auth can-i``.

Called by ``payloads``. All else of kubectl, and every client of ours, speaks JSON; answers are JSON
for all of them. A kind that is not in the table is refused as an unsupported media type.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from localcluster.apiserver.model.errors import Object

MAGIC = b"k8s\x00"
_CONTINUES = 0x80
_LONGEST_VARINT = 64

_FIELDS: dict[str, dict[int, tuple[str, str]]] = {
    "Unknown": {1: ("typeMeta", "TypeMeta"), 2: ("raw", "raw"), 3: ("contentEncoding", "s")},
    "TypeMeta": {1: ("apiVersion", "s"), 2: ("kind", "s")},
    "ObjectMeta": {
        1: ("name", "s"),
        2: ("generateName", "s"),
        3: ("namespace", "s"),
        5: ("uid", "s"),
        6: ("resourceVersion", "s"),
        11: ("labels", "{s}"),
        12: ("annotations", "{s}"),
        13: ("ownerReferences", "[OwnerReference]"),
        14: ("finalizers", "[s]"),
    },
    "OwnerReference": {
        1: ("kind", "s"),
        3: ("name", "s"),
        4: ("uid", "s"),
        5: ("apiVersion", "s"),
        6: ("controller", "b"),
        7: ("blockOwnerDeletion", "b"),
    },
    "Namespace": {1: ("metadata", "ObjectMeta")},
    "ConfigMap": {
        1: ("metadata", "ObjectMeta"),
        2: ("data", "{s}"),
        3: ("binaryData", "{B}"),
        4: ("immutable", "b"),
    },
    "Secret": {
        1: ("metadata", "ObjectMeta"),
        2: ("data", "{B}"),
        3: ("type", "s"),
        4: ("stringData", "{s}"),
        5: ("immutable", "b"),
    },
    "ServiceAccount": {1: ("metadata", "ObjectMeta")},
    "SelfSubjectAccessReview": {2: ("spec", "SelfSubjectAccessReviewSpec")},
    "SelfSubjectAccessReviewSpec": {
        1: ("resourceAttributes", "ResourceAttributes"),
        2: ("nonResourceAttributes", "NonResourceAttributes"),
    },
    "ResourceAttributes": {
        1: ("namespace", "s"),
        2: ("verb", "s"),
        3: ("group", "s"),
        4: ("version", "s"),
        5: ("resource", "s"),
        6: ("subresource", "s"),
        7: ("name", "s"),
    },
    "NonResourceAttributes": {1: ("path", "s"), 2: ("verb", "s")},
}
"""Message -> number -> (JSON name, type): s text, b flag, B bytes, ``{}`` map, ``[]`` list."""

_KINDS = frozenset(
    {"Namespace", "ConfigMap", "Secret", "ServiceAccount", "SelfSubjectAccessReview"}
)


class UnknownKindError(ValueError):
    """A kind whose protobuf form is not known here."""


@dataclass(frozen=True, slots=True)
class _Field:
    number: int
    content: bytes | int


def decode_envelope(body: bytes) -> Object:
    """Return the object in a body of type application/vnd.kubernetes.protobuf.

    Raises:
        UnknownKindError: The kind is not in the table.
        ValueError: The body is malformed.
    """
    if not body.startswith(MAGIC):
        raise ValueError("protobuf parse error: the body does not start with k8s")
    envelope = _decode("Unknown", body[len(MAGIC) :])
    named = envelope.get("typeMeta") or {}
    kind = named.get("kind", "")
    if kind not in _KINDS:
        raise UnknownKindError(kind)
    return {**named, **_decode(kind, envelope.get("raw", b""))}


def _decode(message: str, encoded: bytes) -> Object:
    known, decoded = _FIELDS[message], Object()
    for field in _split(encoded):
        if field.number not in known:
            continue
        name, kind = known[field.number]
        if kind.startswith("{"):
            key, value = _entry(field, kind[1:-1])
            decoded.setdefault(name, {})[key] = value
        elif kind.startswith("["):
            decoded.setdefault(name, []).append(_value(field, kind[1:-1]))
        elif value := _value(field, kind):
            # Go writes empty fields too; in JSON they are absent.
            decoded[name] = value
    return decoded


def _entry(field: _Field, kind: str) -> tuple[str, Any]:
    """Return one entry of a map: a message of key (1) and value (2)."""
    key, value = "", _value(_Field(2, b""), kind)
    for part in _split(_content(field)):
        if part.number == 1:
            key = _content(part).decode()
        else:
            value = _value(part, kind)
    return key, value


def _value(field: _Field, kind: str) -> Any:
    if kind == "b":
        return bool(field.content)
    content = _content(field)
    if kind == "s":
        return content.decode()
    if kind == "B":
        return base64.b64encode(content).decode()
    return content if kind == "raw" else _decode(kind, content)


def _content(field: _Field) -> bytes:
    if isinstance(field.content, int):
        raise ValueError(f"protobuf parse error: field {field.number} is a number")  # noqa: TRY004 of what was sent
    return field.content


def _split(encoded: bytes) -> Iterator[_Field]:
    position = 0
    while position < len(encoded):
        tag, position = _varint(encoded, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            number_value, position = _varint(encoded, position)
            yield _Field(number, number_value)
            continue
        size, position = _size(encoded, position, wire_type)
        if position + size > len(encoded):
            raise ValueError("protobuf parse error: unexpected end")
        yield _Field(number, encoded[position : position + size])
        position += size


def _size(encoded: bytes, position: int, wire_type: int) -> tuple[int, int]:
    fixed = {1: 8, 5: 4}.get(wire_type)
    if fixed is not None:
        return fixed, position
    if wire_type != 2:  # noqa: PLR2004 - length-delimited
        raise ValueError(f"protobuf parse error: wire type {wire_type}")
    return _varint(encoded, position)


def _varint(encoded: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, _LONGEST_VARINT, 7):
        if position >= len(encoded):
            break
        byte = encoded[position]
        position += 1
        value |= (byte & ~_CONTINUES) << shift
        if not byte & _CONTINUES:
            return value, position
    raise ValueError("protobuf parse error: bad number")
