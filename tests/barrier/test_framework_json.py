"""framework.json: the Go original's bytes, and agreement with the codec."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from barrier.framework_json import render_framework_json
from framework.api.codec import decode_framework, encode_framework
from framework.api.gojson import dumps
from tests.barrier.api_server import make_framework, make_task

COMPLETED = {
    "code": 210,
    "phrase": "ContainerPermanentFailed",
    "type": {"name": "Failed", "attributes": ["Permanent"]},
    "diagnostics": "a <b> & c",
    "pod": {"containers": [{"name": "x", "signal": 9, "code": 137}], "reason": "Evicted"},
}


def make_full_framework() -> dict[str, Any]:
    framework = make_framework(make_task(0, "10.0.0.2", state="Completed"), make_task(1, ""))
    attempt = framework["status"]["attemptStatus"]
    task = attempt["taskRoleStatuses"][0]["taskStatuses"][0]
    task["attemptStatus"]["completionStatus"] = COMPLETED
    trigger = {"message": "m", "taskRoleName": "worker", "taskIndex": 0}
    kind = {"name": "Succeeded", "attributes": []}
    ended = {"code": 0, "phrase": "Succeeded", "type": kind, "diagnostics": ""}
    attempt["completionStatus"] = ended | {"trigger": trigger}
    condition = {"type": "Ready", "status": "True", "reason": "R", "message": "m"}
    condition["lastTransitionTime"] = "2024-01-01T00:00:00Z"
    framework["status"]["conditions"] = [{**condition, "observedGeneration": 3}]
    framework["status"]["observedGeneration"] = 3
    role = framework["spec"]["taskRoles"][0]
    role.update(absentTaskIndices=[1], minMemberCount=1, drain={"timeoutSec": 5})
    role["completedPodPolicy"] = "RetainUntilEnd"
    framework["spec"]["completedPodPolicy"] = "Retain"
    framework["spec"]["unknownField"] = {"z": 1, "a": 2}
    return framework


def reverse(value: Any) -> Any:
    """Turn the order of all keys round, outside the Pod template."""
    if isinstance(value, dict):
        return {
            k: value[k] if k in {"pod", "unknownField"} else reverse(value[k])
            for k in sorted(value, reverse=True)
        }
    return [reverse(item) for item in value] if isinstance(value, list) else value


def drop(value: Any, chosen: list[str]) -> Any:
    """Leave optional fields out, as users' YAML does."""
    if isinstance(value, dict):
        return {k: drop(v, chosen) for k, v in value.items() if k not in chosen}
    return [drop(item, chosen) for item in value] if isinstance(value, list) else value


def encode_by_codec(framework: dict[str, Any]) -> str:
    encoded = encode_framework(decode_framework(framework))
    return dumps({k: v for k, v in encoded.items() if k not in {"apiVersion", "kind"}})


def test_render_framework_json_agrees_with_the_codec() -> None:
    framework = make_full_framework()
    expected = encode_by_codec(framework)
    assert render_framework_json(framework).decode() == expected
    assert render_framework_json(reverse(framework)).decode() == expected


OPTIONAL = (
    *("description", "executionType", "retryPolicy", "fancyRetryPolicy", "minFailedTaskCount"),
    *("frameworkAttemptCompletionPolicy", "podGracefulDeletionTimeoutSec", "drain", "conditions"),
    *("completionStatus", "podNodeName", "podIP", "runTime", "observedGeneration"),
    *("deletionPending", "taskStatuses", "status"),
)


@given(st.lists(st.sampled_from(OPTIONAL)))
def test_render_framework_json_absent_fields_agree_with_the_codec(chosen: list[str]) -> None:
    framework = make_full_framework()
    # "status" is also a key of a condition.
    conditions = framework["status"].pop("conditions")
    framework = drop(framework, chosen)
    if "status" in framework and "conditions" not in chosen:
        framework["status"]["conditions"] = conditions
    assert render_framework_json(framework).decode() == encode_by_codec(framework)


def test_render_framework_json_starts_with_metadata_in_gos_order() -> None:
    framework = make_framework()
    names = {"name": "f", "namespace": "default", "uid": "u"}
    maps = {"annotations": {"a": "1"}, "creationTimestamp": None, "labels": {"l": "1"}}
    framework["metadata"] = maps | names
    text = render_framework_json(framework).decode()
    assert text.startswith(
        '{"metadata":{"name":"f","namespace":"default","uid":"u","creationTimestamp":null,'
        '"labels":{"l":"1"},"annotations":{"a":"1"}},"spec":{"description":"",'
    )


def test_render_framework_json_escapes_as_go() -> None:
    framework = make_framework()
    framework["spec"]["description"] = "<&>\u2028\b\f\t\\b é"
    text = render_framework_json(framework).decode()
    assert '"description":"\\u003c\\u0026\\u003e\\u2028\\u0008\\u000c\\t\\\\b é"' in text
    assert json.loads(text)["spec"]["description"] == "<&>\u2028\b\f\t\\b é"
