"""The types of a TrainingJob, as its user wrote it. The names in JSON are in ``decode``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from framework.api.constants import ANNOTATION_PREFIX
from framework.api.leaving import LeaveNodesSpec
from framework.kinds.decoding import JobMeta

GROUP = "kai.alibabacloud.com"
API_VERSION = f"{GROUP}/v1alpha1"
KIND = "TrainingJob"
LAUNCHER, WORKER = "launcher", "worker"
SUSPENDED_ANNOTATION = "job-supervisor.kube-ai.io/job-suspended"
SECRET_ANNOTATION = "arena.kubeflow.org/ssh-secret"
HOSTS_ANNOTATION = ANNOTATION_PREFIX + "hosts"
"""Ours: whether the host files have names or addresses of workers."""

Extra = Mapping[str, Any]


class CleanPodPolicy(StrEnum):
    """Which Pods are deleted when the job has ended. All and Running are the same."""

    ALL = "All"
    RUNNING = "Running"
    NONE = "None"


class AttachMode(StrEnum):
    """How the launcher starts processes in the workers."""

    SSH = "ssh"
    KUBEXEC = "kubexec"


class JobRestartPolicy(StrEnum):
    """Whether a failed job is started again, as a whole."""

    NEVER = "Never"
    ON_FAILURE = "OnFailure"


class ReplicaRestartPolicy(StrEnum):
    """Whether a Pod that has ended is replaced."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"


class HostStyle(StrEnum):
    """What the host files have for a worker."""

    ADDRESSES = "addresses"
    NAMES = "names"


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """The launcher, or the workers. None means that the field is absent."""

    replicas: int | None = None
    """Number of Pods."""
    min_replicas: int | None = None
    """Least number of workers after a ScaleIn."""
    max_replicas: int | None = None
    """Greatest number of workers after a ScaleOut."""
    template: Mapping[str, Any] | None = None
    """Template of the Pods."""
    restart_policy: ReplicaRestartPolicy | None = None
    """Whether a Pod that has ended is replaced."""
    extra: Extra = field(default_factory=dict)
    """Unknown fields."""


@dataclass(frozen=True, slots=True)
class ReplicaSpecs:
    """The two parts of the job."""

    launcher: ReplicaSpec | None = None
    worker: ReplicaSpec | None = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrainingJobSpec:
    """The spec of a TrainingJob. None means that the field is absent."""

    clean_pod_policy: CleanPodPolicy | None = None
    """Which Pods are deleted when the job has ended."""
    replica_specs: ReplicaSpecs | None = None
    """Launcher and workers."""
    attach_mode: AttachMode | None = None
    """How the launcher starts processes in the workers."""
    slots_per_worker: int | None = None
    """Processes per worker, in the host files."""
    restart_policy: JobRestartPolicy | None = None
    """Whether a failed job is started again."""
    backoff_limit: int | None = None
    """Greatest number of these starts."""
    extra: Extra = field(default_factory=dict)
    """Unknown fields."""


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A TrainingJob."""

    meta: JobMeta
    spec: TrainingJobSpec


@dataclass(frozen=True, slots=True)
class CompleteJob:
    """A TrainingJob with its defaults."""

    meta: JobMeta
    """Its metadata."""
    clean_pod_policy: CleanPodPolicy
    """Which Pods are deleted when the job has ended."""
    launcher: Mapping[str, Any]
    """Template of the launcher."""
    worker: Mapping[str, Any]
    """Template of the workers."""
    worker_count: int
    """Greatest index of a worker + 1."""
    min_workers: int
    """The host files have at least so many workers while others leave their nodes."""
    drain_seconds: int
    """Limit of the drain of workers that leave; 0 for no drain."""
    absent_workers: frozenset[int]
    """Indexes without a worker."""
    worker_restart_policy: ReplicaRestartPolicy
    """Whether a worker that has ended is replaced."""
    slots: int
    """Processes per worker."""
    max_restarts: int
    """How often the job is started again after a failure."""
    attach_mode: AttachMode
    """How the launcher starts processes in the workers."""
    secret: str
    """Secret with the ssh key; not used with kubexec."""
    is_suspended: bool
    """Whether the job is stopped by its annotation."""
    host_style: HostStyle
    """What the host files have for a worker."""
    leave_nodes: LeaveNodesSpec | None
    """How workers leave before their nodes go; None: they do not."""
