"""Chooses the workers of a TrainingJob when its spec and its scalers differ. Pure.

A scaler does not change ``replicas`` of the job. Its workers are kept in an annotation of the
Framework, together with the ``replicas`` that were in effect before. The status of the job has a
copy (``scaledWorkers``), which is read only while there is no Framework, because another client
has deleted it:

1. Neither annotation nor copy: the workers are those of the spec.
2. ``replicas`` is as in the annotation: the workers are those of the annotation.
3. ``replicas`` has changed since, for example by ``kubectl scale``: the new value counts.
   Workers are added, or removed from the highest index, until their number is that value.
4. While a scaler is in progress, a change of ``replicas`` waits.
5. An annotation with more workers than ``maxReplicas`` was written by another client, unless the
   copy is equal: it is ignored, and put back.

Example: replicas is 2, and a ScaleOut adds worker 2, then a ScaleIn removes worker 0: the workers
are 1 and 2. ``kubectl scale --replicas=3`` adds worker 3.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from framework.api import constants
from framework.api.types import Framework
from framework.kinds.compiled import Object, WantedWorkers
from framework.kinds.scaling.plan import list_workers
from framework.kinds.scaling.workers import build_wanted, choose_highest, choose_new
from framework.kinds.trainingjob.types import WORKER

STATUS_FIELD = "scaledWorkers"
"""Field of the status of the job with the copy."""
_MAX_CHARS = 128 * 1024
_MAX_DRAIN_SECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class ScaledWorkers:
    """The workers of a job after a scaler has changed them."""

    workers: WantedWorkers
    replicas: int
    """``replicas`` of the job's workers that is in effect already."""

    def build_wire(self) -> Object:
        """Build the form of the status of the job."""
        return {
            "count": self.workers.count,
            "absent": list(self.workers.absent),
            "drainSeconds": self.workers.drain_seconds,
            "replicas": self.replicas,
        }

    def encode(self) -> str:
        """Encode for the annotation."""
        return json.dumps(self.build_wire(), separators=(",", ":"))


def choose_workers(
    job: Object,
    framework: Framework | None,
    wire: Object | None,
    change: WantedWorkers | None,
    *,
    is_scaling: bool,
) -> ScaledWorkers | None:
    """Choose the workers of a job.

    Args:
        job: the TrainingJob.
        framework: its Framework; None if it does not exist or cannot be read.
        wire: the Framework that it owns, as the API server has it; None if there is none.
        change: the workers that a scaler wants now; None if no scaler changes them.
        is_scaling: whether a scaler is in progress.

    Returns:
        The workers; None for those of the spec.
    """
    stored = _read_copy(job) if wire is None else _read_stored(job, wire)
    if stored is None and framework is None:
        return None
    current = list_workers(framework)
    # Without an annotation, the Framework has the replicas that are in effect.
    applied = len(current) if stored is None else stored.replicas
    if change is not None:
        return ScaledWorkers(change, applied)
    replicas = _read_replicas(job)
    if replicas in {None, applied}:
        return stored
    if is_scaling:
        return stored or ScaledWorkers(build_wanted(current, 0), applied)
    return None if stored is None else _resize(stored, replicas or 1)


def is_resizing(job: Object, framework: Framework, wire: Object) -> bool:
    """Return whether the workers of a Framework are about to change without a scaler."""
    wanted = choose_workers(job, framework, wire, None, is_scaling=False)
    if wanted is None:
        replicas = _read_replicas(job)
        return replicas is not None and list_workers(framework) != frozenset(range(replicas))
    workers = wanted.workers
    return list_workers(framework) != frozenset(range(workers.count)) - frozenset(workers.absent)


def set_workers(framework: Object, workers: WantedWorkers) -> Object:
    """Set the workers in a Framework, without its job: the spec of the job has faults."""
    spec = framework["spec"]
    roles = [_set_role(role, workers) for role in spec["taskRoles"]]
    return {**framework, "spec": {**spec, "taskRoles": roles}}


def _set_role(role: Object, workers: WantedWorkers) -> Object:
    if role["name"] != WORKER:
        return role
    optional = {constants.ABSENT_TASK_INDICES_FIELD, constants.DRAIN_FIELD}
    kept = {name: value for name, value in role.items() if name not in optional}
    return {**kept, **workers.encode()}


def decode_workers(text: object) -> ScaledWorkers | None:
    """Decode the annotation; None for another form, which only another client can have written."""
    if not isinstance(text, str) or len(text) > _MAX_CHARS:
        return None
    try:
        wire = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _read_wire(wire)


def _read_stored(job: Object, framework: Object) -> ScaledWorkers | None:
    """Read the annotation; refuse one over ``maxReplicas``, unless the copy is equal.

    The copy is equal if ``maxReplicas`` was lowered after a ScaleOut.
    """
    stored = _read_annotation(framework)
    most = _read_most(job)
    if stored is None or most is None or _count_workers(stored) <= most:
        return stored
    return _read_copy(job)


def _count_workers(stored: ScaledWorkers) -> int:
    return stored.workers.count - len(stored.workers.absent)


def _read_annotation(framework: Object) -> ScaledWorkers | None:
    annotations = framework["metadata"].get("annotations") or {}
    return decode_workers(annotations.get(constants.SCALED_WORKERS_ANNOTATION))


def _read_copy(job: Object) -> ScaledWorkers | None:
    """Read the copy in the status of the job."""
    status = job.get("status")
    return _read_wire(status.get(STATUS_FIELD)) if isinstance(status, Mapping) else None


def _read_wire(wire: object) -> ScaledWorkers | None:
    if not isinstance(wire, Mapping):
        return None
    count, absent = wire.get("count"), wire.get("absent")
    if not _is_number(count, constants.MAX_TASK_NUMBER) or not isinstance(absent, list):
        return None
    numbers = (wire.get("drainSeconds"), wire.get("replicas"))
    limits = (_MAX_DRAIN_SECONDS, constants.MAX_TASK_NUMBER)
    if not all(map(_is_number, numbers, limits)):
        return None
    if not all(_is_number(index, count - 1) for index in absent) or len(set(absent)) >= count:
        return None
    workers = WantedWorkers(count, tuple(sorted(set(absent))), wire["drainSeconds"])
    return ScaledWorkers(workers, wire["replicas"])


def _resize(stored: ScaledWorkers, replicas: int) -> ScaledWorkers:
    workers = frozenset(range(stored.workers.count)) - frozenset(stored.workers.absent)
    surplus = len(workers) - replicas
    if surplus > 0:
        workers -= frozenset(choose_highest(workers, surplus))
    elif surplus < 0:
        workers |= frozenset(choose_new(workers, -surplus))
    return ScaledWorkers(build_wanted(workers, 0), replicas)


def _read_replicas(job: Object) -> int | None:
    """Read ``replicas`` of the workers; None for a value that is refused."""
    value = _read_worker_field(job, "replicas")
    if value is None:
        return 1
    return value if _is_number(value, constants.MAX_TASK_NUMBER) and value > 0 else None


def _read_most(job: Object) -> int | None:
    """Read ``maxReplicas`` of the workers; None if it is absent or refused."""
    value = _read_worker_field(job, "maxReplicas")
    return value if _is_number(value, constants.MAX_TASK_NUMBER) else None


def _read_worker_field(job: Object, field: str) -> Any:
    value: Any = job.get("spec") or {}
    for name in ("etReplicaSpecs", "worker", field):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _is_number(value: Any, most: int) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= most
