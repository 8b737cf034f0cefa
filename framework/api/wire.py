"""Conversion between JSON and dataclasses by tables of fields, for ``codec``.

A Struct decodes a JSON object into a frozen dataclass and encodes it back. Decoding collects all
errors with their paths; an array stops after a hundred. null means the default, as in Go. A key
without a field is kept in ``extra`` and encoded again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, Generic, TypeVar

from framework.api.fielderrors import FieldError, FieldErrors, join_path
from framework.api.nesting import MAX_TEMPLATE_DEPTH, is_deeper

T = TypeVar("T")
Errors = list[FieldError]
_MISSING = object()
INT64_MAX = 2**63 - 1
# Bounds the cost of an array with a million faults.
MAX_ERRORS = 100


@dataclass(frozen=True, slots=True)
class Kind:
    """A type and its conversion."""

    name: str
    """Name of the type in messages."""
    decode: Callable[[Any, str, Errors], Any]
    """Converts a JSON value; on an error it appends to the errors and returns None."""
    encode: Callable[[Any], Any]
    """Converts back to a JSON value."""
    fields: tuple["Field", ...] = ()
    """Fields of an object, for the schema of the CRD."""
    item: "Kind | None" = None
    """Type of the items of an array, for the schema of the CRD."""
    members: tuple[str, ...] = ()
    """Values of an enum, for the schema of the CRD."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a Struct."""

    wire: str
    """Name in JSON."""
    attr: str
    """Name of the attribute."""
    kind: Kind
    """Conversion of the value."""
    nullable: bool = False
    """Whether null is a value; otherwise null means the default."""
    omit_empty: bool = False
    """Whether an empty value is not written, like omitempty of Go."""
    omit_value: Any = _MISSING
    """A value that is not written: the default of an extension."""
    required: bool = False
    """Whether absence is an error."""


class Struct(Generic[T]):
    """Converts between JSON objects and one frozen dataclass with an ``extra`` field."""

    def __init__(self, cls: type[T], *fields: Field, example: str = "") -> None:
        """Describe ``cls`` by ``fields``, in the order of encoding.

        ``example`` is in the error for a value that is no object.
        """
        self._cls = cls
        self._remedy = f": write, for example, {example}" if example else ""
        self.fields = fields
        self._by_wire = {f.wire: f for f in fields}
        self._required = tuple(f for f in fields if f.required)

    def decode(self, value: Any, path: str, errors: Errors) -> T | None:
        """Decode a JSON object; None after an error."""
        if not isinstance(value, Mapping):
            fault = f"must be an object, not {json_type(value)}{self._remedy}"
            errors.append(FieldError(path, fault))
            return None
        before = len(errors)
        attrs: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for key, item in value.items():
            field = self._by_wire.get(key)
            if field is None:
                extra[key] = item
            elif item is not None:
                attrs[field.attr] = field.kind.decode(item, join_path(path, key), errors)
            elif field.nullable:
                attrs[field.attr] = None
        errors.extend(
            FieldError(join_path(path, f.wire), "is required")
            for f in self._required
            if value.get(f.wire) is None
        )
        if len(errors) > before:
            return None
        return self._cls(**attrs, extra=extra)  # type: ignore[call-arg]  # each has it

    def encode(self, value: T) -> dict[str, Any]:
        """Encode to a JSON object: known fields in table order, then the unknown ones."""
        wire: dict[str, Any] = {}
        for field in self.fields:
            item = getattr(value, field.attr)
            if item == field.omit_value or (field.omit_empty and not item):
                continue
            wire[field.wire] = None if item is None else field.kind.encode(item)
        wire.update(value.extra)  # type: ignore[attr-defined]  # every Struct class has it
        return wire

    def kind(self) -> Kind:
        """Return this struct as the conversion of a field."""
        return Kind("object", self.decode, self.encode, fields=self.fields)

    def decode_or_raise(self, value: Any, path: str = "") -> T:
        """Decode; raise FieldErrors with all faults."""
        errors: Errors = []
        result = self.decode(value, path, errors)
        if errors or result is None:
            raise FieldErrors(errors)
        return result


def json_type(value: Any) -> str:
    """Return the name of the JSON type of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, (list, tuple)) else "object"


def refuse_type(path: str, wanted: str, value: Any, errors: Errors) -> None:
    """Append the error for a value of another JSON type than wanted."""
    shown = f" {value!r}" if isinstance(value, (str, int, float)) else ""
    errors.append(FieldError(path, f"must be {wanted}, not {json_type(value)}{shown}"))


def _decode_int(value: Any, path: str, errors: Errors) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) <= INT64_MAX:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return refuse_type(path, "an integer", value, errors)
    if abs(value) > INT64_MAX:
        errors.append(FieldError(path, "does not fit 64 bits"))
        return None
    return value


def _decode_str(value: Any, path: str, errors: Errors) -> Any:
    return value if isinstance(value, str) else refuse_type(path, "a string", value, errors)


def _decode_bool(value: Any, path: str, errors: Errors) -> Any:
    return value if isinstance(value, bool) else refuse_type(path, "true or false", value, errors)


def _decode_mapping(value: Any, path: str, errors: Errors) -> Any:
    return value if isinstance(value, Mapping) else refuse_type(path, "an object", value, errors)


def _decode_template(value: Any, path: str, errors: Errors) -> Any:
    if is_deeper(value, MAX_TEMPLATE_DEPTH):
        errors.append(
            FieldError(path, f"must not be nested deeper than {MAX_TEMPLATE_DEPTH} levels")
        )
        return None
    return _decode_mapping(value, path, errors)


@lru_cache(maxsize=4096)
def parse_time(text: str) -> datetime:
    """Parse RFC 3339 to an aware UTC time of whole seconds.

    Raises:
        ValueError: The text is not such a time, or in UTC its year is not from 1 to 9999.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("no time zone")
    try:
        return moment.astimezone(UTC).replace(microsecond=0)
    except OverflowError as e:
        raise ValueError("out of range") from e


@lru_cache(maxsize=4096)
def format_time(moment: datetime) -> str:
    """Format as RFC 3339 in UTC with whole seconds, as Kubernetes writes it."""
    utc = moment.astimezone(UTC)
    return f"{utc.year:04}-{utc:%m-%dT%H:%M:%SZ}"


def _decode_time(value: Any, path: str, errors: Errors) -> Any:
    if not isinstance(value, str):
        return refuse_type(path, "an RFC 3339 time", value, errors)
    try:
        return parse_time(value)
    except ValueError:
        errors.append(FieldError(path, f"must be an RFC 3339 time, not {value!r}"))
        return None


def _identity(value: Any) -> Any:
    return value


def _encode_template(value: Any) -> Any:
    """Unpack a template that is packed, once for all reads of its fields."""
    return dict(value.items()) if isinstance(value, Mapping) else value


INT = Kind("integer", _decode_int, _identity)
STR = Kind("string", _decode_str, _identity)
BOOL = Kind("boolean", _decode_bool, _identity)
OBJECT = Kind("object", _decode_mapping, _identity)
TIME = Kind("time", _decode_time, format_time)
# A Pod template: an object with any fields.
TEMPLATE = Kind("object", _decode_template, _encode_template)


def enum_kind(cls: type[StrEnum]) -> Kind:
    """Build the conversion of an enum; the error for an unknown value lists the known ones."""
    members = {member.value: member for member in cls}

    def decode(value: Any, path: str, errors: Errors) -> Any:
        if isinstance(value, str) and value in members:
            return members[value]
        known = ", ".join(members)
        errors.append(FieldError(path, f"must be one of {known}; not {value!r}"))
        return None

    return Kind("string", decode, str, members=tuple(members))


def list_kind(item: Kind) -> Kind:
    """Build the conversion of an array of ``item``; a null element is an error."""

    def decode(value: Any, path: str, errors: Errors) -> Any:
        if not isinstance(value, (list, tuple)):
            return refuse_type(path, "an array", value, errors)
        items = []
        for i, v in enumerate(value):
            items.append(item.decode(v, f"{path}[{i}]", errors))
            if len(errors) >= MAX_ERRORS:
                break
        return tuple(items)

    def encode(value: Any) -> Any:
        return [item.encode(v) for v in value]

    return Kind("array", decode, encode, item=item)
