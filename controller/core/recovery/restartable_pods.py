"""Which Pods and roles take part in restarts in place."""

from collections.abc import Mapping

from controller.core.draft import Draft
from framework.api.inplace import find_in_place
from framework.api.pods import PodView
from framework.api.recovery import InPlaceSpec
from framework.api.states import TASK_ALIVE
from framework.api.types import TaskStatus


def list_policies(draft: Draft) -> Mapping[str, InPlaceSpec]:
    """List the restart in place of each role of the spec that has it."""
    return {
        role.name: in_place
        for role in draft.spec.task_roles
        if (in_place := find_in_place(role)) is not None
    }


def find_live_pod(draft: Draft, task: TaskStatus) -> PodView | None:
    """Find the recorded Pod of a Task's attempt; None if it is terminating or finished."""
    attempt = task.attempt_status
    pod = draft.snapshot.pods.get(attempt.pod_name)
    if pod is None or pod.uid != attempt.pod_uid or task.state not in TASK_ALIVE:
        return None
    return None if pod.is_terminating or pod.is_ended else pod
