"""Computes the request to retry Tasks: the Pods that it names, and notes about it. Pure.

The annotation ``frameworkbarrier.io/retry`` of a Framework lists the UIDs of Pods. The controller
ends the attempts of these Pods with -260 and begins the next ones (docs/design/failure-handling.md,
"Requested retries"). UIDs of Pods that are not those of current attempts any more have no effect,
and are left out of the new value.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cli.exitcodes import CliError, ExitCode
from cli.invocation import build_command
from cli.steer.changes import Change, Computation, Gang, build_guard
from cli.steer.effects import Retried
from cli.steer.scaling import check_resizable, find_role, map_indices
from cli.texts.missing import explain_task
from framework.api.constants import RETRY_ANNOTATION
from framework.api.naming import TaskKey
from framework.api.states import TaskState
from framework.api.types import TaskStatus
from framework.kube.resources import Object

_POINTER = "/metadata/annotations"
_KEY_POINTER = f"{_POINTER}/{RETRY_ANNOTATION.replace('/', '~1')}"
_NEW = frozenset({TaskState.ATTEMPT_CREATION_PENDING, TaskState.ATTEMPT_CREATION_REQUESTED})


@dataclass(frozen=True, slots=True)
class _Retry:
    """The retry of one Task."""

    uid: str | None
    """UID of the Pod; None if there is none yet."""
    note: str
    """The consequence, for the user."""


def retrying(keys: Sequence[TaskKey]) -> Computation:
    """Return the computation of ``retry``."""

    def compute(gang: Gang) -> Change:
        _check_runs(gang)
        retries = {key: _compute_retry(gang, key) for key in keys}
        notes = tuple(f"{key}: {retry.note}" for key, retry in retries.items())
        listed = _list_requests(gang)
        wanted = [retry.uid for retry in retries.values() if retry.uid is not None]
        if set(wanted) <= set(listed):
            return Change("unchanged", notes=notes)
        known = {task.attempt_status.pod_uid for task in _list_tasks(gang)}
        kept = [uid for uid in listed if uid in known and uid not in wanted]
        return Change("retried", _build_patch(gang, ",".join([*kept, *wanted])), notes)

    return compute


def build_retried(gang: Gang, keys: Sequence[TaskKey]) -> Retried:
    """Build the goal of a retry: each Task has a later attempt than it had in ``gang``."""
    ended = {}
    for key in keys:
        task = _find_task(gang, key)
        if task is not None:
            ended[key] = task.attempt_status.id - int(task.state in _NEW)
    return Retried(gang.name, gang.uid, ended)


def _find_task(gang: Gang, key: TaskKey) -> TaskStatus | None:
    role = None if gang.status is None else gang.status.attempt_status.find_role(key.role)
    tasks = () if role is None else role.tasks
    task = tasks[key.index] if key.index < len(tasks) else None
    return None if task is None or task.deletion_pending else task


def _check_runs(gang: Gang) -> None:
    check_resizable(gang)
    if gang.spec.suspend:
        resume = build_command("resume", gang.name)
        raise CliError(
            ExitCode.USAGE, f"{gang.name}: is suspended; `{resume}` starts all its Tasks"
        )
    if gang.is_completing:
        raise CliError(
            ExitCode.USAGE,
            f"{gang.name}: its attempt ends, and all of its Tasks with it; wait for its end",
        )


def _compute_retry(gang: Gang, key: TaskKey) -> _Retry:
    find_role(gang, key.role)
    task = _find_task(gang, key)
    if task is None:
        missing = explain_task(gang.name, key.role, str(key.index), map_indices(gang))
        now = f"{gang.name}: {key}: there is no such Task now: it is not created yet, or it leaves"
        raise CliError(ExitCode.FAILED, missing or now)
    number, uid = task.attempt_status.id, task.attempt_status.pod_uid
    if task.state is TaskState.COMPLETED:
        raise CliError(ExitCode.USAGE, f"{gang.name}: {key}: {_explain_completed(gang, task, key)}")
    if uid is None or task.state in _NEW:
        return _Retry(None, f"attempt {number} begins already: its Pod is being created")
    delay = task.retry_policy_status.retry_delay_seconds
    if task.state is TaskState.ATTEMPT_COMPLETED and delay:
        return _Retry(uid, f"attempt {number + 1} begins now, without its pause of {delay} s")
    if task.attempt_status.completion_status is not None:
        return _Retry(uid, f"attempt {number} ends already; the next one begins without a pause")
    return _Retry(
        uid,
        f"attempt {number} ends with -260 (RetryTaskRequested); this retry does not count against "
        "maxRetryCount",
    )


def _explain_completed(gang: Gang, task: TaskStatus, key: TaskKey) -> str:
    ended = task.attempt_status.completion_status
    how = "" if ended is None else f" ({ended.type.name}: {ended.phrase})"
    remove = build_command("remove", gang.name, str(key))
    undo = build_command("remove", "--undo", gang.name, str(key))
    return (
        f"has ended{how}, and a Task that has ended is not retried; to replace it by a new Task, "
        f"use `{remove}` and then `{undo}`"
    )


def _list_requests(gang: Gang) -> list[str]:
    annotations = gang.body["metadata"].get("annotations") or {}
    value = str(annotations.get(RETRY_ANNOTATION) or "")
    return [uid for part in value.split(",") if (uid := part.strip())]


def _list_tasks(gang: Gang) -> list[TaskStatus]:
    if gang.status is None:
        return []
    return [task for _, task in gang.status.attempt_status.walk_tasks()]


def _build_patch(gang: Gang, value: str) -> tuple[Object, ...]:
    metadata = gang.body["metadata"]
    annotations = metadata.get("annotations")
    if annotations is None:
        # Another client may add annotations meanwhile. A patch cannot test that they are absent, so
        # it tests the version.
        version = metadata.get("resourceVersion")
        return (
            *build_guard(gang),
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": _POINTER, "value": {RETRY_ANNOTATION: value}},
        )
    old = annotations.get(RETRY_ANNOTATION)
    tests = [] if old is None else [{"op": "test", "path": _KEY_POINTER, "value": old}]
    return (*build_guard(gang), *tests, {"op": "add", "path": _KEY_POINTER, "value": value})
