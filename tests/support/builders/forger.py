"""Objects that a tenant can forge if it may create Pods and ConfigMaps, and read everything.

A forged object has all fields of an object of the controller, because each fact is in the
Framework's status or on another object.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from framework.api import constants, naming
from framework.kube.resources import Object

# Marks forged objects for the tests; the controller does not read this label.
_LABEL = "example.com/forged"


def forge_pod(
    framework: Mapping[str, Any],
    role: str = "worker",
    index: int = 0,
    *,
    proof_of: Mapping[str, Any] | None = None,
) -> Object:
    """Build the Pod of a Task's current attempt; ``proof_of``: an object whose proof is copied."""
    meta, attempt = framework["metadata"], framework["status"]["attemptStatus"]
    role_status = next(r for r in attempt["taskRoleStatuses"] if r["name"] == role)
    task = role_status["taskStatuses"][index]
    annotations = {
        constants.FRAMEWORK_NAMESPACE: meta["namespace"],
        constants.FRAMEWORK_NAME: meta["name"],
        constants.TASKROLE_NAME: role,
        constants.TASK_INDEX: str(index),
        constants.CONFIGMAP_NAME: attempt["configMapName"],
        constants.POD_NAME: task["attemptStatus"]["podName"],
        constants.FRAMEWORK_UID: meta["uid"],
        constants.FRAMEWORK_ATTEMPT_ID: str(attempt["id"]),
        constants.FRAMEWORK_ATTEMPT_INSTANCE_UID: attempt["instanceUID"] or "",
        constants.CONFIGMAP_UID: attempt["configMapUID"] or "",
        constants.TASKROLE_UID: role_status["instanceUID"],
        constants.TASK_UID: task["instanceUID"],
        constants.TASK_ATTEMPT_ID: str(task["attemptStatus"]["id"]),
        **_read_proof(proof_of),
    }
    labels = (constants.FRAMEWORK_NAME, constants.TASKROLE_NAME, constants.TASK_INDEX)
    owner = {
        "apiVersion": "v1",
        "kind": constants.CONFIGMAP_KIND,
        "name": attempt["configMapName"],
        "uid": attempt["configMapUID"] or meta["uid"],
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": constants.POD_KIND,
        "metadata": {
            "name": task["attemptStatus"]["podName"],
            "namespace": meta["namespace"],
            "annotations": annotations,
            "labels": {_LABEL: "", **{label: annotations[label] for label in labels}},
            "ownerReferences": [owner],
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "attacker"}],
        },
    }


def forge_configmap(
    framework: Mapping[str, Any],
    attempt_id: int = 0,
    *,
    roster: str | None = None,
    proof_of: Mapping[str, Any] | None = None,
) -> Object:
    """Build the ConfigMap of an attempt; ``roster``: its content in base64."""
    meta = framework["metadata"]
    name = naming.build_configmap_name(meta["name"])
    owner = {
        "apiVersion": constants.API_VERSION,
        "kind": constants.FRAMEWORK_KIND,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
    body: Object = {
        "apiVersion": "v1",
        "kind": constants.CONFIGMAP_KIND,
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "annotations": {
                constants.FRAMEWORK_NAMESPACE: meta["namespace"],
                constants.FRAMEWORK_NAME: meta["name"],
                constants.CONFIGMAP_NAME: name,
                constants.FRAMEWORK_UID: meta["uid"],
                constants.FRAMEWORK_ATTEMPT_ID: str(attempt_id),
                constants.ROSTER_VERSION_ANNOTATION: constants.ROSTER_VERSION,
                **_read_proof(proof_of),
            },
            "labels": {_LABEL: "", constants.FRAMEWORK_NAME: meta["name"]},
            "finalizers": [constants.FOREGROUND_DELETION_FINALIZER],
            "ownerReferences": [owner],
        },
    }
    if roster is not None:
        body["binaryData"] = {constants.ROSTER_KEY: roster}
    return body


def is_forged(wire: Mapping[str, Any]) -> bool:
    return _LABEL in (wire["metadata"].get("labels") or {})


def _read_proof(of: Mapping[str, Any] | None) -> Object:
    annotations = deepcopy((of or {}).get("metadata", {}).get("annotations") or {})
    key = constants.CREATION_PROOF_ANNOTATION
    return {key: annotations[key]} if key in annotations else {}
