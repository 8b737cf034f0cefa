"""The resource types that the API server serves: built-in ones and those of CRDs."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

TypeKey = tuple[str, str]
"""(group, plural): a type is served in one version."""


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """One column of the table form of a list."""

    name: str
    """The heading."""
    type: str = "string"
    """The JSON type of a cell, or ``date``."""
    json_path: str = ""
    """Path of the value in the object; empty for a computed cell."""
    description: str = ""
    """The help text."""
    format: str = ""
    """A modifier of the type."""
    priority: int = 0
    """Above 0: shown only with ``-o wide``."""


AGE = PrinterColumn("Age", "date", ".metadata.creationTimestamp")


@dataclass(frozen=True, slots=True, eq=False)
class ResourceType:
    """One resource in one version; compared by identity."""

    group: str
    """Empty for the core group."""
    version: str
    """For example ``v1``."""
    plural: str
    """The name in paths."""
    kind: str
    """``kind`` of its objects."""
    singular: str = ""
    """The name of one object in commands."""
    list_kind: str = ""
    """``kind`` of its lists."""
    namespaced: bool = True
    """Whether objects are in namespaces."""
    short_names: tuple[str, ...] = ()
    """Further names in commands."""
    categories: tuple[str, ...] = ()
    """Groups of types in commands, for example ``all``."""
    subresources: tuple[str, ...] = ()
    """Names such as ``status``; the front adds its own (``log``)."""
    is_custom: bool = False
    """Whether a CRD defines it."""
    printer_columns: tuple[PrinterColumn, ...] = ()
    """Columns after the name; without any, there is the age."""
    wire_type: str | None = None
    """Name in ``wire_types`` of a built-in kind."""
    schema: dict[str, Any] | None = None
    """openAPIV3Schema of a custom kind."""
    selectable_fields: tuple[str, ...] = ()
    """Field selector paths besides metadata.name and metadata.namespace."""
    has_generation: bool = False
    """Whether objects have a metadata.generation."""
    allows_unconditional_update: bool = True
    """Whether a PUT without a resourceVersion is accepted."""
    returns_deleted: bool = False
    """Whether an immediate DELETE returns the object instead of a Status."""
    collects_garbage: bool = True
    """Whether a deletion applies propagation policies (not for Events)."""

    @property
    def key(self) -> TypeKey:
        """Return the key of the type."""
        return self.group, self.plural

    @property
    def api_version(self) -> str:
        """Return the ``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def has_status(self) -> bool:
        """Return whether status is a subresource."""
        return "status" in self.subresources


class Registry:
    """All resource types that are served now."""

    def __init__(self, types: Iterable[ResourceType]) -> None:
        """Start with built-in types, which are never removed."""
        self._types: dict[TypeKey, ResourceType] = {}
        self._by_kind: dict[tuple[str, str], ResourceType] = {}
        for rt in types:
            self._add(rt)

    def _add(self, rt: ResourceType) -> None:
        self._types[rt.key] = rt
        self._by_kind[rt.api_version, rt.kind] = rt

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        """Return the type served at a path, None if there is none."""
        found = self._types.get((group, plural))
        return found if found is not None and found.version == version else None

    def find_kind(self, api_version: str, kind: str) -> ResourceType | None:
        """Return the type of an object's apiVersion and kind, None if there is none."""
        return self._by_kind.get((api_version, kind))

    def find_key(self, key: TypeKey) -> ResourceType | None:
        """Return the type of a key, None if there is none."""
        return self._types.get(key)

    def all(self) -> list[ResourceType]:
        """Return all types in the order in which they were registered."""
        return list(self._types.values())

    def replace_custom(self, key: TypeKey, rt: ResourceType | None) -> None:
        """Serve a custom type by its new definition; None removes it."""
        former = self._types.pop(key, None)
        if former is not None:
            self._by_kind.pop((former.api_version, former.kind), None)
        if rt is not None:
            self._add(rt)
