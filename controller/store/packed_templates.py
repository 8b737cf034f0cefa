"""Packed Pod templates: kept as JSON, because as Python objects they take many times the memory.

Any tenant may store a template of 1.4 MB that has only empty objects, which take 33 MB in Python.
Templates are read seldom, when a Pod is created or a gang starts, and unpacked for each reading.
"""

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from dataclasses import replace
from typing import Any

import msgspec

from framework.api.objectmeta import ObjectMeta
from framework.api.types import FrameworkSpec, TaskRoleSpec

# The templates of a spec are not packed if they are smaller in all.
_LEAST_BYTES = 4096


class PackedTemplate(Mapping[str, Any]):
    """A mapping that holds its JSON. Use ``items`` to read several keys."""

    __slots__ = ("_packed",)

    def __init__(self, packed: bytes) -> None:
        """Keep the JSON of an object."""
        self._packed = packed

    def _unpack(self) -> dict[str, Any]:
        unpacked: dict[str, Any] = msgspec.json.decode(self._packed)
        return unpacked

    def __getitem__(self, key: str) -> Any:
        """Return one value."""
        return self._unpack()[key]

    def __iter__(self) -> Iterator[str]:
        """Walk the keys."""
        return iter(self._unpack())

    def __len__(self) -> int:
        """Count the keys."""
        return len(self._unpack())

    def items(self) -> ItemsView[str, Any]:
        """Return keys and values, unpacked once for all of them."""
        return self._unpack().items()

    def values(self) -> ValuesView[Any]:
        """Return the values, unpacked once for all of them."""
        return self._unpack().values()


def pack_metadata(metadata: ObjectMeta) -> ObjectMeta:
    """Leave out managedFields: no part reads them, and they name every field of the spec."""
    extra = {key: metadata.extra[key] for key in metadata.extra if key != "managedFields"}
    return replace(metadata, extra=extra)


def pack_templates(spec: FrameworkSpec) -> FrameworkSpec:
    """Pack the Pod templates of a spec, if they are large together."""
    packed = [msgspec.json.encode(role.task.pod) for role in spec.task_roles]
    if sum(map(len, packed)) < _LEAST_BYTES:
        return spec
    roles = (_pack_role(role, json) for role, json in zip(spec.task_roles, packed, strict=True))
    return replace(spec, task_roles=tuple(roles))


def _pack_role(role: TaskRoleSpec, packed: bytes) -> TaskRoleSpec:
    return replace(role, task=replace(role.task, pod=PackedTemplate(packed)))
