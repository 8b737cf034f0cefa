"""Finds the Framework that an object belongs to, and the newer one of two versions of an object.

The store sees the same objects through lists, watches and answers, in any order.
"""

from typing import Any, NamedTuple

import msgspec

from controller.core.actions import ObjectKind
from framework.api import constants, naming
from framework.api.pods import (
    ConfigMapView,
    ObjectView,
    PodView,
    parse_configmap,
    parse_owner,
    parse_pod,
)
from framework.api.types import Framework
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, SECRETS, Object, Resource

RESOURCES: dict[ObjectKind, Resource] = {
    ObjectKind.FRAMEWORK: FRAMEWORKS,
    ObjectKind.CONFIGMAP: CONFIGMAPS,
    ObjectKind.POD: PODS,
    ObjectKind.SECRET: SECRETS,
}


class Version(NamedTuple):
    """The identity of a Framework, and its version."""

    uid: str
    resource_version: int
    generation: int
    """Version of the spec."""


def find_recorded_uid(framework: Framework | None, kind: ObjectKind, name: str) -> str | None:
    """Find the UID that the status names for an object, None if it names none."""
    if framework is None or framework.status is None:
        return None
    attempt = framework.status.attempt_status
    if kind is ObjectKind.CONFIGMAP:
        return attempt.configmap_uid
    parsed = naming.parse_pod_name(name)
    role = attempt.find_role(parsed[1].role) if parsed else None
    if parsed is None or role is None or parsed[1].index >= len(role.tasks):
        return None
    return role.tasks[parsed[1].index].attempt_status.pod_uid


def parse_object(kind: ObjectKind, wire: Object) -> PodView | ConfigMapView:
    """Trim a Pod or a ConfigMap to its view."""
    return parse_pod(wire) if kind is ObjectKind.POD else parse_configmap(wire)


def read_meta(wire: Object) -> Object:
    """Read an object's metadata, {} if it has none."""
    meta = wire.get("metadata")
    return meta if isinstance(meta, dict) else {}


def measure_object(wire: Object) -> int:
    """Measure an object without its status, in bytes of JSON."""
    return len(msgspec.json.encode({key: wire[key] for key in wire if key != "status"}))


def name_key(framework: Object) -> str:
    """Build the key of a Framework from its own name; its labels do not count."""
    meta = read_meta(framework)
    return f"{meta.get('namespace') or ''}/{meta.get('name') or ''}"


def owner_key(kind: ObjectKind, wire: Object) -> str:
    """Build the key of the Framework that an object is or belongs to; "/" if it names none.

    Users may change labels, so only a Pod that no attempt owns is assigned by its label.
    """
    if kind is ObjectKind.FRAMEWORK:
        return name_key(wire)
    meta = read_meta(wire)
    if kind is ObjectKind.CONFIGMAP:
        name = naming.parse_configmap_name(str(meta.get("name") or ""))
    else:
        name = _read_owner(meta) or _read_label(meta)
    return f"{meta.get('namespace') or ''}/{name}" if name else "/"


def _read_owner(meta: Object) -> str | None:
    owner = parse_owner(meta)
    if owner is None or owner.kind != constants.CONFIGMAP_KIND:
        return None
    return naming.parse_configmap_name(owner.name)


def _read_label(meta: Object) -> str | None:
    for source in (meta.get("labels"), meta.get("annotations")):
        if isinstance(source, dict) and source.get(constants.FRAMEWORK_NAME):
            return str(source[constants.FRAMEWORK_NAME])
    return None


def parse_version(text: Any) -> int:
    """Parse a resourceVersion; 0 if it is not a number."""
    try:
        return int(text)
    except (TypeError, ValueError):
        return 0


def is_overtaken(wire: Object, known: ObjectView) -> bool:
    """Return whether a later version of the object is known.

    An object that a watch showed as deleted had then only left the selector.
    """
    version = parse_version(read_meta(wire).get("resourceVersion"))
    return 0 < version < parse_version(known.resource_version)


def is_same_version(meta: Object, known: ObjectView) -> bool:
    """Return whether an object's metadata is that of the version that is known."""
    version = meta.get("resourceVersion")
    return bool(version) and (meta.get("uid"), version) == (known.uid, known.resource_version)


def has_roster_beyond(known: ObjectView, view: ObjectView) -> bool:
    """Return whether this is the same version of a ConfigMap, with the roster that was not kept."""
    if not isinstance(known, ConfigMapView) or not isinstance(view, ConfigMapView):
        return False
    is_same = (known.uid, known.resource_version) == (view.uid, view.resource_version)
    return is_same and known.roster is None and view.roster is not None


def is_older(view: ObjectView, than: ObjectView) -> bool:
    """Return whether a version of an object is older than another one."""
    return parse_version(view.resource_version) < parse_version(than.resource_version)


def read_version(wire: Object) -> Version:
    """Read the version of a Framework."""
    meta = read_meta(wire)
    version, generation = parse_version(meta.get("resourceVersion")), meta.get("generation") or 0
    return Version(str(meta.get("uid") or ""), version, parse_version(generation))


def is_newer_framework(wire: Object, known: Version | None) -> bool:
    """Return whether a Framework is of a later version than the known one, or the first one."""
    return known is None or read_version(wire).resource_version > known.resource_version


def is_version_of(wire: Object, version: Version | None) -> bool:
    """Return whether an object is a version of a known Framework."""
    return version is not None and version.uid == read_meta(wire).get("uid")
