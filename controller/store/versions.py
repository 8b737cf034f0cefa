"""Which of two versions of an object is the later one.

Called by the store, which sees the same objects through lists, watches and answers, in any order.
"""

from controller.store.entry import Entry, parse_version, read_meta
from framework.api.pods import ConfigMapView, ObjectView
from framework.kube.resources import Object


def is_overtaken(wire: Object, known: ObjectView) -> bool:
    """Return whether the object was seen after this end: then it had only left the selector."""
    version = parse_version(read_meta(wire).get("resourceVersion"))
    return 0 < version < parse_version(known.resource_version)


def is_same_version(meta: Object, known: ObjectView) -> bool:
    """Return whether an object's metadata is that of the version that is known."""
    version = meta.get("resourceVersion")
    return bool(version) and (meta.get("uid"), version) == (known.uid, known.resource_version)


def has_roster_beyond(known: ObjectView, view: ObjectView) -> bool:
    """Return whether the same version of a ConfigMap brings the roster that was not kept."""
    if not isinstance(known, ConfigMapView) or not isinstance(view, ConfigMapView):
        return False
    is_same = (known.uid, known.resource_version) == (view.uid, view.resource_version)
    return is_same and known.roster is None and view.roster is not None


def is_older(view: ObjectView, than: ObjectView) -> bool:
    """Return whether a version of an object was before another one."""
    return parse_version(view.resource_version) < parse_version(than.resource_version)


def is_newer_framework(entry: Entry, wire: Object) -> bool:
    """Return whether a Framework is of a later version than the entry's, or the first one."""
    known = entry.framework
    if known is None:
        return True
    return parse_version(read_meta(wire).get("resourceVersion")) > parse_version(
        known.metadata.resource_version
    )
