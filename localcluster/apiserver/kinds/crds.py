"""CustomResourceDefinitions: their validation, their status, and the types they register.

``Definitions`` observes every write and updates the registry: a type is served from the moment its
definition is stored until it is removed.
"""

from functools import partial

from localcluster.apiserver.bodies.reading import read_stored
from localcluster.apiserver.engine.collection import DEFINITIONS_KEY
from localcluster.apiserver.engine.history import Change
from localcluster.apiserver.engine.state import State
from localcluster.apiserver.engine.strategy import Strategy
from localcluster.apiserver.model import objects
from localcluster.apiserver.model.errors import (
    Cause,
    Object,
    invalid_value,
    not_supported,
    required,
)
from localcluster.apiserver.model.registry import PrinterColumn, ResourceType

_AGE = PrinterColumn("Age", "date", ".metadata.creationTimestamp")
_SCOPES = ("Cluster", "Namespaced")


class Definitions:
    """Keeps the registry in step with the definitions stored."""

    def __init__(self, state: State) -> None:
        """Register in ``state``'s registry."""
        self._state = state

    def observe(self, change: Change) -> None:
        """Register or take away the types of a definition that was written."""
        if change.type_key != DEFINITIONS_KEY:
            return
        latest = change.after or change.before
        if latest is None:
            return
        if change.before and change.after and change.before["spec"] == change.after["spec"]:
            return
        spec = latest["spec"]
        types = [] if change.after is None else resource_types(change.after)
        self._state.registry.replace_custom(spec["group"], spec["names"]["plural"], types)
        if change.before and types:
            self._state.read_anew(types[0].key, partial(_read_stored, types))


def _read_stored(types: list[ResourceType], obj: Object) -> Object:
    """Prune and default an object that was stored under an earlier definition, as a read does."""
    stored = next((rt for rt in types if rt.storage_version), types[0])
    if stored.schema is None:
        return obj
    return read_stored(obj, stored.schema, preserves_unknown=stored.preserves_unknown)


def resource_types(definition: Object) -> list[ResourceType]:
    """Return one type for each served version of a definition."""
    spec = definition["spec"]
    return [_resource_type(spec, version) for version in spec["versions"] if version["served"]]


def _resource_type(spec: Object, version: Object) -> ResourceType:
    given = spec["names"]
    declared = version.get("subresources") or {}
    columns = version.get("additionalPrinterColumns")
    schema = objects.get_path(version, "schema", "openAPIV3Schema")
    return ResourceType(
        spec["group"],
        version["name"],
        given["plural"],
        given["kind"],
        given["singular"],
        given["listKind"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(given.get("shortNames") or ()),
        categories=tuple(given.get("categories") or ()),
        subresources=("status",) if "status" in declared else (),
        is_custom=True,
        printer_columns=(_AGE,) if columns is None else tuple(_column(item) for item in columns),
        schema=schema,
        has_generation=True,
        allows_unconditional_update=False,
        storage_version=bool(version.get("storage")),
        preserves_unknown=bool(spec.get("preserveUnknownFields")),
    )


def _column(column: Object) -> PrinterColumn:
    return PrinterColumn(
        column["name"],
        column["type"],
        column["jsonPath"],
        column.get("description", ""),
        column.get("format", ""),
        column.get("priority", 0),
    )


class DefinitionStrategy(Strategy):
    """Rules of CustomResourceDefinition."""

    def __init__(self, rt: ResourceType, state: State) -> None:
        """Take times from the clock of ``state``."""
        super().__init__(rt)
        self._state = state

    def apply_defaults(self, obj: Object) -> None:
        """Set singular, list kind and conversion."""
        spec = obj.setdefault("spec", {})
        given = spec.setdefault("names", {})
        if given.get("kind"):
            given.setdefault("singular", given["kind"].lower())
            given.setdefault("listKind", given["kind"] + "List")
        spec.setdefault("conversion", {"strategy": "None"})
        for version in spec.get("versions") or ():
            version.setdefault("served", False)
            version.setdefault("storage", False)

    def prepare_create(self, obj: Object) -> None:
        """Establish the new definition at once."""
        super().prepare_create(obj)
        obj["status"] = self._status(obj, {})

    def prepare_update(self, new: Object, old: Object) -> None:
        """Keep the status, but for what follows from the spec."""
        super().prepare_update(new, old)
        new["status"] = self._status(new, old.get("status") or {})

    def _status(self, obj: Object, before: Object) -> Object:
        stored = list(before.get("storedVersions") or ())
        stored += [
            version.get("name", "")
            for version in obj["spec"].get("versions") or ()
            if version["storage"] and version.get("name") not in stored
        ]
        return {
            **before,
            "conditions": before.get("conditions") or self._conditions(),
            "acceptedNames": objects.copy_json(obj["spec"]["names"]),
            "storedVersions": stored,
        }

    def _conditions(self) -> list[Object]:
        since = objects.format_time(self._state.clock.now())
        return [
            {
                "type": kind,
                "status": "True",
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            }
            for kind, reason, message in (
                ("NamesAccepted", "NoConflicts", "no conflicts found"),
                (
                    "Established",
                    "InitialNamesAccepted",
                    "the initial names have been accepted",
                ),
            )
        ]

    def object_faults(self, obj: Object) -> list[Cause]:
        """Check what the registry needs: names, scope, one stored version, schemas."""
        spec = obj["spec"]
        found = [
            required(f"spec.{'.'.join(path)}")
            for path in (("group",), ("names", "plural"), ("names", "kind"), ("scope",))
            if not objects.get_path(spec, *path)
        ]
        wanted = f"{spec['names'].get('plural', '')}.{spec.get('group', '')}"
        if obj["metadata"].get("name") != wanted:
            detail = 'must be spec.names.plural+"."+spec.group'
            found.append(invalid_value("metadata.name", obj["metadata"].get("name"), detail))
        if spec.get("scope") and spec["scope"] not in _SCOPES:
            found.append(not_supported("spec.scope", spec["scope"], _SCOPES))
        versions = spec.get("versions") or []
        if sum(bool(version["storage"]) for version in versions) != 1:
            detail = "must have exactly one version marked as storage version"
            names = [version.get("name") for version in versions]
            found.append(invalid_value("spec.versions", names, detail))
        for index, version in enumerate(versions):
            if objects.get_path(version, "schema", "openAPIV3Schema") is None:
                path = f"spec.versions[{index}].schema.openAPIV3Schema"
                found.append(required(path))
        return found

    def update_faults(self, new: Object, old: Object) -> list[Cause]:
        """Check also what an established definition may not change."""
        found = self.object_faults(new)
        for path in (("group",), ("names", "kind"), ("names", "plural"), ("scope",)):
            was = objects.get_path(old["spec"], *path)
            now = objects.get_path(new["spec"], *path)
            if was != now:
                where = "spec." + ".".join(path)
                found.append(invalid_value(where, now, "field is immutable"))
        return found
