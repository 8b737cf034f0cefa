"""Retention of ended Pods: completedPodPolicy Retain keeps the Pods of completed Tasks.

Called by the machines. Under Delete, the behaviour of the Go original, nothing here says yes.
Rules: docs/design/scaling.md, "Completed Pods".
"""

from controller.core.actions import DeleteObject, ObjectKind
from controller.core.draft import Draft, RoleDraft
from controller.core.objects import ownership
from controller.core.policies.retry_policy import decide_retry
from framework.api import constants
from framework.api.pods import PodView
from framework.api.types import CompletedPodPolicy, TaskAttemptCompletionStatus, TaskStatus


def is_retaining(draft: Draft) -> bool:
    """Return whether the user wants to keep ended Pods."""
    return draft.spec.completed_pod_policy is CompletedPodPolicy.RETAIN


def should_retain(
    draft: Draft,
    role: RoleDraft,
    task: TaskStatus,
    completion: TaskAttemptCompletionStatus,
) -> bool:
    """Return whether a Pod that just ended stays: its Task is over for good."""
    if not is_retaining(draft) or task.deletion_pending or role.spec is None:
        return False
    completion = task.attempt_status.completion_status or completion
    policy = role.spec.task.retry_policy
    decision = decide_retry(policy, task.retry_policy_status, completion.code, completion.type)
    return not decision.should_retry


def is_attempt_retained(draft: Draft) -> bool:
    """Return whether the ending attempt is the last, so that its ConfigMap and Pods stay."""
    completion = draft.status.attempt_status.completion_status
    if not is_retaining(draft) or completion is None:
        return False
    retries = draft.status.retry_policy_status
    policy = draft.spec.retry_policy
    return not decide_retry(policy, retries, completion.code, completion.type).should_retry


def end_live_pods(draft: Draft, *, is_settled: bool) -> bool:
    """Delete the retained attempt's live Pods; True when none is left.

    A Pod with a declared wrapper gets its termination grace period to end by itself. One that no
    Task claims is waited for too: nothing else would take it along.
    """
    is_done = not any(ownership.walk_unclaimed_pods(draft))
    for role, task in draft.walk_tasks():
        pod = draft.snapshot.pods.get(task.attempt_status.pod_name)
        if draft.is_create_in_flight(ObjectKind.POD, task.attempt_status.pod_name):
            is_done = False
        if pod is None or pod.uid != task.attempt_status.pod_uid:
            is_done = _is_known_gone(draft, task) and is_done
        elif not pod.is_ended:
            is_done = False
            _end_pod(draft, role, task, pod, is_settled=is_settled)
    return is_done


def has_live_wrapper(draft: Draft) -> bool:
    """Return whether a live Pod waits to be told by the roster that the attempt completes."""
    return any(
        is_wrapped(pod) and not pod.is_ended and not pod.is_terminating
        for pod in draft.snapshot.pods.values()
    )


def is_wrapped(pod: PodView) -> bool:
    """Return whether the Pod runs our PID-1 wrapper."""
    return constants.WRAPPER_ANNOTATION in pod.annotations


def delete_released_pod(draft: Draft, task: TaskStatus) -> None:
    """Delete the retained Pod of a Task that was scaled away after it had completed."""
    pod = draft.snapshot.pods.get(task.attempt_status.pod_name)
    if not task.deletion_pending or pod is None or pod.uid != task.attempt_status.pod_uid:
        return
    if not pod.is_terminating:
        cause = "its Task is scaled away"
        draft.add_action(DeleteObject(ObjectKind.POD, pod.name, pod.uid, cause))


def _end_pod(
    draft: Draft,
    role: RoleDraft,
    task: TaskStatus,
    pod: PodView,
    *,
    is_settled: bool,
) -> None:
    if pod.is_terminating:
        return
    grace_seconds = pod.termination_grace_seconds
    if is_wrapped(pod) and not draft.has_elapsed(draft.status.transition_time, grace_seconds):
        return
    cause = f"{role.name}/{task.index}: the attempt has ended"
    draft.add_action(DeleteObject(ObjectKind.POD, pod.name, pod.uid, cause, is_settled=is_settled))


def _is_known_gone(draft: Draft, task: TaskStatus) -> bool:
    attempt = task.attempt_status
    if attempt.completion_time is not None:
        return True
    is_gone = draft.is_gone(ObjectKind.POD, attempt.pod_name, attempt.pod_uid)
    if not is_gone and attempt.pod_uid is None:
        # One that was created and never recorded: a watch may not show it, and nothing but the
        # Task's name leads to it. Of a recorded one the Task's machine asks.
        cause = "the attempt ends before its Pod is known"
        ownership.request_live_get(draft, ObjectKind.POD, attempt.pod_name, cause)
    return is_gone
