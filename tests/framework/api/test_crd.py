"""framework.api.crd: a structural schema that loses nothing. tests/contract asks a real server."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given

from framework.api import codec, crd
from framework.api.types import Framework
from localcluster.apiserver.schemas.structural import apply_root_defaults, prune_root
from localcluster.apiserver.schemas.validation import object_faults
from localcluster.apiserver.views.jsonpath import find_values
from tests.support.builders import (
    Wire,
    build_framework_wire,
    build_role_wire,
    build_status_wire,
    strategies,
)

MANIFEST = Path(__file__).parents[3] / "deploy" / "base" / "crd.yaml"
SCHEMA = crd.build_schema()


def store(wire: Wire) -> Wire:
    """Return what the local API server stores of a Framework: pruned and defaulted."""
    stored = copy.deepcopy(wire)
    prune_root(stored, SCHEMA)
    apply_root_defaults(stored, SCHEMA)
    assert object_faults(stored, SCHEMA) == []
    return stored


def test_manifest_is_the_generated_one_in_each_call() -> None:
    manifest = yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))
    built = crd.build_crd()
    assert yaml.safe_load(yaml.safe_dump(built)) == built == manifest
    built["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].clear()
    assert crd.build_crd() == manifest


def walk(schema: Wire, path: str = "") -> Iterator[tuple[str, Wire]]:
    """Walk a schema and the schemas in it, with their paths."""
    yield path, schema
    for key, inner in schema.get("properties", {}).items():
        yield from walk(inner, f"{path}.{key}" if path else key)
    if "items" in schema:
        yield from walk(schema["items"], f"{path}[]")


def test_every_field_of_the_spec_has_a_description_and_every_rule_a_field() -> None:
    assert {*crd._RULES, *crd._DESCRIPTIONS} <= {path for path, _ in walk(SCHEMA)}
    fields = walk(SCHEMA["properties"]["spec"], "spec")
    assert all(path.endswith("[]") for path, schema in fields if "description" not in schema)


LIMITS = {
    "spec.executionType": {"enum": ["Create", "Start", "Stop"], "default": "Start"},
    "spec.retryPolicy.maxRetryCount": {"minimum": -2},
    "spec.taskRoles": {"maxItems": 65536},
    "spec.completedPodPolicy": {"enum": ["Delete", "RetainUntilEnd", "Retain", "RetainRunning"]},
    "spec.activeDeadlineSeconds": {"minimum": 0, "nullable": True},
    "spec.ttlSecondsAfterFinished": {"minimum": 0, "nullable": True},
}
LIMITS_OF_ROLE = {
    "name": {"pattern": "^[a-z0-9]{0,63}$", "default": ""},
    "taskNumber": {"minimum": 0, "maximum": 10000},
    "frameworkAttemptCompletionPolicy.minFailedTaskCount": {"minimum": -1},
    "frameworkAttemptCompletionPolicy.minSucceededTaskCount": {"minimum": -1},
    "task.retryPolicy.maxRetryCount": {"minimum": -2},
    "task.podGracefulDeletionTimeoutSec": {"nullable": True},
    "absentTaskIndices": {"maxItems": 10000, "nullable": True},
    "absentTaskIndices[]": {"minimum": 0},
    "minMemberCount": {"minimum": 0, "nullable": True},
    "drain": {"nullable": True},
    "drain.timeoutSec": {"minimum": 0},
    "completedPodPolicy": {"enum": ["Delete", "RetainUntilEnd", "Retain", "RetainRunning"]},
    "recovery": {"nullable": True},
    "recovery.inPlace": {"nullable": True},
    "recovery.inPlace.maxRestarts": {"minimum": 1, "maximum": 100},
    "recovery.inPlace.withinSeconds": {"minimum": 1, "maximum": 999_999_999},
    "recovery.leaveNodes": {"nullable": True},
    "recovery.leaveNodes.timeoutSeconds": {"minimum": 0, "maximum": 86_400},
    "recovery.leaveNodes.maxLeaves": {"minimum": 1, "maximum": 1000},
    "recovery.leaveNodes.withinSeconds": {"minimum": 1, "maximum": 999_999_999},
    "recovery.avoidNodes": {"nullable": True},
    "recovery.avoidNodes.failures": {"minimum": 1, "maximum": 10},
    "recovery.avoidNodes.withinSeconds": {"minimum": 1, "maximum": 999_999_999},
    "recovery.avoidNodes.maxNodes": {"minimum": 1, "maximum": 16},
}


def test_limits_of_the_spec_are_those_of_the_original_and_ours() -> None:
    keys = ("minimum", "maximum", "pattern", "enum", "default", "maxItems", "nullable")
    fields = walk(SCHEMA["properties"]["spec"], "spec")
    limits = {path: {key: s[key] for key in keys if key in s} for path, s in fields}
    of_role = {f"spec.taskRoles[].{name}": limit for name, limit in LIMITS_OF_ROLE.items()}
    expected = {"spec.description": {"nullable": True}, **LIMITS, **of_role}
    assert {path: limit for path, limit in limits.items() if limit} == expected


def drop_unknown(value: Any) -> Any:
    """A spec without the keys that the strategies make up, which stay in Pod templates only."""
    if isinstance(value, list):
        return [drop_unknown(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: item if key == "pod" else drop_unknown(item)
        for key, item in value.items()
        if key != "x-future"
    }


@given(strategies.frameworks)
def test_framework_drawn_is_stored_without_loss(framework: Framework) -> None:
    wire = codec.encode_framework(framework)
    stored = store(wire)
    assert stored["spec"] == drop_unknown(wire["spec"])
    assert stored.get("status") == wire["status"]


def test_nulls_and_unknown_keys_of_status_and_template_are_stored() -> None:
    role = build_role_wire()
    role["task"]["pod"]["metadata"] = {"creationTimestamp": None}
    role["task"]["pod"]["spec"]["future"] = {"a": None}
    wire, status = build_framework_wire(role), build_status_wire()
    status["future"] = status["attemptStatus"]["future"] = None
    for stored in (status, codec.compress_status(status, min_bytes=0), None):
        assert store(wire | {"status": stored}) == wire | {"status": stored}


def test_column_result_is_the_reason_of_the_condition_completed() -> None:
    columns = crd.build_crd()["spec"]["versions"][0]["additionalPrinterColumns"]
    shown = [column["name"] for column in columns if not column.get("priority")]
    assert shown == ["State", "Attempt", "Tasks", "Code", "Result", "Age"]
    (path,) = (column["jsonPath"] for column in columns if column["name"] == "Result")
    conditions = [
        {"type": "Running", "status": "False", "reason": "Completed"},
        {"type": "Completed", "status": "True", "reason": "Stopped"},
    ]
    assert find_values({"status": {"conditions": conditions}}, path) == ["Stopped"]
    assert find_values({"status": {}}, path) == []
