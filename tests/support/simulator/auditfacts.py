"""Facts about Frameworks and Pods that the auditor asks, apart from the code of the controller."""

from framework.api import constants, naming
from framework.api.completion import (
    CONFIGMAP_EXTERNAL_DELETED,
    FRAMEWORK_DEADLINE_EXCEEDED,
    POD_LEFT_RUNNING,
    STOP_FRAMEWORK_REQUESTED,
)
from framework.api.pods import PodView
from framework.api.states import FrameworkState
from framework.api.types import (
    CompletedPodPolicy,
    ExecutionType,
    Framework,
    FrameworkStatus,
    TaskStatus,
)
from framework.kube.resources import Object

_ENDS_OF_ALL_PODS = (
    STOP_FRAMEWORK_REQUESTED,
    FRAMEWORK_DEADLINE_EXCEEDED,
    CONFIGMAP_EXTERNAL_DELETED,
)


def keeps_pods(framework: Framework, role: str) -> bool:
    """Return whether Pods of a role stay until the end, or also after it."""
    policy = framework.spec.get_pod_policy(framework.spec.find_role(role))
    return policy is not CompletedPodPolicy.DELETE


def leaves_running(
    framework: Framework, after: FrameworkStatus, role: str, task: TaskStatus
) -> bool:
    """Return whether a live Pod of a Task may be left running by a status that is written."""
    end, task_end = after.attempt_status.completion_status, task.attempt_status.completion_status
    if after.state is not FrameworkState.COMPLETED or end is None or task_end is None:
        return False
    is_end_of_all = end.code in _ENDS_OF_ALL_PODS or is_stopped(framework)
    # Otherwise its deletion was decided at the end or before it.
    is_left = task_end.code == POD_LEFT_RUNNING
    policy = framework.spec.get_pod_policy(framework.spec.find_role(role))
    is_policy = policy is CompletedPodPolicy.RETAIN_RUNNING
    return is_policy and is_left and not is_end_of_all


def is_stopped(framework: Framework) -> bool:
    """Return whether the spec says that no Pod is to run."""
    return framework.spec.execution_type is ExecutionType.STOP


def list_owners(body: Object) -> list[str]:
    """List the UIDs of the owners of an object."""
    return [owner["uid"] for owner in body["metadata"].get("ownerReferences") or ()]


def find_task_names(pod: PodView) -> tuple[str | None, ...]:
    """Find the UID of the Framework, the role and the index of a Pod."""
    names = (constants.FRAMEWORK_UID, constants.TASKROLE_NAME, constants.TASK_INDEX)
    return tuple(pod.annotations.get(name) for name in names)


def list_excluded(pod: Object) -> tuple[str, ...]:
    """List the nodes that a Pod may not run on by its name; templates here have no affinity."""
    affinity = pod["spec"].get("affinity")
    if affinity is None:
        return ()
    required = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    return tuple(field["values"][0] for field in term["matchFields"])


def find_task(framework: Framework, pod_name: str) -> TaskStatus | None:
    """Find the status of the Task of a Pod by its name; None if there is none."""
    parsed = naming.parse_pod_name(pod_name)
    if parsed is None or framework.status is None:
        return None
    role = framework.status.attempt_status.find_role(parsed[1].role)
    if role is None or parsed[1].index >= len(role.tasks):
        return None
    return role.tasks[parsed[1].index]
