"""The Services beside the Framework of a TrainingJob. Pure."""

from collections.abc import Iterator

from framework.api.constants import TASK_INDEX
from framework.api.naming import build_pod_name
from framework.kinds.compiled import Object
from framework.kinds.decoding import build_metadata, select_gang
from framework.kinds.trainingjob.types import GROUP, WORKER, CompleteJob

_SSH_PORT = 22
_SERVICE_PORT = 9009
_INDEX_PLACEHOLDER = f"{{{{{TASK_INDEX}}}}}"


def build_labels(job: CompleteJob, role: str, index: int | None = None) -> dict[str, str]:
    """Build the labels of a Pod; without an index, those of the Pod template."""
    labels = {
        "group-name": GROUP,
        "training-job-name": job.meta.name,
        "training-job-role": role,
    }
    if role == WORKER:
        labels["replica-index"] = _INDEX_PLACEHOLDER if index is None else str(index)
    return labels


def build_services(job: CompleteJob) -> Iterator[Object]:
    """Build a headless Service for each worker, with the name of its Pod."""
    for index in range(job.worker_count):
        if index in job.absent_workers:
            continue
        labels = build_labels(job, WORKER, index)
        yield {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": build_metadata(
                job.meta, build_pod_name(job.meta.name, WORKER, index), labels
            ),
            "spec": {
                "clusterIP": "None",
                "selector": select_gang(job.meta.name, labels),
                "ports": [
                    {"name": "ssh-port", "port": _SSH_PORT},
                    {"name": "kubeai-service-port", "port": _SERVICE_PORT},
                ],
            },
        }
