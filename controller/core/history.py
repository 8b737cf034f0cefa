"""Object snapshots: what the log shows of a persisted object that is about to be replaced.

Called by the steps that retry or drop, and by the history log for Pods. ``logged_fields`` says
which fields are shown. Source: ``MockTask`` of microsoft/frameworkcontroller.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from controller.core.decision import ObjectSnapshot, SnapshotTrigger
from controller.core.draft import Draft, RoleDraft
from controller.core.logged_fields import select_logged_fields
from framework.api import codec, constants, naming
from framework.api.types import FrameworkStatus, TaskRoleStatus, TaskStatus
from framework.api.wire import format_time


def record_framework(draft: Draft, trigger: SnapshotTrigger) -> None:
    """Record the Framework as it is persisted."""
    framework = draft.snapshot.framework
    wire = {
        "metadata": codec.METADATA.encode(framework.metadata),
        "spec": codec.encode_spec(framework.spec),
        "status": None if framework.status is None else _encode_status(framework.status),
    }
    body = select_logged_fields(constants.FRAMEWORK_KIND, constants.API_VERSION, wire)
    draft.snapshots.append(ObjectSnapshot(trigger, framework.key, body))


def build_pod_snapshot(wire: Mapping[str, Any]) -> ObjectSnapshot:
    """Build the snapshot of a Pod as the watch showed it last."""
    body = select_logged_fields(constants.POD_KIND, "v1", wire)
    meta = body["metadata"] or {}
    subject = f"{meta.get('namespace')}/{meta.get('name')}"
    return ObjectSnapshot(SnapshotTrigger.POD_DELETION, subject, body)


def _encode_status(status: FrameworkStatus) -> dict[str, Any]:
    """Encode a status whose Tasks are encoded one by one, as far as the log has room for them."""
    wire = codec.encode_status(codec.without_task_roles(status))
    roles = status.attempt_status.task_roles
    wire["attemptStatus"][codec.TASK_ROLE_STATUSES] = map(_encode_role, roles)
    return wire


def _encode_role(role: TaskRoleStatus) -> dict[str, Any]:
    tasks: Iterator[dict[str, Any]] = map(codec.TASK_STATUS.encode, role.tasks)
    return {**codec.TASK_ROLE_STATUS.encode(replace(role, tasks=())), "taskStatuses": tasks}


def record_task_retry(draft: Draft, role: RoleDraft, task: TaskStatus) -> None:
    """Record a Task whose attempt is retried."""
    _record_task(draft, role, task, SnapshotTrigger.TASK_RETRY)


def record_task_deletion(draft: Draft, role: RoleDraft, task: TaskStatus) -> None:
    """Record a Task that is scaled away; a tombstone was never there."""
    if task.attempt_status.instance_uid is not None or task.start_time != task.completion_time:
        _record_task(draft, role, task, SnapshotTrigger.TASK_DELETION)


def _record_task(
    draft: Draft,
    role: RoleDraft,
    task: TaskStatus,
    trigger: SnapshotTrigger,
) -> None:
    key = naming.TaskKey(role.name, task.index)
    framework = draft.snapshot.framework.key
    wire = _build_task(draft, role, task, is_deleted=trigger is SnapshotTrigger.TASK_DELETION)
    body = select_logged_fields(constants.TASK_KIND, constants.API_VERSION, wire)
    draft.snapshots.append(ObjectSnapshot(trigger, f"{framework} {key}", body))


def _build_task(
    draft: Draft,
    role: RoleDraft,
    task: TaskStatus,
    *,
    is_deleted: bool,
) -> dict[str, Any]:
    meta = draft.snapshot.framework.metadata
    attempt = draft.status.attempt_status
    labels = {
        constants.FRAMEWORK_NAME: meta.name,
        constants.TASKROLE_NAME: role.name,
        constants.TASK_INDEX: str(task.index),
    }
    deletion = {"deletionTimestamp": format_time(draft.now), "deletionGracePeriodSeconds": 0}
    return {
        "metadata": {
            "name": naming.build_pod_name(meta.name, role.name, task.index),
            "namespace": meta.namespace,
            "uid": task.instance_uid,
            "resourceVersion": meta.resource_version,
            "generation": meta.generation,
            "creationTimestamp": format_time(task.start_time),
            **(deletion if is_deleted else {}),
            "labels": labels,
            "annotations": {
                constants.FRAMEWORK_NAMESPACE: meta.namespace,
                **labels,
                constants.CONFIGMAP_NAME: attempt.configmap_name,
                constants.FRAMEWORK_UID: meta.uid,
                constants.FRAMEWORK_ATTEMPT_ID: str(attempt.id),
                constants.FRAMEWORK_ATTEMPT_INSTANCE_UID: attempt.instance_uid or "",
                constants.CONFIGMAP_UID: attempt.configmap_uid or "",
                constants.TASKROLE_UID: role.status.instance_uid,
            },
        },
        "spec": codec.encode_task_spec(role.spec.task) if role.spec else None,
        "status": codec.TASK_STATUS.encode(task),
    }
