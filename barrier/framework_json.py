"""Renders framework.json: the whole Framework in the field order of the original. Pure.

It works on the raw object and the table below, not with the codec of ``framework.api``: the import
of the codec takes longer than the rest of a barrier's run. A test compares table and codec.
"""

import json
from typing import Any

FRAMEWORK_JSON_MODE = 0o644

# Characters that encoding/json of Go escapes and Python does not. A search for each is faster than
# a regular expression.
_ESCAPED_BY_GO = ("<", ">", "&", "\u2028", "\u2029")
# Letters of the short escapes of Python (backslash and letter) that Go writes in another form.
_LONG_IN_GO = ("b", "f")


class _Omitted:
    """Stands for the default of a field that is omitted if it is empty, or only if it is null."""


_OMIT = _Omitted()
# The default of a field that is omitted if it is null: 0 has a meaning.
_OMIT_NULL = _Omitted()


class _Struct:
    """The fields of a Go struct in order, with defaults, and the structs of nested fields."""

    def __init__(
        self, defaults: dict[str, Any], shapes: "dict[str, _Struct] | None" = None
    ) -> None:
        """Compute once which fields are omitted if empty and which get a default."""
        self.shapes = shapes or {}
        # For each, the values that are omitted.
        empty: dict[Any, tuple[Any, ...]] = {
            _OMIT: (None, False, 0, "", [], {}),
            _OMIT_NULL: (None,),
        }
        self.omitted = {n: empty[d] for n, d in defaults.items() if isinstance(d, _Omitted)}
        self.template = {**defaults, **dict.fromkeys(self.omitted)}
        self.not_null = {name: item for name, item in self.template.items() if item is not None}


_RETRY_POLICY = _Struct({"fancyRetryPolicy": False, "maxRetryCount": 0})
_TASK_SPEC = _Struct(
    {"retryPolicy": {}, "podGracefulDeletionTimeoutSec": None, "pod": {}},
    {"retryPolicy": _RETRY_POLICY},
)
_TASK_ROLE_SPEC = _Struct(
    {
        "name": "",
        "taskNumber": 0,
        "frameworkAttemptCompletionPolicy": {},
        "task": {},
        "absentTaskIndices": _OMIT,
        "minMemberCount": _OMIT_NULL,
        "drain": _OMIT,
        "completedPodPolicy": _OMIT,
    },
    {
        "frameworkAttemptCompletionPolicy": _Struct(
            {"minFailedTaskCount": 0, "minSucceededTaskCount": 0}
        ),
        "task": _TASK_SPEC,
    },
)
_SPEC = _Struct(
    {
        "description": "",
        "executionType": "Start",
        "retryPolicy": {},
        "taskRoles": [],
        "completedPodPolicy": _OMIT,
        "suspend": _OMIT,
        "activeDeadlineSeconds": _OMIT_NULL,
        "ttlSecondsAfterFinished": _OMIT_NULL,
    },
    {"retryPolicy": _RETRY_POLICY, "taskRoles": _TASK_ROLE_SPEC},
)
_COMPLETION = _Struct(
    {"code": 0, "phrase": "", "type": {}, "diagnostics": "", "pod": _OMIT, "trigger": _OMIT},
    {
        "type": _Struct({"name": "", "attributes": None}),
        "pod": _Struct(
            {"reason": _OMIT, "message": _OMIT, "containers": _OMIT},
            {
                "containers": _Struct(
                    {"name": "", "reason": _OMIT, "message": _OMIT, "signal": _OMIT, "code": 0}
                )
            },
        ),
        "trigger": _Struct({"message": "", "taskRoleName": "", "taskIndex": 0}),
    },
)
_RETRY_STATUS = _Struct(
    {"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": None}
)
_TASK_ATTEMPT = _Struct(
    {
        "id": 0,
        "startTime": None,
        "runTime": None,
        "completionTime": None,
        "instanceUID": None,
        "podName": "",
        "podUID": None,
        "podNodeName": None,
        "podIP": None,
        "podHostIP": None,
        "completionStatus": None,
    },
    {"completionStatus": _COMPLETION},
)
_TASK = _Struct(
    {
        "index": 0,
        "instanceUID": "",
        "startTime": None,
        "runTime": None,
        "completionTime": None,
        "state": "",
        "transitionTime": None,
        "deletionPending": False,
        "retryPolicyStatus": {},
        "attemptStatus": {},
        "drainDeadlineTime": _OMIT,
    },
    {"retryPolicyStatus": _RETRY_STATUS, "attemptStatus": _TASK_ATTEMPT},
)
_TASK_ROLE = _Struct(
    {"name": "", "instanceUID": "", "podGracefulDeletionTimeoutSec": None, "taskStatuses": []},
    {"taskStatuses": _TASK},
)
_ATTEMPT = _Struct(
    {
        "id": 0,
        "startTime": None,
        "runTime": None,
        "completionTime": None,
        "instanceUID": None,
        "configMapName": "",
        "configMapUID": None,
        "completionStatus": None,
        "taskRoleStatuses": [],
    },
    {"completionStatus": _COMPLETION, "taskRoleStatuses": _TASK_ROLE},
)
_STATUS = _Struct(
    {
        "startTime": None,
        "runTime": None,
        "completionTime": None,
        "state": "",
        "transitionTime": None,
        "retryPolicyStatus": {},
        "attemptStatus": {},
        "conditions": _OMIT,
        "observedGeneration": _OMIT,
    },
    {
        "retryPolicyStatus": _RETRY_STATUS,
        "attemptStatus": _ATTEMPT,
        "conditions": _Struct(
            {
                "type": "",
                "status": "Unknown",
                "observedGeneration": _OMIT,
                "lastTransitionTime": None,
                "reason": "",
                "message": "",
            }
        ),
    },
)
_METADATA = _Struct(
    {
        "name": _OMIT,
        "generateName": _OMIT,
        "namespace": _OMIT,
        "selfLink": _OMIT,
        "uid": _OMIT,
        "resourceVersion": _OMIT,
        "generation": _OMIT,
        "creationTimestamp": None,
        "deletionTimestamp": _OMIT,
        "deletionGracePeriodSeconds": _OMIT,
        "labels": _OMIT,
        "annotations": _OMIT,
        "ownerReferences": _OMIT,
        "finalizers": _OMIT,
        "clusterName": _OMIT,
        "managedFields": _OMIT,
    }
)
_FRAMEWORK = _Struct(
    {"metadata": {}, "spec": {}, "status": None},
    {"metadata": _METADATA, "spec": _SPEC, "status": _STATUS},
)
_NOT_WRITTEN = ("apiVersion", "kind")  # the client of the original removes them


def render_framework_json(framework: dict[str, Any]) -> bytes:
    """Render framework.json from the (decompressed) object.

    Inside a Pod template, keys keep the order of the API server; the original used the order of its
    structs and dropped fields that it did not know.
    """
    kept = {key: value for key, value in framework.items() if key not in _NOT_WRITTEN}
    ordered = _order(kept, _FRAMEWORK)
    # A value parsed from JSON has no cycles.
    text = json.dumps(ordered, separators=(",", ":"), ensure_ascii=False, check_circular=False)
    if _is_different_in_go(text):
        from framework.api.gojson import dumps

        text = dumps(ordered)
    return text.encode("utf-8", "replace")


def _is_different_in_go(text: str) -> bool:
    """Return whether Go may escape this JSON text differently."""
    if any(letter in text for letter in _ESCAPED_BY_GO):
        return True
    return any(part.startswith(_LONG_IN_GO) for part in text.split("\\")[1:])


def _order(value: Any, struct: _Struct) -> Any:
    """Order the fields of an object, or of each object of a list; unknown fields come last."""
    if isinstance(value, list):
        return [_order(item, struct) for item in value]
    if not isinstance(value, dict):
        return value
    # The template gives the order. dict.update is fast, and a barrier orders hundreds of objects.
    ordered = struct.template.copy()
    ordered.update(value)
    for name, empty in struct.omitted.items():
        if ordered[name] in empty:  # like omitempty of Go
            del ordered[name]
    for name, default in struct.not_null.items():
        if ordered[name] is None:
            ordered[name] = default
    for name, shape in struct.shapes.items():
        if name in ordered:
            ordered[name] = _order(ordered[name], shape)
    return ordered
