"""CustomResourceDefinitions: their validation, their status, and the types they register.

``Definitions`` observes every write and updates the registry: a type is served from the moment its
definition is stored until it is removed. A definition has one version.
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

_SCOPES = ("Cluster", "Namespaced")
_IDENTITY = (("group",), ("names", "plural"), ("names", "kind"), ("scope",))
"""Fields of the spec that are required and may not change."""


class Definitions:
    """Keeps the registry in step with the definitions stored."""

    def __init__(self, state: State) -> None:
        """Register in ``state``'s registry."""
        self._state = state

    def observe(self, change: Change) -> None:
        """Register or remove the types of a definition that was written."""
        if change.type_key != DEFINITIONS_KEY:
            return
        latest = change.after or change.before
        if latest is None:
            return
        if change.before and change.after and change.before["spec"] == change.after["spec"]:
            return
        spec = latest["spec"]
        key = (spec["group"], spec["names"]["plural"])
        rt = None if change.after is None else resource_type(spec)
        self._state.registry.replace_custom(key, rt)
        if change.before and rt is not None:
            self._state.read_anew(key, partial(read_stored, rt.schema or {}))


def resource_type(spec: Object) -> ResourceType:
    """Return the type that the spec of a definition describes."""
    version, given = spec["versions"][0], spec["names"]
    declared = version.get("subresources") or {}
    columns = version.get("additionalPrinterColumns") or ()
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
        printer_columns=tuple(_column(item) for item in columns),
        schema=schema,
        has_generation=True,
        allows_unconditional_update=False,
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
        """Keep the status, except the parts that follow from the spec."""
        super().prepare_update(new, old)
        new["status"] = self._status(new, old.get("status") or {})

    def _status(self, obj: Object, before: Object) -> Object:
        return {
            **before,
            "conditions": before.get("conditions") or self._conditions(),
            "acceptedNames": objects.copy_json(obj["spec"]["names"]),
            "storedVersions": _version_names(obj["spec"]),
        }

    def _conditions(self) -> list[Object]:
        met = {
            "status": "True",
            "lastTransitionTime": objects.format_time(self._state.clock.now()),
        }
        accepted = {"reason": "NoConflicts", "message": "no conflicts found"}
        message = "the initial names have been accepted"
        established = {"reason": "InitialNamesAccepted", "message": message}
        return [
            {"type": "NamesAccepted", **met, **accepted},
            {"type": "Established", **met, **established},
        ]

    def object_faults(self, obj: Object) -> list[Cause]:
        """Check the fields that the registry needs: names, scope, one version, its schema."""
        spec = obj["spec"]
        found = [
            required(f"spec.{'.'.join(path)}")
            for path in _IDENTITY
            if not objects.get_path(spec, *path)
        ]
        wanted = f"{spec['names'].get('plural', '')}.{spec.get('group', '')}"
        if obj["metadata"].get("name") != wanted:
            detail = 'must be spec.names.plural+"."+spec.group'
            found.append(invalid_value("metadata.name", obj["metadata"].get("name"), detail))
        if spec.get("scope") and spec["scope"] not in _SCOPES:
            found.append(not_supported("spec.scope", spec["scope"], _SCOPES))
        versions = spec.get("versions") or []
        if [(version["served"], version["storage"]) for version in versions] != [(True, True)]:
            detail = "must be one version, served and stored: the local cluster has no conversion"
            found.append(invalid_value("spec.versions", _version_names(spec), detail))
        for index, version in enumerate(versions):
            if objects.get_path(version, "schema", "openAPIV3Schema") is None:
                path = f"spec.versions[{index}].schema.openAPIV3Schema"
                found.append(required(path))
        return found

    def update_faults(self, new: Object, old: Object) -> list[Cause]:
        """Check also the fields that an established definition may not change."""
        found = self.object_faults(new)
        for path in _IDENTITY:
            was = objects.get_path(old["spec"], *path)
            now = objects.get_path(new["spec"], *path)
            if was != now:
                where = "spec." + ".".join(path)
                found.append(invalid_value(where, now, "field is immutable"))
        if _version_names(new["spec"]) != _version_names(old["spec"]):
            detail = "the name of the version may not change in the local cluster"
            found.append(invalid_value("spec.versions", _version_names(new["spec"]), detail))
        return found


def _version_names(spec: Object) -> list[str]:
    return [version.get("name", "") for version in spec.get("versions") or ()]
