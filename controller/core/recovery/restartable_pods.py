"""The roles and Pods that take part in restarts in place.

Rules: docs/design/recovery.md, "Restart in place".
"""

from collections.abc import Collection, Mapping

from controller.core.draft import Draft
from framework.api.inplace import choose_in_place
from framework.api.pods import PodView
from framework.api.recovery import InPlaceSpec
from framework.api.states import TASK_ALIVE
from framework.api.templatefacts import find_facts
from framework.api.types import TaskRoleSpec, TaskStatus


def list_policies(draft: Draft) -> Mapping[str, InPlaceSpec]:
    """List the restart in place of each role that takes part and has it in the spec now."""
    policies = {
        role.name: in_place
        for role in draft.spec.task_roles
        if (in_place := _find_in_place(role)) is not None
    }
    known = find_roles(draft)
    if known is None:
        return policies
    return {name: policy for name, policy in policies.items() if name in known}


def _find_in_place(role: TaskRoleSpec) -> InPlaceSpec | None:
    return choose_in_place(role, find_facts(role.task.pod).in_place)


def find_roles(draft: Draft) -> Collection[str] | None:
    """Find the roles that take part: those of the first roster of the attempt.

    Agents read them only at their start, so a later change of the spec adds no role. None if no
    roster is published.
    """
    published = draft.snapshot.published.roster
    if published is None:
        return None
    return published.recovery.roles if published.recovery is not None else ()


def find_recorded_pod(draft: Draft, task: TaskStatus) -> PodView | None:
    """Find the Pod that the status records for a Task's attempt, also if it has ended."""
    attempt = task.attempt_status
    pod = draft.snapshot.pods.get(attempt.pod_name)
    return None if pod is None or pod.uid != attempt.pod_uid else pod


def find_live_pod(draft: Draft, task: TaskStatus) -> PodView | None:
    """Find the recorded Pod of a Task's attempt; None if it leaves, terminates or is finished."""
    if task.deletion_pending or task.attempt_status.leaving is not None:
        return None
    pod = find_recorded_pod(draft, task)
    if pod is None or task.state not in TASK_ALIVE:
        return None
    return None if pod.is_terminating or pod.is_ended else pod
