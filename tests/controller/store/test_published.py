"""What an attempt ConfigMap carries, read once per version."""

import base64
from typing import Any

import pytest

from controller.core.snapshot import PublishedRoster
from controller.store.published import read_published
from framework.api import constants
from framework.api.pods import ConfigMapView, parse_configmap
from framework.api.roster import Roster, encode_roster
from tests.support.builders import at, build_configmap_wire, build_roster


def configmap(roster: Roster | str | None = None, **metadata: Any) -> ConfigMapView:
    wire = build_configmap_wire(**metadata)
    if isinstance(roster, Roster):
        roster = base64.b64encode(encode_roster(roster)).decode()
    if roster is not None:
        wire["binaryData"] = {constants.ROSTER_KEY: roster}
    return parse_configmap(wire)


def test_fresh_configmap_carries_nothing_but_its_announcement() -> None:
    published = read_published(PublishedRoster(), None, configmap())
    assert published == PublishedRoster(has_version_annotation=True)


def test_roster_is_read() -> None:
    published = read_published(PublishedRoster(), None, configmap(build_roster(generation=7)))
    assert published.roster == build_roster(generation=7)


def test_unchanged_roster_is_not_read_again() -> None:
    before = configmap(build_roster())
    known = read_published(PublishedRoster(), None, before)
    again = read_published(known, before, configmap(build_roster(), resourceVersion="2"))
    assert again.roster is known.roster


def test_what_only_we_know_stays_with_the_configmap() -> None:
    before = configmap(build_roster())
    known = PublishedRoster(published_at=at(5), readiness_checked_at=at(6))
    after = read_published(known, before, configmap(build_roster(generation=2)))
    assert (after.published_at, after.readiness_checked_at) == (at(5), at(6))
    other = read_published(known, before, configmap(uid="another"))
    assert (other.published_at, other.readiness_checked_at, other.roster) == (None, None, None)


def test_readiness_and_announcement_are_read() -> None:
    wire = build_configmap_wire({constants.READINESS_ANNOTATION: "how far"})
    published = read_published(PublishedRoster(), None, parse_configmap(wire))
    assert published.readiness == "how far"
    bare = parse_configmap(build_configmap_wire(annotations=None))
    del wire["metadata"]["annotations"]
    assert bare is not None
    assert not read_published(PublishedRoster(), None, parse_configmap(wire)).has_version_annotation


@pytest.mark.parametrize("stored", ["not base64!", "bm8gZ3ppcA==", ""])
def test_unreadable_roster_counts_as_none(stored: str) -> None:
    assert read_published(PublishedRoster(), None, configmap(stored)).roster is None
