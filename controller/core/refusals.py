"""Refusals: Pods the server will never create, and when their Tasks end.

Called by the Task's machine. The Go original hears of all Pods it asked for before it ends any
Task, so what it says of a gang nobody can create does not depend on which answer came first.
Here that holds for a role, which has one template, and for the requests that are on their way:
when one Pod of a role was refused, no more are asked for. Source: FRAMEWORK, "Completion codes";
``createPod`` and ``syncTaskRoleStatuses`` of the Go original.
"""

from controller.core import claims
from controller.core.actions import ObjectKind, Verb
from controller.core.decision import EventType
from controller.core.draft import Draft, Refusals, RoleDraft
from framework.api import naming
from framework.api.completion import (
    POD_CREATION_TRANSIENT_ERROR,
    CreationError,
    classify_creation_error,
)
from framework.api.states import TaskState
from framework.api.types import TaskAttemptCompletionStatus, TaskStatus

# As Kubernetes' own controllers call it.
FAILED_CREATE = "FailedCreate"


def find_refusal(draft: Draft, task: TaskStatus) -> TaskAttemptCompletionStatus | None:
    """Find why the Pod of a Task's current attempt will never be created."""
    refused = _classify(draft)
    if not refused or task.state is not TaskState.ATTEMPT_CREATION_PENDING:
        return None
    return refused.get(claims.key_creation(task))


def tell_refusal(draft: Draft, role: RoleDraft, task: TaskStatus) -> None:
    """Tell why the Pods of a role cannot be created; once a pass, because it has one template."""
    if any(
        e.reason == FAILED_CREATE and e.message.startswith(f"{role.name}/") for e in draft.events
    ):
        return
    why = draft.snapshot.failures[claims.key_creation(task)].message
    text = f"{role.name}/{task.index}: its Pod cannot be created: {why}"
    draft.tell(EventType.WARNING, FAILED_CREATE, text)


def is_role_refused(draft: Draft, role: RoleDraft) -> bool:
    """Tell whether a Task of the role waits to end because its Pod was refused."""
    for key in _classify(draft):
        parsed = naming.parse_pod_name(key.name)
        if parsed is None or parsed[1].role != role.name or parsed[1].index >= len(role.tasks):
            continue
        if find_refusal(draft, role.tasks[parsed[1].index]) is not None:
            return True
    return False


def is_role_answered(draft: Draft, role: RoleDraft) -> bool:
    """Tell whether all the role's creates are answered, and no refused one left a Pod."""
    for task in role.tasks:
        name = task.attempt_status.pod_name
        if draft.is_create_in_flight(ObjectKind.POD, name):
            return False
        is_refused = find_refusal(draft, task) is not None
        if is_refused and not draft.is_gone(ObjectKind.POD, name, None):
            return False
    return True


def _classify(draft: Draft) -> Refusals:
    """Classify the failures, once a pass: a quota may have refused a thousand Pods for now."""
    if draft.refusals is None:
        creates = {
            key: classify_creation_error(CreationError(f.code, f.message, f.body))
            for key, f in draft.snapshot.failures.items()
            if (key.verb, key.kind) == (Verb.CREATE, ObjectKind.POD)
        }
        draft.refusals = {
            key: completion
            for key, completion in creates.items()
            if completion.code != POD_CREATION_TRANSIENT_ERROR
        }
    return draft.refusals
