"""Reads the roster in an attempt's ConfigMap, once for each version."""

from dataclasses import replace

from controller.core.snapshot import PublishedRoster
from controller.store.entry import Entry
from framework.api import constants
from framework.api.pods import ConfigMapView
from framework.api.roster import Roster, decode_stored_roster
from framework.api.rostervalues import RosterError


def refresh_published(entry: Entry) -> None:
    """Read the roster in the attempt's own ConfigMap; that of another one is never decoded."""
    known, configmap = entry.observed, entry.observed.configmap
    if configmap is None or configmap.uid not in known.proven or known.lacks_roster:
        return
    known.published = read_published(known.published, known.read_configmap, configmap)
    known.read_configmap = configmap


def read_published(
    known: PublishedRoster,
    before: ConfigMapView | None,
    after: ConfigMapView,
) -> PublishedRoster:
    """Read the roster in ``after``; ``known`` was read from ``before``."""
    if before is None or before.uid != after.uid:
        known, before = PublishedRoster(), None
    roster = known.roster
    if before is None or before.roster != after.roster:
        roster = _decode(after.roster)
    annotations = after.annotations
    return replace(
        known,
        roster=roster,
        readiness=annotations.get(constants.READINESS_ANNOTATION, ""),
        has_version_annotation=constants.ROSTER_VERSION_ANNOTATION in annotations,
    )


def _decode(stored: str | None) -> Roster | None:
    """Decode a stored roster; None if it cannot be read, so that it is written again."""
    try:
        return decode_stored_roster(stored) if stored else None
    except RosterError:
        return None
