"""The fields of a TrainingJob that are fixed once its Framework exists. Pure.

A change of a job reaches only the Pods that are created later, and the launcher and its workers
must agree on these fields:

1. The status keeps their values, with defaults, when the Framework is created.
2. A job with another value is compiled with the value of the status, and its user is told which
   field was changed.
3. A stored value that no job can have is not ours: another client wrote it. The value of the job
   takes its place.

Example: a job with ``launcherAttachMode: ssh`` runs, and is changed to kubexec. A worker that is
replaced still gets an ssh server, which the launcher expects.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from framework.api import constants
from framework.api.fielderrors import FieldErrors
from framework.kinds.compiled import Object
from framework.kinds.trainingjob.decode import decode_trainingjob
from framework.kinds.trainingjob.defaults import MAX_SLOTS, complete, find_faults
from framework.kinds.trainingjob.types import HOSTS_ANNOTATION, SECRET_ANNOTATION, TrainingJob

STATUS_FIELD = "fixedFields"
"""Field of the status with the values."""
Values: TypeAlias = Mapping[str, str | int]
"""Values by the paths of their fields; "" for an absent annotation."""
_ATTACH_MODE, _SLOTS = "launcherAttachMode", "slotsPerWorker"
_ANNOTATIONS = (SECRET_ANNOTATION, HOSTS_ANNOTATION)


@dataclass(frozen=True, slots=True)
class HeldJob:
    """A TrainingJob with the values that are in use."""

    body: Object
    """The job, to be compiled."""
    values: Values
    """The values in use, for the status."""
    changed: tuple[str, ...]
    """The fields of the user's job that have other values."""


def hold_fields(body: Mapping[str, Any], stored: Values) -> HeldJob:
    """Give a job the stored values of its fixed fields.

    Args:
        body: the job as its user wrote it.
        stored: the values of the status; empty if no Framework exists.

    Raises:
        FieldErrors: with all faults of the job.
    """
    job = decode_trainingjob(body)
    faults = list(find_faults(job))
    if faults:
        raise FieldErrors(faults)
    wanted = _list_values(job)
    held = dict(wanted)
    for path, value in wanted.items():
        before = stored.get(path, value)
        if before != value and _is_usable(body, {**wanted, path: before}):
            held[path] = before
    changed = [path for path, value in wanted.items() if held[path] != value]
    if not changed:
        return HeldJob(dict(body), held, ())
    shown = tuple(_describe(path, job) for path in changed)
    return HeldJob(_restore(body, held), held, shown)


def _is_usable(body: Mapping[str, Any], values: Values) -> bool:
    """Return whether a job with these values has no faults."""
    try:
        return not list(find_faults(decode_trainingjob(_restore(body, values))))
    except FieldErrors:
        return False


def read_values(status: Mapping[str, Any]) -> Values:
    """Read the values from a status; empty if it has none."""
    values = status.get(STATUS_FIELD)
    if not isinstance(values, Mapping):
        return {}
    return {path: value for path, value in values.items() if type(value) in {str, int}}


def read_slots(status: Mapping[str, Any]) -> int | None:
    """Read the processes per worker from a status; None if it has none."""
    slots = read_values(status).get(f"spec.{_SLOTS}")
    return slots if isinstance(slots, int) and 1 <= slots <= MAX_SLOTS else None


def _list_values(job: TrainingJob) -> dict[str, str | int]:
    completed, annotations = complete(job), job.meta.annotations
    return {
        f"spec.{_ATTACH_MODE}": completed.attach_mode.value,
        f"spec.{_SLOTS}": completed.slots,
        _name_annotation(SECRET_ANNOTATION): annotations.get(SECRET_ANNOTATION, ""),
        _name_annotation(HOSTS_ANNOTATION): completed.host_style.value,
    }


def _restore(body: Mapping[str, Any], values: Values) -> Object:
    annotations = dict(body["metadata"].get("annotations") or {})
    annotations |= {name: values[_name_annotation(name)] for name in _ANNOTATIONS}
    fixed = {name: values[f"spec.{name}"] for name in (_ATTACH_MODE, _SLOTS)}
    return {
        **body,
        "metadata": {**body["metadata"], "annotations": annotations},
        "spec": {**body["spec"], **fixed},
    }


def _name_annotation(name: str) -> str:
    return f"metadata.annotations[{name}]"


def _describe(path: str, job: TrainingJob) -> str:
    if path == f"spec.{_SLOTS}" and job.spec.slots_per_worker is None:
        return f"{path} (by default, the limit of {constants.GPU_RESOURCE} of the workers)"
    return path
