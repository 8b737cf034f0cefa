"""The scalers of a TrainingJob: the last failed scaler, and a scaler that a user names. Pure."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from cli.texts.kindwords import is_word_for
from framework.api.text import cut_text
from framework.kinds.scaling.status import FAILED, decode_status, find_condition
from framework.kinds.scaling.types import ScalerKind
from framework.kinds.trainingjob import types as trainingjob
from framework.kube.resources import SCALE_INS, SCALE_OUTS, Object, Resource

SCALERS: Mapping[ScalerKind, Resource] = {
    ScalerKind.SCALE_IN: SCALE_INS,
    ScalerKind.SCALE_OUT: SCALE_OUTS,
}
# A URL path with one of these names means another object.
_NO_NAMES = frozenset({"", ".", ".."})
# The longest state of a scaler in a line.
_MAX_STATE_BYTES = 400


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


def list_named(word: str) -> Iterator[tuple[ScalerKind, Resource, str]]:
    """List which scalers a word may name: ``one``, or ``scalein/one``."""
    prefix, slash, name = word.rpartition("/")
    for kind, resource in SCALERS.items():
        if name not in _NO_NAMES and (not slash or is_word_for(prefix, resource)):
            yield kind, resource, name


def describe_named(word: str, kind: ScalerKind, body: Object) -> str:
    """Describe a scaler that ``word`` names: its state, and the command that shows more."""
    name = str(body["metadata"]["name"])
    job = ((body.get("spec") or {}).get("selector") or {}).get("name")
    conditions = decode_status(kind, body.get("status")).conditions
    state = "which has not started"
    if conditions:
        last = conditions[-1]
        state = ": ".join(part for part in (last.reason, last.message) if part)
        state = f"{last.type}, {state}" if state else last.type
    shown = " ".join(cut_text(state, _MAX_STATE_BYTES).split())
    text = f"{name} is a {kind} of the TrainingJob {job}, {shown}"
    if "/" in word:
        return text  # the error that it follows has the command for this word
    return f"{text}: use `{shlex.join(('kubectl', 'get', f'{kind.lower()}/{name}'))}`"


def _read(job: Object, kind: ScalerKind, body: Object) -> FailedScaler | None:
    selector = (body.get("spec") or {}).get("selector") or {}
    status = decode_status(kind, body.get("status"))
    end = find_condition(status, FAILED)
    # Scalers of an earlier job with the same name do not count.
    is_of_job = selector.get("name") == job["name"] and status.job_uid in {"", job["uid"]}
    if end is None or not is_of_job:
        return None
    return FailedScaler(kind, str(body["metadata"]["name"]), end.reason, end.message, end.since)
