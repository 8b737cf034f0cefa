"""The types of ScaleIn and ScaleOut, both called scalers. The names in JSON are in ``decode``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from framework.api.fielderrors import FieldError

DEFAULT_TIMEOUT_SECONDS = 60

Extra = Mapping[str, Any]


class ScalerKind(StrEnum):
    """The kind of a scaler."""

    SCALE_IN = "ScaleIn"
    SCALE_OUT = "ScaleOut"


@dataclass(frozen=True, slots=True)
class ScalerSpec:
    """What a scaler asks for, with the defaults."""

    job: str
    """Name of the TrainingJob."""
    count: int
    """Number of workers to remove or to add; 0 if ``pod_names`` has them."""
    pod_names: tuple[str, ...] = ()
    """Pods of the workers to remove."""
    script: str = ""
    """Path of the script in the launcher, and its arguments; "" for none."""
    timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS
    """Limit of the wait for the workers, and of the script."""
    env: tuple[tuple[str, str], ...] = ()
    """Variables of the script."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a scaler that is true."""

    type: str
    reason: str
    message: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a scaler fails. It is stored before the changes of the scaler are undone."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ScalerStatus:
    """The status of a scaler."""

    conditions: tuple[Condition, ...] = ()
    """In the order in which they became true."""
    pods: tuple[str, ...] = ()
    """Names of the workers' Pods to remove or to add: the plan."""
    job_uid: str = ""
    """UID of the job for which it was created."""
    order: int = 0
    """Its place among the scalers that were created in the same second: the ``first_version`` that
    a controller knew when it wrote the condition Created; 0 before."""
    launcher_uid: str = ""
    """Pod of the launcher whose agent is asked."""
    failure: Failure | None = None
    """Why the scaler fails; None if it does not."""


@dataclass(frozen=True, slots=True)
class Scaler:
    """A ScaleIn or a ScaleOut as the API server has it."""

    kind: ScalerKind
    """Its kind."""
    namespace: str
    """Its namespace."""
    name: str
    """Its name."""
    uid: str
    """Its UID."""
    created_at: datetime
    """Its creationTimestamp."""
    owners: frozenset[str] = frozenset()
    """UIDs of its owners."""
    spec: ScalerSpec | None = None
    """What it asks for; None if it has faults."""
    faults: tuple[FieldError, ...] = ()
    """The faults of its spec."""
    first_version: int = 0
    """The resourceVersion with which this controller first saw it."""
    status: ScalerStatus = field(default_factory=ScalerStatus)
    """What has been done."""

    @property
    def title(self) -> str:
        """The name that the status of the job shows, as in the original."""
        return f"{self.kind}:{self.namespace}/{self.name}"
