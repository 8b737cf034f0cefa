"""Checks of the schema of a CRD: it is structural, and its defaults obey it.

Validation rules in CEL are not compiled (``rules``).
"""

import re
from collections.abc import Iterator
from typing import Any

from localcluster.apiserver.model.errors import Cause, Object, invalid_value, required
from localcluster.apiserver.model.objects import copy_json
from localcluster.apiserver.schemas import structural, validation
from localcluster.apiserver.schemas.list_types import LIST_MAP_KEYS, LIST_TYPE

_ANY_TYPE = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
_UNNAMED = ("", "<nil>")


def schema_faults(declared: Any, path: str) -> list[Cause]:
    """Find what the API server refuses in a schema and in those below it."""
    return list(_schema_faults(declared, path))


def _schema_faults(declared: Any, path: str) -> Iterator[Cause]:
    if not isinstance(declared, dict):
        return
    yield from _pattern_faults(declared, path)
    yield from _list_faults(declared, path)
    below = list(_schemas_below(declared, path))
    for where, item, what in below:
        if isinstance(item, dict) and not item.get("type") and not any(map(item.get, _ANY_TYPE)):
            yield required(f"{where}.type", f"must not be empty for specified {what}")
    for where, item, _ in below:
        yield from _schema_faults(item, where)
    if declared.get("default") is not None:
        yield from _default_faults(declared, f"{path}.default")


def _schemas_below(declared: Object, path: str) -> Iterator[tuple[str, Any, str]]:
    for name, item in (declared.get("properties") or {}).items():
        yield f"{path}.properties[{name}]", item, "object fields"
    if isinstance(declared.get("items"), dict):
        yield f"{path}.items", declared["items"], "array items"
    if isinstance(declared.get("additionalProperties"), dict):
        yield f"{path}.additionalProperties", declared["additionalProperties"], "object fields"


def _pattern_faults(declared: Object, path: str) -> Iterator[Cause]:
    pattern = declared.get("pattern")
    if not pattern:
        return
    try:
        re.compile(pattern)
    except re.error as error:
        yield invalid_value(f"{path}.pattern", pattern, f"must be a valid regex: {error}")


def _list_faults(declared: Object, path: str) -> Iterator[Cause]:
    if declared.get(LIST_TYPE) != "map":
        return
    keys = declared.get(LIST_MAP_KEYS) or ()
    if not keys:
        text = f"must not be empty if {LIST_TYPE} is map"
        yield required(f"{path}.{LIST_MAP_KEYS}", text)
    items = declared.get("items") or {}
    for key in keys:
        known = (items.get("properties") or {}).get(key)
        if (
            known is not None
            and "default" not in known
            and key not in (items.get("required") or ())
        ):
            text = (
                f"this property is in {LIST_MAP_KEYS}, so it must have a default or be a "
                "required property"
            )
            yield required(f"{path}.items.properties[{key}].default", text)


def _default_faults(declared: Object, path: str) -> Iterator[Cause]:
    value = declared["default"]
    if structural.find_unknown(copy_json(value), declared):
        yield invalid_value(path, value, "must not have unknown fields")
        return
    for cause in validation.value_faults(value, declared, ""):
        inside = "" if cause.field in _UNNAMED else f".{cause.field}"
        yield Cause(cause.type, path + inside, cause.message)
