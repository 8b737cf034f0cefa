"""The TfJob or TrainingJob that a Framework belongs to, as kubectl names it. Pure."""

from dataclasses import dataclass

from framework.kinds.catalog import KINDS
from framework.kube.resources import Object


@dataclass(frozen=True, slots=True)
class JobName:
    """The job whose controller created a Framework, and reverts changes of it."""

    kind: str
    name: str
    resource: str
    """For kubectl: ``tfjob.mlkube.io/NAME``."""


def find_job_name(framework: Object) -> JobName | None:
    """Find the job that a Framework belongs to; None if it belongs to none."""
    owners = framework["metadata"].get("ownerReferences") or ()
    jobs = (each for each in owners if (each["apiVersion"], each["kind"]) in KINDS)
    job = next((each for each in jobs if each.get("controller") is True), None)
    if job is None:
        return None
    kind, name = str(job["kind"]), str(job["name"])
    group = str(job["apiVersion"]).partition("/")[0]
    return JobName(kind, name, f"{kind.lower()}.{group}/{name}")
