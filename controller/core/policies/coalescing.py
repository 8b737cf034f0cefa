"""Coalescing: which changes of status and roster may wait, to share one write with later changes.

1. A change that a retry, the end of an attempt or the release of a gang depends on is written at
   once.
2. The success of a Task may wait if no retry and no policy depends on it (``may_coalesce_end``).
3. A roster may wait if no agent needs it now (``may_coalesce_generation``): it differs only by
   successes, or it is the first roster, no Pod has init containers, and a Pod is about to run.
4. A change that may wait does so for longer while Tasks are starting or ending, because more
   changes will follow (``is_any_task_changing``).

The worker decides how long a change waits. Example: the last of 100 workers fails while the others
succeed one by one. The successes share writes; the failure is written at once, with all of them.

Rules: docs/design/state-machines.md, "When a status is written".
"""

from controller.core.draft import Draft, RoleDraft
from controller.core.policies.retry_policy import decide_retry
from framework.api.pods import PodPhase
from framework.api.roster import STATE_SUCCEEDED, RoleRoster, Roster
from framework.api.states import TASK_ALIVE, TaskState
from framework.api.templatefacts import find_facts
from framework.api.types import FrameworkStatus, TaskStatus

_GOING_ON = TASK_ALIVE | {TaskState.ATTEMPT_CREATION_PENDING}
_AT_REST = frozenset({TaskState.ATTEMPT_RUNNING, TaskState.COMPLETED})


def is_any_task_changing(status: FrameworkStatus) -> bool:
    """Return whether a Task is starting or ending, so that more changes will follow."""
    return any(task.state not in _AT_REST for _, task in status.attempt_status.walk_tasks())


def is_any_task_unended(status: FrameworkStatus) -> bool:
    """Return whether a Task has not ended yet, so that the attempt continues after other ends."""
    return any(task.state in _GOING_ON for _, task in status.attempt_status.walk_tasks())


def may_coalesce_end(draft: Draft, role: RoleDraft, task: TaskStatus) -> bool:
    """Return whether a Task succeeded, and no retry and no policy depends on it."""
    if draft.is_completing or role.spec is None or not _has_succeeded(task):
        return False
    completion = task.attempt_status.completion_status
    if completion is None or role.spec.completion_policy.min_succeeded_task_count >= 1:
        return False
    policy = role.spec.task.retry_policy
    status = task.retry_policy_status
    return not decide_retry(policy, status, completion.code, completion.type).should_retry


def may_coalesce_generation(draft: Draft, wanted: Roster, published: Roster | None) -> bool:
    """Return whether no agent needs the roster's changes at once."""
    if published is None:
        return _may_coalesce_start(draft)
    return _is_only_success_new(draft, wanted, published)


def _may_coalesce_start(draft: Draft) -> bool:
    """Return whether a Pod is about to run, and none has init containers that may read it."""
    facts = (find_facts(role.spec.task.pod) for role in draft.roles if role.spec)
    if any(each.has_init_containers for each in facts):
        return False
    return any(pod.phase is PodPhase.PENDING for pod in draft.snapshot.pods.values())


def _is_only_success_new(draft: Draft, wanted: Roster, published: Roster) -> bool:
    if (wanted.phase, wanted.leaving, wanted.failed, wanted.recovery) != (
        published.phase,
        published.leaving,
        published.failed,
        published.recovery,
    ):
        return False
    if wanted.complete and not published.complete:
        # The success completed the gang, and barriers wait for that.
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
