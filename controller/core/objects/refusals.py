"""Refusals: Pods that the server will never create, and when their Tasks end.

1. A create of a Pod that failed for good is refused. The Tasks of a role have one template, so no
   more Pods of the role are created (``is_role_refused``).
2. When all creates of the role are answered, and live GETs have shown that the refused creates left
   no Pod (``is_role_answered``), the Tasks whose Pods were refused end with the refusal.

So the first answer does not decide the end of a gang that cannot be created: all answers do. The
Go original also waits for all answers, for the whole Framework.

Example: 100 creates are in flight, and the first answer is a 422. No more are sent, and no Task
ends. When the other 99 are answered, each with a 422, all 100 Tasks end in one decision.

Rules: docs/design/failure-handling.md, "Refused creations"; ``createPod`` and
``syncTaskRoleStatuses`` of the Go original.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.core.decision import EventType
from controller.core.draft import Draft, RoleDraft
from controller.core.objects import ownership
from framework.api import naming
from framework.api.completion import (
    POD_CREATION_TRANSIENT_ERROR,
    CreationError,
    classify_creation_error,
)
from framework.api.states import TaskState
from framework.api.types import TaskAttemptCompletionStatus, TaskStatus

# Reason of the Event, as in the controllers of Kubernetes.
FAILED_CREATE = "FailedCreate"

Refused: TypeAlias = dict[ActionKey, TaskAttemptCompletionStatus]


@dataclass(slots=True)
class _Refusals:
    """The refused creates of Pods: there may be ten thousand."""

    completions: Refused
    """By create, the completion of the attempt."""
    indexes: dict[str, list[int]]
    """By role, the indexes of the Tasks that were refused and still wait."""
    reported: set[str] = field(default_factory=set)
    """The roles that have an Event."""


def find_refusal(draft: Draft, task: TaskStatus) -> TaskAttemptCompletionStatus | None:
    """Find the completion of a Task whose Pod will never be created; None if it may be."""
    refused = draft.compute_once(_classify).completions
    if not refused or task.state is not TaskState.ATTEMPT_CREATION_PENDING:
        return None
    return refused.get(ownership.build_creation_key(task))


def add_refusal_event(draft: Draft, role: RoleDraft, task: TaskStatus) -> None:
    """Add an Event for the first refused Task of a role; all of them have one template."""
    reported = draft.compute_once(_classify).reported
    if role.name in reported:
        return
    reported.add(role.name)
    why = draft.snapshot.failures[ownership.build_creation_key(task)].message
    text = f"{role.name}/{task.index}: its Pod cannot be created: {why}"
    draft.add_event(EventType.WARNING, FAILED_CREATE, text)


def is_role_refused(draft: Draft, role: RoleDraft) -> bool:
    """Return whether a Task of the role was refused and has not ended."""
    indexes = draft.compute_once(_classify).indexes.get(role.name, [])
    # Forget the last index when its Task no longer waits: it never waits for this create again.
    while indexes and not _is_refused(draft, role, indexes[-1]):
        indexes.pop()
    return bool(indexes)


def is_role_answered(draft: Draft, role: RoleDraft) -> bool:
    """Return whether all creates of the role are answered, and no refused one left a Pod."""
    # The end of a Task does not change the result of its role.
    return draft.compute_once(_are_all_answered, role)


def _are_all_answered(draft: Draft, role: RoleDraft) -> bool:
    return all(_is_answered(draft, task) for task in role.tasks)


def _is_refused(draft: Draft, role: RoleDraft, index: int) -> bool:
    return index < len(role.tasks) and find_refusal(draft, role.tasks[index]) is not None


def _is_answered(draft: Draft, task: TaskStatus) -> bool:
    name = task.attempt_status.pod_name
    if draft.is_create_in_flight(ObjectKind.POD, name):
        return False
    is_refused = find_refusal(draft, task) is not None
    return not is_refused or draft.is_gone(ObjectKind.POD, name, None)


def _classify(draft: Draft) -> _Refusals:
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
    return _Refusals(refused, _index_by_role(refused))


def _index_by_role(refused: Refused) -> dict[str, list[int]]:
    indexes: dict[str, list[int]] = {}
    for key in refused:
        parsed = naming.parse_pod_name(key.name)
        if parsed is not None:
            indexes.setdefault(parsed[1].role, []).append(parsed[1].index)
    return indexes
