"""Blocked: the condition of a Framework for which a user must act.

``find_block`` takes the first reason that applies:

1. a limit holds the growth;
2. two roles have the same name;
3. a create that is still wanted has failed three times, or was refused over several attempts;
4. a Pod whose name is needed is terminating and still exists;
5. retries pause, because attempts end at once.

A suspended Framework waits for its user only, so 3 to 5 do not apply to it.

Invariant: an object that is no longer wanted does not block.

Example: a quota refuses the Pod of worker/0 three times. Blocked becomes True with the reason
CreationRefused and the server's message, and an Event says the same once. When the Pod is created,
Blocked becomes False with the reason NotBlocked.

Rules: docs/design/failure-handling.md, "Conditions".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.core.draft import Draft
from controller.core.objects import ownership
from controller.core.policies import lifetime, retry_backoff
from controller.core.snapshot import Failure
from framework.api import constants
from framework.api.states import FrameworkState, TaskState
from framework.api.types import FrameworkStatus, TaskStatus
from framework.api.validation import find_duplicate_roles
from framework.api.wire import format_time

BLOCKED = constants.BLOCKED_CONDITION
# Failures of one create after which the user must act.
_BLOCKED_AFTER_FAILURES = 3
# A Pod that still exists so long after its grace period has a finalizer, or its Node is lost.
_STUCK_SECONDS = 30.0
_CREATING = (FrameworkState.ATTEMPT_PREPARING, FrameworkState.ATTEMPT_RUNNING)
MAX_MESSAGE = 512
_CONFLICT = 409
# In the message of a 403 for a missing right. A 403 because of a quota has another message.
_LACKS_RIGHT = "cannot create resource"
_BACKOFF_REMEDY = "read the logs of the Pods, and correct the program or the spec"
_SECRETS_REMEDY = (
    "; let the controller create Secrets (deploy/base/clusterrole.yaml), or remove the gang key "
    "from the Pod templates"
)


@dataclass(frozen=True, slots=True)
class Block:
    """Why a user must act."""

    reason: str
    """CamelCase: reason of the condition and of the Event."""
    message: str
    event_message: str = ""
    """Text of the Event, if not the message: Events with equal texts are one object."""


def find_block(draft: Draft) -> Block | None:
    """Find the first reason for which a user must act; None if there is none."""
    block = _find_hold(draft) or _find_duplicate_roles(draft)
    if block is not None or lifetime.is_suspended(draft.spec):
        return block
    return _find_failed_create(draft) or _find_stuck_pod(draft) or _find_backoff(draft)


def _find_hold(draft: Draft) -> Block | None:
    return None if draft.hold is None else Block(draft.hold.reason, draft.hold.message)


def _find_duplicate_roles(draft: Draft) -> Block | None:
    faults = find_duplicate_roles(draft.spec)
    return Block("InvalidSpec", "; ".join(map(str, faults))) if faults else None


def _find_backoff(draft: Draft) -> Block | None:
    """Find the first Task whose retry pauses because its attempts end at once."""
    waiting = list(_walk_paused(draft))
    if not waiting:
        return None
    name, status = waiting[0]
    settings = draft.settings
    count = retry_backoff.count_quick_ends(status, settings)
    why = f"{name}: its last {count} attempts ended within {settings.quick_end_seconds} s each"
    delay = status.retry_policy_status.retry_delay_seconds or 0
    due = format_time(status.transition_time + timedelta(seconds=delay))
    others = len(waiting) - 1
    wait = "Task waits for its retry" if others == 1 else "Tasks wait for their retry"
    more = f"; {others} more {wait}" if others else ""
    return Block(
        reason=constants.RETRY_BACKOFF_REASON,
        message=f"{why}, so the next one starts at {due}{more}: {_BACKOFF_REMEDY}",
        event_message=f"{why}, so retries are paused, for {settings.max_pause_seconds} s at most: "
        f"{_BACKOFF_REMEDY}",
    )


def _walk_paused(draft: Draft) -> Iterator[tuple[str, FrameworkStatus | TaskStatus]]:
    if draft.state is FrameworkState.ATTEMPT_COMPLETED and _is_paused(draft, draft.status):
        yield "Framework", draft.status
    if draft.state in _CREATING:
        for role, task in draft.walk_tasks():
            if task.state is TaskState.ATTEMPT_COMPLETED and _is_paused(draft, task):
                yield f"{role.name}/{task.index}", task


def _is_paused(draft: Draft, status: FrameworkStatus | TaskStatus) -> bool:
    is_delayed = status.retry_policy_status.retry_delay_seconds is not None
    return is_delayed and retry_backoff.find_pause_seconds(status, draft.settings) > 0


def _find_failed_create(draft: Draft) -> Block | None:
    """Find a create that failed repeatedly, in one attempt or over many, and is still wanted."""
    repeated = [
        (key, failure)
        for key, failure in draft.snapshot.failures.items()
        if key.verb is Verb.CREATE and _is_repeated(draft, failure)
    ]
    if not repeated:
        return None
    # One index for all of them: there may be ten thousand failures and as many Tasks.
    tasks = {task.attempt_status.pod_name: task for _, task in draft.walk_tasks()}
    for key, failure in repeated:
        if _is_awaited(draft, tasks.get(key.name), key, failure):
            return _describe_failure(key, failure)
    return None


def _is_repeated(draft: Draft, failure: Failure) -> bool:
    return (
        failure.count >= _BLOCKED_AFTER_FAILURES
        or failure.consecutive_failures >= draft.settings.free_refusals
    )


def _is_awaited(draft: Draft, task: TaskStatus | None, key: ActionKey, failure: Failure) -> bool:
    """Return whether the object of a failed create is still needed. ``task``: that of the Pod."""
    if key.kind is ObjectKind.CONFIGMAP:
        return _is_awaited_configmap(draft, key)
    if key.kind is ObjectKind.SECRET:
        return _is_awaited_gang_key(draft, key)
    return _is_awaited_pod(draft, task, key, failure)


def _find_stuck_pod(draft: Draft) -> Block | None:
    """Find a Pod that is terminating for too long, and whose name a Task needs."""
    if draft.state not in _CREATING:
        return None
    for _, task in draft.walk_tasks():
        if task.state is not TaskState.ATTEMPT_CREATION_PENDING:
            continue
        pod = draft.snapshot.pods.get(task.attempt_status.pod_name)
        # deletionTimestamp is the end of the grace period.
        ends_at = pod.deletion_time if pod else None
        if ends_at is not None and draft.has_elapsed(ends_at, _STUCK_SECONDS):
            message = (
                f"Pod {task.attempt_status.pod_name} cannot be created: an older Pod of this name "
                "is being deleted, and still exists"
            )
            return Block(constants.NAME_TAKEN_REASON, message)
    return None


def _is_awaited_configmap(draft: Draft, key: ActionKey) -> bool:
    is_pending = draft.state is FrameworkState.ATTEMPT_CREATION_PENDING
    return is_pending and key.identity == ownership.build_configmap_identity(draft)


def _is_awaited_gang_key(draft: Draft, key: ActionKey) -> bool:
    is_own = key.identity == draft.status.attempt_status.configmap_uid
    return is_own and draft.state in _CREATING and draft.lacks_gang_key


def _is_awaited_pod(
    draft: Draft, task: TaskStatus | None, key: ActionKey, failure: Failure
) -> bool:
    """Return whether a Task still needs the Pod of a failed create."""
    if task is None:
        return False
    if failure.consecutive_failures >= draft.settings.free_refusals:
        # Creates failed in several attempts; expect the next to fail.
        return task.attempt_status.pod_uid is None and task.state is not TaskState.COMPLETED
    is_pending = task.state is TaskState.ATTEMPT_CREATION_PENDING
    return is_pending and key.identity == ownership.build_pod_identity(task)


def _describe_failure(key: ActionKey, failure: Failure) -> Block:
    problem = f"{key.kind} {key.name} cannot be created"
    if failure.code == _CONFLICT:
        remedy = "delete or rename the object of that name, which does not belong to this attempt"
        message = f"{problem}: {remedy} ({failure.message})"
        return Block(reason=constants.NAME_TAKEN_REASON, message=message)
    refused = constants.CREATION_REFUSED_REASON
    message = f"{problem}: {failure.message}"
    if key.kind is ObjectKind.SECRET and _LACKS_RIGHT in failure.message:
        message = f"{message[: MAX_MESSAGE - len(_SECRETS_REMEDY)]}{_SECRETS_REMEDY}"
    return Block(reason=refused, message=message)
