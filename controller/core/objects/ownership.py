"""Ownership: which objects are the attempt's, which are adopted, deleted, or read live.

Any tenant that may create Pods or ConfigMaps can write owners, labels and annotations. An object is
therefore ours only if

- the stored status names its UID, or
- it is proven: the answer to our own create had its UID, or its creation proof was verified
  (``Snapshot.proven``). An object that an older controller may have created needs no proof
  (``creators``).

Steps of the machines, for each object:

1. Adopt: record the UID of a proven object that the attempt waits for (``find_configmap``,
   ``adopt_pod``).
2. Find: later, only the object with the recorded UID counts (``find_pod``).
3. Ask: if the recorded object is missing, a live GET decides (``request_live_get``).
4. Delete: a proven Pod that no Task entry names is unclaimed (``delete_unclaimed_pods``).

Example: a controller crashes after it created Pod gang-a-0. Its successor sees the Pod, verifies
the proof, and adopts it: no second Pod is created. A Pod of that name without a proof is foreign:
it is never adopted or deleted.

Rules: docs/design/state-machines.md, "Absence", "Adoption", "Creation proofs", "Unclaimed Pods".
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from controller.core.actions import (
    ActionKey,
    DeleteObject,
    GetObject,
    ObjectKind,
    Verb,
    build_attempt_identity,
)
from controller.core.draft import Draft, RoleDraft
from controller.core.objects.creators import is_pod_proof_needed, is_proof_needed
from controller.core.settings import CONFIRMATION_SECONDS
from framework.api import constants, naming
from framework.api.pods import ConfigMapView, PodView
from framework.api.states import TASK_ENDED, FrameworkState, TaskState
from framework.api.types import TaskStatus


def build_configmap_identity(draft: Draft) -> str:
    """Build the identity of the attempt's ConfigMap, for the key of its create."""
    uid = draft.snapshot.framework.metadata.uid
    return build_attempt_identity(uid, draft.status.attempt_status.id)


def build_pod_identity(task: TaskStatus) -> str:
    """Build the identity of the Pod of a Task's current attempt."""
    return build_attempt_identity(task.instance_uid, task.attempt_status.id)


def build_creation_key(task: TaskStatus) -> ActionKey:
    """Build the key of the create of the Pod of a Task's current attempt."""
    name = task.attempt_status.pod_name
    return ActionKey(Verb.CREATE, ObjectKind.POD, name, build_pod_identity(task))


def find_configmap(draft: Draft) -> ConfigMapView | None:
    """Find the attempt's ConfigMap by its recorded UID; adopt it first if none is recorded."""
    candidate = draft.snapshot.configmap
    if candidate is None:
        return None
    recorded = draft.status.attempt_status.configmap_uid
    if recorded is None and _is_adoptable_configmap(draft, candidate):
        _adopt_configmap(draft, candidate)
        return candidate
    return candidate if candidate.uid == recorded else None


def is_own_configmap(draft: Draft, configmap: ConfigMapView) -> bool:
    """Return whether the Framework owns the ConfigMap, and a controller created it."""
    uid = draft.snapshot.framework.metadata.uid
    if configmap.owner is None or configmap.owner.uid != uid:
        return False
    is_needed = is_proof_needed(draft.status.attempt_status)
    return not is_needed or configmap.uid in draft.snapshot.proven


def find_pod(draft: Draft, task: TaskStatus) -> PodView | None:
    """Find a Task's Pod by its recorded UID."""
    candidate = draft.snapshot.pods.get(task.attempt_status.pod_name)
    if candidate is None or candidate.uid != task.attempt_status.pod_uid:
        return None
    return candidate


def adopt_pod(draft: Draft, role: RoleDraft, task: TaskStatus) -> TaskStatus:
    """Record the Pod of this Task's attempt if it exists, usually after its create was answered."""
    candidate = draft.snapshot.pods.get(task.attempt_status.pod_name)
    if candidate is None or draft.is_completing or not is_adoptable_pod(draft, task, candidate):
        return task
    attempt = replace(
        task.attempt_status,
        pod_uid=candidate.uid,
        instance_uid=naming.build_instance_uid(task.attempt_status.id, candidate.uid),
    )
    task = draft.put_task(role, replace(task, attempt_status=attempt))
    return draft.move_task(role, task, TaskState.ATTEMPT_CREATION_REQUESTED)


def is_adoptable_pod(draft: Draft, task: TaskStatus, pod: PodView) -> bool:
    """Return whether a Task waits for this Pod."""
    attempt = task.attempt_status
    is_needed = is_pod_proof_needed(draft.status.attempt_status, attempt)
    return (
        task.state is TaskState.ATTEMPT_CREATION_PENDING
        and attempt.pod_uid is None
        and _is_controlled_by_attempt(draft, pod)
        and build_pod_identity(task) == f"{pod.task_uid}/{pod.task_attempt_id}"
        and (not is_needed or pod.uid in draft.snapshot.proven)
    )


def must_wait_for_name(draft: Draft, name: str) -> bool:
    """Return whether a create must wait until a Pod of this name is deleted.

    It does not wait for a foreign Pod: the create fails, and the condition Blocked says so.
    """
    pod = draft.snapshot.pods.get(name)
    return pod is not None and (pod.is_terminating or _is_of_attempt(draft, pod))


def walk_unclaimed_pods(draft: Draft) -> Iterator[PodView]:
    """Walk the attempt's Pods that no Task entry names."""
    claimed = {task.attempt_status.pod_uid for _, task in draft.walk_tasks()}
    for pod in draft.snapshot.pods.values():
        if pod.uid not in claimed and _is_of_attempt(draft, pod):
            yield pod


def delete_unclaimed_pods(draft: Draft, *, spares_adoptable: bool = True) -> None:
    """Delete the attempt's Pods that no Task entry names, in every state.

    A Pod whose name has a create in flight is left: the answer may prove it.

    Args:
        draft: the decision.
        spares_adoptable: leave the Pods that Tasks wait for; they are adopted later, or deleted
            with the ConfigMap.
    """
    for pod in walk_unclaimed_pods(draft):
        if pod.is_terminating:
            role = _find_role(draft, pod)
            if role is not None:
                force_overdue_deletion(draft, role, pod)
            continue
        is_unsettled = draft.is_create_in_flight(ObjectKind.POD, pod.name)
        if not is_unsettled and not (spares_adoptable and _is_awaited(draft, pod)):
            cause = "no Task claims it"
            draft.add_action(DeleteObject(ObjectKind.POD, pod.name, pod.uid, cause))


def force_overdue_deletion(draft: Draft, role: RoleDraft, pod: PodView) -> None:
    """Delete a terminating Pod with grace period 0 if its graceful deletion takes too long."""
    timeout = role.status.pod_graceful_deletion_timeout_seconds
    if timeout is None or pod.deletion_time is None:
        return
    # deletionTimestamp is the end of the grace period.
    if draft.has_elapsed(pod.deletion_time, timeout - pod.deletion_grace_seconds):
        cause = f"graceful deletion took longer than {timeout} s"
        draft.add_action(DeleteObject(ObjectKind.POD, pod.name, pod.uid, cause, grace_seconds=0))


def is_attempt_empty(draft: Draft) -> bool:
    """Return whether no Pod of the attempt exists or can still be created.

    The server may carry out a create after its answer was lost.
    """
    unanswered = [key for key, failure in draft.snapshot.failures.items() if failure.is_unknown]
    is_any_to_come = draft.is_any_pod_create_in_flight or any(
        (key.verb, key.kind) == (Verb.CREATE, ObjectKind.POD) for key in unanswered
    )
    return (
        not is_any_to_come
        and all(task.state in TASK_ENDED for _, task in draft.walk_tasks())
        and not any(_is_controlled_by_attempt(draft, p) for p in draft.snapshot.pods.values())
    )


def request_live_get(draft: Draft, kind: ObjectKind, name: str, cause: str) -> None:
    """Request a live GET, unless a create of that name is in flight."""
    if not draft.is_create_in_flight(kind, name):
        draft.add_action(GetObject(kind, name, cause))


def request_unconfirmed(draft: Draft) -> None:
    """Request a live GET of each created object that no watch has shown for too long."""
    for (kind, name), since in draft.snapshot.unconfirmed.items():
        due = since + timedelta(seconds=CONFIRMATION_SECONDS)
        if draft.is_wait_over(since, due):
            request_live_get(draft, kind, name, "created, but not seen in the watch")


def _is_adoptable_configmap(draft: Draft, configmap: ConfigMapView) -> bool:
    return (
        draft.state is FrameworkState.ATTEMPT_CREATION_PENDING
        and is_own_configmap(draft, configmap)
        and not configmap.is_terminating
        and constants.FOREGROUND_DELETION_FINALIZER in configmap.finalizers
        and configmap.attempt_id == str(draft.status.attempt_status.id)
    )


def _adopt_configmap(draft: Draft, configmap: ConfigMapView) -> None:
    attempt_id = draft.status.attempt_status.id
    draft.update_attempt(
        configmap_uid=configmap.uid,
        instance_uid=naming.build_instance_uid(attempt_id, configmap.uid),
    )
    draft.move(FrameworkState.ATTEMPT_CREATION_REQUESTED)


def _is_controlled_by_attempt(draft: Draft, pod: PodView) -> bool:
    uid = draft.status.attempt_status.configmap_uid
    return uid is not None and pod.owner is not None and pod.owner.uid == uid


def _is_of_attempt(draft: Draft, pod: PodView) -> bool:
    """Return whether the attempt owns the Pod, and a controller created it."""
    is_needed = is_proof_needed(draft.status.attempt_status)
    is_own = not is_needed or pod.uid in draft.snapshot.proven
    return is_own and _is_controlled_by_attempt(draft, pod)


def _is_awaited(draft: Draft, pod: PodView) -> bool:
    role, parsed = _find_role(draft, pod), naming.parse_pod_name(pod.name)
    if role is None or parsed is None or parsed[1].index >= len(role.tasks):
        return False
    return is_adoptable_pod(draft, role.tasks[parsed[1].index], pod)


def _find_role(draft: Draft, pod: PodView) -> RoleDraft | None:
    parsed = naming.parse_pod_name(pod.name)
    name = parsed[1].role if parsed else None
    return next((role for role in draft.roles if role.name == name), None)
