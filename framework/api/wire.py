"""The machinery of the codec: tables of fields, each with its wire name and conversion.

Called by ``codec`` only. A Struct decodes a JSON object into a frozen dataclass and back. Decoding
collects the errors with their paths instead of stopping at the first; an array ends at the
hundredth. A null means the default, as in Go; a key that no field claims goes to ``extra`` and
comes back on encoding.
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
# More than anybody reads: a list of a million faults costs more than the million items.
MAX_ERRORS = 100


@dataclass(frozen=True, slots=True)
class Kind:
    """A conversion: ``decode`` appends errors and then returns None.

    ``fields``, ``item`` and ``members`` say what an object, an array and an enum are made of; the
    CRD's schema is built from them.
    """

    name: str
    decode: Callable[[Any, str, Errors], Any]
    encode: Callable[[Any], Any]
    fields: tuple["Field", ...] = ()
    item: "Kind | None" = None
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Field:
    """A field: wire name, attribute, conversion.

    ``nullable``: None is a value of its own; otherwise null means the default.
    ``omit_empty``: left out of the wire when it has no value, as Go's ``omitempty``.
    ``omit_value``: left out of the wire when it has this value, the default of an extension.
    ``required``: there is no sensible default, so absence is an error.
    """

    wire: str
    attr: str
    kind: Kind
    nullable: bool = False
    omit_empty: bool = False
    omit_value: Any = _MISSING
    required: bool = False


class Struct(Generic[T]):
    """Converts between JSON objects and one frozen dataclass with an ``extra`` field."""

    def __init__(self, cls: type[T], *fields: Field) -> None:
        """Describe ``cls`` by ``fields`` in the order they are written."""
        self._cls = cls
        self.fields = fields
        self._by_wire = {f.wire: f for f in fields}
        self._required = tuple(f for f in fields if f.required)

    def decode(self, value: Any, path: str, errors: Errors) -> T | None:
        """Decode a JSON object; None after an error that leaves nothing to build."""
        if not isinstance(value, Mapping):
            errors.append(FieldError(path, f"must be an object, not {json_type(value)}"))
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
        """Make this struct the conversion of a field."""
        return Kind("object", self.decode, self.encode, fields=self.fields)

    def decode_or_raise(self, value: Any, path: str = "") -> T:
        """Decode and raise FieldErrors with every fault."""
        errors: Errors = []
        result = self.decode(value, path, errors)
        if errors or result is None:
            raise FieldErrors(errors)
        return result


def json_type(value: Any) -> str:
    """Name a value's type as users of JSON and YAML know it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, (list, tuple)) else "object"


def _wrong(path: str, wanted: str, value: Any, errors: Errors) -> Any:
    shown = f" {value!r}" if isinstance(value, (str, int, float)) else ""
    errors.append(FieldError(path, f"must be {wanted}, not {json_type(value)}{shown}"))
    return None


def _decode_int(value: Any, path: str, errors: Errors) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) <= INT64_MAX:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return _wrong(path, "an integer", value, errors)
    if abs(value) > INT64_MAX:
        errors.append(FieldError(path, "does not fit 64 bits"))
        return None
    return value


def _decode_str(value: Any, path: str, errors: Errors) -> Any:
    return value if isinstance(value, str) else _wrong(path, "a string", value, errors)


def _decode_bool(value: Any, path: str, errors: Errors) -> Any:
    return value if isinstance(value, bool) else _wrong(path, "true or false", value, errors)


def _decode_mapping(value: Any, path: str, errors: Errors) -> Any:
    return value if isinstance(value, Mapping) else _wrong(path, "an object", value, errors)


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
        ValueError: The text is no such time, or one that has no UTC form in years 1 to 9999.
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
        return _wrong(path, "an RFC 3339 time", value, errors)
    try:
        return parse_time(value)
    except ValueError:
        errors.append(FieldError(path, f"must be an RFC 3339 time, not {value!r}"))
        return None


def _identity(value: Any) -> Any:
    return value


INT = Kind("integer", _decode_int, _identity)
STR = Kind("string", _decode_str, _identity)
BOOL = Kind("boolean", _decode_bool, _identity)
TIME = Kind("time", _decode_time, format_time)
# Of a Pod: an object of any fields.
TEMPLATE = Kind("object", _decode_template, _identity)


def enum_kind(cls: type[StrEnum]) -> Kind:
    """Make the conversion of an enum: an unknown member is an error that lists the known ones."""
    members = {member.value: member for member in cls}

    def decode(value: Any, path: str, errors: Errors) -> Any:
        if isinstance(value, str) and value in members:
            return members[value]
        known = ", ".join(members)
        errors.append(FieldError(path, f"must be one of {known}; not {value!r}"))
        return None

    return Kind("string", decode, str, members=tuple(members))


def list_kind(item: Kind) -> Kind:
    """Make the conversion of an array of ``item``; a null element is an error."""

    def decode(value: Any, path: str, errors: Errors) -> Any:
        if not isinstance(value, (list, tuple)):
            return _wrong(path, "an array", value, errors)
        items = []
        for i, v in enumerate(value):
            items.append(item.decode(v, f"{path}[{i}]", errors))
            if len(errors) >= MAX_ERRORS:
                break
        return tuple(items)

    def encode(value: Any) -> Any:
        return [item.encode(v) for v in value]

    return Kind("array", decode, encode, item=item)
