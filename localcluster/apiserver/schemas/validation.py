"""Validation of custom objects by the structural schema of their CRD, with the server's messages.

Rules in CEL are in ``rules``. Limits that the CRD of a Framework does not use (``anyOf``,
``multipleOf``, ``uniqueItems`` and others) are stored and not checked.

A value that an update leaves unchanged is tolerated even if the schema forbids it, because a CRD
may become stricter while old objects stay writable.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from localcluster.apiserver.model import errors, objects
from localcluster.apiserver.model.errors import Cause, Object
from localcluster.apiserver.schemas.structural import PRESERVE_UNKNOWN, list_below

INT_OR_STRING = "x-kubernetes-int-or-string"
LIST_TYPE = "x-kubernetes-list-type"
LIST_MAP_KEYS = "x-kubernetes-list-map-keys"
_INT32 = 31
_INT64 = 63


def object_faults(obj: Object, schema: Object, old: Any = None) -> list[Cause]:
    """Check a custom object, pruned and with its defaults; ``old`` is the object that it replaces.

    Of the metadata, only the rules in the schema are checked.
    """
    body = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}
    return value_faults(body, _without_required_type(schema), "", old)


def _without_required_type(schema: Object) -> Object:
    known = [name for name in schema.get("required") or () if name not in ("apiVersion", "kind")]
    return {**schema, "required": known}


def value_faults(value: Any, schema: Object, path: str, old: Any = None) -> list[Cause]:
    """Check one value; ``old`` as in ``object_faults``."""
    if value is None and schema.get("nullable"):
        return []
    found = list(_faults(value, schema, path, old))
    if found and old is not None and objects.is_same_json(value, old):
        return []
    return found


def _faults(value: Any, schema: Object, path: str, old: Any) -> Iterator[Cause]:
    wrong_type = _type_fault(value, schema, path)
    if wrong_type is not None:
        yield wrong_type
        return
    yield from _enum_faults(value, schema, path)
    if isinstance(value, dict):
        yield from _map_faults(value, schema, path, old)
    elif isinstance(value, list):
        yield from _list_faults(value, schema, path)
    elif isinstance(value, str):
        yield from _string_faults(value, schema, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _number_faults(value, schema, path)


def json_type(value: Any) -> str:
    """Return the JSON Schema name of a value's type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "integer" if value.is_integer() and abs(value) < 1 << _INT64 else "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _in_body(path: str) -> str:
    return f"{path} in body"


def _type_fault(value: Any, schema: Object, path: str) -> Cause | None:
    found = json_type(value)
    if schema.get(INT_OR_STRING):
        allowed: tuple[str, ...] = ("integer", "string")
    elif schema.get("type"):
        allowed = (schema["type"],)
    else:
        return None
    if found in allowed or (found == "integer" and allowed == ("number",)):
        return None
    quoted = errors.quote(found)
    text = f"{_in_body(path)} must be of type {','.join(allowed)}: {quoted}"
    return Cause("FieldValueTypeInvalid", path or "<nil>", f"Invalid value: {quoted}: {text}")


def _invalid(path: str, value: Any, rule: str) -> Cause:
    return errors.invalid_value(path or "<nil>", value, f"{_in_body(path)} {rule}")


def _enum_faults(value: Any, schema: Object, path: str) -> Iterator[Cause]:
    allowed = schema.get("enum")
    if allowed is None or any(_is_equal(value, item) for item in allowed):
        return
    known = [item if isinstance(item, str) else errors.render_value(item) for item in allowed]
    yield errors.not_supported(path or "<nil>", value, known)


def _is_equal(left: Any, right: Any) -> bool:
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _map_faults(value: Object, schema: Object, path: str, old: Any) -> Iterator[Cause]:
    for name in schema.get("required") or ():
        if name not in value:
            yield errors.required(_join(path, name))
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    for name, item in value.items():
        below = properties.get(name, additional)
        if isinstance(below, dict):
            before = old.get(name) if isinstance(old, dict) else None
            yield from value_faults(item, below, _join(path, name), before)
        elif additional is False and not schema.get(PRESERVE_UNKNOWN) and name not in properties:
            yield errors.not_allowed(_join(path, name), "unknown field")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _too_many(path: str, count: int, most: int) -> Cause:
    noun = "item" if most == 1 else "items"
    return Cause("FieldValueTooMany", path, f"Too many: {count}: must have at most {most} {noun}")


def _list_faults(value: list[Any], schema: Object, path: str) -> Iterator[Cause]:
    least, most = schema.get("minItems"), schema.get("maxItems")
    if least is not None and len(value) < least:
        yield _invalid(path, len(value), f"should have at least {least} items")
    if most is not None and len(value) > most:
        yield _too_many(path, len(value), most)
    items = schema.get("items")
    if isinstance(items, dict):
        for index, item in enumerate(value):
            yield from value_faults(item, items, f"{path}[{index}]")


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    # $ is only the end of the text in Go; in Python it also matches before a final line feed.
    return re.compile(re.sub(r"(?<!\\)\$\Z", r"\\Z", text))


def _string_faults(value: str, schema: Object, path: str) -> Iterator[Cause]:
    # Only the first of these that fails is reported.
    least, most = schema.get("minLength"), schema.get("maxLength")
    pattern = schema.get("pattern")
    if most is not None and len(value) > most:
        yield errors.too_long(path, most)
    elif least is not None and len(value) < least:
        yield _invalid(path, value, f"should be at least {least} chars long")
    elif pattern and not _pattern(pattern).search(value):
        yield _invalid(path, value, f"should match '{pattern}'")
    if schema.get("format") == "date-time" and not _is_time(value):
        text = f"{_in_body(path)} must be of type date-time: {errors.quote(value)}"
        message = f"Invalid value: {errors.quote(value)}: {text}"
        yield Cause("FieldValueTypeInvalid", path, message)


def _is_time(text: str) -> bool:
    try:
        objects.parse_time(text)
    except ValueError:
        return False
    return True


def _number_faults(value: float, schema: Object, path: str) -> Iterator[Cause]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and value < least:
        yield _invalid(path, value, f"should be greater than or equal to {least}")
    if most is not None and value > most:
        yield _invalid(path, value, f"should be less than or equal to {most}")
    yield from _format_faults(value, schema, path)


def _format_faults(value: float, schema: Object, path: str) -> Iterator[Cause]:
    bits = {"int32": _INT32, "int64": _INT64}.get(schema.get("format", ""))
    if bits is not None and not -(1 << bits) <= value < 1 << bits:
        rule = f"must be of type {schema['format']}: {errors.quote(str(value))}"
        yield _invalid(path, value, rule)


# --- Lists that are sets, or maps by keys ---------------------------------------------------------


def duplicate_faults(value: Any, schema: Object, path: str = "") -> list[Cause]:
    """Find the duplicates in the lists of a value.

    The caller skips this check for an update of an object that already has duplicates.
    """
    return list(_find_in(value, schema, path))


def _find_in(value: Any, schema: Object, path: str) -> Iterator[Cause]:
    kind = schema.get(LIST_TYPE)
    if isinstance(value, list) and kind in ("map", "set") and len(value) > 1:
        keys = (schema.get(LIST_MAP_KEYS) or ()) if kind == "map" else None
        seen: set[str] = set()
        for index, item in enumerate(value):
            shown = item if keys is None else _pick(item, keys)
            identity = errors.render_value(shown)
            if identity in seen:
                yield errors.duplicate(f"{path}[{index}]", shown)
            seen.add(identity)
    for key, below in list_below(value, schema):
        where = f"{path}[{key}]" if isinstance(value, list) else _join(path, key)
        yield from _find_in(value[key], below, where)


def _pick(item: Any, keys: Sequence[str]) -> Object:
    if not isinstance(item, dict):
        return {}
    return {key: item[key] for key in keys if key in item}
