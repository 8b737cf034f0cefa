"""The objects beside the Framework of a TfJob: Services with the old names, TensorBoard. Pure.

A Service of a replica is headless, and has its address before the Pod is ready: TensorFlow connects
to the Pod itself, and the barrier does not wait for a name.
"""

import json
from collections.abc import Iterator

from framework.api.constants import TASK_INDEX
from framework.kinds.compiled import Object
from framework.kinds.decoding import build_metadata, select_gang
from framework.kinds.tfjob.types import TensorBoardSpec, TfJob, TfReplicaSpec

_TENSORBOARD_PORT = 6006
_BOARD_LABEL = "job_uid"
_INDEX_PLACEHOLDER = f"{{{{{TASK_INDEX}}}}}"


def name_role(replica: TfReplicaSpec) -> str:
    """Return the name of the role, which is also the type of its tasks in TF_CONFIG."""
    return replica.replica_type.lower()


def build_labels(job: TfJob, replica: TfReplicaSpec, index: int | None = None) -> dict[str, str]:
    """Build the labels of a replica; without an index, those of the Pod template."""
    return {
        "mlkube.io": "",
        "job_type": replica.replica_type,
        "runtime_id": job.spec.runtime_id,
        "task_index": _INDEX_PLACEHOLDER if index is None else str(index),
    }


def build_services(job: TfJob) -> Iterator[Object]:
    """Build a Service for each replica: ``worker-76no-0``."""
    for replica in job.spec.replica_specs:
        for index in range(replica.replicas or 0):
            labels = build_labels(job, replica, index)
            ports = [{"name": "tf-port", "port": replica.port}]
            yield {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": build_metadata(job.meta, _name_service(job, replica, index), labels),
                "spec": {
                    "clusterIP": "None",
                    "publishNotReadyAddresses": True,
                    "selector": select_gang(job.meta.name, labels),
                    "ports": ports,
                },
            }


def render_tf_config(job: TfJob, replica: TfReplicaSpec) -> str:
    """Render TF_CONFIG with the names of the Services, as the original does.

    The index is a placeholder, which the controller replaces for each Task.
    """
    cluster = {
        name_role(each): [
            f"{_name_service(job, each, index)}:{each.port}" for index in range(each.replicas or 0)
        ]
        for each in job.spec.replica_specs
        if each.replicas
    }
    task = {"type": name_role(replica), "index": _INDEX_PLACEHOLDER}
    config = {"cluster": cluster, "task": task, "environment": "cloud"}
    text = json.dumps(config, separators=(",", ":"))
    return text.replace(f'"{_INDEX_PLACEHOLDER}"', _INDEX_PLACEHOLDER)


def _name_service(job: TfJob, replica: TfReplicaSpec, index: int) -> str:
    return f"{name_role(replica)}-{job.spec.runtime_id}-{index}"


def build_tensorboard(job: TfJob, tensorboard: TensorBoardSpec, board_id: str) -> Iterator[Object]:
    """Build the Deployment and the Service of TensorBoard: ``tensorboard-76no``.

    With ``board_id``, the Service selects no Pod of another job with the same runtimeId, nor one
    with labels from before the job.
    """
    name = f"tensorboard-{job.spec.runtime_id}"
    labels = {"mlkube.io": "", "runtime_id": job.spec.runtime_id, "app": "tensorboard"}
    if board_id:
        # Not FC_* or frameworkbarrier.io/*: a policy lets no Deployment create Pods with those.
        labels[_BOARD_LABEL] = board_id
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": build_metadata(job.meta, name, labels),
        "spec": {
            "type": tensorboard.service_type or "ClusterIP",
            "selector": labels,
            "ports": [{"name": "tb-port", "port": 80, "targetPort": _TENSORBOARD_PORT}],
        },
    }
    container: Object = {
        "name": "tensorboard",
        "image": job.spec.tf_image,
        "command": ["tensorboard", "--logdir", tensorboard.log_dir, "--host", "0.0.0.0"],  # noqa: S104  # for the Service
        "ports": [{"containerPort": _TENSORBOARD_PORT}],
    }
    pod: Object = {"containers": [container]}
    if tensorboard.volume_mounts:
        container["volumeMounts"] = [dict(mount) for mount in tensorboard.volume_mounts]
    if tensorboard.volumes:
        pod["volumes"] = [dict(volume) for volume in tensorboard.volumes]
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": build_metadata(job.meta, name, labels),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
