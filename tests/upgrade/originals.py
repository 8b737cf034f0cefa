"""Objects as the original stores them: every key is there, null where nothing is known.

Times are seconds before the original was stopped.
"""

import uuid
from collections.abc import Mapping
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
POLICY = {"minFailedTaskCount": 1, "minSucceededTaskCount": -1}
CONTAINER = {"name": "main", "image": "local/none:1"}


def uid(*names: str | int) -> str:
    """An identity, the same at each call."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(map(str, names))))


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def build_role(name: str, number: int, *, retries: int, hold: bool) -> Object:
    finalizers = {"finalizers": [HOLD]} if hold else {}
    pod = {
        "metadata": {"creationTimestamp": None, **finalizers},
        "spec": {"containers": [{**CONTAINER, "resources": {}}], "restartPolicy": "Never"},
    }
    task = {
        "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": retries},
        "podGracefulDeletionTimeoutSec": None,
        "pod": pod,
    }
    policy = {"frameworkAttemptCompletionPolicy": POLICY}
    return {"name": name, "taskNumber": number, **policy, "task": task}


def build_counts(count: int = 0, *, delay: int | None = None) -> Object:
    counts = dict.fromkeys(("totalRetriedCount", "accountableRetriedCount"), count)
    return {**counts, "retryDelaySec": delay}


def build_pod_status(phase: str, index: int, exit_code: int) -> Object:
    if phase == "Pending":
        return {"phase": phase}
    address = f"10.9.0.{index + 1}"
    state: Object = {"running": {"startedAt": ago(500)}}
    if phase == "Failed":
        times = {"startedAt": ago(500), "finishedAt": ago(300)}
        state = {"terminated": {"exitCode": exit_code, "reason": "Error", **times}}
    main = {**CONTAINER, "imageID": "", "lastState": {}, "restartCount": 0, "state": state}
    return {
        "phase": phase,
        "hostIP": NODE_ADDRESS,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "containerStatuses": [{**main, "ready": phase == "Running"}],
    }


class Original:
    """Builds a Framework of the original in its first attempt, its ConfigMap and its Pods."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._configmap_uid = uid(name, "configmap")

    def build_framework(
        self,
        state: str,
        tasks: Mapping[str, list[Object]],
        *,
        numbers: Mapping[str, int] | None = None,
        retries: Mapping[str, int] | None = None,
        hold: bool = False,
        execution: str = "Start",
        fancy: bool = False,
        **status: object,
    ) -> Object:
        """Build the Framework; its roles have as many Tasks as statuses unless ``numbers`` say."""
        counts = {role: len(found) for role, found in tasks.items()} | dict(numbers or {})
        metadata = {"name": self.name, "namespace": NAMESPACE, "uid": uid(self.name)}
        metadata |= {"resourceVersion": "70", "creationTimestamp": ago(600)}
        return {
            "apiVersion": API_VERSION,
            "kind": "Framework",
            "metadata": {**metadata, "generation": 7},
            "spec": {
                "description": "",
                "executionType": execution,
                "retryPolicy": {"fancyRetryPolicy": fancy, "maxRetryCount": 0},
                "taskRoles": [
                    build_role(role, number, retries=(retries or {}).get(role, 0), hold=hold)
                    for role, number in counts.items()
                ],
            },
            "status": self._build_status(state, tasks, **status),  # type: ignore[arg-type]  # JSON
        }

    def _build_status(
        self,
        state: str,
        tasks: Mapping[str, list[Object]],
        *,
        has_configmap: bool = True,
        ran: bool = False,
        ended_ago: float | None = None,
        since: float = 300,
        completion: Object | None = None,
        retry_delay: int | None = None,
    ) -> Object:
        run_time = ago(500) if ran else None
        ended = None if ended_ago is None else ago(ended_ago)
        roles = [
            {
                "name": role,
                "instanceUID": uid(self.name, role),
                "podGracefulDeletionTimeoutSec": None,
                "taskStatuses": statuses,
            }
            for role, statuses in tasks.items()
        ]
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
                "instanceUID": f"0_{self._configmap_uid}" if has_configmap else None,
                "configMapName": f"{self.name}-attempt",
                "configMapUID": self._configmap_uid if has_configmap else None,
                "completionStatus": completion,
                "taskRoleStatuses": roles,
            },
        }

    def build_task(
        self,
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
        pod_uid = uid(self.name, role, index, attempt) if has_pod else None

        def know(value: str) -> str | None:
            return (value if ran else "") if has_pod else None

        return {
            "index": index,
            "instanceUID": uid(self.name, role, index),
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
                "podName": f"{self.name}-{role}-{index}",
                "podUID": pod_uid,
                "podNodeName": know(NODE),
                "podIP": know(f"10.9.0.{index + 1}"),
                "podHostIP": know(NODE_ADDRESS),
                "completionStatus": completion,
            },
        }

    def build_configmap(self, *, is_deleted: bool = False) -> Object:
        labels = {"FC_FRAMEWORK_NAME": self.name}
        own = {"FC_FRAMEWORK_NAMESPACE": NAMESPACE, "FC_CONFIGMAP_NAME": f"{self.name}-attempt"}
        identity = {"FC_FRAMEWORK_UID": uid(self.name), "FC_FRAMEWORK_ATTEMPT_ID": "0"}
        metadata: Object = {
            **self._build_metadata("attempt", self._configmap_uid, "60"),
            "labels": labels,
            "annotations": {**labels, **own, **identity},
            "finalizers": ["foregroundDeletion"],
            "ownerReferences": [_own(API_VERSION, "Framework", self.name, uid(self.name))],
        }
        if is_deleted:
            metadata |= {"deletionTimestamp": ago(300), "deletionGracePeriodSeconds": 0}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}

    def build_pod(
        self,
        role: str,
        index: int,
        phase: str,
        *,
        attempt: int = 0,
        hold: bool = False,
        is_deleted: bool = False,
        exit_code: int = 0,
    ) -> Object:
        name = f"{role}-{index}"
        labels = {"FC_FRAMEWORK_NAME": self.name, "FC_TASKROLE_NAME": role}
        labels["FC_TASK_INDEX"] = str(index)
        values = {
            "FC_FRAMEWORK_NAMESPACE": NAMESPACE,
            "FC_FRAMEWORK_NAME": self.name,
            "FC_TASKROLE_NAME": role,
            "FC_TASK_INDEX": str(index),
            "FC_CONFIGMAP_NAME": f"{self.name}-attempt",
            "FC_POD_NAME": f"{self.name}-{name}",
            "FC_FRAMEWORK_UID": uid(self.name),
            "FC_FRAMEWORK_ATTEMPT_ID": "0",
            "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": f"0_{self._configmap_uid}",
            "FC_CONFIGMAP_UID": self._configmap_uid,
            "FC_TASKROLE_UID": uid(self.name, role),
            "FC_TASK_UID": uid(self.name, role, index),
            "FC_TASK_ATTEMPT_ID": str(attempt),
        }
        owner = _own("v1", "ConfigMap", f"{self.name}-attempt", self._configmap_uid)
        metadata: Object = {
            **self._build_metadata(name, uid(self.name, role, index, attempt), "65"),
            "labels": labels,
            "annotations": values,
            "ownerReferences": [owner],
        }
        if hold:
            metadata["finalizers"] = [HOLD]
        if is_deleted:
            metadata |= {"deletionTimestamp": ago(300), "deletionGracePeriodSeconds": 30}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": _build_pod_spec(values, is_bound=phase != "Pending"),
            "status": build_pod_status(phase, index, exit_code),
        }

    def _build_metadata(self, suffix: str, own_uid: str, version: str) -> Object:
        identity = {"name": f"{self.name}-{suffix}", "namespace": NAMESPACE, "uid": own_uid}
        return {**identity, "resourceVersion": version, "creationTimestamp": ago(600)}


def _own(api_version: str, kind: str, name: str, owner_uid: str) -> Object:
    identity = {"apiVersion": api_version, "kind": kind, "name": name, "uid": owner_uid}
    return {**identity, "controller": True, "blockOwnerDeletion": True}


def _build_pod_spec(values: dict[str, str], *, is_bound: bool) -> Object:
    field = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.uid"}}
    attempt_uid = f"{values['FC_TASK_ATTEMPT_ID']}_$(FC_POD_UID)"
    env = [
        *({"name": name, "value": value} for name, value in values.items()),
        {"name": "FC_POD_UID", "valueFrom": field},
        {"name": "FC_TASK_ATTEMPT_INSTANCE_UID", "value": attempt_uid},
    ]
    main = {**CONTAINER, "env": env, "terminationMessagePolicy": "FallbackToLogsOnError"}
    bound = {"nodeName": NODE} if is_bound else {}
    policies = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 30}
    return {"containers": [main], **policies, **bound}
