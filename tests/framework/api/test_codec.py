"""framework.api.codec and wire: nothing is lost, and every fault is named.

Property P9 of docs/design/invariants.md.
"""

import base64
import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.api import codec
from framework.api.fielderrors import FieldError, FieldErrors
from framework.api.packed import STATUS_BOUNDS
from framework.api.states import FrameworkState
from framework.api.types import (
    CompletedPodPolicy,
    ExecutionType,
    Framework,
    FrameworkSpec,
    FrameworkStatus,
    ObjectMeta,
)
from framework.api.wire import INT64_MAX, json_type
from tests.support.builders import (
    Wire,
    build_framework_wire,
    build_role_status,
    build_role_wire,
    build_status,
    build_status_wire,
    strategies,
)

BLOB = codec.TASK_ROLE_STATUSES_COMPRESSED
PLAIN = codec.TASK_ROLE_STATUSES


def faults(decode: Callable[[Any], Any], wire: Any) -> dict[str, str]:
    """The faults of a wire value, path to message."""
    with pytest.raises(FieldErrors) as caught:
        decode(wire)
    return {error.path: error.message for error in caught.value.errors}


# --- Round trips ---------------------------------------------------------------------------------


@given(strategies.frameworks)
def test_framework_encoded_and_decoded_is_the_same(framework: Framework) -> None:
    wire = json.loads(json.dumps(codec.encode_framework(framework)))
    assert codec.decode_framework(wire) == framework


@given(strategies.statuses())
def test_status_encoded_and_decoded_is_the_same(status: FrameworkStatus) -> None:
    wire = json.loads(json.dumps(codec.encode_status(status)))
    assert codec.decode_status(wire) == status
    assert codec.encode_status(status) == wire


@given(strategies.specs)
def test_spec_encoded_and_decoded_is_the_same(spec: FrameworkSpec) -> None:
    wire = json.loads(json.dumps(codec.encode_spec(spec)))
    assert codec.decode_spec(wire) == spec


@given(strategies.metadatas)
def test_metadata_encoded_and_decoded_is_the_same(metadata: ObjectMeta) -> None:
    wire = codec.METADATA.encode(metadata)
    assert codec.decode_metadata({"metadata": wire}) == metadata


def test_unknown_fields_at_every_level_come_back() -> None:
    role = build_role_wire(future=[1])
    role["task"]["future"] = {"a": None}
    role["task"]["pod"]["spec"]["future"] = 1
    wire = build_framework_wire(role, future="x")
    wire["status"] = build_status_wire()
    wire["future"] = wire["status"]["future"] = True
    wire["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    wire["status"]["attemptStatus"]["future"] = 2
    task = wire["status"]["attemptStatus"][PLAIN][0]["taskStatuses"][0]
    task["future"] = task["attemptStatus"]["future"] = task["retryPolicyStatus"]["future"] = "t"
    encoded = codec.encode_framework(codec.decode_framework(wire))

    def get(*path: str | int) -> Any:
        value: Any = encoded
        for key in path:
            value = value[key]
        return value

    assert get("future") is True
    assert get("metadata", "managedFields") == [{"manager": "kubectl"}]
    assert get("spec", "future") == "x"
    assert get("spec", "taskRoles", 0, "future") == [1]
    assert get("spec", "taskRoles", 0, "task", "future") == {"a": None}
    assert get("spec", "taskRoles", 0, "task", "pod", "spec", "future") == 1
    assert encoded["status"] == wire["status"]


def test_status_keys_are_in_the_order_of_the_original() -> None:
    wire = build_status_wire()
    assert list(wire) == [
        "startTime",
        "runTime",
        "completionTime",
        "state",
        "transitionTime",
        "retryPolicyStatus",
        "attemptStatus",
    ]
    assert list(wire["attemptStatus"]) == [
        "id",
        "startTime",
        "runTime",
        "completionTime",
        "instanceUID",
        "configMapName",
        "configMapUID",
        "completionStatus",
        "taskRoleStatuses",
    ]


def test_spec_without_extensions_has_only_keys_of_the_original() -> None:
    wire = codec.encode_spec(codec.decode_spec({"taskRoles": [{"name": "a"}]}))
    assert list(wire) == ["description", "executionType", "retryPolicy", "taskRoles"]
    [role] = wire["taskRoles"]
    assert list(role) == ["name", "taskNumber", "frameworkAttemptCompletionPolicy", "task"]
    assert role["task"]["podGracefulDeletionTimeoutSec"] is None


# --- Absence and null ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wire",
    [
        None,
        {},
        {
            "description": None,
            "executionType": None,
            "retryPolicy": None,
            "taskRoles": None,
            "completedPodPolicy": None,
        },
    ],
)
def test_spec_absent_empty_and_null_are_the_defaults(wire: Wire | None) -> None:
    assert codec.decode_spec(wire) == FrameworkSpec()
    assert FrameworkSpec().execution_type is ExecutionType.START
    assert FrameworkSpec().completed_pod_policy is CompletedPodPolicy.DELETE


def test_role_nulls_are_the_defaults_and_nullable_ones_stay_null() -> None:
    keys = ("absentTaskIndices", "minMemberCount", "drain", "frameworkAttemptCompletionPolicy")
    null = codec.decode_spec({"taskRoles": [dict.fromkeys(keys) | {"name": "a"}]})
    absent = codec.decode_spec({"taskRoles": [{"name": "a"}]})
    assert null == absent
    assert absent.task_roles[0].task.pod_graceful_deletion_timeout_seconds is None


def test_extensions_decode_to_their_attributes() -> None:
    role = {
        "name": "a",
        "absentTaskIndices": [3, 1],
        "minMemberCount": 0,
        "drain": {"timeoutSec": 30},
    }
    spec = codec.decode_spec({"taskRoles": [role], "completedPodPolicy": "Retain"})
    [decoded] = spec.task_roles
    assert decoded.absent_task_indices == (3, 1)
    assert decoded.min_member_count == 0
    assert decoded.drain is not None
    assert decoded.drain.timeout_seconds == 30
    assert spec.completed_pod_policy is CompletedPodPolicy.RETAIN
    [wire] = codec.encode_spec(spec)["taskRoles"]
    assert {key: wire[key] for key in role} == role


def test_framework_without_status_has_none() -> None:
    framework = codec.decode_framework(build_framework_wire())
    assert framework.status is None
    assert codec.encode_framework(framework)["status"] is None
    assert framework.extra["kind"] == "Framework"


def test_task_spec_encodes_alone() -> None:
    spec = codec.decode_spec({"taskRoles": [build_role_wire()]}).task_roles[0].task
    wire = codec.encode_task_spec(spec)
    assert list(wire) == ["retryPolicy", "podGracefulDeletionTimeoutSec", "pod"]


def test_without_task_roles_drops_only_the_tasks() -> None:
    status = build_status(build_role_status("a", 3))
    bare = codec.without_task_roles(status)
    assert bare.attempt_status.task_roles == ()
    assert bare.attempt_status.configmap_uid == status.attempt_status.configmap_uid


# --- Faults --------------------------------------------------------------------------------------


def test_spec_faults_are_all_named_with_their_paths() -> None:
    wire = {
        "description": 5,
        "executionType": "start",
        "retryPolicy": {"fancyRetryPolicy": "yes", "maxRetryCount": 1.5},
        "completedPodPolicy": 1,
        "taskRoles": [
            {"name": "ok"},
            {
                "name": True,
                "taskNumber": "4",
                "task": {"pod": [], "podGracefulDeletionTimeoutSec": {}},
                "absentTaskIndices": [0, "1", None],
                "drain": {"timeoutSec": True},
            },
            None,
        ],
    }
    assert faults(codec.decode_spec, wire) == {
        "spec.description": "must be a string, not number 5",
        "spec.executionType": "must be one of Create, Start, Stop; not 'start'",
        "spec.retryPolicy.fancyRetryPolicy": "must be true or false, not string 'yes'",
        "spec.retryPolicy.maxRetryCount": "must be an integer, not number 1.5",
        "spec.completedPodPolicy": "must be one of Delete, Retain; not 1",
        "spec.taskRoles[1].name": "must be a string, not boolean True",
        "spec.taskRoles[1].taskNumber": "must be an integer, not string '4'",
        "spec.taskRoles[1].task.pod": "must be an object, not array",
        "spec.taskRoles[1].task.podGracefulDeletionTimeoutSec": "must be an integer, not object",
        "spec.taskRoles[1].absentTaskIndices[1]": "must be an integer, not string '1'",
        "spec.taskRoles[1].absentTaskIndices[2]": "must be an integer, not null",
        "spec.taskRoles[1].drain.timeoutSec": "must be an integer, not boolean True",
        "spec.taskRoles[2]": "must be an object, not null",
    }


@pytest.mark.parametrize("wire", [[], "x", 1, True])
def test_spec_of_another_type_is_one_fault(wire: Any) -> None:
    assert list(faults(codec.decode_spec, wire)) == ["spec"]


def build_deep_template(depth: int) -> Wire:
    template = json.loads('{"a":' * depth + "0" + "}" * depth)
    return {"taskRoles": [{"name": "a", "taskNumber": 1, "task": {"pod": template}}]}


def test_template_nested_64_levels_deep_is_taken() -> None:
    wire = build_deep_template(64)
    template = wire["taskRoles"][0]["task"]["pod"]
    assert codec.decode_spec(wire).task_roles[0].task.pod == template


@pytest.mark.parametrize("depth", [65, 500])
def test_template_nested_deeper_than_64_levels_is_a_fault(depth: int) -> None:
    with pytest.raises(FieldErrors) as caught:
        codec.decode_spec(build_deep_template(depth))
    message = "must not be nested deeper than 64 levels"
    assert caught.value.errors == (FieldError("spec.taskRoles[0].task.pod", message),)


def test_framework_faults_of_all_parts_come_together() -> None:
    wire: Wire = {"metadata": None, "spec": {"taskRoles": {}}, "status": {"state": "Odd"}}
    found = faults(codec.decode_framework, wire)
    assert found["metadata"] == "must be an object, not null"
    assert found["spec.taskRoles"] == "must be an array, not object"
    assert found["status.state"].startswith("must be one of AttemptCreationPending, ")
    assert found["status.startTime"] == "is required"
    assert found["status.attemptStatus"] == "is required"


def test_status_index_out_of_place_is_a_fault() -> None:
    wire = build_status_wire(build_role_status("a", 1), build_role_status("b", 3))
    wire["attemptStatus"][PLAIN][1]["taskStatuses"][1]["index"] = 2
    path = "status.attemptStatus.taskRoleStatuses[1].taskStatuses[1].index"
    assert faults(codec.decode_status, wire) == {path: "must be 1, its place in the array"}


def test_null_of_a_required_field_is_a_fault() -> None:
    wire = build_status_wire() | {"state": None}
    assert faults(codec.decode_status, wire) == {"status.state": "is required"}


@given(strategies.json_values)
def test_any_json_decodes_or_raises_field_errors(value: Any) -> None:
    for decode in (codec.decode_spec, codec.decode_status):
        with suppress(FieldErrors):
            decode(value)


@given(
    st.sampled_from(["metadata", "spec", "status"]),
    st.dictionaries(
        st.sampled_from(["taskRoles", "attemptStatus", "state", "startTime", "name", "x"]),
        strategies.json_values,
    ),
)
def test_any_part_decodes_or_raises_errors_of_that_part(part: str, value: Wire) -> None:
    errors: tuple[FieldError, ...] = ()
    try:
        codec.decode_framework(build_framework_wire() | {part: value})
    except FieldErrors as e:
        errors = e.errors
    assert all(error.path.startswith(part) for error in errors)


@pytest.mark.parametrize(
    ("value", "decoded"),
    [(3.0, 3), (-2, -2), (INT64_MAX, INT64_MAX), (1e3, 1000)],
)
def test_integer_in_any_json_form_is_taken(value: float, decoded: int) -> None:
    spec = codec.decode_spec({"retryPolicy": {"maxRetryCount": value}})
    assert spec.retry_policy.max_retry_count == decoded
    assert isinstance(spec.retry_policy.max_retry_count, int)


@pytest.mark.parametrize("value", [2**63, -(2**63), 1e300, 0.5, float("nan"), float("inf")])
def test_integer_that_is_none_or_too_large_is_a_fault(value: float) -> None:
    wire = {"retryPolicy": {"maxRetryCount": value}}
    assert list(faults(codec.decode_spec, wire)) == ["spec.retryPolicy.maxRetryCount"]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"),
        (True, "boolean"),
        (1, "number"),
        (1.5, "number"),
        ("", "string"),
        ([], "array"),
        ((), "array"),
        ({}, "object"),
    ],
)
def test_json_type_table(value: Any, name: str) -> None:
    assert json_type(value) == name


# --- Compression ---------------------------------------------------------------------------------


@given(strategies.statuses())
def test_status_compressed_decodes_to_the_same(status: FrameworkStatus) -> None:
    packed = codec.compress_status(codec.encode_status(status), min_bytes=0)
    assert packed["attemptStatus"][PLAIN] is None
    assert codec.decode_status(json.loads(json.dumps(packed))) == status


def test_compress_below_the_least_stays_plain() -> None:
    wire = build_status_wire(build_role_status("a", 3))
    size = len(json.dumps(wire["attemptStatus"][PLAIN], separators=(",", ":")))
    assert codec.compress_status(wire, min_bytes=size + 1) == wire
    assert codec.compress_status(wire, min_bytes=size)["attemptStatus"][PLAIN] is None


def test_compress_twice_gives_equal_bytes_and_leaves_the_input() -> None:
    wire = build_status_wire(build_role_status("a", 20))
    before = json.dumps(wire)
    first, second = (codec.compress_status(wire, 0) for _ in range(2))
    assert first == second
    assert json.dumps(wire) == before


def test_status_with_both_forms_takes_the_plain_one() -> None:
    wire = build_status_wire(build_role_status("a", 2))
    wire["attemptStatus"][BLOB] = "rubbish"
    assert codec.decode_status(wire) == build_status(build_role_status("a", 2))


def test_status_with_a_null_blob_is_plain() -> None:
    wire = build_status_wire()
    wire["attemptStatus"][BLOB] = None
    assert codec.decode_status(wire) == build_status()


def packed_with(blob: Any) -> Wire:
    wire = build_status_wire()
    wire["attemptStatus"] |= {PLAIN: None, BLOB: blob}
    return wire


GZIPPED = gzip.compress(b"[]" + b" " * 1000)


@pytest.mark.parametrize(
    "blob",
    [
        pytest.param("%%%", id="no base64"),
        pytest.param("", id="empty"),
        pytest.param(5, id="number"),
        pytest.param("ü", id="no ASCII"),
        pytest.param(base64.b64encode(b"plain").decode(), id="no gzip"),
        pytest.param(base64.b64encode(GZIPPED[:-9]).decode(), id="cut off"),
        pytest.param(base64.b64encode(GZIPPED[:15] + b"\xff" * 20).decode(), id="damaged"),
        pytest.param(base64.b64encode(gzip.compress(b"{")).decode(), id="no JSON"),
        pytest.param(base64.b64encode(gzip.compress(b"\xff")).decode(), id="no UTF-8"),
    ],
)
def test_blob_that_is_damaged_is_a_fault(blob: Any) -> None:
    path = f"status.attemptStatus.{BLOB}"
    assert faults(codec.decode_status, packed_with(blob))[path].startswith("is no base64 of")


def test_blob_that_would_fill_the_memory_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "STATUS_BOUNDS", STATUS_BOUNDS._replace(json_bytes=1000))
    wire = packed_with(base64.b64encode(GZIPPED).decode())
    found = faults(codec.decode_status, wire)
    assert "longer than 1000 bytes" in found[f"status.attemptStatus.{BLOB}"]


def test_blob_of_another_shape_is_a_fault_of_the_tasks() -> None:
    blob = base64.b64encode(gzip.compress(b'{"a": 1}')).decode()
    path = f"status.attemptStatus.{PLAIN}"
    assert faults(codec.decode_status, packed_with(blob)) == {path: "must be an array, not object"}


@given(st.binary(max_size=60))
def test_blob_of_any_bytes_decodes_or_raises_field_errors(blob: bytes) -> None:
    with pytest.raises(FieldErrors):
        codec.decode_status(packed_with(base64.b64encode(blob).decode()))


def test_every_state_of_a_status_decodes() -> None:
    for state in FrameworkState:
        decoded = codec.decode_status(build_status_wire(state=state))
        assert decoded is not None
        assert decoded.state is state


def test_error_prints_its_path() -> None:
    assert str(FieldError("spec.a", "is bad")) == "spec.a: is bad"
