"""Server-side apply for a world where each field has one manager.

What a manager applied last is kept beside the objects, not in ``managedFields``: a field it stops
applying is removed, all it applies is set. Two managers that apply the same field do not conflict:
the last one wins. Called by ``patching``.
"""

from dataclasses import dataclass, field
from typing import Any

from localcluster.apiserver.bodies.wire import FieldType, struct_types
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.objects import ObjectKey, copy_json
from localcluster.apiserver.model.registry import ResourceType, TypeKey

Owner = tuple[TypeKey, ObjectKey, str, str]
"""Type, object, field manager, subresource."""


@dataclass
class AppliedFields:
    """The configurations applied last, by object and manager."""

    _last: dict[Owner, tuple[str, Object]] = field(default_factory=dict)

    def remember(self, owner: Owner, uid: str, wanted: Object) -> None:
        """Keep what a manager applied to the object of this UID."""
        self._last[owner] = (uid, copy_json(wanted))

    def merge(self, rt: ResourceType, owner: Owner, live: Object, wanted: Object) -> Object:
        """Return the live object with the manager's configuration in place of its last one."""
        uid, last = self._last.get(owner, ("", {}))
        if uid != live["metadata"]["uid"]:
            last = {}
        shape = _builtin_shape(rt.wire_type) if rt.wire_type else _schema_shape(rt.schema)
        merged = _merge_map(shape, live, last, wanted)
        merged["metadata"] = _merge_map(
            _builtin_shape("ObjectMeta"),
            live["metadata"],
            last.get("metadata", {}),
            wanted.get("metadata", {}),
        )
        return merged


@dataclass(frozen=True, slots=True)
class _Shape:
    """How the parts of one value merge: lists with keys by them, other lists as a whole."""

    wire: FieldType | None = None
    schema: Object | None = None

    def below(self, name: str) -> "_Shape":
        if self.wire is not None:
            if self.wire.code == "struct":
                return _Shape(wire=struct_types()[self.wire.name].get(name))
            return _Shape(wire=self.wire.item)
        if self.schema is None:
            return _Shape()
        properties = self.schema.get("properties") or {}
        additional = self.schema.get("additionalProperties")
        found = properties.get(name, additional if isinstance(additional, dict) else None)
        return _Shape(schema=found)

    def item(self) -> "_Shape":
        if self.wire is not None:
            return _Shape(wire=self.wire.item)
        items = (self.schema or {}).get("items")
        return _Shape(schema=items if isinstance(items, dict) else None)

    def keys(self) -> tuple[str, ...] | None:
        """Return the keys of a list of maps, () for a set, None for a list that is atomic."""
        if self.wire is not None:
            if self.wire.merge_key is None:
                return None
            return (self.wire.merge_key,) if self.wire.merge_key else ()
        schema = self.schema or {}
        kind = schema.get("x-kubernetes-list-type")
        if kind == "map":
            return tuple(schema.get("x-kubernetes-list-map-keys") or ())
        return () if kind == "set" else None


def _builtin_shape(name: str) -> _Shape:
    return _Shape(wire=FieldType("struct", name))


def _schema_shape(schema: Object | None) -> _Shape:
    return _Shape(schema=schema)


def _merge(shape: _Shape, live: Any, last: Any, wanted: Any) -> Any:
    if isinstance(wanted, dict):
        base = live if isinstance(live, dict) else {}
        return _merge_map(shape, base, last if isinstance(last, dict) else {}, wanted)
    if isinstance(wanted, list):
        keys = shape.keys()
        if keys is not None:
            base_items = live if isinstance(live, list) else []
            last_items = last if isinstance(last, list) else []
            return _merge_list(shape, keys, base_items, last_items, wanted)
    return copy_json(wanted)


def _merge_map(shape: _Shape, live: Object, last: Object, wanted: Object) -> Object:
    merged = dict(live)
    for name in last:
        if name not in wanted and name in merged:
            remains = _without(shape.below(name), merged[name], last[name])
            if remains is None:
                del merged[name]
            else:
                merged[name] = remains
    for name, value in wanted.items():
        merged[name] = _merge(shape.below(name), live.get(name), last.get(name), value)
    return merged


def _without(shape: _Shape, live: Any, last: Any) -> Any:
    """Return what of a value was not applied; None when nothing is left."""
    if isinstance(live, dict) and isinstance(last, dict):
        return _merge_map(shape, live, last, {}) or None
    keys = shape.keys()
    if keys is not None and isinstance(live, list) and isinstance(last, list):
        return _merge_list(shape, keys, live, last, []) or None
    return None


def _merge_list(
    shape: _Shape, keys: tuple[str, ...], live: list[Any], last: list[Any], wanted: list[Any]
) -> list[Any]:
    def identity(item: Any) -> Any:
        return tuple(item.get(key) for key in keys) if keys and isinstance(item, dict) else item

    before = {repr(identity(item)): item for item in last}
    now = {repr(identity(item)): item for item in wanted}
    merged: list[Any] = []
    for item in live:
        name = repr(identity(item))
        if name in now:
            merged.append(_merge(shape.item(), item, before.get(name), now.pop(name)))
        elif name not in before:
            merged.append(item)
    merged.extend(copy_json(item) for item in now.values())
    return merged
