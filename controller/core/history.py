"""Object snapshots: the persisted form of what is about to be replaced, for the log.

Called by the steps that retry or drop. Source: FRAMEWORK, "Status size and history";
``MockTask`` of the Go original.
"""

from typing import Any

from controller.core.decision import ObjectSnapshot, SnapshotTrigger
from controller.core.draft import Draft, RoleDraft
from framework.api import codec, constants, naming
from framework.api.types import TaskStatus
from framework.api.wire import format_time


def record_framework(draft: Draft, trigger: SnapshotTrigger) -> None:
    """Record the Framework as it is persisted."""
    framework = draft.snapshot.framework
    body = {
        "kind": constants.FRAMEWORK_KIND,
        "apiVersion": constants.API_VERSION,
        **codec.encode_framework(framework),
    }
    draft.snapshots.append(ObjectSnapshot(trigger, framework.key, body))


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
    body = _build_task(draft, role, task, is_deleted=trigger is SnapshotTrigger.TASK_DELETION)
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
        "kind": constants.TASK_KIND,
        "apiVersion": constants.API_VERSION,
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
