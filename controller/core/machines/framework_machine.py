"""The state machine of a Framework: moves its current attempt as far as one status write allows.

Steps of ``sync_framework``:

1. Completed: delete unclaimed Pods, Pods that were left running if the Framework was stopped since,
   and the Framework itself when its retention time is over. Stop.
   Otherwise, set the time from which the deadline counts (``lifetime``).
2. Observe the attempt ConfigMap: adopt it when it is new, move to AttemptDeleting when it is
   terminating, and end the attempt when it is known to be gone.
3. AttemptCompleted: move to Completed, or start the next attempt when its delay is over and the
   Framework is not suspended.
4. AttemptCreationPending: create the ConfigMap, or end the attempt if the user stops it or its
   deadline has passed. While the Framework is suspended, wait.
5. From AttemptPreparing to AttemptDeleting, run the attempt:
   a. Apply Stop, suspension, deadline and the completion policy: the spec may have changed.
   b. Move each Task (``task_machine``), in the order of the status.
   c. Apply the completion policy again if a Task became Completed.
   d. Delete unclaimed Pods.
   e. Move to AttemptRunning if a Task runs. Delete the ConfigMap if the attempt ends.

Invariants:

- The state moves only along ``framework.api.states``. A completion status, once set, stays.
- A ConfigMap is created or deleted only after the status that allows it is stored.
- The next attempt starts only after AttemptCompleted is stored, and no Pod of the attempt is left.

Example: one Task, no retries, and its Pod fails. Each line is one decision.

    observed             Framework                Task                     action
    nothing              AttemptCreationPending   AttemptCreationPending   create ConfigMap
    ConfigMap created    AttemptPreparing         AttemptCreationPending   create Pod
    Pod created          AttemptPreparing         AttemptPreparing
    Pod Running          AttemptRunning           AttemptRunning
    Pod Failed           AttemptRunning           AttemptDeletionPending   delete Pod
    Pod gone             AttemptDeletionPending   Completed                delete ConfigMap
    ConfigMap gone       Completed                Completed

Rules: docs/design/state-machines.md, "Rules of both machines", "Write order" and "Deletion of the
Framework"; ``syncFrameworkState`` of the Go original.
"""

from dataclasses import replace

from controller.core.actions import (
    CreateConfigMap,
    DeleteObject,
    ObjectKind,
    Propagation,
    Urgency,
    find_urgency,
)
from controller.core.decision import EventType, SnapshotTrigger
from controller.core.draft import Draft, draft_roles
from controller.core.history import object_snapshots
from controller.core.machines import completing
from controller.core.machines.task_machine import sync_task
from controller.core.objects import creators, ownership
from controller.core.objects.gang_keys import is_gang_key_wanted
from controller.core.policies import completion_policy, lifetime, retention, retry_backoff
from controller.core.policies.retry_policy import RetryDecision, decide_retry, draw_delay_seconds
from controller.core.status import initial_status
from framework.api.completion import CONFIGMAP_EXTERNAL_DELETED, complete_framework
from framework.api.pods import ConfigMapView
from framework.api.states import FrameworkState, TaskState
from framework.api.types import ExecutionType, FrameworkAttemptCompletionStatus

# Reason of the Event about a deletion after the retention time.
_EXPIRED = "Expired"

_S = FrameworkState
_ENDING = (_S.ATTEMPT_DELETION_PENDING, _S.ATTEMPT_DELETION_REQUESTED)
_WITH_TASKS = (
    _S.ATTEMPT_PREPARING,
    _S.ATTEMPT_RUNNING,
    _S.ATTEMPT_DELETION_PENDING,
    _S.ATTEMPT_DELETION_REQUESTED,
    _S.ATTEMPT_DELETING,
)


def sync_framework(draft: Draft) -> None:
    """Move the Framework by the steps above."""
    if draft.state is _S.COMPLETED:
        # The server may carry out a create after its answer was lost, and a retained ConfigMap
        # keeps the Pod from garbage collection.
        ownership.delete_unclaimed_pods(draft, spares_adoptable=False)
        retention.end_left_pods(draft)
        _delete_expired(draft)
        return
    lifetime.track_activity(draft)
    if draft.state is not _S.ATTEMPT_COMPLETED:
        _observe(draft)
    if draft.state is _S.ATTEMPT_COMPLETED:
        _retry_or_complete(draft)
    if draft.state is _S.ATTEMPT_CREATION_PENDING:
        if _create(draft):
            _retry_or_complete(draft)
    elif draft.state in _WITH_TASKS:
        _run(draft)


def _delete_expired(draft: Draft) -> None:
    retained = lifetime.find_retention(draft)
    meta = draft.snapshot.framework.metadata
    if retained is None or meta.deletion_time is not None:
        return
    if not draft.has_elapsed(draft.status.transition_time, retained.seconds):
        return
    if not draft.is_persisted(_S.COMPLETED):
        draft.raise_urgency(Urgency.AGAIN)
        return
    cause = f"Completed for {retained.seconds} s or more ({retained.setting})"
    deletion = DeleteObject(
        ObjectKind.FRAMEWORK,
        meta.name,
        meta.uid,
        cause,
        propagation=Propagation.FOREGROUND,
        # A user may change the TTL: delete only the version that this decision has read.
        resource_version=meta.resource_version,
    )
    if draft.add_action(deletion):
        object_snapshots.record_framework(draft, SnapshotTrigger.FRAMEWORK_DELETION)
        draft.add_event(EventType.NORMAL, _EXPIRED, f"The Framework is deleted: {cause}")


def _observe(draft: Draft) -> None:
    configmap = ownership.find_configmap(draft)
    if draft.status.attempt_status.configmap_uid is None:
        return
    if configmap is None:
        _observe_missing(draft)
    elif configmap.is_terminating:
        completion = complete_framework(
            CONFIGMAP_EXTERNAL_DELETED,
            "ConfigMap is being deleted by others",
        )
        completing.set_framework_completion(draft, completion)
        draft.move(_S.ATTEMPT_DELETING)
    elif draft.state is _S.ATTEMPT_CREATION_REQUESTED:
        draft.move(_S.ATTEMPT_PREPARING)


def _observe_missing(draft: Draft) -> None:
    name = draft.status.attempt_status.configmap_name
    if not draft.is_gone(ObjectKind.CONFIGMAP, name, draft.status.attempt_status.configmap_uid):
        ownership.request_live_get(
            draft, ObjectKind.CONFIGMAP, name, "the recorded ConfigMap is not cached"
        )
        return
    if draft.is_any_pod_create_in_flight:
        # That Pod could exist beside those of the next attempt. Its answer starts a new decision.
        return
    is_seen = draft.state is not _S.ATTEMPT_CREATION_REQUESTED
    lost = complete_framework(CONFIGMAP_EXTERNAL_DELETED, "ConfigMap was deleted by others")
    completing.end_framework(draft, lost if is_seen else _find_requested_end(draft) or lost)


def _find_requested_end(draft: Draft) -> FrameworkAttemptCompletionStatus | None:
    """Find why the spec asks for the end of the attempt; None if it does not."""
    return lifetime.find_final_end(draft) or lifetime.find_suspension(draft)


def _retry_or_complete(draft: Draft) -> None:
    decision = _decide_retry(draft)
    retries = draft.status.retry_policy_status
    if retries.retry_delay_seconds is None and not decision.should_retry:
        draft.move(_S.COMPLETED)
        _delete_expired(draft)
        return
    if retries.retry_delay_seconds is None:
        retries = replace(retries, retry_delay_seconds=_choose_delay(draft, decision) or None)
        draft.update(retry_policy_status=retries)
    if not draft.is_persisted(_S.ATTEMPT_COMPLETED):
        # The end of the attempt must be stored before its retry.
        draft.raise_urgency(Urgency.AGAIN)
        return
    if lifetime.is_suspended(draft.spec):
        return
    # With no delay, retry now and skip the time comparison: the wall clock may have moved back.
    delay = retries.retry_delay_seconds or 0
    is_due = delay == 0 or lifetime.find_final_end(draft) is not None
    if is_due or draft.has_elapsed(draft.status.transition_time, delay):
        _retry(draft, is_accountable=decision.is_accountable)


def _decide_retry(draft: Draft) -> RetryDecision:
    completion = draft.status.attempt_status.completion_status
    if completion is None:
        raise AssertionError("the attempt ended without a completion status")
    retries = draft.status.retry_policy_status
    return decide_retry(draft.spec.retry_policy, retries, completion.code, completion.type)


def _choose_delay(draft: Draft, decision: RetryDecision) -> int:
    pause = retry_backoff.find_pause_seconds(draft.status, draft.settings)
    return max(pause, _draw_delay(draft)) if decision.is_conflict else pause


def _draw_delay(draft: Draft) -> int:
    return draw_delay_seconds(
        draft.snapshot.framework.metadata.uid,
        draft.status.attempt_status.id,
        draft.settings.min_conflict_delay_seconds,
        draft.settings.max_conflict_delay_seconds,
    )


def _retry(draft: Draft, *, is_accountable: bool) -> None:
    object_snapshots.record_framework(draft, SnapshotTrigger.FRAMEWORK_RETRY)
    retries = retry_backoff.build_next_retries(
        draft.status, draft.settings, is_accountable=is_accountable
    )
    total = retries.total_retried_count
    keys = creators.add_key(draft.status.attempt_status.creator_keys, draft.settings.creator_key)
    attempt = initial_status.new_attempt_status(draft.snapshot.framework, total, draft.now, keys)
    draft.update(retry_policy_status=retries, attempt_status=attempt)
    draft.roles = draft_roles(draft.spec, attempt)
    draft.move(_S.ATTEMPT_CREATION_PENDING)


def _create(draft: Draft) -> bool:
    """Create the ConfigMap if it is due; return whether the attempt ended without one."""
    if draft.snapshot.framework.metadata.deletion_time is not None:
        return False
    if draft.spec.execution_type is ExecutionType.CREATE or _delete_other_configmap(draft):
        return False
    end = lifetime.find_final_end(draft)
    if end is not None:
        return _end_before_creation(draft, end)
    if draft.hold is None and not lifetime.is_suspended(draft.spec):
        _create_configmap(draft)
    return False


def _create_configmap(draft: Draft) -> None:
    """Create the ConfigMap, unless a create is in flight or an older ConfigMap is being deleted.

    If another object has the name, the create fails, and the condition Blocked says so.
    """
    attempt, older = draft.status.attempt_status, draft.snapshot.configmap
    if older is not None and older.is_terminating:
        return
    if draft.is_create_in_flight(ObjectKind.CONFIGMAP, attempt.configmap_name):
        return
    draft.add_action(
        CreateConfigMap(
            draft.snapshot.framework,
            attempt.configmap_name,
            ownership.build_configmap_identity(draft),
            f"attempt {attempt.id} starts",
            find_urgency(is_persisted=draft.is_persisted(_S.ATTEMPT_CREATION_PENDING)),
        ),
    )


def _delete_other_configmap(draft: Draft) -> bool:
    """Delete our own ConfigMap of another attempt; return whether there is one."""
    configmap = draft.snapshot.configmap
    if configmap is None or not ownership.is_own_configmap(draft, configmap):
        return False
    if not configmap.is_terminating:
        _delete_configmap(draft, configmap, "it is not of the current attempt", Urgency.NOW)
    return True


def _end_before_creation(draft: Draft, completion: FrameworkAttemptCompletionStatus) -> bool:
    name = draft.status.attempt_status.configmap_name
    if not draft.is_gone(ObjectKind.CONFIGMAP, name, None):
        cause = "the attempt ends before its ConfigMap is known"
        ownership.request_live_get(draft, ObjectKind.CONFIGMAP, name, cause)
        return False
    completing.end_framework(draft, completion)
    return True


def _run(draft: Draft) -> None:
    configmap = ownership.find_configmap(draft)
    if configmap is None:
        # Neither in the cache nor known to be gone: wait for the answer to the live GET.
        return
    requested = None if draft.is_completing else _find_requested_end(draft)
    if requested is not None:
        completing.begin_framework_end(draft, requested)
    _apply_completion_policy(draft, is_after_tasks=False)
    for role, task in draft.walk_tasks():
        sync_task(draft, role, task)
    if draft.has_newly_completed:
        _apply_completion_policy(draft, is_after_tasks=True)
    is_kept = draft.is_completing and retention.is_attempt_retained(draft)
    ownership.delete_unclaimed_pods(draft, spares_adoptable=not is_kept)
    if draft.state is _S.ATTEMPT_PREPARING and _is_any_task_running(draft):
        draft.move(_S.ATTEMPT_RUNNING)
    if draft.state in _ENDING:
        _end(draft, configmap)


def _apply_completion_policy(draft: Draft, *, is_after_tasks: bool) -> None:
    if draft.is_completing:
        return
    trigger = completion_policy.find_trigger(draft, is_after_tasks=is_after_tasks)
    if trigger is not None:
        completing.begin_framework_end(draft, trigger)


def _end(draft: Draft, configmap: ConfigMapView) -> None:
    urgency = find_urgency(is_persisted=draft.is_persisted(*_ENDING))
    if retention.is_attempt_retained(draft):
        if not retention.end_pods(draft, urgency):
            return
        if urgency is Urgency.NONE:
            completing.end_framework(draft, None)
            _retry_or_complete(draft)
        else:
            # No Pod is left, so no watch event would start the next decision.
            draft.raise_urgency(Urgency.AGAIN)
        return
    cause = f"attempt {draft.status.attempt_status.id} has ended"
    propagation = Propagation.BACKGROUND if _may_delete_in_background(draft) else None
    _delete_configmap(draft, configmap, cause, urgency, propagation)


def _may_delete_in_background(draft: Draft) -> bool:
    """Return whether the ConfigMap may be deleted at once, without a search for its Pods.

    Only after the last attempt: before a next attempt, the deletion must wait for the Pods.
    """
    is_ended = draft.status.attempt_status.completion_status is not None
    is_last = is_ended and not _decide_retry(draft).should_retry
    # The garbage collector deletes the gang key later. It could still exist when the next
    # Framework of this name creates its own.
    return is_last and ownership.is_attempt_empty(draft) and not is_gang_key_wanted(draft)


def _is_any_task_running(draft: Draft) -> bool:
    return any(
        task.state is TaskState.ATTEMPT_RUNNING and not task.deletion_pending
        for _, task in draft.walk_tasks()
    )


def _delete_configmap(
    draft: Draft,
    configmap: ConfigMapView,
    cause: str,
    urgency: Urgency,
    propagation: Propagation | None = None,
) -> None:
    draft.add_action(
        DeleteObject(
            ObjectKind.CONFIGMAP,
            configmap.name,
            configmap.uid,
            cause,
            propagation=propagation,
            urgency=urgency,
        ),
    )
