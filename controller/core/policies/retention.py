"""Retention of Pods: ``completedPodPolicy`` keeps the Pods of completed Tasks.

1. When a Pod finishes and its Task will not be retried, the Task completes and, unless the policy
   is Delete, the Pod stays (``should_retain``).
2. When the last attempt of the Framework ends, and a role has Retain or RetainRunning, the
   ConfigMap stays (``is_attempt_retained``). Live Pods of roles with RetainRunning are left running
   (``stays_running``). Other live Pods and the Pods of other roles are deleted (``end_pods``).
   If no Pod is left running, live Pods with the wrapper are deleted only after their termination
   grace period, so that they end by themselves.
3. When the Task of a retained Pod is scaled down, its Pod is deleted (``delete_released_pod``), and
   then its entry goes (``is_released``).
4. When a user stops the Framework after its end, the Pods that were left running are deleted
   (``end_left_pods``).

Invariants:

- With Delete, the default and the behaviour of the Go original, no function here keeps a Pod.
- No Pod is left running before a retry, or when Stop or the deadline has ended the Framework.

A role without a policy has that of the Framework.

Example: workers 0 and 1 with Retain and no retries; one failure ends the attempt. Worker 0 fails:
its Pod stays, worker 1 is deleted, and the Framework is Completed when worker 1 is gone.

Rules: docs/design/scaling.md, "Completed Pods".
"""

from controller.core.actions import DeleteObject, ObjectKind, Urgency
from controller.core.draft import Draft, RoleDraft
from controller.core.objects import ownership
from controller.core.policies.retry_policy import decide_retry
from framework.api import constants
from framework.api.completion import (
    CONFIGMAP_EXTERNAL_DELETED,
    FRAMEWORK_DEADLINE_EXCEEDED,
    STOP_FRAMEWORK_REQUESTED,
    is_left_running,
)
from framework.api.pods import PodView
from framework.api.states import TASK_ALIVE
from framework.api.types import (
    CompletedPodPolicy,
    ExecutionType,
    TaskAttemptCompletionStatus,
    TaskStatus,
)

# Ends after which no Pod is left running.
_ENDS_OF_ALL_PODS = frozenset(
    {STOP_FRAMEWORK_REQUESTED, FRAMEWORK_DEADLINE_EXCEEDED, CONFIGMAP_EXTERNAL_DELETED}
)


def should_retain(
    draft: Draft,
    role: RoleDraft,
    task: TaskStatus,
    completion: TaskAttemptCompletionStatus,
) -> bool:
    """Return whether a Pod that has finished stays, because its Task will not be retried."""
    if role.spec is None or task.deletion_pending:
        return False
    if draft.spec.get_pod_policy(role.spec) is CompletedPodPolicy.DELETE:
        return False
    completion = task.attempt_status.completion_status or completion
    policy = role.spec.task.retry_policy
    decision = decide_retry(policy, task.retry_policy_status, completion.code, completion.type)
    return not decision.should_retry


def is_attempt_retained(draft: Draft) -> bool:
    """Return whether the attempt ends, is the last, and keeps its ConfigMap and some Pods."""
    completion = draft.status.attempt_status.completion_status
    if not draft.spec.retains_pods or completion is None:
        return False
    retries = draft.status.retry_policy_status
    policy = draft.spec.retry_policy
    return not decide_retry(policy, retries, completion.code, completion.type).should_retry


def end_pods(draft: Draft, urgency: Urgency) -> bool:
    """Delete the Pods of a retained attempt that do not stay; return whether none is left.

    Live Pods that are not left running, and the Pods of roles that keep none, do not stay.

    A Pod with the wrapper gets its termination grace period to end by itself, if the roster says
    that the attempt ends. An unclaimed Pod must be gone, too: the ConfigMap stays, so the garbage
    collector does not delete it.
    """
    is_done = not any(ownership.walk_unclaimed_pods(draft))
    is_told = has_live_wrapper(draft)
    for role, task in draft.walk_tasks():
        pod = draft.snapshot.pods.get(task.attempt_status.pod_name)
        if draft.is_create_in_flight(ObjectKind.POD, task.attempt_status.pod_name):
            is_done = False
        if pod is None or pod.uid != task.attempt_status.pod_uid:
            is_done = _is_known_gone(draft, task) and is_done
        elif not _stays(draft, role, task, pod):
            is_done = False
            is_waited_for = is_told and is_wrapped(pod) and not pod.is_ended
            _end_pod(draft, role, task, pod, urgency, is_waited_for=is_waited_for)
    return is_done


def stays_running(draft: Draft, role: RoleDraft, task: TaskStatus, pod: PodView) -> bool:
    """Return whether a live Pod of a retained attempt that ends is left running."""
    completion = draft.status.attempt_status.completion_status
    is_end_of_all = completion is None or completion.code in _ENDS_OF_ALL_PODS
    if is_end_of_all or draft.spec.execution_type is ExecutionType.STOP:
        return False
    task_end = task.attempt_status.completion_status
    return (
        draft.spec.get_pod_policy(role.spec) is CompletedPodPolicy.RETAIN_RUNNING
        # If the spec has changed since the end began, the status does not say that the Pod stays.
        and (task_end is None or is_left_running(task_end))
        # Otherwise its deletion is decided already.
        and task.state in TASK_ALIVE
        and not task.deletion_pending
        and not (pod.is_ended or pod.is_terminating)
    )


def end_left_pods(draft: Draft) -> None:
    """Delete the Pods that a Completed Framework has left running, if it was stopped since."""
    if draft.spec.execution_type is not ExecutionType.STOP or not draft.snapshot.pods:
        return
    for role, task in draft.walk_tasks():
        pod = ownership.find_pod(draft, task)
        is_left = is_left_running(task.attempt_status.completion_status)
        # Other live Pods are those that were cut off from their ConfigMap by another client.
        if pod is None or pod.is_ended or not is_left:
            continue
        if pod.is_terminating:
            ownership.force_overdue_deletion(draft, role, pod)
        else:
            cause = f"{role.name}/{task.index}: a user has stopped the Framework after its end"
            draft.add_action(DeleteObject(ObjectKind.POD, pod.name, pod.uid, cause))


def has_live_wrapper(draft: Draft) -> bool:
    """Return whether a live Pod has a wrapper, which reads in the roster that the attempt ends.

    Not if a Pod is left running: its agent reads the same roster, and its process is not to end.
    """
    is_any_live = any(
        is_wrapped(pod) and not pod.is_ended and not pod.is_terminating
        for pod in draft.snapshot.pods.values()
    )
    return is_any_live and not _is_any_left_running(draft)


def is_wrapped(pod: PodView) -> bool:
    """Return whether the Pod declares the wrapper as its first process."""
    return constants.WRAPPER_ANNOTATION in pod.annotations


def delete_released_pod(draft: Draft, task: TaskStatus) -> None:
    """Delete the retained Pod of a Completed Task that was scaled down later.

    A Pod that is not in the cache may only have lost its label, so a live GET decides.
    """
    if not task.deletion_pending:
        return
    pod = ownership.find_pod(draft, task)
    if pod is None:
        if not is_released(draft, task):
            cause = "its Task is scaled down, and its Pod may have been kept"
            ownership.request_live_get(draft, ObjectKind.POD, task.attempt_status.pod_name, cause)
    elif not pod.is_terminating:
        cause = "its Task is scaled down"
        draft.add_action(DeleteObject(ObjectKind.POD, pod.name, pod.uid, cause))


def is_released(draft: Draft, task: TaskStatus) -> bool:
    """Return whether a Completed Task has no retained Pod, or is known to have lost it."""
    if ownership.find_pod(draft, task) is not None:
        return False
    attempt = task.attempt_status
    completion = attempt.completion_status
    # Before the end of the attempt, only a Pod that ended on its own is retained.
    if completion is None or completion.pod is None or attempt.pod_name in draft.snapshot.pods:
        return True
    return draft.is_gone(ObjectKind.POD, attempt.pod_name, attempt.pod_uid)


def _stays(draft: Draft, role: RoleDraft, task: TaskStatus, pod: PodView) -> bool:
    if pod.is_ended:
        return draft.spec.get_pod_policy(role.spec).keeps_after_end
    return stays_running(draft, role, task, pod)


def _is_any_left_running(draft: Draft) -> bool:
    """Return whether a Pod is left running."""
    return any(
        (pod := ownership.find_pod(draft, task)) is not None
        and stays_running(draft, role, task, pod)
        for role, task in draft.walk_tasks()
    )


def _end_pod(
    draft: Draft,
    role: RoleDraft,
    task: TaskStatus,
    pod: PodView,
    urgency: Urgency,
    *,
    is_waited_for: bool,
) -> None:
    if pod.is_terminating:
        return
    grace_seconds = pod.termination_grace_seconds
    if is_waited_for and not draft.has_elapsed(draft.status.transition_time, grace_seconds):
        return
    cause = f"{role.name}/{task.index}: the attempt has ended"
    draft.add_action(DeleteObject(ObjectKind.POD, pod.name, pod.uid, cause, urgency=urgency))


def _is_known_gone(draft: Draft, task: TaskStatus) -> bool:
    attempt = task.attempt_status
    if attempt.completion_time is not None:
        return True
    is_gone = draft.is_gone(ObjectKind.POD, attempt.pod_name, attempt.pod_uid)
    if not is_gone and attempt.pod_uid is None:
        # A Pod may have been created and not recorded, and the watch may not show it. For a
        # recorded Pod, the Task's machine asks for the live GET.
        cause = "the attempt ends before its Pod is known"
        ownership.request_live_get(draft, ObjectKind.POD, attempt.pod_name, cause)
    return is_gone
