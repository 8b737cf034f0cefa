"""Object snapshots: the body that the history log writes of a stored object before it is replaced.

The machines record Frameworks and Tasks that are retried or dropped; the history log builds the
snapshot of a Pod. ``logged_fields`` selects the fields. Source: ``MockTask`` of
microsoft/frameworkcontroller.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from controller.core.decision import LoggedPart, ObjectSnapshot, SnapshotTrigger
from controller.core.draft import Draft, RoleDraft
from controller.core.history.logged_fields import select_logged_fields, select_task_spec
from framework.api import codec, constants, naming
from framework.api.objectmeta import ObjectMeta
from framework.api.types import (
    FrameworkAttemptStatus,
    FrameworkStatus,
    TaskRoleStatus,
    TaskStatus,
)
from framework.api.wire import format_time


def record_framework(draft: Draft, trigger: SnapshotTrigger) -> None:
    """Record the Framework as it is stored."""
    framework = draft.snapshot.framework
    wire = {
        "metadata": codec.METADATA.encode(framework.metadata),
        "spec": codec.encode_spec(framework.spec),
        "status": None if framework.status is None else _encode_status(framework.status),
    }
    body = select_logged_fields(constants.FRAMEWORK_KIND, constants.API_VERSION, wire)
    draft.snapshots.append(ObjectSnapshot(trigger, framework.key, body))


def build_pod_snapshot(wire: Mapping[str, Any]) -> ObjectSnapshot:
    """Build the snapshot of a Pod from its last form in the watch."""
    body = select_logged_fields(constants.POD_KIND, "v1", wire)
    meta = body["metadata"] or {}
    subject = f"{meta.get('namespace')}/{meta.get('name')}"
    return ObjectSnapshot(SnapshotTrigger.POD_DELETION, subject, body)


def _encode_status(status: FrameworkStatus) -> dict[str, Any]:
    """Encode a status whose Tasks are encoded one by one, while the log has room for them."""
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
    """Record a Task that is scaled down; a tombstone never had a Pod and is left out."""
    if task.attempt_status.instance_uid is not None or task.start_time != task.completion_time:
        _record_task(draft, role, task, SnapshotTrigger.TASK_DELETION)


def _record_task(
    draft: Draft,
    role: RoleDraft,
    task: TaskStatus,
    trigger: SnapshotTrigger,
) -> None:
    framework = draft.snapshot.framework
    is_deleted = trigger is SnapshotTrigger.TASK_DELETION
    source = _TaskSource(
        meta=framework.metadata,
        attempt=draft.status.attempt_status,
        role_name=role.name,
        role_uid=role.status.instance_uid,
        task=task,
        spec=draft.compute_once(_select_spec, role),
        deleted_at=draft.now if is_deleted else None,
    )
    key = naming.TaskKey(role.name, task.index)
    draft.snapshots.append(ObjectSnapshot(trigger, f"{framework.key} {key}", source))


@dataclass(frozen=True, slots=True)
class _TaskSource:
    """Builds the snapshot of a Task when it is logged."""

    meta: ObjectMeta
    """Metadata of the Framework."""
    attempt: FrameworkAttemptStatus
    """Attempt of the Framework, as it was before the decision."""
    role_name: str
    """Name of the Task's role."""
    role_uid: str
    """Instance UID of the role."""
    task: TaskStatus
    """The entry that is replaced."""
    spec: LoggedPart | None
    """The logged part of the Task's spec; None if its role left the spec."""
    deleted_at: datetime | None
    """When the Task was scaled down; None for a retry."""

    def build(self) -> dict[str, Any]:
        """Build the body of the Task."""
        wire = {
            "metadata": self._build_metadata(),
            "spec": self.spec,
            "status": codec.TASK_STATUS.encode(self.task),
        }
        return select_logged_fields(constants.TASK_KIND, constants.API_VERSION, wire)

    def _build_metadata(self) -> dict[str, Any]:
        labels = {
            constants.FRAMEWORK_NAME: self.meta.name,
            constants.TASKROLE_NAME: self.role_name,
            constants.TASK_INDEX: str(self.task.index),
        }
        deletion = {
            "deletionTimestamp": format_time(self.deleted_at) if self.deleted_at else None,
            "deletionGracePeriodSeconds": 0,
        }
        return {
            "name": naming.build_pod_name(self.meta.name, self.role_name, self.task.index),
            "namespace": self.meta.namespace,
            "uid": self.task.instance_uid,
            "resourceVersion": self.meta.resource_version,
            "generation": self.meta.generation,
            "creationTimestamp": format_time(self.task.start_time),
            **(deletion if self.deleted_at else {}),
            "labels": labels,
            "annotations": {**self._build_annotations(), **labels},
        }

    def _build_annotations(self) -> dict[str, str]:
        return {
            constants.FRAMEWORK_NAMESPACE: self.meta.namespace,
            constants.CONFIGMAP_NAME: self.attempt.configmap_name,
            constants.FRAMEWORK_UID: self.meta.uid,
            constants.FRAMEWORK_ATTEMPT_ID: str(self.attempt.id),
            constants.FRAMEWORK_ATTEMPT_INSTANCE_UID: self.attempt.instance_uid or "",
            constants.CONFIGMAP_UID: self.attempt.configmap_uid or "",
            constants.TASKROLE_UID: self.role_uid,
        }


def _select_spec(_: Draft, role: RoleDraft) -> LoggedPart | None:
    """Select the logged part of the spec of a role's Tasks."""
    return None if role.spec is None else select_task_spec(codec.encode_task_spec(role.spec.task))
