"""The types of a TfJob, as its user wrote it. The names in JSON are in ``decode``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from framework.api.constants import ANNOTATION_PREFIX
from framework.kinds.decoding import JobMeta
from framework.kinds.spelling import Spelling

API_VERSION = "mlkube.io/v1beta1"
KIND = "TfJob"
MASTER, PS, WORKER = "MASTER", "PS", "WORKER"
REPLICA_TYPES = (MASTER, PS, WORKER)
CONTAINER = "tensorflow"
"""The container that runs TensorFlow; only it gets TF_CONFIG."""
TF_CONFIG_ANNOTATION = ANNOTATION_PREFIX + "tf-config"
"""On a TfJob: ``services`` takes TF_CONFIG with the names of the Services for all containers."""
BY_SERVICES = "services"
JSON_LOGS_ANNOTATION = ANNOTATION_PREFIX + "json-logs"
"""On a TfJob: ``true`` formats the records of Python's logging in its containers as JSON."""
ANNOTATION_VALUES = {TF_CONFIG_ANNOTATION: (BY_SERVICES,), JSON_LOGS_ANNOTATION: ("true", "false")}
"""The values of the annotations; an empty one is as if the annotation were absent."""

Extra = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TfReplicaSpec:
    """The replicas of one type. None and "" mean that the field is absent."""

    replica_type: str = ""
    """MASTER, PS or WORKER."""
    replicas: int | None = None
    """Number of replicas."""
    template: Mapping[str, Any] | None = None
    """Template of the Pods; a PS without one runs the server of TensorFlow."""
    port: int | None = None
    """Port of the server of TensorFlow."""
    is_default_ps: bool = False
    """Whether the operator wrote the template, in a stored object."""
    extra: Extra = field(default_factory=dict)
    """Unknown fields."""


@dataclass(frozen=True, slots=True)
class TensorBoardSpec:
    """A TensorBoard beside the job."""

    log_dir: str = ""
    """Directory or URL of the event files."""
    volumes: tuple[Mapping[str, Any], ...] = ()
    """Volumes of its Pod."""
    volume_mounts: tuple[Mapping[str, Any], ...] = ()
    """Mounts of its container."""
    service_type: str = ""
    """Type of its Service."""
    extra: Extra = field(default_factory=dict)
    """Unknown fields."""


@dataclass(frozen=True, slots=True)
class TfJobSpec:
    """The spec of a TfJob."""

    runtime_id: str = ""
    """Part of the names of its objects."""
    replica_specs: tuple[TfReplicaSpec, ...] = ()
    """One entry for each type."""
    tensorboard: TensorBoardSpec | None = None
    """None: no TensorBoard."""
    tf_image: str = ""
    """Image of the default PS and of TensorBoard."""
    extra: Extra = field(default_factory=dict)
    """Unknown fields."""


@dataclass(frozen=True, slots=True)
class TfJob:
    """A TfJob. ``spelling`` knows how the user spelt the fields."""

    meta: JobMeta
    spec: TfJobSpec
    spelling: Spelling
