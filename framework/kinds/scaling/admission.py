"""New scalers: their owner, their condition Created, and those that end at once. Pure."""

from datetime import datetime, timedelta

from framework.kinds.scaling import status as statuses
from framework.kinds.scaling.failures import build_invalid
from framework.kinds.scaling.snapshot import Action, AddOwner, JobFacts, WriteStatus
from framework.kinds.scaling.types import Failure, Scaler

JOB_SECONDS = 30
"""For how long a scaler waits for its job, which may be created after it."""


def admit(scaler: Scaler, job: JobFacts | None, now: datetime) -> Action | None:
    """Add owner and condition of a new scaler; end a scaler that can do nothing.

    Returns None for a scaler that waits: for its job, or for its turn.
    """
    if job is None:
        return _end_without_job(scaler, now)
    if _is_of_earlier_job(scaler, job):
        why = (
            f"the TrainingJob {job.name} that it was created for is gone: for the present one, "
            "create another scaler"
        )
        return end(scaler, Failure("JobNotFound", why), now)
    if job.uid not in scaler.owners:
        return AddOwner(scaler, job.uid)
    if scaler.spec is None and not statuses.is_started(scaler.status):
        return end(scaler, build_invalid(scaler), now)
    if is_admitted(scaler):
        return None
    text = f"{scaler.title} is created for the TrainingJob {job.name}"
    status = statuses.set_job(scaler.status, job.uid, scaler.first_version)
    return WriteStatus(scaler, statuses.add_condition(status, statuses.CREATED, "", text, now))


def is_admitted(scaler: Scaler) -> bool:
    """Return whether a scaler has the condition Created."""
    return statuses.find_condition(scaler.status, statuses.CREATED) is not None


def find_deadline(scaler: Scaler, job: JobFacts | None) -> datetime | None:
    """Find when a scaler without a job ends; None if it has one."""
    return _get_deadline(scaler) if job is None else None


def end(scaler: Scaler, failure: Failure, now: datetime) -> WriteStatus:
    """End a scaler that has changed nothing."""
    reason, message = failure.reason, failure.message
    status = statuses.add_condition(scaler.status, statuses.FAILED, reason, message, now)
    return WriteStatus(scaler, status)


def _end_without_job(scaler: Scaler, now: datetime) -> Action | None:
    """End a scaler without a job: at once if its spec has faults, else after a time."""
    if scaler.spec is None:
        return end(scaler, build_invalid(scaler), now)
    if now < _get_deadline(scaler):
        return None
    why = (
        f"there is no TrainingJob {scaler.spec.job} in the namespace {scaler.namespace}: correct "
        "spec.selector.name, or create the job first, and create the scaler again"
    )
    return end(scaler, Failure("JobNotFound", why), now)


def _get_deadline(scaler: Scaler) -> datetime:
    return scaler.created_at + timedelta(seconds=JOB_SECONDS)


def _is_of_earlier_job(scaler: Scaler, job: JobFacts) -> bool:
    """Return whether a scaler was created for an earlier job with the name of this job."""
    if scaler.status.job_uid:
        return scaler.status.job_uid != job.uid
    return is_admitted(scaler) and job.uid not in scaler.owners
