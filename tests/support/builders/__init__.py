"""Builders with defaults: a test sets only the values that it is about.

``build_*_wire`` builds dicts in the form of an API server; the others build types of
``framework.api``. All are of one gang: Framework ``gang`` in namespace ``default``, attempt 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from framework.api import codec, constants
from framework.api.completion import complete_framework, complete_task
from framework.api.naming import build_configmap_name, build_instance_uid, build_pod_name
from framework.api.objectmeta import ObjectMeta
from framework.api.pods import ConfigMapView, PodView, parse_configmap, parse_pod
from framework.api.roster import (
    PHASE_ACTIVE,
    Leaving,
    Member,
    RoleRoster,
    Roster,
    fingerprint_uid,
)
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    Framework,
    FrameworkAttemptCompletionStatus,
    FrameworkAttemptStatus,
    FrameworkSpec,
    FrameworkStatus,
    TaskAttemptCompletionStatus,
    TaskAttemptStatus,
    TaskRoleSpec,
    TaskRoleStatus,
    TaskSpec,
    TaskStatus,
)
from framework.api.wire import format_time

Wire = dict[str, Any]

# The time of all events in these tests, unless a test sets another one.
AT = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACE = "default"
FRAMEWORK = "gang"
FRAMEWORK_UID = "f0000000-0000-4000-8000-000000000000"
CONFIGMAP_UID = "c0000000-0000-4000-8000-000000000000"


def at(seconds: float) -> datetime:
    """The time ``seconds`` after AT."""
    return AT + timedelta(seconds=seconds)


def pod_uid(role: str, index: int) -> str:
    return f"pod-{role}-{index}"


def task_uid(role: str, index: int) -> str:
    return f"task-{role}-{index}"


def address(index: int) -> str:
    return f"10.0.{index // 250}.{index % 250 + 2}"


# --- Framework: written by users -----------------------------------------------------------------


def build_template_wire(**spec: Any) -> Wire:
    """A Pod template with one container."""
    containers = [{"name": "main", "image": "busybox", "command": ["true"]}]
    return {"spec": {"restartPolicy": "Never", "containers": containers, **spec}}


def build_role_wire(name: str = "worker", number: int = 1, **fields: Any) -> Wire:
    """A task role; ``fields`` are more of its keys."""
    return {
        "name": name,
        "taskNumber": number,
        "task": {"pod": build_template_wire()},
        **fields,
    }


def build_framework_wire(*roles: Wire, name: str = FRAMEWORK, **spec: Any) -> Wire:
    """A Framework as the API server stores it, without a status."""
    return {
        "apiVersion": constants.API_VERSION,
        "kind": constants.FRAMEWORK_KIND,
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": FRAMEWORK_UID,
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": format_time(AT),
        },
        "spec": {
            "executionType": "Start",
            "taskRoles": list(roles or (build_role_wire(),)),
            **spec,
        },
    }


# The policy of a task role whose first failure ends the attempt.
FAIL_FAST = {"minFailedTaskCount": 1, "minSucceededTaskCount": -1}


def build_submission(name: str, *roles: Wire, **spec: Any) -> Wire:
    """A Framework as a user submits it, to any namespace."""
    return {**build_framework_wire(*roles, **spec), "metadata": {"name": name}}


def build_role(name: str = "worker", number: int = 1, **fields: Any) -> TaskRoleSpec:
    """A task role; ``fields`` are more of its attributes."""
    return replace(TaskRoleSpec(name, number, task=TaskSpec(pod=build_template_wire())), **fields)


def build_spec(*roles: TaskRoleSpec, **fields: Any) -> FrameworkSpec:
    """A spec of these roles, or of a role with one Task."""
    return FrameworkSpec(task_roles=roles or (build_role(),), **fields)


def build_framework(
    spec: FrameworkSpec | None = None,
    status: FrameworkStatus | None = None,
    **metadata: Any,
) -> Framework:
    """A Framework; ``metadata`` are attributes of its ObjectMeta."""
    defaults: Wire = {
        "name": FRAMEWORK,
        "namespace": NAMESPACE,
        "uid": FRAMEWORK_UID,
        "resource_version": "1",
        "generation": 1,
        "creation_time": AT,
    }
    return Framework(ObjectMeta(**(defaults | metadata)), spec or build_spec(), status)


# --- Status: written by the controller -----------------------------------------------------------

BEFORE_POD = frozenset({TaskState.ATTEMPT_CREATION_PENDING, TaskState.ATTEMPT_CREATION_REQUESTED})


def build_task_attempt(role: str = "worker", index: int = 0, **fields: Any) -> TaskAttemptStatus:
    """The first attempt of a Task, whose Pod is known and has an address."""
    uid = pod_uid(role, index)
    built = TaskAttemptStatus(
        id=0,
        start_time=AT,
        instance_uid=build_instance_uid(0, uid),
        pod_name=build_pod_name(FRAMEWORK, role, index),
        pod_uid=uid,
        pod_node_name="node",
        pod_ip=address(index),
        pod_host_ip="192.168.0.1",
    )
    return replace(built, **fields) if fields else built


def build_task(
    state: TaskState = TaskState.ATTEMPT_RUNNING,
    role: str = "worker",
    index: int = 0,
    **fields: Any,
) -> TaskStatus:
    """A Task in a state; in the first two states it has no Pod."""
    unknown = ("instance_uid", "pod_uid", "pod_node_name", "pod_ip", "pod_host_ip")
    attempt = build_task_attempt(
        role, index, **(dict.fromkeys(unknown) if state in BEFORE_POD else {})
    )
    built = TaskStatus(
        index=index,
        instance_uid=task_uid(role, index),
        start_time=AT,
        state=state,
        transition_time=AT,
        attempt_status=attempt,
    )
    return replace(built, **fields) if fields else built


def build_unaddressed_task(index: int = 0) -> TaskStatus:
    attempt = build_task_attempt(index=index, pod_ip="")
    return build_task(TaskState.ATTEMPT_PREPARING, index=index, attempt_status=attempt)


def end_task(
    task: TaskStatus, completion: TaskAttemptCompletionStatus | int = 0, **attempt: Any
) -> TaskStatus:
    """The Task with the completion of its attempt; a predefined code is also accepted."""
    if isinstance(completion, int):
        completion = complete_task(completion, "x")
    ended = replace(task.attempt_status, completion_status=completion, **attempt)
    return replace(task, attempt_status=ended)


def build_role_status(
    name: str = "worker",
    number: int = 1,
    state: TaskState = TaskState.ATTEMPT_RUNNING,
    **fields: Any,
) -> TaskRoleStatus:
    """A role whose Tasks are all in one state."""
    tasks = tuple(build_task(state, name, index) for index in range(number))
    return replace(TaskRoleStatus(name, f"role-{name}", tasks=tasks), **fields)


def build_attempt(*roles: TaskRoleStatus, **fields: Any) -> FrameworkAttemptStatus:
    """The first attempt of a Framework, its ConfigMap known."""
    built = FrameworkAttemptStatus(
        id=0,
        start_time=AT,
        instance_uid=build_instance_uid(0, CONFIGMAP_UID),
        configmap_name=build_configmap_name(FRAMEWORK),
        configmap_uid=CONFIGMAP_UID,
        task_roles=roles,
    )
    return replace(built, **fields)


def build_status(
    *roles: TaskRoleStatus,
    state: FrameworkState = FrameworkState.ATTEMPT_RUNNING,
    **fields: Any,
) -> FrameworkStatus:
    """A status of these roles, or of a role with one running Task."""
    built = FrameworkStatus(
        start_time=AT,
        state=state,
        transition_time=AT,
        attempt_status=build_attempt(*(roles or (build_role_status(),))),
    )
    return replace(built, **fields)


def end_attempt(
    status: FrameworkStatus, completion: FrameworkAttemptCompletionStatus | int, **attempt: Any
) -> FrameworkStatus:
    """The status with the completion of its attempt; a predefined code is also accepted."""
    if isinstance(completion, int):
        completion = complete_framework(completion, "x")
    ended = replace(status.attempt_status, completion_status=completion, **attempt)
    return replace(status, attempt_status=ended)


def build_status_wire(*roles: TaskRoleStatus, **fields: Any) -> Wire:
    return codec.encode_status(build_status(*roles, **fields))


# --- Pods and ConfigMaps -------------------------------------------------------------------------


def build_owner(kind: str, name: str, uid: str) -> Wire:
    """The reference to the controlling owner: a Framework, or an object of the core group."""
    return {
        "apiVersion": constants.API_VERSION if kind == constants.FRAMEWORK_KIND else "v1",
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def build_annotations(role: str, index: int, attempt_id: int = 0) -> dict[str, str]:
    """The annotations that the controller writes on the Pod of a Task."""
    return {
        constants.FRAMEWORK_NAMESPACE: NAMESPACE,
        constants.FRAMEWORK_NAME: FRAMEWORK,
        constants.TASKROLE_NAME: role,
        constants.TASK_INDEX: str(index),
        constants.CONFIGMAP_NAME: build_configmap_name(FRAMEWORK),
        constants.POD_NAME: build_pod_name(FRAMEWORK, role, index),
        constants.FRAMEWORK_UID: FRAMEWORK_UID,
        constants.FRAMEWORK_ATTEMPT_ID: "0",
        constants.FRAMEWORK_ATTEMPT_INSTANCE_UID: build_instance_uid(0, CONFIGMAP_UID),
        constants.CONFIGMAP_UID: CONFIGMAP_UID,
        constants.TASKROLE_UID: f"role-{role}",
        constants.TASK_UID: task_uid(role, index),
        constants.TASK_ATTEMPT_ID: str(attempt_id),
    }


def build_ended(
    name: str = "main",
    code: int = 0,
    seconds: float = 0,
    **terminated: Any,
) -> Wire:
    """A containerStatus: ended with ``code``, ``seconds`` after AT."""
    ended = {"exitCode": code, "finishedAt": format_time(at(seconds)), **terminated}
    return {"name": name, "state": {"terminated": ended}}


def build_waiting(name: str = "main", reason: str = "", message: str = "") -> Wire:
    """A containerStatus: not started yet."""
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}}


def build_pod_wire(
    role: str = "worker",
    index: int = 0,
    phase: str = "Running",
    containers: Sequence[Wire] = (),
    init_containers: Sequence[Wire] = (),
    *,
    metadata: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    **status: Any,
) -> Wire:
    """A Task's Pod as the API server stores it; ``status`` are more keys of its status."""
    owner = build_owner(constants.CONFIGMAP_KIND, build_configmap_name(FRAMEWORK), CONFIGMAP_UID)
    return {
        "apiVersion": "v1",
        "kind": constants.POD_KIND,
        "metadata": {
            "name": build_pod_name(FRAMEWORK, role, index),
            "namespace": NAMESPACE,
            "uid": pod_uid(role, index),
            "resourceVersion": "1",
            "creationTimestamp": format_time(AT),
            "annotations": build_annotations(role, index),
            "labels": {
                constants.FRAMEWORK_NAME: FRAMEWORK,
                constants.TASKROLE_NAME: role,
                constants.TASK_INDEX: str(index),
            },
            "ownerReferences": [owner],
            **(metadata or {}),
        },
        "spec": {**build_template_wire()["spec"], "nodeName": "node", **(spec or {})},
        "status": {
            "phase": phase,
            "podIP": address(index),
            "podIPs": [{"ip": address(index)}],
            "hostIP": "192.168.0.1",
            "containerStatuses": list(containers),
            "initContainerStatuses": list(init_containers),
            **status,
        },
    }


def build_pod(role: str = "worker", index: int = 0, phase: str = "Running", **kw: Any) -> PodView:
    return parse_pod(build_pod_wire(role, index, phase, **kw))


def build_pods(*phases: str) -> list[PodView]:
    """The views of the first Tasks' Pods, one for each phase."""
    return [build_pod(index=index, phase=phase) for index, phase in enumerate(phases)]


def build_configmap_wire(annotations: Mapping[str, str] | None = None, **fields: Any) -> Wire:
    """The ConfigMap of the first attempt; ``fields`` are more of its metadata."""
    owner = build_owner(constants.FRAMEWORK_KIND, FRAMEWORK, FRAMEWORK_UID)
    return {
        "apiVersion": "v1",
        "kind": constants.CONFIGMAP_KIND,
        "metadata": {
            "name": build_configmap_name(FRAMEWORK),
            "namespace": NAMESPACE,
            "uid": CONFIGMAP_UID,
            "resourceVersion": "1",
            "annotations": {
                constants.FRAMEWORK_NAMESPACE: NAMESPACE,
                constants.FRAMEWORK_NAME: FRAMEWORK,
                constants.CONFIGMAP_NAME: build_configmap_name(FRAMEWORK),
                constants.FRAMEWORK_UID: FRAMEWORK_UID,
                constants.FRAMEWORK_ATTEMPT_ID: "0",
                constants.ROSTER_VERSION_ANNOTATION: constants.ROSTER_VERSION,
                **(annotations or {}),
            },
            "labels": {constants.FRAMEWORK_NAME: FRAMEWORK},
            "finalizers": [constants.FOREGROUND_DELETION_FINALIZER],
            "ownerReferences": [owner],
            **fields,
        },
    }


def build_configmap(annotations: Mapping[str, str] | None = None, **fields: Any) -> ConfigMapView:
    return parse_configmap(build_configmap_wire(annotations, **fields))


# --- Rosters -------------------------------------------------------------------------------------


def build_member(role: str = "worker", index: int = 0, **fields: Any) -> Member:
    """A member with the Pod of ``build_pod_wire``."""
    fingerprint = fingerprint_uid(pod_uid(role, index))
    return Member(index, (address(index),), fingerprint, 0)._replace(**fields)


def build_role_roster(name: str = "worker", number: int = 1, **fields: Any) -> RoleRoster:
    """A role whose Tasks are all members."""
    members = tuple(build_member(name, index) for index in range(number))
    role = RoleRoster(
        name=name,
        wanted=number,
        minimum=number,
        running=False,
        members=members,
        completed=(),
        absent=(),
    )
    return role._replace(**fields)


def build_roster(
    *roles: RoleRoster,
    generation: int = 1,
    leaving: Sequence[Leaving] = (),
    **fields: Any,
) -> Roster:
    """A complete roster of these roles, or of a role with one Task."""
    roster = Roster(
        namespace=NAMESPACE,
        framework=FRAMEWORK,
        framework_uid=FRAMEWORK_UID,
        attempt_id=0,
        instance_uid=build_instance_uid(0, CONFIGMAP_UID),
        generation=generation,
        complete=True,
        phase=PHASE_ACTIVE,
        roles=roles or (build_role_roster(),),
        leaving=tuple(leaving),
    )
    return roster._replace(**fields)
