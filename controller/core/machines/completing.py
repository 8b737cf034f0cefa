"""The end of an attempt, of a Task or of the Framework: which fields of the status change.

1. ``begin_*_end``: the completion status is set, and the state is AttemptDeletionPending. When the
   attempt of the Framework ends, each of its Tasks gets a completion status, too.
2. ``end_*``: the object of the attempt is gone, and the state is AttemptCompleted. When the
   ConfigMap is gone, all Pods are gone, so all Tasks become Completed.

Invariant: a completion status, once set, is never replaced.

Example: Task a/0 fails and a/1 runs. The completion policy ends the attempt with the completion of
a/0; a/1 gets -220, or -221 if its Pod is left running. If another client then deletes the
ConfigMap, both keep what they have.

Rules: docs/design/state-machines.md, "Rules of both machines"; ``completeTaskAttempt`` and
``completeFrameworkAttempt`` of the Go original.
"""

from dataclasses import replace

from controller.core.draft import Draft, RoleDraft
from controller.core.objects import ownership
from controller.core.policies import retention
from controller.core.status.diagnostics import cut_completion
from framework.api.completion import (
    CONFIGMAP_EXTERNAL_DELETED,
    FRAMEWORK_ATTEMPT_COMPLETION,
    POD_EXTERNAL_DELETED,
    POD_LEFT_RUNNING,
    complete_task,
)
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    FrameworkAttemptCompletionStatus,
    TaskAttemptCompletionStatus,
    TaskStatus,
)

_COMPLETING_DIAGNOSTICS = "Stop to complete current FrameworkAttempt"
_LEFT_DIAGNOSTICS = "The Pod runs on after the FrameworkAttempt (completedPodPolicy RetainRunning)"


def set_task_completion(
    draft: Draft,
    role: RoleDraft,
    task: TaskStatus,
    completion: TaskAttemptCompletionStatus | None,
) -> TaskStatus:
    """Set the completion status of a Task's attempt, unless it has one."""
    attempt = task.attempt_status
    if completion is None or attempt.completion_status is not None:
        return task
    attempt = replace(attempt, completion_status=cut_completion(completion, draft.task_count))
    return draft.put_task(role, replace(task, attempt_status=attempt))


def begin_task_end(
    draft: Draft,
    role: RoleDraft,
    task: TaskStatus,
    completion: TaskAttemptCompletionStatus,
) -> TaskStatus:
    """Begin to end the attempt of a Task whose Pod must be deleted."""
    task = set_task_completion(draft, role, task, completion)
    return draft.move_task(role, task, TaskState.ATTEMPT_DELETION_PENDING)


def end_task(
    draft: Draft,
    role: RoleDraft,
    task: TaskStatus,
    completion: TaskAttemptCompletionStatus | None,
) -> TaskStatus:
    """End the attempt of a Task whose Pod is known to be gone."""
    task = set_task_completion(draft, role, task, completion)
    return draft.move_task(role, task, TaskState.ATTEMPT_COMPLETED)


def set_framework_completion(draft: Draft, completion: FrameworkAttemptCompletionStatus) -> None:
    """Set the completion status of the attempt, unless it has one."""
    if draft.status.attempt_status.completion_status is None:
        draft.update_attempt(completion_status=completion)


def begin_framework_end(draft: Draft, completion: FrameworkAttemptCompletionStatus) -> None:
    """Begin to end the attempt, whose ConfigMap must be deleted, and complete its Tasks."""
    set_framework_completion(draft, completion)
    _complete_remaining_tasks(draft)
    draft.drop_creates()
    draft.move(FrameworkState.ATTEMPT_DELETION_PENDING)


def end_framework(draft: Draft, completion: FrameworkAttemptCompletionStatus | None) -> None:
    """End the attempt, whose ConfigMap and therefore all Pods are known to be gone."""
    if completion is not None:
        set_framework_completion(draft, completion)
    _complete_lost_tasks(draft)
    _complete_remaining_tasks(draft)
    for role, task in draft.walk_tasks():
        if task.state is not TaskState.COMPLETED:
            _move_to_completed(draft, role, task)
    draft.move(FrameworkState.ATTEMPT_COMPLETED)


def _complete_lost_tasks(draft: Draft) -> None:
    """Complete the Tasks whose Pods were deleted with a ConfigMap that another client deleted.

    The ConfigMap is deleted after its Pods, so these are gone even if the cache still has them.
    """
    completion = draft.status.attempt_status.completion_status
    if completion is None or completion.code != CONFIGMAP_EXTERNAL_DELETED:
        return
    lost = complete_task(POD_EXTERNAL_DELETED, "Pod was deleted by others")
    for role, task in draft.walk_tasks():
        if task.attempt_status.pod_uid is not None and not _is_orphaned(draft, task):
            set_task_completion(draft, role, task, lost)


def _is_orphaned(draft: Draft, task: TaskStatus) -> bool:
    """Return whether a Task's Pod is still there after its ConfigMap was deleted."""
    attempt = task.attempt_status
    pod = draft.snapshot.pods.get(attempt.pod_name)
    if pod is None or pod.uid != attempt.pod_uid or pod.is_terminating:
        return False
    return pod.owner is None or pod.owner.uid != draft.status.attempt_status.configmap_uid


def _move_to_completed(draft: Draft, role: RoleDraft, task: TaskStatus) -> None:
    if task.state is not TaskState.ATTEMPT_COMPLETED:
        task = draft.move_task(role, task, TaskState.ATTEMPT_COMPLETED)
    retries = replace(task.retry_policy_status, retry_delay_seconds=None)
    task = draft.put_task(role, replace(task, retry_policy_status=retries))
    draft.move_task(role, task, TaskState.COMPLETED)


def _complete_remaining_tasks(draft: Draft) -> None:
    usual = complete_task(FRAMEWORK_ATTEMPT_COMPLETION, _COMPLETING_DIAGNOSTICS)
    left = complete_task(POD_LEFT_RUNNING, _LEFT_DIAGNOSTICS)
    is_kept = retention.is_attempt_retained(draft)
    for role, task in draft.walk_tasks():
        pod = ownership.find_pod(draft, task) if is_kept else None
        is_left = pod is not None and retention.stays_running(draft, role, task, pod)
        set_task_completion(draft, role, task, left if is_left else usual)
