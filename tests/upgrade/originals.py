"""Objects as the original stores them: every key is there, null where nothing is known.

Called by ``tests.upgrade.situations``. Times are seconds before the original was stopped.
"""

import uuid
from datetime import UTC, datetime, timedelta

from framework.kube.resources import Object

API_VERSION = "frameworkcontroller.microsoft.com/v1"
NAMESPACE = "default"
NODE = "fake-node"
NODE_ADDRESS = "10.0.0.1"
HOLD = "example.com/hold"
"""A finalizer that keeps deleted Pods, so that a situation lasts."""
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
"""When the original was stopped."""


def uid(*names: str | int) -> str:
    """An identity, the same at each call."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(map(str, names))))


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def build_role(name: str, task_number: int, *, retries: int = 0, hold: bool = False) -> Object:
    metadata: Object = {"creationTimestamp": None}
    if hold:
        metadata["finalizers"] = [HOLD]
    container = {"image": "local/none:1", "name": "main", "resources": {}}
    return {
        "name": name,
        "taskNumber": task_number,
        "frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 1, "minSucceededTaskCount": -1},
        "task": {
            "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": retries},
            "podGracefulDeletionTimeoutSec": None,
            "pod": {
                "metadata": metadata,
                "spec": {"containers": [container], "restartPolicy": "Never"},
            },
        },
    }


def build_framework(
    name: str, roles: list[Object], status: Object, *, execution: str = "Start", fancy: bool = False
) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": "Framework",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": uid(name),
            "generation": 7,
            "resourceVersion": "70",
            "creationTimestamp": ago(600),
        },
        "spec": {
            "description": "",
            "executionType": execution,
            "retryPolicy": {"fancyRetryPolicy": fancy, "maxRetryCount": 0},
            "taskRoles": roles,
        },
        "status": status,
    }


def build_status(
    name: str,
    state: str,
    roles: list[Object],
    *,
    has_configmap: bool = True,
    ran: bool = False,
    ended_ago: float | None = None,
    since: float = 300,
    completion: Object | None = None,
    retry_delay: int | None = None,
) -> Object:
    """Build the status of a Framework in its first attempt."""
    run_time = ago(500) if ran else None
    ended = None if ended_ago is None else ago(ended_ago)
    configmap_uid = uid(name, "configmap") if has_configmap else None
    return {
        "startTime": ago(600),
        "runTime": run_time,
        "completionTime": ended if state == "Completed" else None,
        "state": state,
        "transitionTime": ago(since),
        "retryPolicyStatus": build_counts(delay=retry_delay),
        "attemptStatus": {
            "id": 0,
            "startTime": ago(600),
            "runTime": run_time,
            "completionTime": ended,
            "instanceUID": configmap_uid and f"0_{configmap_uid}",
            "configMapName": f"{name}-attempt",
            "configMapUID": configmap_uid,
            "completionStatus": completion,
            "taskRoleStatuses": roles,
        },
    }


def build_counts(count: int = 0, *, delay: int | None = None) -> Object:
    return {
        "totalRetriedCount": count,
        "accountableRetriedCount": count,
        "retryDelaySec": delay,
    }


def build_role_status(framework: str, name: str, tasks: list[Object]) -> Object:
    return {
        "name": name,
        "instanceUID": uid(framework, name),
        "podGracefulDeletionTimeoutSec": None,
        "taskStatuses": tasks,
    }


def build_task(
    framework: str,
    role: str,
    index: int,
    state: str,
    *,
    attempt: int = 0,
    deletion_pending: bool = False,
    completion: Object | None = None,
) -> Object:
    """Build the status of a Task; whether it has a Pod and ran follows from its state."""
    has_pod = state != "AttemptCreationPending"
    ran = has_pod and state != "AttemptPreparing"
    ended = ago(300) if state == "Completed" else None
    run_time = ago(500) if ran else None
    pod_uid = uid(framework, role, index, attempt) if has_pod else None
    return {
        "index": index,
        "instanceUID": uid(framework, role, index),
        "startTime": ago(600),
        # The Task ran, if only in an earlier attempt.
        "runTime": run_time or (ago(550) if attempt else None),
        "completionTime": ended,
        "state": state,
        "transitionTime": ago(300),
        "deletionPending": deletion_pending,
        "retryPolicyStatus": build_counts(attempt),
        "attemptStatus": {
            "id": attempt,
            "startTime": ago(600),
            "runTime": run_time,
            "completionTime": ended,
            "instanceUID": pod_uid and f"{attempt}_{pod_uid}",
            "podName": f"{framework}-{role}-{index}",
            "podUID": pod_uid,
            "podNodeName": (NODE if ran else "") if has_pod else None,
            "podIP": (f"10.9.0.{index + 1}" if ran else "") if has_pod else None,
            "podHostIP": (NODE_ADDRESS if ran else "") if has_pod else None,
            "completionStatus": completion,
        },
    }


def build_configmap(framework: str, *, is_deleted: bool = False) -> Object:
    owner = build_owner(API_VERSION, "Framework", framework, uid(framework))
    metadata: Object = {
        "name": f"{framework}-attempt",
        "namespace": NAMESPACE,
        "uid": uid(framework, "configmap"),
        "resourceVersion": "60",
        "creationTimestamp": ago(600),
        "labels": {"FC_FRAMEWORK_NAME": framework},
        "annotations": {
            "FC_FRAMEWORK_NAMESPACE": NAMESPACE,
            "FC_FRAMEWORK_NAME": framework,
            "FC_CONFIGMAP_NAME": f"{framework}-attempt",
            "FC_FRAMEWORK_UID": uid(framework),
            "FC_FRAMEWORK_ATTEMPT_ID": "0",
        },
        "finalizers": ["foregroundDeletion"],
        "ownerReferences": [owner],
    }
    if is_deleted:
        metadata |= {"deletionTimestamp": ago(300), "deletionGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def build_owner(api_version: str, kind: str, name: str, owner_uid: str) -> Object:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": owner_uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def build_pod(
    framework: str,
    role: str,
    index: int,
    phase: str,
    *,
    attempt: int = 0,
    hold: bool = False,
    is_deleted: bool = False,
    exit_code: int = 0,
) -> Object:
    """Build a Pod of the Framework's first attempt."""
    configmap_uid = uid(framework, "configmap")
    values = {
        "FC_FRAMEWORK_NAMESPACE": NAMESPACE,
        "FC_FRAMEWORK_NAME": framework,
        "FC_TASKROLE_NAME": role,
        "FC_TASK_INDEX": str(index),
        "FC_CONFIGMAP_NAME": f"{framework}-attempt",
        "FC_POD_NAME": f"{framework}-{role}-{index}",
        "FC_FRAMEWORK_UID": uid(framework),
        "FC_FRAMEWORK_ATTEMPT_ID": "0",
        "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": f"0_{configmap_uid}",
        "FC_CONFIGMAP_UID": configmap_uid,
        "FC_TASKROLE_UID": uid(framework, role),
        "FC_TASK_UID": uid(framework, role, index),
        "FC_TASK_ATTEMPT_ID": str(attempt),
    }
    metadata: Object = {
        "name": f"{framework}-{role}-{index}",
        "namespace": NAMESPACE,
        "uid": uid(framework, role, index, attempt),
        "resourceVersion": "65",
        "creationTimestamp": ago(600),
        "labels": {
            name: values[name]
            for name in ("FC_FRAMEWORK_NAME", "FC_TASKROLE_NAME", "FC_TASK_INDEX")
        },
        "annotations": values,
        "ownerReferences": [build_owner("v1", "ConfigMap", f"{framework}-attempt", configmap_uid)],
    }
    if hold:
        metadata["finalizers"] = [HOLD]
    if is_deleted:
        metadata |= {"deletionTimestamp": ago(300), "deletionGracePeriodSeconds": 30}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": build_pod_spec(values, is_bound=phase != "Pending"),
        "status": build_pod_status(phase, index, exit_code),
    }


def build_pod_spec(values: dict[str, str], *, is_bound: bool) -> Object:
    field = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.uid"}}
    attempt_uid = f"{values['FC_TASK_ATTEMPT_ID']}_$(FC_POD_UID)"
    spec: Object = {
        "containers": [
            {
                "name": "main",
                "image": "local/none:1",
                "env": [
                    *({"name": name, "value": value} for name, value in values.items()),
                    {"name": "FC_POD_UID", "valueFrom": field},
                    {"name": "FC_TASK_ATTEMPT_INSTANCE_UID", "value": attempt_uid},
                ],
                "terminationMessagePolicy": "FallbackToLogsOnError",
            }
        ],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,
    }
    if is_bound:
        spec["nodeName"] = NODE
    return spec


def build_pod_status(phase: str, index: int, exit_code: int) -> Object:
    if phase == "Pending":
        return {"phase": phase}
    address = f"10.9.0.{index + 1}"
    state: Object = {"running": {"startedAt": ago(500)}}
    if phase == "Failed":
        times = {"startedAt": ago(500), "finishedAt": ago(300)}
        state = {"terminated": {"exitCode": exit_code, "reason": "Error", **times}}
    container = {"name": "main", "image": "local/none:1", "imageID": "", "lastState": {}}
    return {
        "phase": phase,
        "hostIP": NODE_ADDRESS,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "containerStatuses": [
            {**container, "ready": phase == "Running", "restartCount": 0, "state": state}
        ],
    }
