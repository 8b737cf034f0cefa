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
from localcluster.apiserver.model import names, objects
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
        """Accept names that no other definition of ``state`` has taken."""
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
        spec = obj["spec"]
        taken = self._taken_by(obj)
        is_accepted = taken is None
        stored = list(before.get("storedVersions") or ())
        stored += [
            version.get("name", "")
            for version in spec.get("versions") or ()
            if version["storage"] and version.get("name") not in stored
        ]
        names_condition = (
            ("NamesAccepted", "True", "NoConflicts", "no conflicts found")
            if is_accepted
            else ("NamesAccepted", "False", "KindConflict", f"already in use by {taken}")
        )
        established = (
            ("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
            if is_accepted
            else ("Established", "False", "NotAccepted", "not all names are accepted")
        )
        return {
            **before,
            "conditions": self._conditions(before, [names_condition, established]),
            "acceptedNames": objects.copy_json(spec["names"]) if is_accepted else {},
            "storedVersions": stored,
        }

    def _conditions(self, before: Object, wanted: list[tuple[str, str, str, str]]) -> list[Object]:
        held = {item["type"]: item for item in before.get("conditions") or ()}
        now = objects.format_time(self._state.clock.now())
        for kind, status, reason, message in wanted:
            since = now
            if kind in held and held[kind]["status"] == status:
                since = held[kind]["lastTransitionTime"]
            held[kind] = {
                "type": kind,
                "status": status,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            }
        return list(held.values())

    def _taken_by(self, obj: Object) -> str | None:
        group, kind = obj["spec"].get("group"), obj["spec"]["names"].get("kind")
        for key, other in self._state.all_of(DEFINITIONS_KEY).items():
            if key[1] != obj["metadata"].get("name") and (
                (other["spec"]["group"], other["spec"]["names"]["kind"]) == (group, kind)
            ):
                return key[1]
        return None

    def object_faults(self, obj: Object) -> list[Cause]:
        """Check names, scope, versions and schemas."""
        spec = obj["spec"]
        found = _name_faults(obj)
        scope = spec.get("scope", "")
        if not scope:
            found.append(required("spec.scope"))
        elif scope not in _SCOPES:
            found.append(not_supported("spec.scope", scope, _SCOPES))
        versions = spec.get("versions") or []
        if sum(bool(version["storage"]) for version in versions) != 1:
            detail = "must have exactly one version marked as storage version"
            found.append(invalid_value("spec.versions", _brief(versions), detail))
        for index, version in enumerate(versions):
            found += _version_faults(version, f"spec.versions[{index}]")
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


def _brief(versions: list[Object]) -> list[Object]:
    return [{"name": version.get("name"), "storage": version["storage"]} for version in versions]


def _name_faults(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    given, group = spec["names"], spec.get("group", "")
    found: list[Cause] = []
    if not group:
        found.append(required("spec.group"))
    else:
        found += [invalid_value("spec.group", group, f) for f in names.subdomain_faults(group)]
    for field, is_kind in (
        ("plural", False),
        ("singular", False),
        ("kind", True),
        ("listKind", True),
    ):
        path, value = f"spec.names.{field}", given.get(field, "")
        if not value:
            found.append(required(path))
            continue
        faults = names.label_1035_faults(value.lower() if is_kind else value)
        found += [invalid_value(path, value, fault) for fault in faults]
    wanted = f"{given.get('plural', '')}.{group}"
    if obj["metadata"].get("name") != wanted:
        detail = 'must be spec.names.plural+"."+spec.group'
        found.append(invalid_value("metadata.name", obj["metadata"].get("name"), detail))
    return found


def _version_faults(version: Object, path: str) -> list[Cause]:
    found = [
        invalid_value(f"{path}.name", version.get("name", ""), fault)
        for fault in names.label_1035_faults(version.get("name", ""))
    ]
    schema = objects.get_path(version, "schema", "openAPIV3Schema")
    where = f"{path}.schema.openAPIV3Schema"
    if schema is None:
        return [*found, required(where)]
    if schema.get("type") != "object":
        detail = (
            "must be object at the root" if schema.get("type") else "must not be empty at the root"
        )
        found.append(
            invalid_value(f"{where}.type", schema["type"], detail)
            if schema.get("type")
            else required(f"{where}.type", detail)
        )
    return found
