"""framework.json as bytes: the whole Framework in the Go original's field order. Pure.

Called by ``release``. Works on the raw object with the small table below, not on the codec of
``framework.api``: loading the codec and its types costs a barrier more than everything else it
does. A test holds the table and the codec together.
"""

import json
from typing import Any, NamedTuple

FRAMEWORK_JSON_MODE = 0o644

# Where Go's encoding/json and Python's differ. Looked for one by one: that is faster than a
# regular expression, and every barrier of a gang does it at one moment.
_DIFFERING = ("<", ">", "&", "\u2028", "\u2029", "\\b", "\\f")


class _Omitted:
    """The default of a field that is left out when it is empty."""


_OMIT = _Omitted()


class _Struct(NamedTuple):
    """Fields in Go's order, each with its value when absent, and the shapes of some."""

    defaults: dict[str, Any]
    shapes: dict[str, "_Struct"] = {}  # noqa: RUF012  (never changed)


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
        "minMemberCount": _OMIT,
        "drain": _OMIT,
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
_NOT_WRITTEN = ("apiVersion", "kind")  # the original's client strips them


def render_framework_json(framework: dict[str, Any]) -> bytes:
    """Render framework.json from the (decompressed) object.

    Inside a Pod template keys stay in the API server's order, where the original wrote its own
    structs' order and dropped fields it did not know.
    """
    kept = {key: value for key, value in framework.items() if key not in _NOT_WRITTEN}
    ordered = _order(kept, _FRAMEWORK)
    text = json.dumps(ordered, separators=(",", ":"), ensure_ascii=False)
    if any(different in text for different in _DIFFERING):
        from framework.api.gojson import dumps

        text = dumps(ordered)
    return text.encode("utf-8", "replace")


def _order(value: Any, struct: _Struct) -> Any:
    """Put an object's fields, or those of each in a list, in order; unknown ones come last."""
    if isinstance(value, list):
        return [_order(item, struct) for item in value]
    if not isinstance(value, dict):
        return value
    ordered: dict[str, Any] = {}
    shapes = struct.shapes
    known = 0
    for key, default in struct.defaults.items():
        item = value.get(key)
        known += key in value
        if default is _OMIT:
            # As Go's omitempty: zero values too.
            if not item:
                continue
        elif item is None:
            item = default
        ordered[key] = _order(item, shapes[key]) if key in shapes else item
    if known < len(value):
        ordered.update((k, item) for k, item in value.items() if k not in struct.defaults)
    return ordered
