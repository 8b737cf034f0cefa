"""Trimmed Pods and ConfigMaps: they have the parts that are read, and little more."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.actions import ObjectKind
from controller.store.object_identity import owner_key
from framework.api import constants
from framework.api.pods import (
    UNPROVEN_ROSTER_CHARS,
    drop_long_roster,
    parse_configmap,
    parse_pod,
    trim_configmap,
    trim_pod,
)
from tests.support.builders import Wire, build_configmap_wire, build_ended, build_pod_wire

BIG = "x" * 1_000_000


BIG_OWNER = {"kind": "ConfigMap", "name": BIG + "-attempt", "uid": BIG, "controller": True}


@pytest.mark.parametrize(
    "wire",
    [
        build_pod_wire(),
        build_pod_wire(phase="Failed", containers=[build_ended("main", 1)]),
        build_pod_wire(
            phase="Pending",
            spec={"schedulingGates": [{"name": "g"}], "schedulerName": "other", "nodeName": ""},
            conditions=[{"type": "PodScheduled", "status": "False", "message": "no node"}],
            podIPs=[{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
        ),
        build_pod_wire(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        build_pod_wire(metadata={"ownerReferences": None, "deletionGracePeriodSeconds": 7}),
    ],
)
def test_trimmed_pod_is_parsed_like_the_whole_pod(wire: Wire) -> None:
    trimmed = trim_pod(wire)
    assert parse_pod(trimmed) == parse_pod(wire)
    assert owner_key(ObjectKind.POD, trimmed) == owner_key(ObjectKind.POD, wire)
    assert owner_key(ObjectKind.POD, trimmed) == "default/gang"


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), st.integers()))
def test_trim_of_other_types_never_fails(wire: dict[str, Any]) -> None:
    assert parse_pod(trim_pod(wire)) == parse_pod({})


def test_trimmed_pod_of_large_values_is_small() -> None:
    metadata = {
        "managedFields": [{"manager": BIG}],
        "generateName": BIG,
        "labels": {constants.FRAMEWORK_NAME: "gang", "a": BIG},
        "annotations": {"a": BIG, constants.CREATION_PROOF_ANNOTATION: BIG},
        "ownerReferences": [{"kind": "Pod", "name": BIG}, BIG_OWNER],
        "finalizers": [BIG],
    }
    spec = {
        "containers": [{"name": "a", "args": [BIG]}],
        "volumes": [{"name": BIG}],
        "schedulerName": BIG,
        "schedulingGates": [{"name": f"gate{number}"} for number in range(100_000)],
    }
    wire = build_pod_wire(metadata=metadata, spec=spec)
    assert len(json.dumps(trim_pod(wire))) < 5000
    assert parse_pod(trim_pod(wire)) == parse_pod(wire)
    assert len(repr(parse_pod(wire))) < 5000
    assert owner_key(ObjectKind.POD, wire) == owner_key(ObjectKind.POD, trim_pod(wire))
    assert len(owner_key(ObjectKind.POD, wire)) < 500


def test_annotations_of_a_trimmed_pod_are_bounded_together() -> None:
    keys = [*constants.IDENTITY_ANNOTATIONS, constants.WRAPPER_ANNOTATION]
    wire = build_pod_wire(metadata={"annotations": dict.fromkeys(keys, BIG)})
    assert len(json.dumps(trim_pod(wire))) < 10_000
    assert len(repr(parse_pod(wire))) < 10_000


def test_trimmed_configmap_of_large_values_is_small() -> None:
    finalizers = [f"a/{number}" for number in range(100_000)]
    finalizers.append(constants.FOREGROUND_DELETION_FINALIZER)
    wire = {"metadata": {"finalizers": finalizers, "ownerReferences": [BIG_OWNER]}}
    trimmed = trim_configmap(wire)
    assert len(json.dumps(trimmed)) < 2000
    assert parse_configmap(trimmed) == parse_configmap(wire)
    assert parse_configmap(wire).finalizers == (constants.FOREGROUND_DELETION_FINALIZER,)
    assert len(repr(parse_configmap(wire))) < 2000


@pytest.mark.parametrize("roster", [None, "", "A" * 8, "A" * UNPROVEN_ROSTER_CHARS])
def test_short_roster_is_kept(roster: str | None) -> None:
    wire = build_configmap_wire() | {"binaryData": {constants.ROSTER_KEY: roster}}
    whole = parse_configmap(wire)
    assert whole.roster == (roster or "")
    assert parse_configmap(trim_configmap(wire)) == drop_long_roster(whole) == whole


def test_long_roster_is_known_to_be_left_out() -> None:
    data = {constants.ROSTER_KEY: "A" * (UNPROVEN_ROSTER_CHARS + 1), "other": BIG}
    wire = build_configmap_wire() | {"binaryData": data, "data": {"a": BIG}}
    trimmed = parse_configmap(trim_configmap(wire))
    assert trimmed.roster is None
    assert drop_long_roster(parse_configmap(wire)) == drop_long_roster(trimmed) == trimmed
    assert trimmed.finalizers == parse_configmap(wire).finalizers
