"""Decodes bodies of built-in kinds as the API server's Go types do.

A value of the wrong JSON type is an error, an unknown field is dropped and reported, and a null is
the same as an absent field. The table of fields is in ``wire_types.txt``.
"""

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path as FilePath
from typing import Any

from localcluster.apiserver.model import objects
from localcluster.apiserver.model.errors import Object, quote
from localcluster.apiserver.model.quantities import QUANTITY_ERROR, parse_quantity

_TABLE = FilePath(__file__).with_name("wire_types.txt")


Path = tuple[Any, str | int] | None
"""Path of a value: the path of its parent, and its own name; joined only for messages."""


class DecodeError(Exception):
    """A body that cannot be read as its kind."""


@dataclass(frozen=True, slots=True)
class FieldType:
    """The JSON form of one field."""

    code: str
    """s i l f b q t m B x *, ``list``, ``map`` or ``struct``."""
    name: str = ""
    """The struct's name."""
    item: "FieldType | None" = None
    merge_key: str | None = None
    """Strategic merge: None replaces a list, "" joins primitives, else the key of the items."""


def _parse_code(code: str) -> FieldType:
    if code.startswith("["):
        listed, _, key = code.rpartition("]")
        item = _parse_code(listed[1:])
        return FieldType("list", item=item, merge_key=key[1:] if key else None)
    if code.startswith("{"):
        return FieldType("map", item=_parse_code(code[1:-1]))
    if len(code) > 1:
        return FieldType("struct", name=code)
    return FieldType(code)


@cache
def struct_types() -> dict[str, dict[str, FieldType]]:
    """Return every struct's fields by their names."""
    found: dict[str, dict[str, FieldType]] = {}
    fields: dict[str, FieldType] = {}
    for line in _TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        words = line.split()
        if not line.startswith(" "):
            fields = found.setdefault(words.pop(0), {})
        for word in words:
            name, _, code = word.partition(":")
            fields[name] = _parse_code(code)
    return found


def join_path(path: Path) -> str:
    """Write a path in the form of field errors: ``spec.containers[0].name``."""
    parts: list[str] = []
    while path is not None:
        path, name = path
        parts.append(f"[{name}]" if isinstance(name, int) else f".{name}")
    return "".join(reversed(parts)).removeprefix(".")


class Decoder:
    """Decodes a body, and collects its unknown fields."""

    def __init__(self) -> None:
        """Start without unknown fields."""
        self.unknown: list[str] = []

    def decode(self, name: str, value: Any, path: Path = None) -> Object:
        """Return the value as the struct ``name``: known fields only, no nulls."""
        if not isinstance(value, dict):
            raise _mismatch(value, path, FieldType("struct", name))
        fields = struct_types()[name]
        decoded: Object = {}
        for key, item in value.items():
            field = fields.get(key)
            if field is None:
                if not (key == "managedFields" and name == "ObjectMeta"):
                    self.unknown.append(join_path((path, key)))
            elif item is not None:
                convert = _SCALARS.get(field.code)
                if convert is None:
                    decoded[key] = self._compound(field, item, (path, key))
                else:
                    decoded[key] = convert(item, field, (path, key))
        return decoded

    def _convert(self, field: FieldType, value: Any, path: Path) -> Any:
        convert = _SCALARS.get(field.code)
        if convert is None:
            return self._compound(field, value, path)
        return convert(value, field, path)

    def _compound(self, field: FieldType, value: Any, path: Path) -> Any:
        if field.code == "struct":
            if not isinstance(value, dict):
                raise _mismatch(value, path, field)
            return self.decode(field.name, value, path)
        item = field.item
        if item is None:
            return objects.copy_json(value)
        if field.code == "map":
            if not isinstance(value, dict):
                raise _mismatch(value, path, field)
            return {
                key: _zero(item) if below is None else self._convert(item, below, (path, key))
                for key, below in value.items()
            }
        if not isinstance(value, list):
            raise _mismatch(value, path, field)
        return [
            _zero(item) if below is None else self._convert(item, below, (path, index))
            for index, below in enumerate(value)
        ]


def _zero(field: FieldType) -> Any:
    if field.code == "struct":
        return {}
    return {"s": "", "q": "0", "i": 0, "l": 0, "b": False, "B": ""}.get(field.code)


_WORDS = {
    "s": "string",
    "i": "int32",
    "l": "int64",
    "f": "float64",
    "b": "bool",
    "t": "time",
    "m": "time",
    "B": "base64 string",
    "x": "int or string",
}


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, (int, float)):
        return "number"
    return "array" if isinstance(value, list) else "object"


def _mismatch(value: Any, path: Path, field: FieldType) -> DecodeError:
    found, wanted = _json_type(value), field.name or _WORDS.get(field.code, field.code)
    return DecodeError(f"json: cannot unmarshal {found} into {join_path(path)} of type {wanted}")


def _string(value: Any, field: FieldType, path: Path) -> str:
    if not isinstance(value, str):
        raise _mismatch(value, path, field)
    return value


def _boolean(value: Any, field: FieldType, path: Path) -> bool:
    if not isinstance(value, bool):
        raise _mismatch(value, path, field)
    return value


def _integer(value: Any, field: FieldType, path: Path) -> int:
    bits = 31 if field.code == "i" else 63
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or not -(1 << bits) <= value < 1 << bits
    ):
        raise _mismatch(value, path, field)
    return value


def _number(value: Any, field: FieldType, path: Path) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise _mismatch(value, path, field)
    return value


def _int_or_string(value: Any, field: FieldType, path: Path) -> int | str:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise _mismatch(value, path, field)
    return value


def _quantity(value: Any, _field: FieldType, _path: Path) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise DecodeError(QUANTITY_ERROR)
    try:
        parse_quantity(str(value))
    except ValueError as error:
        raise DecodeError(QUANTITY_ERROR) from error
    return str(value)


_SECONDS_END = len("2006-01-02T15:04:05")


def _time(value: Any, field: FieldType, path: Path) -> str:
    text = _string(value, field, path)
    layout = (
        "2006-01-02T15:04:05.000000Z07:00" if field.code == "m" else "2006-01-02T15:04:05Z07:00"
    )
    try:
        moment = objects.parse_time(text)
    except ValueError as error:
        message = f'parsing time {quote(text)} as "{layout}": cannot parse {quote(text)} as "2006"'
        raise DecodeError(message) from error
    fraction = re.search(r"[zZ+-]|\Z|\.\d{6}(?!\d)", text[_SECONDS_END:])
    if field.code == "m" and (fraction is None or not fraction.group().startswith(".")):
        rest = text[_SECONDS_END:]
        message = (
            f'parsing time {quote(text)} as "{layout}": cannot parse {quote(rest)} as ".000000"'
        )
        raise DecodeError(message)
    if field.code == "m":
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return objects.format_time(moment)


def _base64(value: Any, field: FieldType, path: Path) -> str:
    text = _string(value, field, path)
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error as error:
        bad = re.search(r"[^A-Za-z0-9+/=]", text)
        position = bad.start() if bad else len(text)
        raise DecodeError(f"illegal base64 data at input byte {position}") from error
    return text


def _anything(value: Any, _field: FieldType, _path: Path) -> Any:
    return objects.copy_json(value)


_SCALARS: dict[str, Callable[[Any, FieldType, Path], Any]] = {
    "s": _string,
    "b": _boolean,
    "i": _integer,
    "l": _integer,
    "f": _number,
    "q": _quantity,
    "t": _time,
    "m": _time,
    "B": _base64,
    "x": _int_or_string,
    "*": _anything,
}
