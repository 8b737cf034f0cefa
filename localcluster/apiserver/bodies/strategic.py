"""Strategic merge patch for the built-in kinds.

Lists whose field has a merge key in ``wire_types.txt`` are joined by that key, lists of primitives
with a merge strategy as sets, all others are replaced. Directives: ``$patch``, ``$retainKeys``,
``$setElementOrder/FIELD`` and ``$deleteFromPrimitiveList/FIELD``, which kubectl sends.
"""

from typing import Any

from localcluster.apiserver.bodies.wire import FieldType, struct_types
from localcluster.apiserver.model import errors
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.objects import copy_json

_PATCH = "$patch"
_DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"


def apply_strategic_patch(type_name: str | None, target: Object, patch: Object) -> Object:
    """Return a struct with the patch applied; other parts are shared."""
    directive = patch.get(_PATCH)
    if directive == "replace":
        replaced: Object = _plain({key: value for key, value in patch.items() if key != _PATCH})
        return replaced
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise errors.bad_request(f"unknown patch type: {directive}")
    fields = struct_types().get(type_name or "", {})
    merged = dict(target)
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge_field(fields.get(key), merged.get(key), value)
    for key, value in patch.items():
        if key.startswith(_DELETE_PRIMITIVES):
            _delete_primitives(merged, key.removeprefix(_DELETE_PRIMITIVES), value)
    return merged


def _merge_field(field: FieldType | None, current: Any, value: Any) -> Any:
    if isinstance(value, dict):
        base = current if isinstance(current, dict) else {}
        inner = field.name if field is not None and field.code == "struct" else None
        return apply_strategic_patch(inner, base, value)
    if not isinstance(value, list) or field is None or field.merge_key is None:
        return _plain(value)
    present = current if isinstance(current, list) else []
    if field.merge_key:
        return _merge_items(field, present, value)
    return [*present, *(item for item in value if item not in present)]


def _merge_items(field: FieldType, current: list[Any], patch: list[Any]) -> list[Any]:
    if any(isinstance(item, dict) and item == {_PATCH: "replace"} for item in patch):
        return [_plain(item) for item in patch if item != {_PATCH: "replace"}]
    key = str(field.merge_key)
    inner = field.item.name if field.item is not None else None
    merged = list(current)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            message = f"map: {errors.render_value(item)} does not contain declared merge key: {key}"
            raise errors.StatusError(500, "", message)
        found = [i for i, old in enumerate(merged) if old.get(key) == item[key]]
        if item.get(_PATCH) == "delete":
            merged = [old for old in merged if old.get(key) != item[key]]
        elif found:
            merged[found[0]] = apply_strategic_patch(inner, merged[found[0]], item)
        else:
            merged.append(_plain(item))
    return merged


def _plain(value: Any) -> Any:
    """Copy a part of a patch that replaces or adds: without directives and without nulls."""
    if isinstance(value, dict):
        return {
            key: _plain(item)
            for key, item in value.items()
            if item is not None and not key.startswith("$")
        }
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return copy_json(value)


def _delete_primitives(merged: Object, name: str, unwanted: Any) -> None:
    current = merged.get(name)
    if isinstance(current, list) and isinstance(unwanted, list):
        merged[name] = [item for item in current if item not in unwanted]
