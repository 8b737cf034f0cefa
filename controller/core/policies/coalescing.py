"""Patience: which changes may wait for others to share one write with them.

Called by ``decide``, the Task's machine and the roster policy. A change on which a release, a retry
or the end of an attempt waits is written at once; the rest waits, and the longer the more is known
to come. How long is the worker's business. Rules:
docs/design/state-machines.md, "When a status is written".
"""

from collections.abc import Mapping

from controller.core.draft import Draft, RoleDraft
from controller.core.policies.retry_policy import decide_retry
from framework.api.pods import PodPhase
from framework.api.roster import STATE_SUCCEEDED, RoleRoster, Roster
from framework.api.states import TASK_ALIVE, TaskState
from framework.api.types import FrameworkStatus, TaskStatus

_GOING_ON = TASK_ALIVE | {TaskState.ATTEMPT_CREATION_PENDING}
_AT_REST = frozenset({TaskState.ATTEMPT_RUNNING, TaskState.COMPLETED})


def is_any_task_changing(status: FrameworkStatus) -> bool:
    """Return whether news of other Tasks is known to come: one is on its way up or down."""
    return any(task.state not in _AT_REST for _, task in status.attempt_status.walk_tasks())


def is_any_task_unended(status: FrameworkStatus) -> bool:
    """Return whether a Task is yet to end, so that nobody waits for the end of another."""
    return any(task.state in _GOING_ON for _, task in status.attempt_status.walk_tasks())


def may_coalesce_end(draft: Draft, role: RoleDraft, task: TaskStatus) -> bool:
    """Return whether a Task's success changes nothing for the others: no retry and no policy."""
    if draft.is_completing or role.spec is None or not _has_succeeded(task):
        return False
    completion = task.attempt_status.completion_status
    if completion is None or role.spec.completion_policy.min_succeeded_task_count >= 1:
        return False
    policy = role.spec.task.retry_policy
    status = task.retry_policy_status
    return not decide_retry(policy, status, completion.code, completion.type).should_retry


def may_coalesce_generation(draft: Draft, wanted: Roster, published: Roster | None) -> bool:
    """Return whether no agent waits to learn what is new."""
    if published is None:
        return _may_coalesce_start(draft)
    return _is_only_success_new(draft, wanted, published)


def _may_coalesce_start(draft: Draft) -> bool:
    """Return whether a Pod is about to run, and none has init containers, of which one may wait."""
    templates = [role.spec.task.pod for role in draft.roles if role.spec]
    specs = [template.get("spec") for template in templates]
    if any(isinstance(spec, Mapping) and spec.get("initContainers") for spec in specs):
        return False
    return any(pod.phase is PodPhase.PENDING for pod in draft.snapshot.pods.values())


def _is_only_success_new(draft: Draft, wanted: Roster, published: Roster) -> bool:
    if (wanted.phase, wanted.leaving) != (published.phase, published.leaving):
        return False
    if wanted.complete and not published.complete:
        # A success may be the last that was missing: whoever waits is released by it.
        return False
    if [role.name for role in wanted.roles] != [role.name for role in published.roles]:
        return False
    drafts = {role.name: role for role in draft.roles}
    return all(
        _is_only_success(new, old, drafts[new.name])
        for new, old in zip(wanted.roles, published.roles, strict=True)
    )


def _is_only_success(new: RoleRoster, old: RoleRoster, role: RoleDraft) -> bool:
    if (new.wanted, new.minimum, new.absent) != (old.wanted, old.minimum, old.absent):
        return False
    if new.running and not old.running:
        return False
    left = {member.index for member in set(old.members).difference(new.members)}
    return (
        set(new.members) <= set(old.members)
        and all(index < len(role.tasks) and _has_succeeded(role.tasks[index]) for index in left)
        and all(
            completed.state == STATE_SUCCEEDED
            for completed in set(new.completed).symmetric_difference(old.completed)
        )
    )


def _has_succeeded(task: TaskStatus) -> bool:
    completion = task.attempt_status.completion_status
    return completion is not None and completion.type.is_succeeded
