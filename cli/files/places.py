"""The place of an object in the files of a user, as messages name it. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from framework.api.text import cut_text
from framework.strictyaml import Document

_STEP = re.compile(r"[^.\[\]]+")
_MAX_NAME_BYTES = 100


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an object."""

    source: str
    """The file, as messages name it."""
    document: Document | None = None
    """The document of the object, if its file has several; else messages have no line."""
    items: tuple[int, ...] = ()
    """Its index in a List, and in Lists of this List."""
    templates: Mapping[str, str] = field(default_factory=dict)
    """Paths of the Pod templates in the Framework of a converted job, each with that in the job."""

    def __str__(self) -> str:
        """Render as ``FILE``, or as ``FILE:LINE`` with the first line of the document."""
        return self._render(None if self.document is None else self.document.line)

    def locate(self, path: str) -> str:
        """Render the place of a field; in a file of several documents, also kind and name.

        Args:
            path: of the field in the object; if it is absent, the field around it counts.
        """
        if self.document is None:
            return str(self)
        line = find_line(self.document, [*self._steps, *_STEP.findall(self.name_field(path))])
        title = _name_object(self._get_object())
        return f"{self._render(line)}{f': {title}' if title else ''}"

    def name_field(self, path: str) -> str:
        """Return the path of a field as the user wrote it; the field may be of a converted job."""
        for template, written in self.templates.items():
            if f"{path}.".startswith(f"{template}."):
                return f"{written}{path.removeprefix(template)}"
        return path

    def enter(self, index: int) -> "Place":
        """Return the place of an item of this List."""
        return Place(self.source, self.document, (*self.items, index))

    @property
    def _steps(self) -> list[str]:
        return [step for index in self.items for step in ("items", str(index))]

    def _render(self, line: int | None) -> str:
        items = "".join(f": items[{index}]" for index in self.items)
        return f"{self.source}{'' if line is None else f':{line}'}{items}"

    def _get_object(self) -> Any:
        value: Any = self.document.value if self.document is not None else None
        for index in self.items:
            value = value["items"][index]
        return value


def find_line(document: Document, steps: list[str]) -> int:
    """Find the line of a field in its file; if it is absent, that of the nearest field around it.

    Args:
        document: as it was read.
        steps: keys, and indexes of lists.
    """
    node, line = document.node, document.line
    for step in steps:
        found = _find_child(node, step)
        if found is None:
            break
        mark, node = found
        line = mark.line + 1
    return line


def _find_child(node: yaml.Node | None, step: str) -> tuple[yaml.Mark, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        return next(((k.start_mark, v) for k, v in node.value if k.value == step), None)
    if isinstance(node, yaml.SequenceNode) and step.isdecimal() and int(step) < len(node.value):
        item: yaml.Node = node.value[int(step)]
        return item.start_mark, item
    return None


def _name_object(body: Any) -> str:
    """Name an object by kind and name, as far as it has them."""
    if not isinstance(body, dict):
        return ""
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    words = (body.get("kind"), metadata.get("name") or metadata.get("generateName"))
    return " ".join(cut_text(word, _MAX_NAME_BYTES) for word in words if isinstance(word, str))
