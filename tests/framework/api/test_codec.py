"""framework.api.codec and wire: round trips lose nothing, and every fault is named.

Property P9 of docs/design/invariants.md.
"""

import base64
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.api import codec
from framework.api.avoiding import AvoidNodesSpec
from framework.api.fielderrors import FieldError, FieldErrors
from framework.api.leaving import LeaveNodesSpec
from framework.api.packed import STATUS_BOUNDS
from framework.api.recovery import InPlaceSpec
from framework.api.types import (
    CompletedPodPolicy,
    ExecutionType,
    Framework,
    FrameworkSpec,
    FrameworkStatus,
)
from framework.api.validation import validate_framework
from framework.api.wire import INT64_MAX, format_time, json_type, parse_time
from tests.support.builders import (
    AT,
    Wire,
    build_framework_wire,
    build_role_status,
    build_status,
    build_status_wire,
    strategies,
)
from tests.support.builders.cases import cases

BLOB = codec.TASK_ROLE_STATUSES_COMPRESSED
PLAIN = codec.TASK_ROLE_STATUSES


GZIPPED = gzip.compress(b"[]" + b" " * 1000)


def encode64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def packed(data: bytes) -> Wire:
    return {PLAIN: None, BLOB: encode64(data)}


def faults(decode: Callable[[Any], Any], wire: Any) -> dict[str, str]:
    """The faults of a wire value, path to message."""
    with pytest.raises(FieldErrors) as caught:
        decode(wire)
    return {error.path: error.message for error in caught.value.errors}


@given(strategies.frameworks)
def test_framework_encoded_and_decoded_is_the_same(framework: Framework) -> None:
    assert validate_framework(framework) == ()
    wire = json.loads(json.dumps(codec.encode_framework(framework)))
    assert codec.decode_framework(wire) == framework


@given(strategies.statuses())
def test_status_encoded_and_decoded_is_the_same(status: FrameworkStatus) -> None:
    strategies.check_status(status)
    wire = json.loads(json.dumps(codec.encode_status(status)))
    assert codec.decode_status(wire) == status
    packed = codec.compress_status(wire, min_bytes=0)
    assert packed["attemptStatus"][PLAIN] is None
    assert codec.decode_status(json.loads(json.dumps(packed))) == status
    assert codec.encode_status(status) == wire


def test_unknown_fields_at_every_level_are_kept() -> None:
    known = build_framework_wire() | {"status": build_status_wire()}
    wire = codec.encode_framework(codec.decode_framework(known))
    role, attempt = wire["spec"]["taskRoles"][0], wire["status"]["attemptStatus"]
    task = attempt[PLAIN][0]["taskStatuses"][0]
    spec_parts = (wire["spec"], role, role["task"], role["task"]["pod"]["spec"])
    task_parts = (task, task["attemptStatus"], task["retryPolicyStatus"])
    for part in (wire, *spec_parts, wire["status"], attempt, *task_parts):
        part["future"] = {"a": [1, None]}
    wire["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    assert codec.encode_framework(codec.decode_framework(wire)) == wire


def test_keys_are_those_of_the_original_in_its_order() -> None:
    status = build_status_wire()
    assert " ".join(status) == (
        "startTime runTime completionTime state transitionTime retryPolicyStatus attemptStatus"
    )
    assert " ".join(status["attemptStatus"]) == (
        "id startTime runTime completionTime instanceUID configMapName configMapUID "
        "completionStatus taskRoleStatuses"
    )
    spec = codec.decode_spec({"taskRoles": [{"name": "a"}]})
    wire = codec.encode_spec(spec)
    assert " ".join(wire) == "description executionType retryPolicy taskRoles"
    [role] = wire["taskRoles"]
    assert " ".join(role) == "name taskNumber frameworkAttemptCompletionPolicy task"
    assert " ".join(role["task"]) == "retryPolicy podGracefulDeletionTimeoutSec pod"
    assert role["task"]["podGracefulDeletionTimeoutSec"] is None
    assert codec.encode_task_spec(spec.task_roles[0].task) == role["task"]


def test_spec_absent_empty_and_null_are_the_defaults() -> None:
    keys = (
        *("description", "executionType", "retryPolicy", "taskRoles", "completedPodPolicy"),
        *("suspend", "activeDeadlineSeconds", "ttlSecondsAfterFinished"),
    )
    for wire in (None, {}, dict.fromkeys(keys)):
        assert codec.decode_spec(wire) == FrameworkSpec()
    assert FrameworkSpec().execution_type is ExecutionType.START
    assert FrameworkSpec().completed_pod_policy is CompletedPodPolicy.DELETE


def test_role_nulls_are_the_defaults_and_nullable_ones_stay_null() -> None:
    keys = (
        "absentTaskIndices",
        "minMemberCount",
        "drain",
        "recovery",
        "frameworkAttemptCompletionPolicy",
        "completedPodPolicy",
    )
    null = codec.decode_spec({"taskRoles": [dict.fromkeys(keys) | {"name": "a"}]})
    absent = codec.decode_spec({"taskRoles": [{"name": "a"}]})
    assert null == absent
    assert absent.task_roles[0].task.pod_graceful_deletion_timeout_seconds is None


def test_extensions_decode_to_their_attributes() -> None:
    extensions = {
        "absentTaskIndices": [3, 1],
        "minMemberCount": 0,
        "drain": {"timeoutSec": 30},
        "recovery": {
            "inPlace": {"maxRestarts": 3, "withinSeconds": 600},
            "leaveNodes": {"timeoutSeconds": 60, "maxLeaves": 2, "withinSeconds": 90},
            "avoidNodes": {"failures": 3, "withinSeconds": 600, "maxNodes": 4},
        },
    }
    role = {"name": "a", **extensions, "completedPodPolicy": "RetainUntilEnd"}
    lifetime = {"suspend": True, "activeDeadlineSeconds": 0, "ttlSecondsAfterFinished": 0}
    wire = {"taskRoles": [role], "completedPodPolicy": "Retain", **lifetime}
    spec = codec.decode_spec(wire)
    [decoded] = spec.task_roles
    assert spec.suspend
    assert (spec.active_deadline_seconds, spec.ttl_seconds_after_finished) == (0, 0)
    assert {key: codec.encode_spec(spec)[key] for key in lifetime} == lifetime
    assert decoded.absent_task_indices == (3, 1)
    assert decoded.min_member_count == 0
    assert decoded.drain is not None
    assert decoded.drain.timeout_seconds == 30
    assert decoded.recovery is not None
    assert decoded.recovery.in_place == InPlaceSpec(3, 600)
    assert decoded.recovery.leave_nodes == LeaveNodesSpec(60, 2, 90)
    assert decoded.recovery.avoid_nodes == AvoidNodesSpec(3, 600, 4)
    assert spec.completed_pod_policy is CompletedPodPolicy.RETAIN
    assert decoded.completed_pod_policy is CompletedPodPolicy.RETAIN_UNTIL_END
    [wire] = codec.encode_spec(spec)["taskRoles"]
    assert {key: wire[key] for key in role} == role


def test_framework_without_status_or_tasks() -> None:
    framework = codec.decode_framework(build_framework_wire())
    assert framework.status is None
    assert codec.encode_framework(framework)["status"] is None
    assert (framework.key, framework.extra["kind"]) == ("default/gang", "Framework")
    status = build_status(build_role_status("a", 3))
    bare = codec.without_task_roles(status)
    assert bare.attempt_status == replace(status.attempt_status, task_roles=())


def test_spec_faults_are_all_named_with_their_paths() -> None:
    wire = {
        "description": 5,
        "executionType": "start",
        "retryPolicy": {"fancyRetryPolicy": "yes", "maxRetryCount": 1.5},
        "completedPodPolicy": 1,
        "suspend": "true",
        "activeDeadlineSeconds": "60",
        "ttlSecondsAfterFinished": False,
        "taskRoles": [
            {"name": "ok"},
            {
                "name": True,
                "taskNumber": "4",
                "task": {"pod": [], "podGracefulDeletionTimeoutSec": {}},
                "absentTaskIndices": [0, "1", None],
                "drain": {"timeoutSec": True},
                "recovery": {"inPlace": True},
            },
            None,
        ],
    }
    assert faults(codec.decode_spec, wire) == {
        "spec.description": "must be a string, not number 5",
        "spec.executionType": "must be one of Create, Start, Stop; not 'start'",
        "spec.retryPolicy.fancyRetryPolicy": "must be true or false, not string 'yes'",
        "spec.retryPolicy.maxRetryCount": "must be an integer, not number 1.5",
        "spec.completedPodPolicy": "must be one of Delete, RetainUntilEnd, Retain, RetainRunning; "
        "not 1",
        "spec.suspend": "must be true or false, not string 'true'",
        "spec.activeDeadlineSeconds": "must be an integer, not string '60'",
        "spec.ttlSecondsAfterFinished": "must be an integer, not boolean False",
        "spec.taskRoles[1].name": "must be a string, not boolean True",
        "spec.taskRoles[1].taskNumber": "must be an integer, not string '4'",
        "spec.taskRoles[1].task.pod": "must be an object, not array",
        "spec.taskRoles[1].task.podGracefulDeletionTimeoutSec": "must be an integer, not object",
        "spec.taskRoles[1].absentTaskIndices[1]": "must be an integer, not string '1'",
        "spec.taskRoles[1].absentTaskIndices[2]": "must be an integer, not null",
        "spec.taskRoles[1].drain.timeoutSec": "must be an integer, not boolean True",
        "spec.taskRoles[1].recovery.inPlace": "must be an object, not boolean: write, for example, "
        "{maxRestarts: 3, withinSeconds: 3600}",
        "spec.taskRoles[2]": "must be an object, not null",
    }
    others: tuple[Any, ...] = ([], "x", 1, True)
    assert all(list(faults(codec.decode_spec, other)) == ["spec"] for other in others)


def test_template_nested_deeper_than_64_levels_is_a_fault() -> None:
    for depth in (64, 65, 500):
        template = json.loads('{"a":' * depth + "0" + "}" * depth)
        wire = {"taskRoles": [{"name": "a", "taskNumber": 1, "task": {"pod": template}}]}
        if depth == 64:
            assert codec.decode_spec(wire).task_roles[0].task.pod == template
            continue
        message = "must not be nested deeper than 64 levels"
        assert faults(codec.decode_spec, wire) == {"spec.taskRoles[0].task.pod": message}


def test_framework_faults_of_all_parts_come_together() -> None:
    wire: Wire = {"metadata": None, "spec": {"taskRoles": {}}, "status": {"state": "Odd"}}
    found = faults(codec.decode_framework, wire)
    assert found["metadata"] == "must be an object, not null"
    assert found["spec.taskRoles"] == "must be an array, not object"
    assert found["status.state"].startswith("must be one of AttemptCreationPending, ")
    assert found["status.startTime"] == "is required"
    assert found["status.attemptStatus"] == "is required"


@given(st.sampled_from(["metadata", "spec", "status"]), strategies.json_values)
def test_any_json_decodes_or_is_a_fault_of_its_part(part: str, value: Any) -> None:
    errors: tuple[FieldError, ...] = ()
    try:
        codec.decode_framework(build_framework_wire() | {part: value})
    except FieldErrors as e:
        errors = e.errors
    assert all(error.path.startswith(part) for error in errors)


@given(st.binary(max_size=64))
def test_blob_of_any_bytes_is_a_fault(data: bytes) -> None:
    wire = build_status_wire()
    wire["attemptStatus"] |= packed(data)
    with pytest.raises(FieldErrors):
        codec.decode_status(wire)


STATUS_FAULTS: dict[str, tuple[Callable[[Wire], object], dict[str, str]]] = {
    "index out of place": (
        lambda wire: wire["attemptStatus"][PLAIN][0]["taskStatuses"][1].update(index=2),
        {f"attemptStatus.{PLAIN}[0].taskStatuses[1].index": "must be 1, its place in the array"},
    ),
    "null": (lambda wire: wire.update(state=None), {"state": "is required"}),
    "time": (
        lambda wire: wire.update(startTime=5),
        {"startTime": "must be an RFC 3339 time, not number 5"},
    ),
    "packed roles of another type": (
        lambda wire: wire["attemptStatus"].update(packed(gzip.compress(b'{"a": 1}'))),
        {f"attemptStatus.{PLAIN}": "must be an array, not object"},
    ),
}


@cases("change expected", STATUS_FAULTS)
def test_status_fault_has_its_path(
    change: Callable[[Wire], object], expected: dict[str, str]
) -> None:
    wire = build_status_wire(build_role_status("a", 3))
    change(wire)
    expected = {f"status.{path}": message for path, message in expected.items()}
    assert faults(codec.decode_status, wire) == expected


@pytest.mark.parametrize(
    "value",
    [3.0, -2, INT64_MAX, 1e3, 2**63, -(2**63), 1e300, 0.5, float("nan"), float("inf")],
)
def test_integer_in_any_json_form_is_taken_unless_it_is_too_large(value: float) -> None:
    wire = {"retryPolicy": {"maxRetryCount": value}}
    if value in {3, -2, INT64_MAX, 1000}:
        decoded = codec.decode_spec(wire).retry_policy.max_retry_count
        assert decoded == int(value)
        assert isinstance(decoded, int)
    else:
        assert list(faults(codec.decode_spec, wire)) == ["spec.retryPolicy.maxRetryCount"]


def test_json_type_table() -> None:
    values: tuple[object, ...] = (None, True, 1, 1.5, "", [], (), {})
    types = "null boolean number number string array array object"
    assert " ".join(map(json_type, values)) == types


def test_compress_below_the_least_stays_plain_and_leaves_the_input() -> None:
    wire = build_status_wire(build_role_status("a", 20))
    plain = json.dumps(wire)
    size = len(json.dumps(wire["attemptStatus"][PLAIN], separators=(",", ":")))
    assert codec.compress_status(wire, min_bytes=size + 1) == wire
    first, second = (codec.compress_status(wire, min_bytes=size) for _ in range(2))
    assert first["attemptStatus"][PLAIN] is None
    assert first == second
    assert json.dumps(wire) == plain


@pytest.mark.parametrize("blob", ["rubbish", None])
def test_status_with_both_forms_takes_the_plain_one(blob: str | None) -> None:
    wire = build_status_wire(build_role_status("a", 2))
    wire["attemptStatus"][BLOB] = blob
    assert codec.decode_status(wire) == build_status(build_role_status("a", 2))


@cases(
    "blob",
    {
        "no base64": "%%%",
        "empty": "",
        "number": 5,
        "no ASCII": "ü",
        "no gzip": encode64(b"plain"),
        "cut off": encode64(GZIPPED[:-9]),
        "damaged": encode64(GZIPPED[:15] + b"\xff" * 20),
        "no JSON": encode64(gzip.compress(b"{")),
        "no UTF-8": encode64(gzip.compress(b"\xff")),
    },
)
def test_blob_that_is_damaged_is_a_fault(blob: Any) -> None:
    wire = build_status_wire()
    wire["attemptStatus"] |= {PLAIN: None, BLOB: blob}
    path = f"status.attemptStatus.{BLOB}"
    assert faults(codec.decode_status, wire)[path].startswith("is not base64 of")


def test_blob_larger_than_the_bound_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "STATUS_BOUNDS", STATUS_BOUNDS._replace(json_bytes=1000))
    wire = build_status_wire()
    wire["attemptStatus"] |= packed(GZIPPED)
    found = faults(codec.decode_status, wire)
    assert "longer than 1000 bytes" in found[f"status.attemptStatus.{BLOB}"]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-01T00:00:00Z", AT),
        ("2026-01-01T01:30:00+01:30", AT),
        ("2025-12-31T19:00:00-05:00", AT),
        ("2026-01-01T00:00:00.999999Z", AT),
        ("2026-01-01T00:00:00.123456789Z", AT),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:59Z", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_parse_time_table(text: str, moment: datetime) -> None:
    assert parse_time(text) == moment
    assert parse_time(text).tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        "", "now", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z",
        "2026-01-01T25:00:00Z", "9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00",
        "10000-01-01T00:00:00Z", "2026-01-01T00:00:00\ud800",
    ],
)  # fmt: skip
def test_text_that_is_no_time_is_a_fault(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_time(text)
    wire = build_status_wire() | {"startTime": text}
    assert list(faults(codec.decode_status, wire)) == ["status.startTime"]


@given(strategies.times)
def test_time_formatted_and_parsed_is_the_same(moment: datetime) -> None:
    assert parse_time(format_time(moment)) == moment


def test_format_time_is_utc_with_four_digits_of_year() -> None:
    assert format_time(datetime(1, 2, 3, tzinfo=UTC)) == "0001-02-03T00:00:00Z"
    east = timezone(timedelta(hours=2))
    assert format_time(datetime(2026, 1, 1, 2, tzinfo=east)) == "2026-01-01T00:00:00Z"
