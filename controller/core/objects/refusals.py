"""Refusals: Pods the server will never create, and when their Tasks end.

Called by the Task's machine. The Go original hears of all Pods it asked for before it ends any
Task, so what it says of a gang nobody can create does not depend on which answer came first.
Here that holds for a role, which has one template, and for the requests that are on their way:
when one Pod of a role was refused, no more are asked for. Rules:
docs/design/failure-handling.md, "Refused creations"; ``createPod`` and ``syncTaskRoleStatuses`` of
the Go original.
"""

from controller.core.actions import ObjectKind, Verb
from controller.core.decision import EventType
from controller.core.draft import Draft, Refusals, Refused, RoleDraft
from controller.core.objects import ownership
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
    refused = _classify(draft).completions
    if not refused or task.state is not TaskState.ATTEMPT_CREATION_PENDING:
        return None
    return refused.get(ownership.build_creation_key(task))


def add_refusal_event(draft: Draft, role: RoleDraft, task: TaskStatus) -> None:
    """Tell why the Pods of a role cannot be created; once a pass, because it has one template."""
    reported = _classify(draft).reported
    if role.name in reported:
        return
    reported.add(role.name)
    why = draft.snapshot.failures[ownership.build_creation_key(task)].message
    text = f"{role.name}/{task.index}: its Pod cannot be created: {why}"
    draft.add_event(EventType.WARNING, FAILED_CREATE, text)


def is_role_refused(draft: Draft, role: RoleDraft) -> bool:
    """Return whether a Task of the role waits to end because its Pod was refused."""
    indexes = _classify(draft).indexes.get(role.name, [])
    # A Task that does not wait any more waits for another creation later: not for this one.
    while indexes and not _is_refused(draft, role, indexes[-1]):
        indexes.pop()
    return bool(indexes)


def is_role_answered(draft: Draft, role: RoleDraft) -> bool:
    """Return whether all the role's creates are answered, and no refused one left a Pod."""
    answered = _classify(draft).answered
    # Once a pass: what ends a Task here needs this to be true, and changes nothing about it.
    if role.name not in answered:
        answered[role.name] = all(_is_answered(draft, task) for task in role.tasks)
    return answered[role.name]


def _is_refused(draft: Draft, role: RoleDraft, index: int) -> bool:
    return index < len(role.tasks) and find_refusal(draft, role.tasks[index]) is not None


def _is_answered(draft: Draft, task: TaskStatus) -> bool:
    name = task.attempt_status.pod_name
    if draft.is_create_in_flight(ObjectKind.POD, name):
        return False
    is_refused = find_refusal(draft, task) is not None
    return not is_refused or draft.is_gone(ObjectKind.POD, name, None)


def _classify(draft: Draft) -> Refusals:
    """Classify the failures, once a pass: a quota may have refused a thousand Pods for now."""
    if draft.refusals is None:
        creates = {
            key: classify_creation_error(CreationError(f.code, f.message, f.body))
            for key, f in draft.snapshot.failures.items()
            if (key.verb, key.kind) == (Verb.CREATE, ObjectKind.POD)
        }
        refused = {
            key: completion
            for key, completion in creates.items()
            if completion.code != POD_CREATION_TRANSIENT_ERROR
        }
        draft.refusals = Refusals(refused, _index_by_role(refused))
    return draft.refusals


def _index_by_role(refused: Refused) -> dict[str, list[int]]:
    indexes: dict[str, list[int]] = {}
    for key in refused:
        parsed = naming.parse_pod_name(key.name)
        if parsed is not None:
            indexes.setdefault(parsed[1].role, []).append(parsed[1].index)
    return indexes
