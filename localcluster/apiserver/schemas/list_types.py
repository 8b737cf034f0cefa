"""Lists that are sets, or maps by keys: no item may occur twice.

An update is excused as a whole: an object that already has duplicates may keep them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from localcluster.apiserver.model import errors
from localcluster.apiserver.model.errors import Cause, Object

LIST_TYPE = "x-kubernetes-list-type"
LIST_MAP_KEYS = "x-kubernetes-list-map-keys"


def duplicate_faults(value: Any, schema: Object, path: str = "") -> list[Cause]:
    """Find what occurs twice in the lists of a value."""
    return list(_find_in(value, schema, path))


def _find_in(value: Any, schema: Object, path: str) -> Iterator[Cause]:
    if isinstance(value, list):
        yield from _find_in_list(value, schema, path)
    elif isinstance(value, dict):
        properties = schema.get("properties") or {}
        additional = schema.get("additionalProperties")
        for name, item in value.items():
            below = properties.get(name, additional)
            if isinstance(below, dict):
                where = f"{path}.{name}" if path else name
                yield from _find_in(item, below, where)


def _find_in_list(value: list[Any], schema: Object, path: str) -> Iterator[Cause]:
    kind = schema.get(LIST_TYPE)
    if kind in ("map", "set") and len(value) > 1:
        keys = (schema.get(LIST_MAP_KEYS) or ()) if kind == "map" else None
        seen: set[str] = set()
        for index, item in enumerate(value):
            shown = item if keys is None else _pick(item, keys)
            identity = errors.render_value(shown)
            if identity in seen:
                yield errors.duplicate(f"{path}[{index}]", shown)
            seen.add(identity)
    items = schema.get("items")
    if isinstance(items, dict):
        for index, item in enumerate(value):
            yield from _find_in(item, items, f"{path}[{index}]")


def _pick(item: Any, keys: Sequence[str]) -> Object:
    if not isinstance(item, dict):
        return {}
    return {key: item[key] for key in keys if key in item}
