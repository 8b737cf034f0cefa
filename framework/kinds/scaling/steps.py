"""The next step of the scaler whose turn it is: start, apply, wait, finish or undo. Pure.

``decide.py`` has the order of the steps, their invariants and an example.
"""

from dataclasses import replace
from datetime import timedelta

from framework.api.scalerequest import ScaleRequest, encode_request
from framework.kinds.scaling import status as statuses
from framework.kinds.scaling.active import ActiveScaler
from framework.kinds.scaling.failures import find_failure
from framework.kinds.scaling.plan import find_worker_tasks, plan_workers
from framework.kinds.scaling.snapshot import Action, ClearRequest, WriteRequest, WriteStatus
from framework.kinds.scaling.types import Failure, ScalerKind
from framework.kinds.trainingjob.types import WORKER

_IN_PROGRESS = "ScalingStart"
_SUCCESS = {
    ScalerKind.SCALE_IN: "ScalingInSucceeded",
    ScalerKind.SCALE_OUT: "ScalingOutSucceeded",
}


def take_step(active: ActiveScaler) -> Action | None:
    """Decide the next step; None while the scaler waits."""
    status = active.scaler.status
    if not statuses.is_started(status):
        return _start(active)
    if status.failure is not None:
        return _undo(active, status.failure)
    if statuses.find_condition(status, statuses.SCRIPT_EXECUTED) is not None:
        return _finish(active)
    return (
        _store_failure(active)
        or _store_new_launcher(active)
        or _apply(active)
        or _await_agent(active)
    )


def _start(active: ActiveScaler) -> Action | None:
    """Choose the workers and store them: before this step nothing of the job changes."""
    job = active.job
    if job.is_faulty:
        return None  # until its user corrects it
    if job.end:
        return active.end_with(Failure("JobFinished", f"the TrainingJob {job.name} {job.end}"))
    if active.framework is None or not active.launcher.pod_uid or job.is_resizing:
        return None
    scaler = active.scaler
    pods = plan_workers(scaler.kind, active.spec, job, active.workers, active.ended)
    if isinstance(pods, Failure):
        return active.end_with(pods)
    status = replace(scaler.status, pods=pods, launcher_uid=active.launcher.pod_uid)
    text = f"trainingjob {job.name} executes {scaler.title}"
    return WriteStatus(
        scaler, statuses.add_condition(status, statuses.SCALING, _IN_PROGRESS, text, active.now)
    )


def _store_failure(active: ActiveScaler) -> Action | None:
    failure = find_failure(active)
    if failure is None:
        return None
    return WriteStatus(active.scaler, replace(active.scaler.status, failure=failure))


def _store_new_launcher(active: ActiveScaler) -> Action | None:
    """Ask the agent of a new launcher: without a script, the request may be repeated."""
    pod_uid = active.launcher.pod_uid
    if not pod_uid or active.is_same_launcher:
        return None
    return WriteStatus(active.scaler, replace(active.scaler.status, launcher_uid=pod_uid))


def _apply(active: ActiveScaler) -> Action | None:
    """Write the request and change the wanted workers, in the order of the kind."""
    if not active.launcher.pod_uid or active.framework is None:
        return None
    may_request = not active.is_requested and not active.lacks_reporter
    request = _build_request(active) if may_request else None
    if active.is_scale_in:
        if active.lacks_reporter:
            return None
        return request or active.set_workers(active.workers - active.plan)
    change = active.set_workers(active.workers | active.plan)
    return change or (None if active.list_missing() else request)


def _build_request(active: ActiveScaler) -> WriteRequest:
    scaler, spec, plan = active.scaler, active.spec, active.plan
    leaving = find_worker_tasks(active.framework, plan) if active.is_scale_in else ()
    addresses = (task.attempt_status.pod_ip for task in leaving)
    request = ScaleRequest(
        uid=scaler.uid,
        is_scale_in=active.is_scale_in,
        role=WORKER,
        indexes=tuple(sorted(plan)),
        hosts=tuple(address for address in addresses if address),
        slots=active.job.slots,
        script=spec.script,
        env=tuple(sorted(spec.env)),
        timeout_seconds=spec.timeout_seconds,
    )
    return WriteRequest(encode_request(request))


def _await_agent(active: ActiveScaler) -> Action | None:
    title = active.scaler.title
    if active.has_answered:
        text = f"the launcher's agent has finished {title}"
    elif active.needs_no_agent and not active.list_missing():
        text = f"no agent in the launcher answers for {title}, and there is no script"
    else:
        return None
    return active.add_condition(statuses.SCRIPT_EXECUTED, "", text)


def _finish(active: ActiveScaler) -> Action | None:
    scaler = active.scaler
    if active.launcher.request_uid:
        return ClearRequest(scaler.uid)
    text = f"{scaler.title} has succeeded"
    leaving = [] if active.job.end else active.list_leaving()
    if active.is_scale_in and leaving:
        answered = statuses.find_condition(scaler.status, statuses.SCRIPT_EXECUTED)
        limit = timedelta(seconds=active.spec.timeout_seconds)
        if answered is not None and active.now < answered.since + limit:
            return None
        text += f"; Pods that are not deleted yet: {active.name_some(leaving)}"
    return active.add_condition(statuses.SUCCEEDED, _SUCCESS[scaler.kind], text)


def _undo(active: ActiveScaler, failure: Failure) -> Action | None:
    if active.launcher.request_uid:
        return ClearRequest(active.scaler.uid)
    if active.framework is not None and not active.job.is_final:
        workers, plan = active.workers, active.plan
        change = active.set_workers(workers | plan if active.is_scale_in else workers - plan)
        if change is not None:
            return change
    return active.end_with(failure)
