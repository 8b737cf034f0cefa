"""Which part of an object was which part before an update.

Called by ``schema`` and ``rules``, which tolerate what is wrong with a value that an update leaves
as it is, so a definition may become stricter while old objects stay writable. The rules of
correlation are kube-apiserver's, also where they are surprising: what a schema does not describe
is never taken for unchanged, and neither is a list by keys whose item lacks its key.
"""

import json
from typing import Any, Self

from localcluster.apiserver.model.errors import Object

LIST_TYPE = "x-kubernetes-list-type"
LIST_MAP_KEYS = "x-kubernetes-list-map-keys"
_SCALARS = (str, int, float, bool)


class Correlation:
    """A value, the one it replaces, and the schema of both."""

    __slots__ = ("_children", "_items_by_key", "_outcome", "new", "old", "schema")

    def __init__(self, new: Any, old: Any, schema: Object) -> None:
        """Correlate ``new`` with ``old``."""
        self.new = new
        self.old = old
        self.schema = schema
        self._children: dict[str | int, Self] = {}
        self._items_by_key: dict[str, Any] | None = None
        self._outcome: bool | None = None

    def key(self, name: str) -> Self | None:
        """Return the correlation of a member; None if it had none or its schema is unknown."""
        known = self._children.get(name)
        if known is not None:
            return known
        if not isinstance(self.new, dict) or not isinstance(self.old, dict):
            return None
        if name not in self.new or name not in self.old:
            return None
        below = (self.schema.get("properties") or {}).get(
            name, self.schema.get("additionalProperties")
        )
        return self._child(name, self.new[name], self.old[name], below)

    def item(self, index: int) -> Self | None:
        """Return the correlation of an item; None unless the list is one by keys."""
        known = self._children.get(index)
        if known is not None:
            return known
        if not isinstance(self.new, list) or self.schema.get(LIST_TYPE) != "map":
            return None
        if self._items_by_key is None:
            self._items_by_key = self._read_items()
        identity = identify_item(self.new[index], self.schema)
        old = None if identity is None else self._items_by_key.get(identity)
        if old is None:
            return None
        return self._child(index, self.new[index], old, self.schema.get("items"))

    def _child(self, name: str | int, new: Any, old: Any, schema: Any) -> Self | None:
        if not isinstance(schema, dict):
            return None
        child = self._children[name] = type(self)(new, old, schema)
        return child

    def _read_items(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for item in self.old if isinstance(self.old, list) else ():
            identity = identify_item(item, self.schema)
            if identity is not None:
                found[identity] = item
        return found

    def is_equal(self) -> bool:
        """Return whether the update left the value as it was."""
        if self._outcome is None:
            self._outcome = self._compare()
        return self._outcome

    def _compare(self) -> bool:
        new, old = self.new, self.old
        if type(new) is not type(old):
            return False
        if isinstance(new, dict):
            return len(new) == len(old) and all(_is_unchanged(self.key(name)) for name in new)
        if isinstance(new, list):
            if len(new) != len(old):
                return False
            if self.schema.get(LIST_TYPE) == "map":
                return all(_is_unchanged(self.item(index)) for index in range(len(new)))
            return is_same_json(new, old)
        return bool(new == old)


def _is_unchanged(child: Correlation | None) -> bool:
    return child is not None and child.is_equal()


def identify_item(item: Any, schema: Object) -> str | None:
    """Return what tells an item of a list by keys from the others; None if a key is missing."""
    keys = schema.get(LIST_MAP_KEYS) or ()
    if not isinstance(item, dict) or not all(isinstance(item.get(k), _SCALARS) for k in keys):
        return None
    return json.dumps([item[key] for key in keys])


def is_same_json(new: Any, old: Any) -> bool:
    """Return whether two values are equal as JSON; Python alone takes 1, 1.0 and True as equal."""
    return bool(new == old) and json.dumps(new, sort_keys=True) == json.dumps(old, sort_keys=True)
