"""Puts Pods and ConfigMaps into an entry, and removes them."""

from controller.core.actions import ObjectKind
from controller.store import provenance
from controller.store.entry import Entry
from controller.store.object_identity import has_roster_beyond, is_older
from framework.api.pods import ConfigMapView, ObjectView, PodView, drop_long_roster


def put_object(entry: Entry, kind: ObjectKind, view: PodView | ConfigMapView, now: float) -> None:
    """Put an object, or a new version of it; ``now`` in seconds of the monotonic clock."""
    known, name = entry.observed, (kind, view.name)
    known.drop_stale_live_result(name, view.uid)
    before = known.find_object(kind, view.name)
    provenance.record_seen(entry, name, before, view)
    if before is None or before.uid != view.uid:
        known.increment_name_revision(name, entry.outcomes.in_flight)
    if isinstance(view, PodView):
        former = known.pods.get(view.name)
        if view.pod_ip and (former is None or former.pod_ip != view.pod_ip):
            known.addressed_at = now
        known.pods[view.name] = view
        if view.disruption:
            known.record_disruption(view.uid, view.disruption)
        if view.is_ended or view.is_terminating:
            known.record_end_version(view.uid, view.resource_version)
    else:
        # Any client may create a ConfigMap of this name, so its roster is not kept.
        known.configmap = view if view.uid in known.proven else drop_long_roster(view)


def put_newer(entry: Entry, kind: ObjectKind, view: PodView | ConfigMapView, now: float) -> None:
    """Put an object unless a newer version of it is known."""
    known = entry.observed.find_object(kind, view.name)
    if known is None or is_older(known, view) or has_roster_beyond(known, view):
        put_object(entry, kind, view, now)


def discard_object(entry: Entry, kind: ObjectKind, name: str) -> None:
    """Remove an object."""
    known = entry.observed
    view = known.find_object(kind, name)
    if view is not None:
        provenance.record_gone(entry, (kind, name), view)
    if kind is ObjectKind.POD:
        known.pods.pop(name, None)
    else:
        known.configmap = None


def forget_objects(entry: Entry, kind: ObjectKind) -> None:
    """Forget all objects of a kind, and the proofs of all objects."""
    known = entry.observed
    if kind is ObjectKind.POD:
        known.pods.clear()
        known.end_versions.clear()
        known.disruptions.clear()
    else:
        known.configmap = None
        known.own_configmap = known.gang_key_owner = ""
    for names in known.live, known.unconfirmed:
        for name in [name for name in names if name[0] is kind]:
            names.pop(name)
    provenance.forget(entry)


def is_watched(entry: Entry, kind: ObjectKind, view: ObjectView) -> bool:
    """Return whether the watch has shown this version of the object, or a newer one."""
    known = entry.observed.find_object(kind, view.name)
    return known is not None and known.uid == view.uid and not is_older(known, view)
