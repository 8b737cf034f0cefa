"""Why a scaler in progress fails. Pure.

The first of these reasons counts: its spec was changed; the job has ended; the job's limits do not
allow the plan any more; the agent has reported an error; a new worker has ended; a time is over;
the launcher was replaced while the script may have run.
"""

from framework.kinds.scaling.active import AGENT_SECONDS, ActiveScaler
from framework.kinds.scaling.plan import check_most, check_removal, find_worker_tasks
from framework.kinds.scaling.types import Failure, Scaler


def build_invalid(scaler: Scaler) -> Failure:
    """Build the failure of a scaler whose spec has faults."""
    return Failure("InvalidSpec", "; ".join(map(str, scaler.faults)))


def find_failure(active: ActiveScaler) -> Failure | None:
    """Find why a started scaler fails; None if it does not."""
    return (
        _find_change(active)
        or _find_end_of_job(active)
        or _find_exceeded_limit(active)
        or _find_error_of_agent(active)
        or _find_ended_worker(active)
        or _find_timeout(active)
        or _find_lost_script(active)
    )


def _find_change(active: ActiveScaler) -> Failure | None:
    """Find a change of the spec after the start, which the definition refuses."""
    scaler, job = active.scaler, active.job
    if scaler.spec is None:
        return build_invalid(scaler)
    if scaler.spec.job == job.name and len(active.plan) == len(set(scaler.status.pods)):
        return None
    why = f"its workers are not those of {job.name}: do not change the selector of a scaler"
    return Failure("InvalidSpec", why)


def _find_end_of_job(active: ActiveScaler) -> Failure | None:
    job = active.job
    return Failure("JobFinished", f"the TrainingJob {job.name} {job.end}") if job.end else None


def _find_exceeded_limit(active: ActiveScaler) -> Failure | None:
    """Find the limit of the job that the plan exceeds now, before it is carried out."""
    if active.framework is None:
        return None
    workers, plan, ended = active.workers, active.plan, active.ended
    if active.is_scale_in:
        return check_removal(active.job, workers, ended, plan) if plan & workers else None
    total = workers | plan
    return check_most(active.job, len(total), len(ended)) if total != workers else None


def _find_error_of_agent(active: ActiveScaler) -> Failure | None:
    result = active.launcher.result
    if result is None or result.code == 0 or not active.has_answered:
        return None
    reason = "ScriptFailed" if result.code > 0 else "AgentFailed"
    return Failure(reason, result.message or f"code {result.code}")


def _find_ended_worker(active: ActiveScaler) -> Failure | None:
    if active.is_scale_in or active.has_answered:
        return None
    if not active.is_same_launcher:
        return None  # with the launcher, all Pods of its attempt have ended
    for task in find_worker_tasks(active.framework, active.plan):
        # A Task that was scaled down before has the same index, and is replaced.
        if task.is_completed:
            return Failure("WorkerEnded", f"the new worker {task.index} has ended")
    return None


def _find_timeout(active: ActiveScaler) -> Failure | None:
    if active.has_answered:
        return None  # in time: it was observed late
    elapsed = active.elapsed_seconds
    if elapsed >= active.limit_seconds:
        return Failure("Timeout", f"the launcher's agent has not answered for {elapsed:.0f} s")
    missing = active.list_missing()
    if missing and elapsed >= active.spec.timeout_seconds:
        names = active.name_some(missing)
        return Failure(
            "Timeout",
            f"{len(missing)} of the new workers do not run after {elapsed:.0f} s: {names}",
        )
    if active.lacks_reporter and elapsed >= AGENT_SECONDS:
        return Failure(
            "NoAgent",
            "no agent runs in the launcher that could start the script: its container needs a "
            "command and Python 3.7, and the agent the right to acknowledge",
        )
    return None


def _find_lost_script(active: ActiveScaler) -> Failure | None:
    """Find a launcher that was replaced: whether its script has run is not known."""
    if not active.launcher.pod_uid or active.is_same_launcher or not active.spec.script:
        return None
    why = "the launcher was replaced before the result of the script arrived"
    return Failure("LauncherReplaced", why)
