"""Builders of TfJobs and TrainingJobs, and readers of what they become."""

import copy
from collections.abc import Callable
from typing import Any

from framework.kinds.compiled import Compiled

Wire = dict[str, Any]
Change = Callable[[Wire], None]
DROPPED = object()
_SNAKE = {
    "replicaSpecs": "replica_specs",
    "tfPort": "tf_port",
    "tfReplicaType": "tf_replica_type",
    "runtimeId": "runtimeid",
}


def build_template(name: str = "tensorflow", **container: Any) -> Wire:
    built = {"name": name, "image": "app:1", "command": ["python3", "/app.py"], **container}
    return {"spec": {"containers": [built], "restartPolicy": "OnFailure"}}


def build_tfjob(**spec: Any) -> Wire:
    """A TfJob of a MASTER, two WORKERs and two PS without a template."""
    replicas = [
        {"tfReplicaType": "MASTER", "template": build_template()},
        {"tfReplicaType": "WORKER", "replicas": 2, "tfPort": 2223, "template": build_template()},
        {"tfReplicaType": "PS", "replicas": 2},
    ]
    return {
        "apiVersion": "mlkube.io/v1beta1",
        "kind": "TfJob",
        "metadata": {"name": "job", "namespace": "team"},
        "spec": {"runtimeId": "76no", "replicaSpecs": replicas, **spec},
    }


def spell_snake(value: Any) -> Any:
    """Spell the fields of a TfJob as its first dialect does."""
    if isinstance(value, dict):
        return {_SNAKE.get(key, key): spell_snake(item) for key, item in value.items()}
    return [spell_snake(item) for item in value] if isinstance(value, list) else value


def build_trainingjob(**spec: Any) -> Wire:
    """A TrainingJob with two workers of two GPUs, which have no command."""
    worker = build_template("train", resources={"limits": {"nvidia.com/gpu": "2"}})
    del worker["spec"]["containers"][0]["command"]
    replicas = {
        "launcher": {"replicas": 1, "template": build_template("train")},
        "worker": {"replicas": 2, "minReplicas": 1, "maxReplicas": 9, "template": worker},
    }
    return {
        "apiVersion": "kai.alibabacloud.com/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "elastic", "namespace": "team"},
        "spec": {"cleanPodPolicy": "Running", "etReplicaSpecs": replicas, **spec},
    }


def edit(*path: str | int, **fields: Any) -> Change:
    """Build the change that sets fields of the part at ``path``, or drops them (DROPPED)."""

    def change(body: Wire) -> None:
        target: Any = body
        for step in path:
            target = target[step]
        target.update(copy.deepcopy({k: v for k, v in fields.items() if v is not DROPPED}))
        for key in [key for key, value in fields.items() if value is DROPPED]:
            del target[key]

    return change


def get_role(compiled: Compiled, name: str) -> Wire:
    (role,) = [r for r in compiled.framework["spec"]["taskRoles"] if r["name"] == name]
    return role  # type: ignore[no-any-return]  # JSON


def get_pod(compiled: Compiled, name: str) -> Wire:
    return get_role(compiled, name)["task"]["pod"]  # type: ignore[no-any-return]  # JSON


def get_container(compiled: Compiled, role: str, index: int = 0) -> Wire:
    return get_pod(compiled, role)["spec"]["containers"][index]  # type: ignore[no-any-return]  # JSON


def get_env(container: Wire) -> dict[str, str]:
    return {item["name"]: item["value"] for item in container.get("env", [])}


def list_names(compiled: Compiled, kind: str) -> list[str]:
    return [body["metadata"]["name"] for body in compiled.supporting if body["kind"] == kind]


def list_init(pod: Wire) -> list[str]:
    return [container["name"] for container in pod["spec"]["initContainers"]]
