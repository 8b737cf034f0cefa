"""Structural schemas of CRDs: dropping unknown fields and forbidden nulls, setting defaults.

Objects are changed in place: they are fresh copies of a request's body.
"""

from typing import Any

from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.objects import copy_json

PRESERVE_UNKNOWN = "x-kubernetes-preserve-unknown-fields"
_TYPE_FIELDS = ("apiVersion", "kind", "metadata")


def prune_root(obj: Object, schema: Object) -> list[str]:
    """Drop the fields that the schema does not have; return their paths."""
    unknown: list[str] = []
    _prune(obj, schema, "", unknown, kept=_TYPE_FIELDS)
    return unknown


def _prune(
    value: Any, schema: Object, path: str, unknown: list[str], kept: tuple[str, ...] = ()
) -> None:
    if isinstance(value, dict):
        _prune_map(value, schema, path, unknown, kept)
    elif isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                _prune(item, items, f"{path}[{index}]", unknown)


def _prune_map(
    value: Object, schema: Object, path: str, unknown: list[str], kept: tuple[str, ...]
) -> None:
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    for name in list(value):
        if name in kept:
            continue
        below = f"{path}.{name}" if path else name
        if name in properties:
            _prune(value[name], properties[name], below, unknown)
        elif isinstance(additional, dict):
            _prune(value[name], additional, below, unknown)
        elif not schema.get(PRESERVE_UNKNOWN) and not additional:
            unknown.append(below)
            del value[name]


def apply_root_defaults(obj: Object, schema: Object) -> None:
    """Set defaults, then drop nulls that the schema does not allow."""
    hidden = {name: obj.pop(name) for name in _TYPE_FIELDS if name in obj}
    apply_defaults(obj, schema)
    drop_nulls(obj, schema)
    obj.update(hidden)


def apply_defaults(value: Any, schema: Object) -> None:
    """Set absent fields, and nulls that the schema does not allow, to their defaults."""
    if isinstance(value, dict):
        for name, prop in (schema.get("properties") or {}).items():
            if prop.get("default") is not None and (
                name not in value or _is_wrong_null(value[name], prop)
            ):
                value[name] = copy_json(prop["default"])
    for key, below in list_below(value, schema):
        if _is_wrong_null(value[key], below):
            value[key] = copy_json(below.get("default"))
        apply_defaults(value[key], below)


def drop_nulls(value: Any, schema: Object) -> None:
    """Drop fields that are null though their schema does not allow it."""
    for key, below in list_below(value, schema):
        if isinstance(value, dict) and _is_wrong_null(value[key], below):
            del value[key]
        else:
            drop_nulls(value[key], below)


def list_below(value: Any, schema: Object) -> list[tuple[Any, Object]]:
    """List the names in a map, or indexes in a list, of values with a schema; and the schema."""
    if isinstance(value, dict):
        properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        found = [(name, properties.get(name, additional)) for name in value]
    elif isinstance(value, list):
        found = [(index, schema.get("items")) for index in range(len(value))]
    else:
        found = []
    return [(key, below) for key, below in found if isinstance(below, dict)]


def _is_wrong_null(value: Any, schema: Object) -> bool:
    return value is None and not schema.get("nullable")
