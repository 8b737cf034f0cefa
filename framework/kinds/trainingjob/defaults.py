"""Finds the faults of a TrainingJob and sets its defaults. Pure.

The defaults are those of the original. Two differ from the comments in its types, and follow its
code: ``cleanPodPolicy`` is Running, and a worker that has ended is not replaced.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from framework.api import constants
from framework.api.constants import LEAVE_NODES_ANNOTATION
from framework.api.fielderrors import FieldError
from framework.api.naming import is_object_name
from framework.kinds.agents import RESERVED
from framework.kinds.compiled import WantedWorkers
from framework.kinds.decoding import check_range
from framework.kinds.templates import check_template
from framework.kinds.trainingjob import leavenodes
from framework.kinds.trainingjob.types import (
    HOSTS_ANNOTATION,
    LAUNCHER,
    SECRET_ANNOTATION,
    SUSPENDED_ANNOTATION,
    WORKER,
    AttachMode,
    CleanPodPolicy,
    CompleteJob,
    HostStyle,
    JobRestartPolicy,
    ReplicaRestartPolicy,
    ReplicaSpec,
    ReplicaSpecs,
    TrainingJob,
)

DEFAULT_BACKOFF_LIMIT = 6
MAX_SLOTS = 1024
"""Most processes per worker."""
SSH_VOLUME = "training-job-ssh"
FILES_VOLUME = "training-job-files"
FILES_CONTAINER = "training-job-files"
_MAX_BACKOFF = 1000
_ROOT = "spec.etReplicaSpecs"
_ADDED = {
    **RESERVED,
    "initContainers": (*RESERVED["initContainers"], FILES_CONTAINER),
    "volumes": (*RESERVED["volumes"], SSH_VOLUME, FILES_VOLUME),
}


def complete(
    job: TrainingJob, workers: WantedWorkers | None = None, secret: str = ""
) -> CompleteJob:
    """Set the fields that the user left out; the job has no fault.

    Args:
        job: as its user wrote it.
        workers: the wanted workers; None for those of the spec.
        secret: name of the Secret with the ssh key, if no annotation names one.
    """
    spec, specs = job.spec, job.spec.replica_specs or ReplicaSpecs()
    launcher, worker = specs.launcher or ReplicaSpec(), specs.worker or ReplicaSpec()
    limit = DEFAULT_BACKOFF_LIMIT if spec.backoff_limit is None else spec.backoff_limit
    template = worker.template or {}
    wanted = workers or WantedWorkers(1 if worker.replicas is None else worker.replicas)
    return CompleteJob(
        meta=job.meta,
        clean_pod_policy=spec.clean_pod_policy or CleanPodPolicy.RUNNING,
        launcher=launcher.template or {},
        worker=template,
        worker_count=wanted.count,
        min_workers=worker.min_replicas or 1,
        drain_seconds=wanted.drain_seconds,
        absent_workers=frozenset(wanted.absent),
        worker_restart_policy=worker.restart_policy or ReplicaRestartPolicy.NEVER,
        slots=find_slots(template) if spec.slots_per_worker is None else spec.slots_per_worker,
        max_restarts=limit if spec.restart_policy is JobRestartPolicy.ON_FAILURE else 0,
        attach_mode=spec.attach_mode or AttachMode.SSH,
        secret=job.meta.annotations.get(SECRET_ANNOTATION) or secret or job.meta.name,
        is_suspended=job.meta.annotations.get(SUSPENDED_ANNOTATION) == "true",
        host_style=HostStyle(job.meta.annotations.get(HOSTS_ANNOTATION, HostStyle.ADDRESSES)),
        leave_nodes=leavenodes.parse(job.meta.annotations.get(LEAVE_NODES_ANNOTATION)),
    )


def find_slots(template: Mapping[str, Any]) -> int:
    """Return the GPUs of the first container; 1 without GPUs."""
    limits = (template["spec"]["containers"][0].get("resources") or {}).get("limits") or {}
    gpus = str(limits.get(constants.GPU_RESOURCE) or "")
    return max(1, int(gpus)) if gpus.isdecimal() and len(gpus) < len(str(MAX_SLOTS)) else 1


def find_faults(job: TrainingJob) -> Iterator[FieldError]:
    """Find all faults of a TrainingJob."""
    spec = job.spec
    if spec.slots_per_worker is not None and not 1 <= spec.slots_per_worker <= MAX_SLOTS:
        yield FieldError(
            "spec.slotsPerWorker",
            f"must be from 1 to {MAX_SLOTS}, not {spec.slots_per_worker}: it is the number of "
            "processes per worker",
        )
    if spec.backoff_limit is not None and not 0 <= spec.backoff_limit <= _MAX_BACKOFF:
        yield FieldError(
            "spec.backoffLimit",
            f"must be from 0 to {_MAX_BACKOFF}, not {spec.backoff_limit}: it is the number of "
            "restarts of the job",
        )
    yield from _check_annotations(job)
    if spec.replica_specs is None:
        yield FieldError(_ROOT, f"is required: write an object with {LAUNCHER} and {WORKER}")
        return
    yield from _check_launcher(spec.replica_specs.launcher, f"{_ROOT}.{LAUNCHER}")
    yield from _check_worker(spec.replica_specs.worker, f"{_ROOT}.{WORKER}")


def _check_annotations(job: TrainingJob) -> Iterator[FieldError]:
    name = job.meta.annotations.get(SECRET_ANNOTATION)
    if name and not is_object_name(name):
        yield FieldError(
            f"metadata.annotations[{SECRET_ANNOTATION}]",
            f"{name!r} is not the name of a Secret: use a-z, 0-9, '-' and '.'",
        )
    style = job.meta.annotations.get(HOSTS_ANNOTATION)
    if style is not None and style not in list(HostStyle):
        yield FieldError(
            f"metadata.annotations[{HOSTS_ANNOTATION}]",
            f"is {style!r}; write {' or '.join(HostStyle)}",
        )
    yield from leavenodes.find_faults(job.meta.annotations.get(LEAVE_NODES_ANNOTATION))


def _check_launcher(launcher: ReplicaSpec | None, path: str) -> Iterator[FieldError]:
    if launcher is None:
        yield FieldError(path, "is required: write the Pod that starts the training")
        return
    if launcher.replicas not in (None, 1):
        yield FieldError(
            f"{path}.replicas", f"is {launcher.replicas}, and a job has one launcher: write 1"
        )
    yield from _check_pod(launcher, path)


def _check_worker(worker: ReplicaSpec | None, path: str) -> Iterator[FieldError]:
    if worker is None:
        yield FieldError(path, "is required: write the Pods in which the training runs")
        return
    count = 1 if worker.replicas is None else worker.replicas
    yield from check_range(f"{path}.replicas", count, 1, "the number of workers")
    if count == constants.MAX_TASKS:
        yield FieldError(
            f"{path}.replicas",
            f"is {count}, and a job has at most {constants.MAX_TASKS} Pods with its launcher: "
            "write a lower number",
        )
    least, most = worker.min_replicas, worker.max_replicas
    if least is not None and not 1 <= least <= count:
        yield FieldError(
            f"{path}.minReplicas",
            f"is {least}, and replicas is {count}: write a number from 1 to replicas",
        )
    if most is not None and most < count:
        yield FieldError(
            f"{path}.maxReplicas", f"is {most}, and replicas is {count}: write at least replicas"
        )
    yield from _check_pod(worker, path)


def _check_pod(replica: ReplicaSpec, path: str) -> Iterator[FieldError]:
    if replica.template is None:
        yield FieldError(f"{path}.template", "is required: write a Pod template")
        return
    yield from check_template(replica.template, f"{path}.template", _ADDED)
