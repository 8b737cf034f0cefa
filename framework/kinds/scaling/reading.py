"""Reads a scaler, and what it needs to know of its job, from objects of the API server. Pure."""

from collections.abc import Mapping
from typing import Any

from framework.api.fielderrors import FieldError, FieldErrors
from framework.api.naming import is_framework_name, parse_pod_name
from framework.api.states import FrameworkState
from framework.api.types import Framework
from framework.api.wire import parse_time
from framework.kinds.compiled import Object
from framework.kinds.observing import read_conditions
from framework.kinds.scaling.decode import decode_scaler_spec
from framework.kinds.scaling.snapshot import JobFacts
from framework.kinds.scaling.status import decode_status, is_started
from framework.kinds.scaling.types import Scaler, ScalerKind, ScalerSpec
from framework.kinds.trainingjob.conditions import FAILED, SUCCEEDED
from framework.kinds.trainingjob.decode import decode_trainingjob
from framework.kinds.trainingjob.defaults import complete, find_faults
from framework.kinds.trainingjob.fixed import read_slots
from framework.kinds.trainingjob.status import is_suspended
from framework.kinds.trainingjob.types import ReplicaSpec, ReplicaSpecs

_ENDS = {SUCCEEDED: "has succeeded", FAILED: "has failed"}


def read_scaler(kind: ScalerKind, wire: Object) -> Scaler:
    """Read a scaler. One with faults in its spec has them, and no spec."""
    metadata = wire["metadata"]
    spec: ScalerSpec | None = None
    faults: tuple[FieldError, ...] = ()
    try:
        spec, _ = decode_scaler_spec(kind, wire)
    except FieldErrors as e:
        faults = tuple(e.errors)
    return Scaler(
        kind=kind,
        namespace=str(metadata.get("namespace")),
        name=str(metadata.get("name")),
        uid=str(metadata.get("uid")),
        created_at=parse_time(str(metadata.get("creationTimestamp"))),
        owners=frozenset(
            str(owner.get("uid"))
            for owner in metadata.get("ownerReferences") or ()
            if isinstance(owner, Mapping)
        ),
        spec=spec,
        faults=faults,
        status=decode_status(kind, wire.get("status")),
    )


def read_job_name(kind: ScalerKind, wire: Object) -> str:
    """Read the name of the job that a scaler names; "" if it is no name of a TrainingJob.

    A scaler that has started belongs to the job of its plan, whatever its selector has become.
    """
    status = decode_status(kind, wire.get("status"))
    planned = parse_pod_name(status.pods[0]) if is_started(status) and status.pods else None
    if planned is not None:
        return planned[0]
    spec = wire.get("spec")
    selector = spec.get("selector") if isinstance(spec, Mapping) else None
    name = selector.get("name") if isinstance(selector, Mapping) else None
    return name if isinstance(name, str) and is_framework_name(name) else ""


def read_job(job: Mapping[str, Any], framework: Framework | None) -> JobFacts:
    """Read what scalers need of a TrainingJob; ``framework`` None: it has none."""
    metadata = job["metadata"]
    name, uid = str(metadata.get("name")), str(metadata.get("uid"))
    is_stopped = is_suspended(job)
    # What a scaler has added to a suspended job is removed even after its Pods have ended.
    final = _find_final_end(job, None if is_stopped else framework)
    end = "is suspended" if is_stopped else final
    try:
        decoded = decode_trainingjob(job)
        faults = list(find_faults(decoded))
        if faults:
            raise FieldErrors(faults)
    except FieldErrors:
        # The job goes on as it was, but no other workers can be compiled.
        return JobFacts(
            name,
            uid,
            end=end or "has faults in its spec",
            is_faulty=not end,
            is_final=bool(final),
        )
    worker = (decoded.spec.replica_specs or ReplicaSpecs()).worker or ReplicaSpec()
    return JobFacts(
        name=name,
        uid=uid,
        slots=_find_slots(job, framework) or complete(decoded).slots,
        min_workers=worker.min_replicas,
        max_workers=worker.max_replicas,
        end=end,
        is_final=bool(final),
    )


def _find_slots(job: Mapping[str, Any], framework: Framework | None) -> int | None:
    """Find the processes per worker that are fixed since the Framework exists; None before."""
    status = job.get("status")
    return read_slots(status) if framework is not None and isinstance(status, Mapping) else None


def _find_final_end(job: Mapping[str, Any], framework: Framework | None) -> str:
    """Find why the workers of a job never change again; "" if they may."""
    if job["metadata"].get("deletionTimestamp"):
        return "is being deleted"
    status = job.get("status")
    types = {
        condition["type"]
        for condition in read_conditions(status if isinstance(status, Mapping) else None)
        if condition.get("status") == "True"
    }
    for type_, end in _ENDS.items():
        if type_ in types:
            return end
    state = None if framework is None or framework.status is None else framework.status.state
    return "has ended" if state is FrameworkState.COMPLETED else ""
