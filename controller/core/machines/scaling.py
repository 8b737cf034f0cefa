"""Scaling: the Tasks in the status follow the roles, Task numbers and absent indexes of the spec.

Steps of ``scale``:

1. From AttemptDeletionPending on, no role and no Task changes.
2. Mark (``mark_scale``): add the roles and Tasks that the spec asks for and the status lacks. Mark
   each Task that is no longer wanted: it gets ``deletionPending`` and the completion -230.
3. If step 2 changed nothing, compact (``compact_scale``): drop marked Tasks that are Completed from
   the end of each role, and replace those whose index is wanted again.
4. Copy the force-deletion timeout of each role.

When a role or a Task changed, the decision ends here: the change is stored before it is used.

Invariants:

- The Task of index i is at position i of its role.
- A mark is never removed. A marked Task is dropped only when it is Completed and has no retained
  Pod.

Example: ``taskNumber`` falls from 4 to 2 while all Tasks run. One decision marks Tasks 2 and 3, and
later decisions delete their Pods. If Task 2 is Completed first, its entry stays, because Task 3 is
behind it. When Task 3 is Completed, both entries are dropped. If ``taskNumber`` is 3 by then, only
Task 3 is dropped, and a new Task replaces Task 2.

Rules: docs/design/scaling.md, "Scale up and down"; ``syncFrameworkScale`` and
``compactFrameworkScale`` of the Go original.
"""

from dataclasses import replace

from controller.core.actions import Urgency
from controller.core.draft import Draft, RoleDraft
from controller.core.history import object_snapshots
from controller.core.policies import retention
from controller.core.roster import drain
from controller.core.status import initial_status
from framework.api.completion import DELETE_TASK_REQUESTED, complete_task
from framework.api.states import FRAMEWORK_FROZEN, FrameworkState, TaskState
from framework.api.types import TaskRoleSpec, TaskStatus


def scale(draft: Draft) -> bool:
    """Scale the attempt to the spec; return whether roles or Tasks changed."""
    is_frozen = draft.state in FRAMEWORK_FROZEN
    # A mark is stored before its Task is dropped or replaced.
    is_changed = not is_frozen and (mark_scale(draft) or compact_scale(draft))
    if draft.state is not FrameworkState.COMPLETED:
        refresh_timeouts(draft)
    return is_changed


def refresh_timeouts(draft: Draft) -> None:
    """Copy the force-deletion timeout of each role; a role that left the spec keeps its own."""
    for role in draft.roles:
        if role.spec is None:
            continue
        timeout = role.spec.task.pod_graceful_deletion_timeout_seconds
        if role.status.pod_graceful_deletion_timeout_seconds != timeout:
            role.status = replace(role.status, pod_graceful_deletion_timeout_seconds=timeout)
            draft.raise_urgency(Urgency.NOW)


def mark_scale(draft: Draft) -> bool:
    """Add wanted roles and Tasks, mark unwanted Tasks; return whether a role or Task changed."""
    changed = False
    known = {role.name for role in draft.roles}
    for spec in draft.spec.task_roles:
        if spec.name not in known:
            known.add(spec.name)
            changed |= _add_role(draft, spec)
    for role in draft.roles:
        changed |= _add_tasks(draft, role) | _mark_unwanted(draft, role)
    return changed


def compact_scale(draft: Draft) -> bool:
    """Drop and replace marked Tasks that are Completed; return whether a role or Task changed."""
    changed = False
    for position in range(len(draft.roles) - 1, -1, -1):
        role = draft.roles[position]
        changed |= _drop_tail(draft, role)
        if role.spec is None and not role.tasks:
            # As in the Go original, the last role takes the position of the removed role.
            draft.roles[position] = draft.roles[-1]
            draft.roles.pop()
            changed = True
    for role in draft.roles:
        changed |= _replace_returning(draft, role)
    return changed


def _add_role(draft: Draft, spec: TaskRoleSpec) -> bool:
    attempt_id = draft.status.attempt_status.id
    status = initial_status.new_role_status(draft.snapshot.framework, attempt_id, spec, draft.now)
    draft.roles.append(RoleDraft(status, spec, list(status.tasks)))
    return True


def _add_tasks(draft: Draft, role: RoleDraft) -> bool:
    if role.spec is None:
        return False
    missing = range(len(role.tasks), role.spec.task_number)
    role.tasks.extend(_new_task(draft, role.spec, index) for index in missing)
    return len(missing) > 0


def _new_task(draft: Draft, spec: TaskRoleSpec, index: int) -> TaskStatus:
    attempt_id = draft.status.attempt_status.id
    framework = draft.snapshot.framework
    return initial_status.new_task_status(framework, attempt_id, spec, index, draft.now)


def _mark_unwanted(draft: Draft, role: RoleDraft) -> bool:
    wanted = role.spec.task_number if role.spec else 0
    absent = role.spec.absent if role.spec else frozenset()
    if len(role.tasks) <= wanted and not absent:
        return False
    changed = False
    for task in list(role.tasks):
        if task.deletion_pending or (task.index < wanted and task.index not in absent):
            continue
        _mark(draft, role, task)
        changed = True
    return changed


def _mark(draft: Draft, role: RoleDraft, task: TaskStatus) -> None:
    attempt = task.attempt_status
    if attempt.completion_status is None:
        completion = complete_task(DELETE_TASK_REQUESTED, initial_status.SCALE_DOWN_DIAGNOSTICS)
        attempt = replace(attempt, completion_status=completion)
    deadline = drain.compute_deadline(draft, role, task)
    draft.put_task(
        role,
        replace(task, deletion_pending=True, attempt_status=attempt, drain_deadline_time=deadline),
    )


def _drop_tail(draft: Draft, role: RoleDraft) -> bool:
    wanted = role.spec.task_number if role.spec else 0
    changed = False
    while len(role.tasks) > wanted and _is_droppable(draft, role.tasks[-1]):
        object_snapshots.record_task_deletion(draft, role, role.tasks[-1])
        role.tasks.pop()
        changed = True
    return changed


def _is_droppable(draft: Draft, task: TaskStatus) -> bool:
    if not task.deletion_pending or task.state is not TaskState.COMPLETED:
        return False
    return retention.is_released(draft, task)


def _replace_returning(draft: Draft, role: RoleDraft) -> bool:
    if role.spec is None:
        return False
    changed = False
    for task in list(role.tasks[: role.spec.task_number]):
        if _is_droppable(draft, task) and task.index not in role.spec.absent:
            object_snapshots.record_task_deletion(draft, role, task)
            draft.put_task(role, _new_task(draft, role.spec, task.index))
            changed = True
    return changed
