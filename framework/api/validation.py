"""Validates a decoded Framework; returns all faults with their remedies. Pure.

The CLI validates before it applies. The controller sets a condition for faults, but runs every
Framework that the original runs, except those with two roles of the same name. Types are checked by
``codec``, and most of a Pod template by the API server. Rules: docs/api.md, "spec".
"""

from collections.abc import Iterator, Mapping
from typing import Any

from framework.api import constants
from framework.api.avoiding import AvoidNodesSpec
from framework.api.fielderrors import FieldError, join_path
from framework.api.leaving import LeaveNodesSpec
from framework.api.naming import is_framework_name, is_role_name
from framework.api.recovery import InPlaceSpec
from framework.api.types import (
    ExecutionType,
    Framework,
    FrameworkSpec,
    RetryPolicySpec,
    TaskRoleSpec,
    TaskSpec,
)
from framework.api.wire import json_type

# From each execution type, the types that may follow.
EXECUTION_TRANSITIONS: dict[ExecutionType, frozenset[ExecutionType]] = {
    ExecutionType.CREATE: frozenset({ExecutionType.START, ExecutionType.STOP}),
    ExecutionType.START: frozenset({ExecutionType.STOP}),
    ExecutionType.STOP: frozenset(),
}


def validate_framework(framework: Framework) -> tuple[FieldError, ...]:
    """Find all faults of name and spec of a Framework."""
    return (*_check_metadata(framework), *validate_spec(framework.spec))


def validate_spec(spec: FrameworkSpec) -> tuple[FieldError, ...]:
    """Find all faults of a spec; paths start with ``spec``."""
    errors = list(_check_retry_policy(spec.retry_policy, "spec.retryPolicy"))
    errors.extend(_check_lifetime(spec))
    errors.extend(_find_size_faults(spec))
    for i, role in enumerate(spec.task_roles):
        errors.extend(_check_role(role, f"spec.taskRoles[{i}]"))
    errors.extend(find_duplicate_roles(spec))
    return tuple(errors)


def find_duplicate_roles(spec: FrameworkSpec) -> tuple[FieldError, ...]:
    """Find roles with the name of an earlier role: their Tasks would have the same Pod names."""
    first: dict[str, int] = {}
    errors = []
    for i, role in enumerate(spec.task_roles):
        if role.name in first:
            errors.append(
                FieldError(
                    f"spec.taskRoles[{i}].name",
                    f"{role.name!r} is also the name of taskRoles[{first[role.name]}]: "
                    "give each role its own",
                )
            )
        first.setdefault(role.name, i)
    return tuple(errors)


def _find_size_faults(spec: FrameworkSpec) -> Iterator[FieldError]:
    """Find more roles or Tasks than the CRD accepts."""
    faults = [check_role_count(spec)]
    # A role with too many Tasks has a fault of its own.
    if check_task_numbers(spec) is None:
        faults.append(check_task_count(spec))
    yield from (fault for fault in faults if fault is not None)


def check_role_count(
    spec: FrameworkSpec, limit: int = constants.MAX_TASK_ROLES
) -> FieldError | None:
    """Find more roles than a Framework may have."""
    count = len(spec.task_roles)
    if count <= limit:
        return None
    return FieldError("spec.taskRoles", f"has {count} roles; {describe_role_limit(limit)}")


def check_task_count(spec: FrameworkSpec, limit: int = constants.MAX_TASKS) -> FieldError | None:
    """Find more Tasks than a Framework may have; absent Tasks count, too."""
    count = sum(max(0, role.task_number) for role in spec.task_roles)
    if count <= limit:
        return None
    return FieldError("spec.taskRoles", f"has {count} Tasks; {describe_task_limit(limit)}")


def check_task_numbers(spec: FrameworkSpec) -> FieldError | None:
    """Find the first role with more or fewer Tasks than a role may have."""
    for i, role in enumerate(spec.task_roles):
        if not 0 <= role.task_number <= constants.MAX_TASK_NUMBER:
            return FieldError(
                f"spec.taskRoles[{i}].taskNumber",
                f"must be from 0 to {constants.MAX_TASK_NUMBER}, not {role.task_number}",
            )
    return None


def describe_role_limit(limit: int) -> str:
    """Describe the limit of roles and the remedy. The CRD has the same message."""
    return f"at most {limit} roles are allowed: give Tasks that are alike one role"


def describe_task_limit(limit: int) -> str:
    """Describe the limit of Tasks and the remedy. The CRD has the same message."""
    return (
        f"at most {limit} Tasks are allowed in all roles together: lower taskNumber, "
        "or split the Framework into several"
    )


def _check_metadata(framework: Framework) -> Iterator[FieldError]:
    name = framework.metadata.name
    if not name and framework.metadata.extra.get("generateName"):
        return
    if not name:
        yield FieldError("metadata.name", "is required: name the Framework")
    elif not is_framework_name(name):
        yield FieldError(
            "metadata.name",
            f"{name!r} is not a valid Framework name: use 1 to 63 characters of a-z, 0-9 and '-', "
            "beginning and ending with a letter or digit",
        )


def _check_lifetime(spec: FrameworkSpec) -> Iterator[FieldError]:
    for field, seconds, meaning in (
        (
            constants.ACTIVE_DEADLINE_FIELD,
            spec.active_deadline_seconds,
            "seconds; leave it out for no deadline",
        ),
        (
            constants.TTL_FIELD,
            spec.ttl_seconds_after_finished,
            "seconds; leave it out to keep the Framework as the controller is configured",
        ),
    ):
        if seconds is not None:
            yield from _check_least(f"spec.{field}", seconds, 0, meaning)


def _check_role(role: TaskRoleSpec, path: str) -> Iterator[FieldError]:
    if not role.name:
        yield FieldError(f"{path}.name", "is required: name the role")
    elif not is_role_name(role.name):
        yield FieldError(
            f"{path}.name",
            f"{role.name!r} is not a valid role name: use 1 to 63 characters of a-z and 0-9, "
            "without '-'",
        )
    if not 0 <= role.task_number <= constants.MAX_TASK_NUMBER:
        yield FieldError(
            f"{path}.taskNumber",
            f"must be from 0 to {constants.MAX_TASK_NUMBER}, not {role.task_number}",
        )
    yield from _check_completion_policy(role, f"{path}.frameworkAttemptCompletionPolicy")
    yield from _check_extensions(role, path)
    yield from _check_task(role.task, f"{path}.task")
    # The original runs a role without Tasks with any template.
    if role.wanted_count > 0:
        yield from _check_template(role.task.pod, f"{path}.task.pod")


def _check_completion_policy(role: TaskRoleSpec, path: str) -> Iterator[FieldError]:
    meaning = "a count of Tasks, or -1 (0 is the same) for no such policy"
    policy = role.completion_policy
    unlimited = constants.UNLIMITED
    yield from _check_least(
        f"{path}.minFailedTaskCount", policy.min_failed_task_count, unlimited, meaning
    )
    yield from _check_least(
        f"{path}.minSucceededTaskCount", policy.min_succeeded_task_count, unlimited, meaning
    )


def _check_extensions(role: TaskRoleSpec, path: str) -> Iterator[FieldError]:
    absent_path = join_path(path, constants.ABSENT_TASK_INDICES_FIELD)
    count = len(role.absent_task_indices)
    if count > constants.MAX_ABSENT_TASK_INDICES:
        yield FieldError(
            absent_path,
            f"lists {count} indexes; at most {constants.MAX_ABSENT_TASK_INDICES} are allowed: "
            "leave out those from taskNumber on",
        )
    seen: set[int] = set()
    for i, index in enumerate(role.absent_task_indices):
        yield from _check_least(f"{absent_path}[{i}]", index, 0, "the index of a Task")
        if index in seen:
            yield FieldError(f"{absent_path}[{i}]", f"{index} is listed twice: remove one")
        seen.add(index)
    if role.min_member_count is not None:
        yield from _check_least(
            join_path(path, constants.MIN_MEMBER_COUNT_FIELD),
            role.min_member_count,
            0,
            "a count of Tasks; leave it out to start with all of them",
        )
    if role.drain is not None:
        yield from _check_least(
            f"{path}.{constants.DRAIN_FIELD}.{constants.DRAIN_TIMEOUT_FIELD}",
            role.drain.timeout_seconds,
            0,
            "seconds; leave drain out for no drain",
        )
    if role.recovery is not None and role.recovery.in_place is not None:
        in_place = f"{path}.{constants.RECOVERY_FIELD}.{constants.IN_PLACE_FIELD}"
        yield from _check_in_place(role.recovery.in_place, in_place)
    if role.recovery is not None and role.recovery.leave_nodes is not None:
        leave_nodes = f"{path}.{constants.RECOVERY_FIELD}.{constants.LEAVE_NODES_FIELD}"
        yield from _check_leave_nodes(role.recovery.leave_nodes, leave_nodes)
    if role.recovery is not None and role.recovery.avoid_nodes is not None:
        avoid_nodes = f"{path}.{constants.RECOVERY_FIELD}.{constants.AVOID_NODES_FIELD}"
        yield from _check_avoid_nodes(role.recovery.avoid_nodes, avoid_nodes)


def _check_avoid_nodes(spec: AvoidNodesSpec, path: str) -> Iterator[FieldError]:
    for field, value, most, meaning in (
        (
            constants.FAILURES_FIELD,
            spec.failures,
            constants.MAX_AVOIDED_FAILURES,
            "failures on a node; leave avoidNodes out to avoid none",
        ),
        (
            constants.MAX_NODES_FIELD,
            spec.max_nodes,
            constants.MAX_AVOIDED_NODES,
            "the nodes that a Task avoids at most",
        ),
    ):
        yield from _check_range(f"{path}.{field}", value, 1, most, meaning)
    most, window = constants.MAX_IN_PLACE_SECONDS, f"{path}.{constants.WITHIN_SECONDS_FIELD}"
    meaning = "the seconds in which failures are counted"
    yield from _check_range(window, spec.within_seconds, 1, most, meaning)


def _check_leave_nodes(spec: LeaveNodesSpec, path: str) -> Iterator[FieldError]:
    longest, most = constants.MAX_LEAVE_SECONDS, constants.MAX_LEAVES
    timeout, leaves = constants.TIMEOUT_SECONDS_FIELD, constants.MAX_LEAVES_FIELD
    yield from _check_range(
        f"{path}.{timeout}", spec.timeout_seconds, 0, longest, "seconds to leave"
    )
    yield from _check_range(f"{path}.{leaves}", spec.max_leaves, 1, most, "a count")
    yield from _check_window(path, spec.within_seconds, leaves)


def _check_window(path: str, seconds: int, counted: str) -> Iterator[FieldError]:
    most, meaning = constants.MAX_IN_PLACE_SECONDS, f"the seconds in which {counted} are allowed"
    yield from _check_range(f"{path}.{constants.WITHIN_SECONDS_FIELD}", seconds, 1, most, meaning)


def _check_range(path: str, value: int, low: int, high: int, meaning: str) -> Iterator[FieldError]:
    if not low <= value <= high:
        yield FieldError(path, f"must be from {low} to {high}, not {value}: {meaning}")


def _check_in_place(spec: InPlaceSpec, path: str) -> Iterator[FieldError]:
    restarts_path = join_path(path, constants.MAX_RESTARTS_FIELD)
    if spec.max_restarts:
        meaning = "a count of restarts; leave inPlace out for none"
        yield from _check_least(restarts_path, spec.max_restarts, 1, meaning)
    else:
        remedy = "the restarts that are allowed, for example 3; or leave inPlace out for none"
        yield _report_missing(restarts_path, remedy)
    most = constants.MAX_IN_PLACE_RESTARTS
    yield from _check_most(restarts_path, spec.max_restarts, most, "use a lower count")
    seconds_path = join_path(path, constants.WITHIN_SECONDS_FIELD)
    meaning = "the seconds in which maxRestarts are allowed"
    if spec.within_seconds:
        yield from _check_least(seconds_path, spec.within_seconds, 1, meaning)
    else:
        yield _report_missing(seconds_path, f"{meaning}, for example 3600")
    most = constants.MAX_IN_PLACE_SECONDS
    yield from _check_most(seconds_path, spec.within_seconds, most, "use fewer seconds")


def _report_missing(path: str, remedy: str) -> FieldError:
    """Report a required field that has no value: decoded, it is 0."""
    return FieldError(path, f"is missing or 0: write {remedy}")


def _check_task(task: TaskSpec, path: str) -> Iterator[FieldError]:
    yield from _check_retry_policy(task.retry_policy, f"{path}.retryPolicy")
    timeout_seconds = task.pod_graceful_deletion_timeout_seconds
    if timeout_seconds is not None:
        yield from _check_least(
            f"{path}.podGracefulDeletionTimeoutSec",
            timeout_seconds,
            0,
            "seconds; leave it out to never delete by force",
        )


def _check_retry_policy(policy: RetryPolicySpec, path: str) -> Iterator[FieldError]:
    yield from _check_least(
        f"{path}.maxRetryCount",
        policy.max_retry_count,
        constants.EXTENDED_UNLIMITED,
        "a count, -1 to retry every failure or -2 to retry every completion",
    )


def _check_least(path: str, value: int, least: int, meaning: str) -> Iterator[FieldError]:
    if value < least:
        yield FieldError(path, f"must be at least {least}, not {value}: {meaning}")


def _check_most(path: str, value: int, most: int, remedy: str) -> Iterator[FieldError]:
    if value > most:
        yield FieldError(path, f"must be at most {most}, not {value}: {remedy}")


def _check_template(pod: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Check the fields of a Pod template that are required or that the controller writes."""
    spec = pod.get("spec")
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    if not isinstance(containers, (list, tuple)) or not containers:
        yield FieldError(f"{path}.spec.containers", "is required: list at least one container")
    metadata = pod.get("metadata")
    if metadata is None:
        return
    if not isinstance(metadata, Mapping):
        yield FieldError(f"{path}.metadata", f"must be an object, not {json_type(metadata)}")
        return
    for key in ("labels", "annotations"):
        yield from _check_texts(metadata.get(key), f"{path}.metadata.{key}")


def _check_texts(texts: Any, path: str) -> Iterator[FieldError]:
    if texts is None:
        return
    if not isinstance(texts, Mapping):
        yield FieldError(path, f"must be an object, not {json_type(texts)}")
        return
    for key, value in texts.items():
        if not isinstance(value, str):
            yield FieldError(
                f"{path}[{key}]", f"must be a string, not {json_type(value)}: quote it"
            )
