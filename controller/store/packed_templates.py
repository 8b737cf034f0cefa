"""Packed Pod templates: kept as JSON, because as Python objects they take many times the memory.

Any tenant may store a template of 1.4 MB that has only empty objects, which take 33 MB in Python.
Decisions read only the facts of a template, which are read when it is packed. Pods are built from
its text (``template_text``). It is unpacked only when a history line is written.
"""

from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from dataclasses import replace
from typing import Any, Self

import msgspec

from controller.store.template_text import has_placeholder, open_template, replace_placeholders
from framework.api.objectmeta import ObjectMeta
from framework.api.templatefacts import TemplateFacts, TemplateWithFacts, read_facts
from framework.api.types import FrameworkSpec, TaskRoleSpec


class PackedTemplate(TemplateWithFacts):
    """A mapping that holds its JSON and its facts. Use ``items`` to read several keys."""

    __slots__ = ("_facts", "_has_placeholder", "_packed", "_size")

    def __init__(self, packed: bytes, facts: TemplateFacts, size: int) -> None:
        """Keep the JSON of an object, its facts, and the number of its keys."""
        self._packed = packed
        self._facts = facts
        self._size = size
        self._has_placeholder = has_placeholder(packed)

    @classmethod
    def pack(cls, template: Mapping[str, Any]) -> Self:
        """Read and pack a template."""
        return cls(msgspec.json.encode(template), read_facts(template), len(template))

    @property
    def facts(self) -> TemplateFacts:
        """What decisions read."""
        return self._facts

    @property
    def json_bytes(self) -> int:
        """The length of the JSON."""
        return len(self._packed)

    def render(
        self,
        names: Mapping[str, str],
        count_growth: Callable[[int], None],
        *,
        with_affinity: bool = False,
    ) -> dict[str, Any]:
        """Replace the placeholders, and open the parts from which a Pod is built."""
        text = self._packed
        if self._has_placeholder:
            text = replace_placeholders(text, names, count_growth)
        return open_template(text, with_affinity=with_affinity)

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
        """Return the number of keys, without unpacking."""
        return self._size

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
    """Pack the Pod templates of a spec."""
    return replace(spec, task_roles=tuple(map(_pack_role, spec.task_roles)))


def _pack_role(role: TaskRoleSpec) -> TaskRoleSpec:
    if isinstance(role.task.pod, PackedTemplate):
        return role
    return replace(role, task=replace(role.task, pod=PackedTemplate.pack(role.task.pod)))
