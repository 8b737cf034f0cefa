"""New entries of the status: of a Framework, an attempt, a role and a Task.

A new Task is AttemptCreationPending. The entry of an absent index is a tombstone, Completed from
the start. Rules: docs/design/state-machines.md, "Objects of an attempt"; docs/design/scaling.md,
"Absent indexes". ``New*Status`` of the Go original.
"""

import uuid
from datetime import datetime

from framework.api import naming
from framework.api.completion import DELETE_TASK_REQUESTED, complete_task
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    Framework,
    FrameworkAttemptStatus,
    FrameworkStatus,
    TaskAttemptStatus,
    TaskRoleSpec,
    TaskRoleStatus,
    TaskStatus,
)

_NAMESPACE = uuid.UUID("6f0a1d9e-3c58-5a0f-9d53-6b7f2f6b8f11")
SCALE_DOWN_DIAGNOSTICS = "User has requested to delete the Task by Framework ScaleDown"


def new_framework_status(
    framework: Framework, now: datetime, creator_keys: tuple[str, ...] = ()
) -> FrameworkStatus:
    """Build the status of a Framework that has none."""
    return FrameworkStatus(
        start_time=now,
        state=FrameworkState.ATTEMPT_CREATION_PENDING,
        transition_time=now,
        attempt_status=new_attempt_status(framework, 0, now, creator_keys),
    )


def new_attempt_status(
    framework: Framework,
    attempt_id: int,
    now: datetime,
    creator_keys: tuple[str, ...] = (),
) -> FrameworkAttemptStatus:
    """Build the status of a new attempt from the current spec."""
    return FrameworkAttemptStatus(
        id=attempt_id,
        start_time=now,
        configmap_name=naming.build_configmap_name(framework.metadata.name),
        task_roles=tuple(
            new_role_status(framework, attempt_id, role, now)
            for role in _distinct_roles(framework.spec.task_roles)
        ),
        creator_keys=creator_keys,
    )


def new_role_status(
    framework: Framework,
    attempt_id: int,
    role: TaskRoleSpec,
    now: datetime,
) -> TaskRoleStatus:
    """Build the status of a role with all its Tasks."""
    return TaskRoleStatus(
        name=role.name,
        instance_uid=derive_instance_uid(framework, attempt_id, role.name),
        tasks=tuple(
            new_task_status(framework, attempt_id, role, index, now)
            for index in range(role.task_number)
        ),
        pod_graceful_deletion_timeout_seconds=role.task.pod_graceful_deletion_timeout_seconds,
    )


def new_task_status(
    framework: Framework,
    attempt_id: int,
    role: TaskRoleSpec,
    index: int,
    now: datetime,
) -> TaskStatus:
    """Build the status of a new Task; a tombstone if its index is absent."""
    uid = derive_instance_uid(framework, attempt_id, role.name, index)
    attempt = new_task_attempt_status(framework.metadata.name, role.name, index, 0, now)
    if index not in role.absent:
        return TaskStatus(index, uid, now, TaskState.ATTEMPT_CREATION_PENDING, now, attempt)
    tombstone = TaskAttemptStatus(
        id=0,
        start_time=now,
        completion_time=now,
        pod_name=attempt.pod_name,
        completion_status=complete_task(DELETE_TASK_REQUESTED, SCALE_DOWN_DIAGNOSTICS),
    )
    return TaskStatus(
        index,
        uid,
        now,
        TaskState.COMPLETED,
        now,
        tombstone,
        completion_time=now,
        deletion_pending=True,
    )


def new_task_attempt_status(
    framework_name: str,
    role: str,
    index: int,
    attempt_id: int,
    now: datetime,
) -> TaskAttemptStatus:
    """Build the status of a new attempt of a Task."""
    return TaskAttemptStatus(
        id=attempt_id,
        start_time=now,
        pod_name=naming.build_pod_name(framework_name, role, index),
    )


def derive_instance_uid(framework: Framework, attempt_id: int, *path: str | int) -> str:
    """Derive the UID of a role (``path``: role) or of a Task (``path``: role, index).

    The resourceVersion is the precondition of the status write. So equal input gives an equal UID,
    and a decision from a newer Framework gives another UID.
    """
    meta = framework.metadata
    parts = (meta.uid, meta.resource_version, attempt_id, *path)
    return str(uuid.uuid5(_NAMESPACE, "/".join(str(part) for part in parts)))


def _distinct_roles(roles: tuple[TaskRoleSpec, ...]) -> list[TaskRoleSpec]:
    # An old CRD lets two roles have the same name. The first role counts, as in all other code.
    distinct: dict[str, TaskRoleSpec] = {}
    for role in roles:
        distinct.setdefault(role.name, role)
    return list(distinct.values())
