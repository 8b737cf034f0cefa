"""Creator keys: which public keys verify the creation proofs of a Framework's objects.

Each controller process has a key pair and signs what it creates (``controller.store.provenance``).
The public keys are in the status of the attempt, so that the next controller recognizes an object
whose create was answered to a controller that has stopped.

1. A controller's key is stored before its first create. Any status write adds it.
2. A new attempt keeps the keys of the last attempt, because the server may carry out a create of
   that attempt late.
3. An attempt without keys began under the Go original or an older version. When the first key is
   added, the objects that it waits for are marked: they need no proof, until the next attempt of
   the Framework or of the Task.

Example: controller A creates a Pod and stops before the answer. Controller B takes over, adds its
key to A's, verifies the Pod's proof with A's key, and adopts the Pod.

Rules: docs/design/state-machines.md, "Creation proofs".
"""

from dataclasses import replace

from controller.core.actions import Action, CreateConfigMap, CreatePod, Urgency, Verb
from controller.core.draft import Draft, RoleDraft
from framework.api.constants import MAX_CREATOR_KEYS
from framework.api.states import TaskState
from framework.api.types import FrameworkAttemptStatus, TaskAttemptStatus, TaskStatus


def add_key(keys: tuple[str, ...], key: str) -> tuple[str, ...]:
    """Add a key as the newest, and drop the oldest keys beyond the limit."""
    if not key or key in keys:
        return keys
    return (*keys, key)[-MAX_CREATOR_KEYS:]


def is_proof_needed(attempt: FrameworkAttemptStatus) -> bool:
    """Return whether the attempt's ConfigMap and its unclaimed Pods need a proof."""
    return bool(attempt.creator_keys) and not attempt.accepts_unsigned


def is_pod_proof_needed(attempt: FrameworkAttemptStatus, task: TaskAttemptStatus) -> bool:
    """Return whether the Pod that a Task waits for needs a proof."""
    return bool(attempt.creator_keys) and not task.accepts_unsigned


def record_key(draft: Draft) -> None:
    """Add this controller's key if the status changes or an object is created.

    The creates of this decision then wait for the status write.
    """
    attempt, key = draft.status.attempt_status, draft.settings.creator_key
    keys = add_key(attempt.creator_keys, key)
    has_creates = any(action.key.verb is Verb.CREATE for action in draft.actions)
    if keys == attempt.creator_keys or not (has_creates or draft.freeze() != draft.persisted):
        return
    if not attempt.creator_keys:
        _accept_unsigned(draft)
    draft.update_attempt(creator_keys=keys)
    draft.actions = [_let_wait(action) for action in draft.actions]


def _let_wait(action: Action) -> Action:
    is_create = isinstance(action, (CreateConfigMap, CreatePod))
    return replace(action, urgency=Urgency.NOW) if is_create else action


def _accept_unsigned(draft: Draft) -> None:
    """Mark the objects that an attempt of an older controller waits for."""
    persisted = draft.persisted
    if persisted is None or persisted.attempt_status.id != draft.status.attempt_status.id:
        return
    draft.update_attempt(accepts_unsigned=True)
    for role, task in draft.walk_tasks():
        if _is_waited_for_since_before(draft, role, task):
            attempt = replace(task.attempt_status, accepts_unsigned=True)
            draft.put_task(role, replace(task, attempt_status=attempt))


def _is_waited_for_since_before(draft: Draft, role: RoleDraft, task: TaskStatus) -> bool:
    if task.state is not TaskState.ATTEMPT_CREATION_PENDING:
        return False
    persisted = draft.find_persisted(role.name, task.index)
    return (
        persisted is not None
        and persisted.instance_uid == task.instance_uid
        and persisted.attempt_status.id == task.attempt_status.id
    )
