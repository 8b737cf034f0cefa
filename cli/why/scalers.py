"""The scaler of a TrainingJob that failed last. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from framework.kinds.scaling.status import FAILED, decode_status, find_condition
from framework.kinds.scaling.types import ScalerKind
from framework.kinds.trainingjob import types as trainingjob
from framework.kube.resources import SCALE_INS, SCALE_OUTS, Object, Resource

SCALERS: Mapping[ScalerKind, Resource] = {
    ScalerKind.SCALE_IN: SCALE_INS,
    ScalerKind.SCALE_OUT: SCALE_OUTS,
}


@dataclass(frozen=True, slots=True)
class FailedScaler:
    """A ScaleIn or ScaleOut that failed."""

    kind: ScalerKind
    name: str
    reason: str
    message: str
    since: datetime


def find_job(framework: Object) -> Object | None:
    """Find the reference to the TrainingJob that a Framework belongs to; None without one."""
    wanted = (trainingjob.API_VERSION, trainingjob.KIND)
    owners = framework["metadata"].get("ownerReferences") or ()
    return next((o for o in owners if (o["apiVersion"], o["kind"]) == wanted), None)


def find_last_failed(
    job: Object, scalers: Iterable[tuple[ScalerKind, Object]]
) -> FailedScaler | None:
    """Find the scaler that failed last; None if none of this job has failed."""
    failed = (_read(job, kind, body) for kind, body in scalers)
    found = [scaler for scaler in failed if scaler is not None]
    return max(found, key=lambda scaler: (scaler.since, scaler.name), default=None)


def _read(job: Object, kind: ScalerKind, body: Object) -> FailedScaler | None:
    selector = (body.get("spec") or {}).get("selector") or {}
    status = decode_status(kind, body.get("status"))
    end = find_condition(status, FAILED)
    # An earlier job of the same name had scalers, too.
    is_of_job = selector.get("name") == job["name"] and status.job_uid in {"", job["uid"]}
    if end is None or not is_of_job:
        return None
    return FailedScaler(kind, str(body["metadata"]["name"]), end.reason, end.message, end.since)
