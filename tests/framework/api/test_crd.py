"""framework.api.crd: a structural schema that loses nothing; the real server is asked elsewhere."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given

from framework.api import codec, crd
from framework.api.types import Framework
from tests.support.builders import (
    Wire,
    build_framework_wire,
    build_role_wire,
    build_status_wire,
    strategies,
)

MANIFEST = Path(__file__).parents[3] / "deploy" / "base" / "crd.yaml"
KEEPS = "x-kubernetes-preserve-unknown-fields"
SCHEMA = crd.build_schema()
SPEC = SCHEMA["properties"]["spec"]
STATUS = SCHEMA["properties"]["status"]
ROLE = SPEC["properties"]["taskRoles"]["items"]


def walk(schema: Wire, path: str = "") -> Iterator[tuple[str, Wire]]:
    """Every schema in a schema, with its path."""
    yield path, schema
    for key, inner in schema.get("properties", {}).items():
        yield from walk(inner, f"{path}.{key}" if path else key)
    if "items" in schema:
        yield from walk(schema["items"], f"{path}[]")


def accept(schema: Wire, value: Any, path: str = "") -> Any:
    """What an API server makes of a value: pruned and defaulted; fails where it would refuse.

    Of the laws only those this schema uses.
    """
    if value is None:
        assert schema.get("nullable"), path
        return None
    assert TYPES[schema["type"]](value), path
    if schema["type"] == "object":
        return _accept_object(schema, value, path)
    if schema["type"] == "array":
        return [accept(schema["items"], item, f"{path}[{i}]") for i, item in enumerate(value)]
    assert value in schema.get("enum", [value]), path
    assert re.search(schema.get("pattern", ""), str(value)), path
    if schema["type"] == "integer":
        assert schema.get("minimum", value) <= value <= schema.get("maximum", value), path
    return value


def _accept_object(schema: Wire, value: Wire, path: str) -> Wire:
    known = schema.get("properties", {})
    assert set(schema.get("required", ())) <= set(value), path
    kept = {}
    for key, item in value.items():
        if key not in known:
            if schema.get(KEEPS):
                kept[key] = item
        elif item is not None or known[key].get("nullable"):
            kept[key] = accept(known[key], item, f"{path}.{key}")
    defaults = {k: s["default"] for k, s in known.items() if "default" in s and k not in kept}
    return kept | defaults


TYPES = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
}


def test_manifest_is_the_generated_one() -> None:
    assert yaml.safe_load(MANIFEST.read_text(encoding="utf-8")) == crd.build_crd()


def test_crd_is_plain_yaml_and_new_in_each_call() -> None:
    first = crd.build_crd()
    assert yaml.safe_load(yaml.safe_dump(first)) == crd.build_crd()
    first["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].clear()
    assert crd.build_crd() != first


def test_crd_names_are_those_of_the_original() -> None:
    manifest = crd.build_crd()
    assert manifest["metadata"]["name"] == "frameworks.frameworkcontroller.microsoft.com"
    spec = manifest["spec"]
    assert (spec["group"], spec["scope"]) == ("frameworkcontroller.microsoft.com", "Namespaced")
    assert spec["names"]["plural"] == "frameworks"
    # A server that has stored true, from the days of v1beta1, refuses our defaults without it.
    assert spec["preserveUnknownFields"] is False
    assert spec["names"]["kind"] == "Framework"
    [version] = spec["versions"]
    assert (version["name"], version["served"], version["storage"]) == ("v1", True, True)
    assert version["subresources"] == {"status": {}}
    assert [c["name"] for c in version["additionalPrinterColumns"]][:2] == ["State", "Attempt"]


@pytest.mark.parametrize(
    ("path", "schema"), [pytest.param(p, s, id=p or "root") for p, s in walk(SCHEMA)]
)
def test_schema_is_structural(path: str, schema: Wire) -> None:
    assert schema["type"] in TYPES, path
    assert not {"oneOf", "anyOf", "allOf", "not", "$ref", "additionalProperties"} & set(schema)
    for key in schema.get("x-kubernetes-list-map-keys", ()):
        inner = schema["items"]
        assert key in inner.get("required", ()) or "default" in inner["properties"][key]


@pytest.mark.parametrize(
    ("path", "schema"),
    [pytest.param(p, s, id=p) for p, s in walk(STATUS, "status") if s["type"] == "object"],
)
def test_status_object_keeps_unknown_keys(path: str, schema: Wire) -> None:
    assert schema[KEEPS] is True, path


def test_spec_keeps_unknown_keys_only_of_the_pod_template() -> None:
    assert [path for path, schema in walk(SPEC, "spec") if schema.get(KEEPS)] == [
        "spec.taskRoles[].task.pod"
    ]


def test_limits_of_the_spec_are_those_of_the_original_and_ours() -> None:
    limits = {
        path: {
            k: s[k]
            for k in ("minimum", "maximum", "pattern", "enum", "default", "maxItems")
            if k in s
        }
        for path, s in walk(SPEC, "spec")
    }
    role = "spec.taskRoles[]"
    assert {path: limit for path, limit in limits.items() if limit} == {
        "spec.executionType": {"enum": ["Create", "Start", "Stop"], "default": "Start"},
        "spec.retryPolicy.maxRetryCount": {"minimum": -2},
        # Of its rules in CEL: tests/contract/test_framework_sizes.py.
        "spec.taskRoles": {"maxItems": 65536},
        f"{role}.name": {"pattern": "^[a-z0-9]{0,63}$", "default": ""},
        f"{role}.taskNumber": {"minimum": 0, "maximum": 10000},
        f"{role}.frameworkAttemptCompletionPolicy.minFailedTaskCount": {"minimum": -1},
        f"{role}.frameworkAttemptCompletionPolicy.minSucceededTaskCount": {"minimum": -1},
        f"{role}.task.retryPolicy.maxRetryCount": {"minimum": -2},
        f"{role}.absentTaskIndices": {"maxItems": 10000},
        f"{role}.absentTaskIndices[]": {"minimum": 0},
        f"{role}.minMemberCount": {"minimum": 0},
        f"{role}.drain.timeoutSec": {"minimum": 0},
        "spec.completedPodPolicy": {"enum": ["Delete", "Retain"]},
    }


def test_nullable_keys_of_the_spec() -> None:
    role = "spec.taskRoles[]"
    assert {path for path, schema in walk(SPEC, "spec") if schema.get("nullable")} == {
        "spec.description",
        f"{role}.task.podGracefulDeletionTimeoutSec",
        f"{role}.absentTaskIndices",
        f"{role}.minMemberCount",
        f"{role}.drain",
    }


def test_every_rule_and_description_is_of_a_field() -> None:
    paths = {path for path, _ in walk(SCHEMA)}
    assert set(crd._RULES) <= paths
    assert set(crd._DESCRIPTIONS) <= paths


def test_every_field_of_the_spec_has_a_description() -> None:
    bare = [path for path, s in walk(SPEC, "spec") if "description" not in s]
    assert all(path.endswith("[]") for path in bare)


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
    assert accept(SPEC, wire["spec"]) == drop_unknown(wire["spec"])
    assert accept(STATUS, wire["status"]) == wire["status"]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"executionType": "start"}, id="execution type"),
        pytest.param({"retryPolicy": {"maxRetryCount": -3}}, id="retries"),
        pytest.param({"taskRoles": [{"name": "a-b"}]}, id="name"),
        pytest.param({"taskRoles": [{"name": "a", "taskNumber": 10_001}]}, id="number"),
        pytest.param({"taskRoles": [{"name": "a", "taskNumber": "1"}]}, id="text"),
        pytest.param({"taskRoles": [{"name": "a", "absentTaskIndices": [-1]}]}, id="index"),
        pytest.param({"taskRoles": {"name": "a"}}, id="no array"),
    ],
)
def test_spec_that_is_bad_is_refused(spec: Wire) -> None:
    with pytest.raises(AssertionError):
        accept(SPEC, spec)


def test_status_nulls_and_unknown_keys_are_stored() -> None:
    wire = build_status_wire()
    wire["future"] = wire["attemptStatus"]["future"] = None
    packed = codec.compress_status(wire, min_bytes=0)
    for status in (wire, packed):
        assert accept(STATUS, status) == status
    assert accept(STATUS, None) is None


def test_template_nulls_and_unknown_keys_are_stored() -> None:
    role = build_role_wire()
    role["task"]["pod"]["metadata"] = {"creationTimestamp": None}
    role["task"]["pod"]["spec"]["future"] = {"a": None}
    spec = build_framework_wire(role)["spec"]
    assert accept(SPEC, spec) == spec


def test_spec_without_execution_type_starts() -> None:
    assert accept(SPEC, {"taskRoles": [{"name": "a"}]})["executionType"] == "Start"


def test_opaque_part_of_the_status_has_no_schema_of_its_own() -> None:
    tasks = STATUS["properties"]["attemptStatus"]["properties"]["taskRoleStatuses"]
    assert tasks["items"] == {"type": "object", KEEPS: True}
    assert "required" not in ROLE
