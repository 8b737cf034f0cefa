"""Converts Frameworks between JSON and ``types``: the only module with the names of JSON fields.

The order of fields is that of the Go structs (microsoft/frameworkcontroller ``types.go``). Unknown
fields are kept.
"""

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from framework.api import constants
from framework.api.avoidingcodec import NODE_FAILURE
from framework.api.fielderrors import FieldError, FieldErrors
from framework.api.leavingcodec import LEAVE_COUNT, LEAVING_STATUS
from framework.api.objectmeta import ObjectMeta
from framework.api.packed import STATUS_BOUNDS, PackedError, unpack_base64
from framework.api.recoverycodec import RECOVERY_SPEC, RECOVERY_STATUS
from framework.api.states import FrameworkState, TaskState
from framework.api.trainingcodec import TRAINING_STATUS
from framework.api.types import (
    CompletedPodPolicy,
    CompletionPolicySpec,
    CompletionPolicyTriggerStatus,
    CompletionType,
    Condition,
    ContainerCompletionStatus,
    DrainSpec,
    ExecutionType,
    Framework,
    FrameworkAttemptCompletionStatus,
    FrameworkAttemptStatus,
    FrameworkSpec,
    FrameworkStatus,
    PodCompletionStatus,
    RetryPolicySpec,
    RetryPolicyStatus,
    TaskAttemptCompletionStatus,
    TaskAttemptStatus,
    TaskRoleSpec,
    TaskRoleStatus,
    TaskSpec,
    TaskStatus,
)
from framework.api.wire import (
    BOOL,
    INT,
    STR,
    TEMPLATE,
    TIME,
    Errors,
    Field,
    Struct,
    enum_kind,
    list_kind,
)

TASK_ROLE_STATUSES = "taskRoleStatuses"
TASK_ROLE_STATUSES_COMPRESSED = "taskRoleStatusesCompressed"

METADATA = Struct(
    ObjectMeta,
    Field("name", "name", STR, omit_empty=True),
    Field("namespace", "namespace", STR, omit_empty=True),
    Field("uid", "uid", STR, omit_empty=True),
    Field("resourceVersion", "resource_version", STR, omit_empty=True),
    Field("generation", "generation", INT, omit_empty=True),
    Field("creationTimestamp", "creation_time", TIME, nullable=True),
    Field("deletionTimestamp", "deletion_time", TIME, nullable=True, omit_empty=True),
)

RETRY_POLICY_SPEC = Struct(
    RetryPolicySpec,
    Field("fancyRetryPolicy", "fancy_retry_policy", BOOL),
    Field("maxRetryCount", "max_retry_count", INT),
)

_COMPLETION_POLICY_SPEC = Struct(
    CompletionPolicySpec,
    Field("minFailedTaskCount", "min_failed_task_count", INT),
    Field("minSucceededTaskCount", "min_succeeded_task_count", INT),
)

_DRAIN_SPEC = Struct(
    DrainSpec,
    Field(constants.DRAIN_TIMEOUT_FIELD, "timeout_seconds", INT),
    example="{timeoutSec: 60}",
)

_TASK_SPEC = Struct(
    TaskSpec,
    Field("retryPolicy", "retry_policy", RETRY_POLICY_SPEC.kind()),
    Field(
        "podGracefulDeletionTimeoutSec",
        "pod_graceful_deletion_timeout_seconds",
        INT,
        nullable=True,
    ),
    Field("pod", "pod", TEMPLATE),
)

TASK_ROLE_SPEC = Struct(
    TaskRoleSpec,
    Field("name", "name", STR),
    Field("taskNumber", "task_number", INT),
    Field(
        "frameworkAttemptCompletionPolicy",
        "completion_policy",
        _COMPLETION_POLICY_SPEC.kind(),
    ),
    Field("task", "task", _TASK_SPEC.kind()),
    Field(
        constants.ABSENT_TASK_INDICES_FIELD,
        "absent_task_indices",
        list_kind(INT),
        omit_empty=True,
    ),
    Field(
        constants.MIN_MEMBER_COUNT_FIELD,
        "min_member_count",
        INT,
        nullable=True,
        omit_value=None,
    ),
    Field(constants.DRAIN_FIELD, "drain", _DRAIN_SPEC.kind(), nullable=True, omit_empty=True),
    Field(
        constants.COMPLETED_POD_POLICY_FIELD,
        "completed_pod_policy",
        enum_kind(CompletedPodPolicy),
        omit_value=None,
    ),
    Field(
        constants.RECOVERY_FIELD,
        "recovery",
        RECOVERY_SPEC.kind(),
        nullable=True,
        omit_value=None,
    ),
)

SPEC = Struct(
    FrameworkSpec,
    Field("description", "description", STR),
    Field("executionType", "execution_type", enum_kind(ExecutionType)),
    Field("retryPolicy", "retry_policy", RETRY_POLICY_SPEC.kind()),
    Field("taskRoles", "task_roles", list_kind(TASK_ROLE_SPEC.kind())),
    Field(
        constants.COMPLETED_POD_POLICY_FIELD,
        "completed_pod_policy",
        enum_kind(CompletedPodPolicy),
        omit_value=CompletedPodPolicy.DELETE,
    ),
    Field(constants.SUSPEND_FIELD, "suspend", BOOL, omit_empty=True),
    Field(
        constants.ACTIVE_DEADLINE_FIELD,
        "active_deadline_seconds",
        INT,
        nullable=True,
        omit_value=None,
    ),
    Field(constants.TTL_FIELD, "ttl_seconds_after_finished", INT, nullable=True, omit_value=None),
)

COMPLETION_TYPE = Struct(
    CompletionType,
    Field("name", "name", STR),
    Field("attributes", "attributes", list_kind(STR), nullable=True),
)

CONTAINER_COMPLETION = Struct(
    ContainerCompletionStatus,
    Field("name", "name", STR),
    Field("reason", "reason", STR, omit_empty=True),
    Field("message", "message", STR, omit_empty=True),
    Field("signal", "signal", INT, omit_empty=True),
    Field("code", "code", INT),
)

POD_COMPLETION = Struct(
    PodCompletionStatus,
    Field("reason", "reason", STR, omit_empty=True),
    Field("message", "message", STR, omit_empty=True),
    Field("containers", "containers", list_kind(CONTAINER_COMPLETION.kind()), omit_empty=True),
)

_TRIGGER = Struct(
    CompletionPolicyTriggerStatus,
    Field("message", "message", STR),
    Field("taskRoleName", "task_role_name", STR),
    Field("taskIndex", "task_index", INT),
)

_COMPLETION_FIELDS = (
    Field("code", "code", INT),
    Field("phrase", "phrase", STR),
    Field("type", "type", COMPLETION_TYPE.kind()),
    Field("diagnostics", "diagnostics", STR),
)

_TASK_COMPLETION = Struct(
    TaskAttemptCompletionStatus,
    *_COMPLETION_FIELDS,
    Field("pod", "pod", POD_COMPLETION.kind(), nullable=True, omit_empty=True),
)

_FRAMEWORK_COMPLETION = Struct(
    FrameworkAttemptCompletionStatus,
    *_COMPLETION_FIELDS,
    Field("trigger", "trigger", _TRIGGER.kind(), nullable=True, omit_empty=True),
)

_RETRY_POLICY_STATUS = Struct(
    RetryPolicyStatus,
    Field("totalRetriedCount", "total_retried_count", INT),
    Field("accountableRetriedCount", "accountable_retried_count", INT),
    Field("retryDelaySec", "retry_delay_seconds", INT, nullable=True),
    Field(constants.QUICK_END_COUNT_FIELD, "quick_end_count", INT, omit_value=0),
)

_TASK_ATTEMPT_STATUS = Struct(
    TaskAttemptStatus,
    Field("id", "id", INT, required=True),
    Field("startTime", "start_time", TIME, required=True),
    Field("runTime", "run_time", TIME, nullable=True),
    Field("completionTime", "completion_time", TIME, nullable=True),
    Field("instanceUID", "instance_uid", STR, nullable=True),
    Field("podName", "pod_name", STR),
    Field("podUID", "pod_uid", STR, nullable=True),
    Field("podNodeName", "pod_node_name", STR, nullable=True),
    Field("podIP", "pod_ip", STR, nullable=True),
    Field("podHostIP", "pod_host_ip", STR, nullable=True),
    Field("completionStatus", "completion_status", _TASK_COMPLETION.kind(), nullable=True),
    Field(constants.ACCEPTS_UNSIGNED_FIELD, "accepts_unsigned", BOOL, omit_empty=True),
    Field(
        constants.LEAVING_FIELD, "leaving", LEAVING_STATUS.kind(), nullable=True, omit_value=None
    ),
    Field(constants.AVOIDED_NODES_FIELD, "avoided_nodes", list_kind(STR), omit_empty=True),
)

TASK_STATUS = Struct(
    TaskStatus,
    Field("index", "index", INT, required=True),
    Field("instanceUID", "instance_uid", STR, required=True),
    Field("startTime", "start_time", TIME, required=True),
    Field("runTime", "run_time", TIME, nullable=True),
    Field("completionTime", "completion_time", TIME, nullable=True),
    Field("state", "state", enum_kind(TaskState), required=True),
    Field("transitionTime", "transition_time", TIME, required=True),
    Field("deletionPending", "deletion_pending", BOOL),
    Field("retryPolicyStatus", "retry_policy_status", _RETRY_POLICY_STATUS.kind()),
    Field("attemptStatus", "attempt_status", _TASK_ATTEMPT_STATUS.kind(), required=True),
    Field(
        constants.DRAIN_DEADLINE_FIELD,
        "drain_deadline_time",
        TIME,
        nullable=True,
        omit_empty=True,
    ),
    Field(constants.LEAVES_FIELD, "leaves", LEAVE_COUNT.kind(), nullable=True, omit_value=None),
    Field(
        constants.NODE_FAILURES_FIELD,
        "node_failures",
        list_kind(NODE_FAILURE.kind()),
        omit_empty=True,
    ),
)

TASK_ROLE_STATUS = Struct(
    TaskRoleStatus,
    Field("name", "name", STR, required=True),
    Field("instanceUID", "instance_uid", STR, required=True),
    Field(
        "podGracefulDeletionTimeoutSec",
        "pod_graceful_deletion_timeout_seconds",
        INT,
        nullable=True,
    ),
    Field("taskStatuses", "tasks", list_kind(TASK_STATUS.kind())),
)

_TASK_ROLES = list_kind(TASK_ROLE_STATUS.kind())

_ATTEMPT_STATUS = Struct(
    FrameworkAttemptStatus,
    Field("id", "id", INT, required=True),
    Field("startTime", "start_time", TIME, required=True),
    Field("runTime", "run_time", TIME, nullable=True),
    Field("completionTime", "completion_time", TIME, nullable=True),
    Field("instanceUID", "instance_uid", STR, nullable=True),
    Field("configMapName", "configmap_name", STR),
    Field("configMapUID", "configmap_uid", STR, nullable=True),
    Field("completionStatus", "completion_status", _FRAMEWORK_COMPLETION.kind(), nullable=True),
    Field(TASK_ROLE_STATUSES, "task_roles", _TASK_ROLES),
    Field(constants.CREATOR_KEYS_FIELD, "creator_keys", list_kind(STR), omit_empty=True),
    Field(constants.ACCEPTS_UNSIGNED_FIELD, "accepts_unsigned", BOOL, omit_empty=True),
    Field(
        constants.RECOVERY_FIELD,
        "recovery",
        RECOVERY_STATUS.kind(),
        nullable=True,
        omit_value=None,
    ),
    Field(
        constants.TRAINING_PROGRESS_FIELD,
        "training",
        TRAINING_STATUS.kind(),
        nullable=True,
        omit_value=None,
    ),
)

_CONDITION = Struct(
    Condition,
    Field("type", "type", STR),
    Field("status", "status", STR),
    Field("observedGeneration", "observed_generation", INT, nullable=True, omit_value=None),
    Field("lastTransitionTime", "transition_time", TIME, nullable=True),
    Field("reason", "reason", STR),
    Field("message", "message", STR),
)

STATUS = Struct(
    FrameworkStatus,
    Field("startTime", "start_time", TIME, required=True),
    Field("runTime", "run_time", TIME, nullable=True),
    Field("completionTime", "completion_time", TIME, nullable=True),
    Field("state", "state", enum_kind(FrameworkState), required=True),
    Field("transitionTime", "transition_time", TIME, required=True),
    Field("retryPolicyStatus", "retry_policy_status", _RETRY_POLICY_STATUS.kind()),
    Field("attemptStatus", "attempt_status", _ATTEMPT_STATUS.kind(), required=True),
    Field(
        constants.CONDITIONS_FIELD,
        "conditions",
        list_kind(_CONDITION.kind()),
        nullable=True,
        omit_empty=True,
    ),
    Field(
        constants.OBSERVED_GENERATION_FIELD,
        "observed_generation",
        INT,
        nullable=True,
        omit_value=None,
    ),
    Field(constants.READY_TASKS_FIELD, "ready_tasks", STR, nullable=True, omit_value=None),
    Field(constants.ACTIVE_START_FIELD, "active_start_time", TIME, nullable=True, omit_empty=True),
)

_OBJECT = Struct(
    Framework,
    Field("metadata", "metadata", METADATA.kind(), required=True),
    Field("spec", "spec", SPEC.kind()),
)


def decode_metadata(wire: Mapping[str, Any]) -> ObjectMeta:
    """Decode an object's metadata.

    Raises:
        FieldErrors: The JSON is invalid; the error has every fault and its path.
    """
    return METADATA.decode_or_raise(wire.get("metadata"), "metadata")


def decode_spec(wire: Any) -> FrameworkSpec:
    """Decode a Framework's spec; null or absent is the empty spec.

    Raises:
        FieldErrors: The JSON is invalid; the error has every fault and its path.
    """
    return FrameworkSpec() if wire is None else SPEC.decode_or_raise(wire, "spec")


def decode_status(wire: Any) -> FrameworkStatus | None:
    """Decode the status of a Framework, compressed or not.

    A status that has only conditions decodes to None: the conditions say why there is no other.

    Raises:
        FieldErrors: The JSON is invalid; the error has every fault and its path.
    """
    if wire is None or (isinstance(wire, Mapping) and set(wire) <= {constants.CONDITIONS_FIELD}):
        return None
    errors: Errors = []
    status = STATUS.decode(_decompress(wire, errors), "status", errors)
    if status is not None:
        _check_indexes(status, errors)
    if errors:
        raise FieldErrors(errors)
    return status


def decode_framework(wire: Mapping[str, Any]) -> Framework:
    """Decode a whole Framework object.

    Raises:
        FieldErrors: The JSON is invalid; the error has every fault and its path.
    """
    errors: list[FieldError] = []
    metadata = spec = status = None
    for part in ("metadata", "spec", "status"):
        try:
            if part == "metadata":
                metadata = decode_metadata(wire)
            elif part == "spec":
                spec = decode_spec(wire.get("spec"))
            else:
                status = decode_status(wire.get("status"))
        except FieldErrors as e:
            errors.extend(e.errors)
    if errors or metadata is None or spec is None:
        raise FieldErrors(errors)
    known = {"metadata", "spec", "status"}
    extra = {key: value for key, value in wire.items() if key not in known}
    return Framework(metadata, spec, status, extra)


def encode_spec(spec: FrameworkSpec) -> dict[str, Any]:
    """Encode a spec in Go's field order."""
    return SPEC.encode(spec)


def encode_task_spec(spec: TaskSpec) -> dict[str, Any]:
    """Encode the Task template of a role."""
    return _TASK_SPEC.encode(spec)


def encode_status(status: FrameworkStatus) -> dict[str, Any]:
    """Encode a status in Go's field order, not compressed."""
    return STATUS.encode(status)


def encode_framework(framework: Framework) -> dict[str, Any]:
    """Encode a whole object: metadata, spec, status in Go's field order."""
    return {
        **framework.extra,
        "metadata": METADATA.encode(framework.metadata),
        "spec": SPEC.encode(framework.spec),
        "status": None if framework.status is None else STATUS.encode(framework.status),
    }


def compress_status(wire: dict[str, Any], min_bytes: int) -> dict[str, Any]:
    """Compress an encoded status whose Tasks take at least ``min_bytes`` of JSON.

    Equal input gives equal bytes: gzip's time is 0.
    """
    attempt = wire["attemptStatus"]
    text = json.dumps(attempt[TASK_ROLE_STATUSES], separators=(",", ":"), ensure_ascii=False)
    raw = text.encode()
    if len(raw) < min_bytes:
        return wire
    blob = base64.b64encode(gzip.compress(raw, 6, mtime=0)).decode()
    packed = {TASK_ROLE_STATUSES: None, TASK_ROLE_STATUSES_COMPRESSED: blob}
    return {**wire, "attemptStatus": {**attempt, **packed}}


def without_task_roles(status: FrameworkStatus) -> FrameworkStatus:
    """Return a status without its Tasks, for log lines and lists."""
    return replace(status, attempt_status=replace(status.attempt_status, task_roles=()))


def _decompress(wire: Any, errors: Errors) -> Any:
    attempt = wire.get("attemptStatus") if isinstance(wire, Mapping) else None
    if not isinstance(attempt, Mapping) or TASK_ROLE_STATUSES_COMPRESSED not in attempt:
        return wire
    blob = attempt[TASK_ROLE_STATUSES_COMPRESSED]
    plain = {k: v for k, v in attempt.items() if k != TASK_ROLE_STATUSES_COMPRESSED}
    if blob is not None and plain.get(TASK_ROLE_STATUSES) is None:
        try:
            plain[TASK_ROLE_STATUSES] = unpack_base64(blob, STATUS_BOUNDS)
        except PackedError as e:
            path = f"status.attemptStatus.{TASK_ROLE_STATUSES_COMPRESSED}"
            errors.append(FieldError(path, f"is not base64 of gzipped JSON ({e})"))
    return {**wire, "attemptStatus": plain}


def _check_indexes(status: FrameworkStatus, errors: Errors) -> None:
    for r, role in enumerate(status.attempt_status.task_roles):
        for t, task in enumerate(role.tasks):
            if task.index != t:
                path = f"status.attemptStatus.taskRoleStatuses[{r}].taskStatuses[{t}].index"
                errors.append(FieldError(path, f"must be {t}, its place in the array"))
                return
