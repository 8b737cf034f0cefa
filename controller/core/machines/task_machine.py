"""The state machine of a Task: moves one Task as far as one status write allows.

Steps of ``sync_task``, which the Framework's machine calls for each Task in status order:

1. Completed: delete its retained Pod if the Task is scaled down. Stop.
2. Before AttemptCompleted: adopt the Pod of this attempt, then observe the recorded Pod.
   - Missing: when a live GET has shown that it is gone, move to AttemptCompleted with -101.
   - Terminating: move to AttemptDeleting with -101, and delete it by force when its time is over.
   - Finished: move to AttemptDeletionPending with its completion, and delete it. A Pod that
     ``retention`` keeps stays, and its Task moves to AttemptCompleted.
   - Live: move to AttemptPreparing or AttemptRunning. If the Task is scaled down, delete the Pod
     as soon as ``drain`` allows. If a user asked for a retry, end the attempt with -260; if it is
     late for the start of an epoch (``late_members``), with -270; if it has left its node
     (``leaving_policy``), with -280.
3. AttemptCompleted: move to Completed, or to AttemptCreationPending with the next attempt when the
   end is stored, and the pause is over or ended by a user. ``avoiding_policy`` chooses the nodes
   that the attempt avoids.
4. AttemptCreationPending: create the Pod. A Task that is scaled down, or whose Pod the server will
   never create, ends without a Pod.

Invariants:

- A Task never has two live Pods: a Pod is created only when its name is free.
- The status that names the attempt is stored before its Pod is created; the completion status is
  stored before its Pod is deleted; AttemptCompleted is stored before the retry.
- A completion status, once set, stays.

Example: one retry is allowed, and the Pod exits with 1 in both attempts. Each line is one decision.

    observed        state                    attempt  action
    Pod 0 Failed    AttemptDeletionPending   0        delete Pod 0
    Pod 0 gone      AttemptCompleted         0        (decide again after the write)
    -               AttemptCreationPending   1        create Pod 1
    Pod 1 Failed    AttemptDeletionPending   1        delete Pod 1
    Pod 1 gone      Completed                1

Rules: docs/design/state-machines.md, "Rules of both machines"; ``syncTaskState`` of the Go
original.
"""

from dataclasses import replace

from controller.core.actions import CreatePod, DeleteObject, ObjectKind, Urgency, find_urgency
from controller.core.avoiding import avoiding_policy
from controller.core.draft import Draft, RoleDraft
from controller.core.history import object_snapshots
from controller.core.leaving import leaving_policy
from controller.core.machines import completing
from controller.core.objects import ownership, refusals
from controller.core.objects.gang_keys import ensure_gang_key
from controller.core.policies import retention, retry_backoff, retry_requests
from controller.core.policies.coalescing import may_coalesce_end
from controller.core.policies.exit_code_policy import complete_failed
from controller.core.policies.retry_policy import decide_retry
from controller.core.recovery import late_members
from controller.core.roster import drain
from controller.core.status import initial_status
from framework.api.completion import (
    DELETE_TASK_REQUESTED,
    EPOCH_START_TIMEOUT,
    POD_EXTERNAL_DELETED,
    RETRY_TASK_REQUESTED,
    complete_succeeded_pod,
    complete_task,
)
from framework.api.naming import TaskKey
from framework.api.pods import PodPhase, PodView
from framework.api.states import TaskState
from framework.api.templatefacts import find_facts
from framework.api.types import TaskAttemptCompletionStatus, TaskStatus

_ENDING = (TaskState.ATTEMPT_DELETION_PENDING, TaskState.ATTEMPT_DELETION_REQUESTED)


def sync_task(draft: Draft, role: RoleDraft, task: TaskStatus) -> None:
    """Move one Task by the steps above."""
    if task.state is TaskState.COMPLETED:
        retention.delete_released_pod(draft, task)
        return
    if task.state is not TaskState.ATTEMPT_COMPLETED:
        task = _observe(draft, role, ownership.adopt_pod(draft, role, task))
    if task.state is TaskState.ATTEMPT_COMPLETED:
        task = _retry_or_complete(draft, role, task)
    if task.state is TaskState.ATTEMPT_CREATION_PENDING:
        task = _create(draft, role, task)
        if task.state is TaskState.ATTEMPT_COMPLETED:
            task = _retry_or_complete(draft, role, task)


def _observe(draft: Draft, role: RoleDraft, task: TaskStatus) -> TaskStatus:
    if task.attempt_status.pod_uid is None:
        return task
    pod = ownership.find_pod(draft, task)
    if pod is None:
        return _observe_missing(draft, role, task)
    if pod.is_terminating:
        return _observe_terminating(draft, role, task, pod)
    if task.state in _ENDING:
        _delete_pod(draft, role, task)
        return task
    if task.state is TaskState.ATTEMPT_DELETING:
        # The stored status is newer than the cache: the watch will show the Pod terminating.
        return task
    return _observe_live(draft, role, task, pod)


def _observe_missing(draft: Draft, role: RoleDraft, task: TaskStatus) -> TaskStatus:
    name = task.attempt_status.pod_name
    if not draft.is_gone(ObjectKind.POD, name, task.attempt_status.pod_uid):
        ownership.request_live_get(
            draft, ObjectKind.POD, name, "the recorded Pod is not in the cache"
        )
        return task
    task = leaving_policy.mark_leaving(draft, role, task, None)
    completion = complete_task(POD_EXTERNAL_DELETED, "Pod was deleted by others")
    completion = leaving_policy.replace_completion(task, completion)
    return completing.end_task(draft, role, task, completion)


def _observe_terminating(
    draft: Draft,
    role: RoleDraft,
    task: TaskStatus,
    pod: PodView,
) -> TaskStatus:
    if pod.disruption:
        task = leaving_policy.mark_leaving(draft, role, task, pod)
    completion = complete_task(POD_EXTERNAL_DELETED, "Pod is being deleted by others")
    completion = leaving_policy.replace_completion(task, completion)
    task = completing.set_task_completion(draft, role, task, completion)
    task = draft.move_task(role, task, TaskState.ATTEMPT_DELETING)
    ownership.force_overdue_deletion(draft, role, pod)
    return task


def _observe_live(draft: Draft, role: RoleDraft, task: TaskStatus, pod: PodView) -> TaskStatus:
    if task.state is TaskState.ATTEMPT_CREATION_REQUESTED:
        task = draft.move_task(role, task, TaskState.ATTEMPT_PREPARING)
    task = _refresh_fields(draft, role, task, pod)
    if pod.is_ended:
        return _observe_ended(draft, role, task, pod)
    if pod.phase is PodPhase.RUNNING:
        task = draft.move_task(role, task, TaskState.ATTEMPT_RUNNING)
    task = leaving_policy.mark_leaving(draft, role, task, pod)
    end = _find_requested_end(draft, role, task, pod)
    if end is not None:
        task = avoiding_policy.record_failure(draft, role, task, pod, end)
        task = completing.begin_task_end(draft, role, task, end)
        _delete_pod(draft, role, task)
    return task


def _find_requested_end(
    draft: Draft, role: RoleDraft, task: TaskStatus, pod: PodView
) -> TaskAttemptCompletionStatus | None:
    """Find why a live Pod is to be deleted; None if it is not."""
    if task.deletion_pending and not drain.is_draining(draft, role, task, pod):
        return complete_task(DELETE_TASK_REQUESTED, initial_status.SCALE_DOWN_DIAGNOSTICS)
    if _should_retry_now(draft, role, task):
        return complete_task(RETRY_TASK_REQUESTED, retry_requests.DIAGNOSTICS)
    if not task.deletion_pending and leaving_policy.should_delete_pod(draft, role, task, pod):
        return leaving_policy.complete_left(task)
    if late_members.is_late(draft, pod):
        return complete_task(EPOCH_START_TIMEOUT, late_members.DIAGNOSTICS)
    return None


def _should_retry_now(draft: Draft, role: RoleDraft, task: TaskStatus) -> bool:
    """Return whether a user asked for the retry of a Task that runs and may be retried."""
    if draft.is_completing or task.deletion_pending or role.spec is None:
        return False
    return retry_requests.is_retry_requested(draft, task)


def _observe_ended(draft: Draft, role: RoleDraft, task: TaskStatus, pod: PodView) -> TaskStatus:
    completion = _complete_pod(draft, role, pod)
    if draft.is_completing and retention.is_attempt_retained(draft):
        return task
    if pod.disruption and not completion.type.is_succeeded:
        task = leaving_policy.mark_leaving(draft, role, task, pod)
    completion = leaving_policy.replace_completion(task, completion)
    task = avoiding_policy.record_failure(draft, role, task, pod, completion)
    if not draft.is_completing and retention.should_retain(draft, role, task, completion):
        return completing.end_task(draft, role, task, completion)
    task = completing.begin_task_end(draft, role, task, completion)
    urgency = Urgency.LATER if may_coalesce_end(draft, role, task) else Urgency.NOW
    _delete_pod(draft, role, task, urgency)
    return task


def _refresh_fields(draft: Draft, role: RoleDraft, task: TaskStatus, pod: PodView) -> TaskStatus:
    attempt = task.attempt_status
    seen = (
        pod.node_name or attempt.pod_node_name or "",
        pod.pod_ip or attempt.pod_ip or "",
        pod.host_ip or attempt.pod_host_ip or "",
    )
    if seen == (attempt.pod_node_name, attempt.pod_ip, attempt.pod_host_ip):
        return task
    node, ip, host = seen
    attempt = replace(attempt, pod_node_name=node, pod_ip=ip, pod_host_ip=host)
    return draft.put_task(role, replace(task, attempt_status=attempt))


def _complete_pod(draft: Draft, role: RoleDraft, pod: PodView) -> TaskAttemptCompletionStatus:
    if pod.phase is PodPhase.SUCCEEDED:
        return complete_succeeded_pod(pod)
    facts = find_facts(role.spec.task.pod if role.spec else None)
    return complete_failed(facts.retryable_codes, pod, draft.settings.code_rules)


def _delete_pod(
    draft: Draft, role: RoleDraft, task: TaskStatus, urgency: Urgency = Urgency.NOW
) -> None:
    attempt = task.attempt_status
    is_persisted = draft.is_task_persisted(role, task, *_ENDING)
    draft.add_action(
        DeleteObject(
            ObjectKind.POD,
            attempt.pod_name,
            attempt.pod_uid or "",
            f"{role.name}/{task.index} attempt {attempt.id} has ended",
            urgency=Urgency.NONE if is_persisted else urgency,
        ),
    )


def _retry_or_complete(draft: Draft, role: RoleDraft, task: TaskStatus) -> TaskStatus:
    completion = task.attempt_status.completion_status
    if completion is None:
        raise AssertionError(f"{role.name}/{task.index} ended without a completion status")
    retries = task.retry_policy_status
    policy = role.spec.task.retry_policy if role.spec else None
    decision = decide_retry(policy, retries, completion.code, completion.type)
    if retries.retry_delay_seconds is None and not decision.should_retry:
        task = draft.move_task(role, task, TaskState.COMPLETED)
        _react_to_completion(draft, role, task)
        return task
    task = _schedule_retry(draft, role, task)
    if not draft.is_task_persisted(role, task, TaskState.ATTEMPT_COMPLETED):
        # The end of the attempt must be stored before its retry.
        draft.raise_urgency(Urgency.AGAIN)
        return task
    # With no delay, retry now and skip the time comparison: the wall clock may have moved back.
    delay = task.retry_policy_status.retry_delay_seconds or 0
    is_due = task.deletion_pending or role.spec is None or delay == 0
    is_due = is_due or retry_requests.is_retry_requested(draft, task)
    if not is_due and not draft.has_elapsed(task.transition_time, delay):
        return task
    return _retry(draft, role, task, is_accountable=decision.is_accountable)


def _schedule_retry(draft: Draft, role: RoleDraft, task: TaskStatus) -> TaskStatus:
    """Set the pause before a retry; a pause that is set stays."""
    retries = task.retry_policy_status
    pause = retry_backoff.find_pause_seconds(task, draft.settings)
    if pause == 0 or retries.retry_delay_seconds is not None:
        return task
    retries = replace(retries, retry_delay_seconds=pause)
    return draft.put_task(role, replace(task, retry_policy_status=retries))


def _retry(
    draft: Draft,
    role: RoleDraft,
    task: TaskStatus,
    *,
    is_accountable: bool,
) -> TaskStatus:
    object_snapshots.record_task_retry(draft, role, task)
    retries = retry_backoff.build_next_retries(task, draft.settings, is_accountable=is_accountable)
    total = retries.total_retried_count
    name = draft.snapshot.framework.metadata.name
    attempt = initial_status.new_task_attempt_status(name, role.name, task.index, total, draft.now)
    task = draft.put_task(role, replace(task, retry_policy_status=retries, attempt_status=attempt))
    task = avoiding_policy.begin_attempt(draft, role, task)
    draft.raise_urgency(Urgency.NOW)
    return draft.move_task(role, task, TaskState.ATTEMPT_CREATION_PENDING)


def _react_to_completion(draft: Draft, role: RoleDraft, task: TaskStatus) -> None:
    if draft.is_completing:
        return
    if task.deletion_pending or role.spec is None:
        # Completed and deletionPending are stored before the entry is dropped or replaced.
        draft.raise_urgency(Urgency.AGAIN)
    else:
        draft.has_newly_completed = True


def _create(draft: Draft, role: RoleDraft, task: TaskStatus) -> TaskStatus:
    if draft.is_completing:
        return task
    if task.deletion_pending or role.spec is None:
        completion = complete_task(DELETE_TASK_REQUESTED, initial_status.SCALE_DOWN_DIAGNOSTICS)
        return _end_without_pod(draft, role, task, completion)
    refusal = refusals.find_refusal(draft, task)
    if refusal is not None:
        return _end_refused(draft, role, task, refusal)
    if _may_create_pod(draft, role, task):
        _create_pod(draft, role, task)
    return task


def _may_create_pod(draft: Draft, role: RoleDraft, task: TaskStatus) -> bool:
    name = task.attempt_status.pod_name
    if ownership.must_wait_for_name(draft, name) or draft.is_create_in_flight(ObjectKind.POD, name):
        return False
    return not refusals.is_role_refused(draft, role) and ensure_gang_key(draft)


def _create_pod(draft: Draft, role: RoleDraft, task: TaskStatus) -> None:
    draft.add_action(
        CreatePod(
            draft.snapshot.framework,
            task.attempt_status.pod_name,
            ownership.build_pod_identity(task),
            f"{role.name}/{task.index} attempt {task.attempt_status.id} starts",
            find_urgency(is_persisted=_is_pending_persisted(draft, role, task)),
            task=TaskKey(role.name, task.index),
        )
    )


def _end_refused(
    draft: Draft, role: RoleDraft, task: TaskStatus, refusal: TaskAttemptCompletionStatus
) -> TaskStatus:
    is_gone = draft.is_gone(ObjectKind.POD, task.attempt_status.pod_name, None)
    if is_gone and not refusals.is_role_answered(draft, role):
        return task
    ended = _end_without_pod(draft, role, task, refusal)
    if ended.state is TaskState.ATTEMPT_COMPLETED:
        refusals.add_refusal_event(draft, role, task)
    return ended


def _is_pending_persisted(draft: Draft, role: RoleDraft, task: TaskStatus) -> bool:
    is_owner_stored = (
        draft.persisted is not None and draft.persisted.attempt_status.configmap_uid is not None
    )
    return is_owner_stored and draft.is_task_persisted(
        role, task, TaskState.ATTEMPT_CREATION_PENDING
    )


def _end_without_pod(
    draft: Draft,
    role: RoleDraft,
    task: TaskStatus,
    completion: TaskAttemptCompletionStatus,
) -> TaskStatus:
    name = task.attempt_status.pod_name
    # A Pod that the live GET found is not of this attempt, whose Pod would have been adopted.
    if not draft.is_gone(ObjectKind.POD, name, None):
        ownership.request_live_get(
            draft, ObjectKind.POD, name, "the Task ends before its Pod is known"
        )
        return task
    return completing.end_task(draft, role, task, completion)
