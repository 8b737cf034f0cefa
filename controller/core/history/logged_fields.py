"""The fields of an object that the history log shows: those of the lists below, and no others.

A Pod template, an annotation or a termination message may contain secrets anywhere. So a field is
logged only if a list has it: names, identities, states, reasons, codes, times, counts, addresses,
images and resource quantities. Annotations and labels of users, managedFields, env, command, args,
probes, lifecycle hooks, volumes, messages and diagnostics, for example, are in no list.

The size of a line is bounded: each text to 256 characters, each part of an object (metadata, spec,
status) to a number of bytes. The rest is left out, and ``"cut": true`` at the top says so.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from controller.core.decision import LoggedPart
from framework.api import constants, gojson
from framework.api.text import cut_text

_TEXT_BYTES = 256
_PART_BYTES = {"metadata": 16 * 1024, "spec": 64 * 1024, "status": 160 * 1024}
# Smaller than a Framework's: one decision may retry ten thousand Tasks, each with its spec.
_TASK_SPEC_BYTES = 8 * 1024
# Texts that JSON writes unchanged, between quotes.
_UNESCAPED = re.compile(r"[A-Za-z0-9 .:/_+=@-]*")
# Quotes, colon and comma.
_OVERHEAD_BYTES = 4

Form: TypeAlias = Mapping[str, "Form"] | tuple["Form"] | None
"""An object's fields, in the order they are logged; the items of a list; or a plain value."""


def _plain(*names: str) -> dict[str, Form]:
    return dict.fromkeys(names)


_METADATA: Form = {
    **_plain(
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ),
    "labels": _plain(constants.FRAMEWORK_NAME, constants.TASKROLE_NAME, constants.TASK_INDEX),
    "annotations": _plain(*constants.IDENTITY_ANNOTATIONS),
    "ownerReferences": (
        _plain("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"),
    ),
}
_QUANTITIES: Form = _plain(
    "cpu",
    "memory",
    "ephemeral-storage",
    "nvidia.com/gpu",
    "amd.com/gpu",
    "google.com/tpu",
    "huawei.com/npu",
)
_CONTAINER: Form = {
    **_plain("name", "image", "imagePullPolicy", "restartPolicy"),
    "resources": {"limits": _QUANTITIES, "requests": _QUANTITIES},
}
_POD_SPEC: Form = {
    **_plain(
        "nodeName",
        "schedulerName",
        "serviceAccountName",
        "restartPolicy",
        "hostNetwork",
        "terminationGracePeriodSeconds",
        "activeDeadlineSeconds",
    ),
    "initContainers": (_CONTAINER,),
    "containers": (_CONTAINER,),
}
_CONTAINER_STATE: Form = {
    "waiting": _plain("reason"),
    "running": _plain("startedAt"),
    "terminated": _plain("exitCode", "signal", "reason", "startedAt", "finishedAt"),
}
_CONTAINER_STATUS: Form = {
    "name": None,
    "state": _CONTAINER_STATE,
    "lastState": _CONTAINER_STATE,
    **_plain("ready", "started", "restartCount", "image", "imageID", "containerID"),
}
_CONDITION = _plain("type", "status", "observedGeneration", "lastTransitionTime", "reason")
_POD_STATUS: Form = {
    **_plain("phase", "reason", "hostIP", "podIP", "startTime", "qosClass"),
    "conditions": (_CONDITION,),
    "initContainerStatuses": (_CONTAINER_STATUS,),
    "containerStatuses": (_CONTAINER_STATUS,),
}
_RETRY_POLICY = _plain("fancyRetryPolicy", "maxRetryCount")
_TASK_SPEC: Form = {
    "retryPolicy": _RETRY_POLICY,
    "podGracefulDeletionTimeoutSec": None,
    "pod": {"spec": _POD_SPEC},
}
_RETRY_STATUS = _plain("totalRetriedCount", "accountableRetriedCount", "retryDelaySec")
_COMPLETION: dict[str, Form] = {
    **_plain("code", "phrase"),
    "type": {"name": None, "attributes": (None,)},
}
_TIMES = _plain("startTime", "runTime", "completionTime")
_TASK_STATUS: Form = {
    **_plain("index", "instanceUID"),
    **_TIMES,
    **_plain("state", "transitionTime", "deletionPending"),
    "retryPolicyStatus": _RETRY_STATUS,
    "attemptStatus": {
        "id": None,
        **_TIMES,
        **_plain("instanceUID", "podName", "podUID", "podNodeName", "podIP", "podHostIP"),
        "completionStatus": {
            **_COMPLETION,
            "pod": {
                "reason": None,
                "containers": (_plain("name", "reason", "signal", "code"),),
            },
        },
    },
    constants.DRAIN_DEADLINE_FIELD: None,
}
_ROLE_SPEC: Form = {
    **_plain("name", "taskNumber"),
    "frameworkAttemptCompletionPolicy": _plain("minFailedTaskCount", "minSucceededTaskCount"),
    "task": _TASK_SPEC,
    constants.MIN_MEMBER_COUNT_FIELD: None,
    constants.DRAIN_FIELD: _plain(constants.DRAIN_TIMEOUT_FIELD),
    constants.COMPLETED_POD_POLICY_FIELD: None,
}
_FRAMEWORK_SPEC: Form = {
    "executionType": None,
    "retryPolicy": _RETRY_POLICY,
    "taskRoles": (_ROLE_SPEC,),
    **_plain(
        constants.COMPLETED_POD_POLICY_FIELD,
        constants.SUSPEND_FIELD,
        constants.ACTIVE_DEADLINE_FIELD,
        constants.TTL_FIELD,
    ),
}
_ROLE_STATUS: Form = {
    **_plain("name", "instanceUID", "podGracefulDeletionTimeoutSec"),
    "taskStatuses": (_TASK_STATUS,),
}
_FRAMEWORK_STATUS: Form = {
    **_TIMES,
    **_plain("state", "transitionTime"),
    "retryPolicyStatus": _RETRY_STATUS,
    "attemptStatus": {
        "id": None,
        **_TIMES,
        **_plain("instanceUID", "configMapName", "configMapUID"),
        "completionStatus": {**_COMPLETION, "trigger": _plain("taskRoleName", "taskIndex")},
        "taskRoleStatuses": (_ROLE_STATUS,),
    },
    constants.CONDITIONS_FIELD: (_CONDITION,),
    **_plain(constants.OBSERVED_GENERATION_FIELD, constants.READY_TASKS_FIELD),
    constants.ACTIVE_START_FIELD: None,
}
_FORMS: Mapping[str, Mapping[str, Form]] = {
    constants.FRAMEWORK_KIND: {"spec": _FRAMEWORK_SPEC, "status": _FRAMEWORK_STATUS},
    constants.TASK_KIND: {"spec": _TASK_SPEC, "status": _TASK_STATUS},
    constants.POD_KIND: {"spec": _POD_SPEC, "status": _POD_STATUS},
}


def select_task_spec(wire: Mapping[str, Any]) -> LoggedPart:
    """Select the logged part of a Task's spec, which is the same for all Tasks of a role."""
    return _select(wire, _TASK_SPEC, _TASK_SPEC_BYTES)


def select_logged_fields(kind: str, api_version: str, wire: Mapping[str, Any]) -> dict[str, Any]:
    """Select the logged fields of a Framework, a Task or a Pod.

    Args:
        kind: of the object; an object of a watch does not have it.
        api_version: of the object; an object of a watch does not have it.
        wire: the parts of the object, in JSON or already selected. A list may be an iterator, which
            is read as far as there is room.
    """
    body: dict[str, Any] = {"kind": kind, "apiVersion": api_version}
    is_cut = False
    for part, form in {"metadata": _METADATA, **_FORMS[kind]}.items():
        selected = wire.get(part)
        if not isinstance(selected, LoggedPart):
            selected = _select(selected, form, _PART_BYTES[part])
        body[part] = selected.value
        is_cut |= selected.is_cut
    return {**body, "cut": True} if is_cut else body


def _select(value: Any, form: Form, limit_bytes: int) -> LoggedPart:
    selection = _Selection(limit_bytes)
    return LoggedPart(selection.take(value, form), selection.is_cut)


class _Selection:
    """Takes the listed fields of an object while there is room."""

    def __init__(self, limit_bytes: int) -> None:
        self._left_bytes = limit_bytes
        self.is_cut = False

    def take(self, value: Any, form: Form) -> Any:
        """Take the listed fields of a value; a value of another type becomes null."""
        if form is None:
            return self._take_plain(value)
        if isinstance(form, tuple):
            is_list = isinstance(value, Iterable) and not isinstance(value, (str, Mapping))
            return self._take_items(value, form[0]) if is_list else None
        return self._take_members(value, form) if isinstance(value, Mapping) else None

    def _take_plain(self, value: Any) -> Any:
        if isinstance(value, str):
            if len(value) <= _TEXT_BYTES and _UNESCAPED.fullmatch(value):
                # Most texts: their size is known without encoding them.
                self._left_bytes -= len(value) + len('""')
                return value
            value = cut_text(value, _TEXT_BYTES)
        elif not (value is None or isinstance(value, (bool, int, float))):
            return None
        self._left_bytes -= (
            len(gojson.dumps(value).encode("utf-8", "replace")) if value else len("false")
        )
        return value

    def _take_members(self, value: Mapping[str, Any], form: Mapping[str, Form]) -> dict[str, Any]:
        taken: dict[str, Any] = {}
        for key, inner in form.items():
            if key in value and self._has_room(len(key)):
                item = value[key]
                taken[key] = self._take_plain(item) if inner is None else self.take(item, inner)
        return taken

    def _take_items(self, value: Iterable[Any], form: Form) -> list[Any]:
        taken: list[Any] = []
        for item in value:
            if not self._has_room(0):
                break
            taken.append(self.take(item, form))
        return taken

    def _has_room(self, key_bytes: int) -> bool:
        self._left_bytes -= key_bytes + _OVERHEAD_BYTES
        if self._left_bytes > 0:
            return True
        self.is_cut = True
        return False
