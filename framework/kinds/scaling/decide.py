"""The next step of the scalers of one TrainingJob: a pure function. The caller executes it.

1. Each new scaler gets the job as owner, and then the condition Created. One with faults ends.
2. One scaler at a time is in progress; the others wait in the order of their creation. A scaler
   starts when the launcher runs and the job has the workers that its ``replicas`` ask for.
3. Start: choose the workers, and store their names with the condition Scaling. A scaler that asks
   for too many or too few workers ends here, and nothing was changed.
4. Write the request for the launcher's agent into the attempt's ConfigMap, and change the wanted
   workers of the Framework. A ScaleIn does it in this order: the agent must know why its workers
   leave. A ScaleOut does the second first, and waits until its workers run. A request with a script
   is written only after the agent has acknowledged a generation: it can report what it has run.
5. Wait for the agent: its host files are up to date, processes of leaving workers have ended, the
   script has run. Store ScriptExecuted.
6. Clear the request. A ScaleIn waits until the Pods are deleted, or for its timeout. Store
   ScaleSucceeded.
7. A failure in steps 4 and 5 is stored first, also a refusal of step 4 (``refuse``). Then the
   request is cleared, the wanted workers are put back, and ScaleFailed is stored.

Invariants:

- Each decision has at most one step of a scaler, and a step depends only on what is stored. A crash
  between two steps repeats no step with an effect and loses none.
- What a step changes was stored before: the names of the workers before the Framework, the failure
  before it is undone.
- Scalers that end change nothing any more.

Example: a job has the workers 0 and 1. A ScaleIn of one stores the name of worker 1, asks the
agent, and sets ``taskNumber: 1``. The agent answers with code 3: the failure is stored,
``taskNumber: 2`` is set again, so that a new Pod replaces worker 1, and ScaleFailed is stored.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from framework.api.scalerequest import ScaleRequest, encode_request
from framework.api.states import TaskState
from framework.kinds.observing import is_running
from framework.kinds.scaling import status as statuses
from framework.kinds.scaling.plan import (
    check_most,
    check_removal,
    find_worker_tasks,
    list_ended,
    list_workers,
    plan_workers,
    read_plan,
)
from framework.kinds.scaling.snapshot import (
    Action,
    AddOwner,
    ClearRequest,
    JobFacts,
    ScalingDecision,
    ScalingSnapshot,
    SetWorkers,
    WriteRequest,
    WriteStatus,
)
from framework.kinds.scaling.types import Failure, Scaler, ScalerKind, ScalerSpec
from framework.kinds.scaling.workers import Workers, build_wanted, name_workers
from framework.kinds.trainingjob.types import WORKER

JOB_SECONDS = 30
"""For how long a scaler waits for its job, which may be created after it."""
AGENT_SECONDS = 10
"""After this time a launcher whose agent never acknowledged has no agent."""
ANSWER_SECONDS = 30
"""How long the agent's answer may take beyond the two limits of the scaler."""
_DRAIN_MARGIN_SECONDS = 60
_MAX_NAMED = 5

_IN_PROGRESS = "ScalingStart"
_ENDS = {ScalerKind.SCALE_IN: "ScalingIn", ScalerKind.SCALE_OUT: "ScalingOut"}


def decide(snapshot: ScalingSnapshot) -> ScalingDecision:
    """Decide the next step of each scaler."""
    waiting = sorted(
        (s for s in snapshot.scalers if statuses.find_end(s.status) is None), key=_get_order
    )
    actions: list[Action] = []
    ready: list[Scaler] = []
    for scaler in waiting:
        action = _admit(scaler, snapshot)
        if action is not None:
            actions.append(action)
        elif statuses.find_condition(scaler.status, statuses.CREATED) is not None:
            ready.append(scaler)
    current = next((s for s in ready if _is_started(s)), ready[0] if ready else None)
    step = _take_step(current, snapshot)
    if step is not None:
        actions.insert(0, step)
    return ScalingDecision(
        actions=tuple(actions),
        current=current.title if current is not None and _is_started(current) else "",
        wake_at=min(
            (time for time in _list_deadlines(waiting, current) if time > snapshot.now),
            default=None,
        ),
    )


def refuse(scaler: Scaler, action: Action, failure: Failure, now: datetime) -> WriteStatus | None:
    """Decide what follows a step of a scaler that the API server has refused.

    None: nothing can be stored. A refused change that puts workers back is tried again.
    """
    if isinstance(action, AddOwner):
        return _fail(scaler, failure, now)
    if not isinstance(action, SetWorkers | WriteRequest) or scaler.status.failure is not None:
        return None
    return WriteStatus(scaler, replace(scaler.status, failure=failure))


def _get_order(scaler: Scaler) -> tuple[datetime, str, str]:
    return scaler.created_at, scaler.name, scaler.kind


def _is_started(scaler: Scaler) -> bool:
    return statuses.is_started(scaler.status)


def _list_deadlines(waiting: list[Scaler], current: Scaler | None) -> Iterator[datetime]:
    for scaler in waiting:
        if not scaler.status.conditions:
            yield scaler.created_at + timedelta(seconds=JOB_SECONDS)
    started = current and statuses.find_condition(current.status, statuses.SCALING)
    if current is not None and started:
        spec = _get_spec(current)
        for seconds in (AGENT_SECONDS, spec.timeout_seconds, _get_limit(current, spec)):
            yield started.since + timedelta(seconds=seconds)
        answered = statuses.find_condition(current.status, statuses.SCRIPT_EXECUTED)
        if answered is not None:
            yield answered.since + timedelta(seconds=spec.timeout_seconds)


# --- New scalers ---------------------------------------------------------------------------------


def _admit(scaler: Scaler, snapshot: ScalingSnapshot) -> Action | None:
    """Add owner and condition of a new scaler; end one that can do nothing."""
    job, now = snapshot.job, snapshot.now
    if job is None:
        return _find_lost(scaler, now)
    if _is_of_earlier_job(scaler, job):
        why = f"the TrainingJob {job.name} that it was created for is gone"
        return _fail(scaler, Failure("JobNotFound", why), now)
    if job.uid not in scaler.owners:
        return AddOwner(scaler, job.uid)
    if scaler.spec is None and not _is_started(scaler):
        return _fail(scaler, _build_invalid(scaler), now)
    if statuses.find_condition(scaler.status, statuses.CREATED) is None:
        text = f"{scaler.title} is created for the TrainingJob {job.name}"
        status = replace(scaler.status, job_uid=job.uid)
        return WriteStatus(scaler, statuses.add_condition(status, statuses.CREATED, "", text, now))
    return None


def _find_lost(scaler: Scaler, now: datetime) -> Action | None:
    """End a scaler without a job: one with faults at once, another after a time."""
    if scaler.spec is None:
        return _fail(scaler, _build_invalid(scaler), now)
    if now < scaler.created_at + timedelta(seconds=JOB_SECONDS):
        return None
    why = f"there is no TrainingJob {scaler.spec.job} in the namespace {scaler.namespace}"
    return _fail(scaler, Failure("JobNotFound", why), now)


def _is_of_earlier_job(scaler: Scaler, job: JobFacts) -> bool:
    """Return whether a scaler was created for a job whose name this one has now."""
    if scaler.status.job_uid:
        return scaler.status.job_uid != job.uid
    is_created = statuses.find_condition(scaler.status, statuses.CREATED) is not None
    return is_created and job.uid not in scaler.owners


def _build_invalid(scaler: Scaler) -> Failure:
    return Failure("InvalidSpec", "; ".join(map(str, scaler.faults)))


def _get_spec(scaler: Scaler) -> ScalerSpec:
    """Return the spec; of a scaler that has faults now, one that is enough to undo it."""
    return scaler.spec or ScalerSpec(job="", count=0)


def _fail(scaler: Scaler, failure: Failure, now: datetime) -> WriteStatus:
    """End a scaler that has changed nothing, or whose changes were put back."""
    status = statuses.add_condition(
        scaler.status, statuses.FAILED, failure.reason, failure.message, now
    )
    return WriteStatus(scaler, status)


# --- The scaler in progress ----------------------------------------------------------------------


def _take_step(current: Scaler | None, snapshot: ScalingSnapshot) -> Action | None:
    job, requested = snapshot.job, snapshot.launcher.request_uid
    if requested and (current is None or requested != current.uid):
        return ClearRequest(requested)  # of a scaler that was deleted
    if current is None or job is None:
        return None
    spec = _get_spec(current)
    if not _is_started(current):
        return _start(current, spec, job, snapshot)
    if current.status.failure is not None:
        return _undo(current, spec, current.status.failure, job, snapshot)
    if statuses.find_condition(current.status, statuses.SCRIPT_EXECUTED) is not None:
        return _finish(current, spec, job, snapshot)
    return (
        _find_failure(current, spec, job, snapshot)
        or _apply(current, spec, job, snapshot)
        or _await_agent(current, job, snapshot)
    )


def _start(
    scaler: Scaler, spec: ScalerSpec, job: JobFacts, snapshot: ScalingSnapshot
) -> Action | None:
    if job.is_faulty:
        return None  # until its user corrects it
    if job.end:
        return _fail(
            scaler, Failure("JobFinished", f"the TrainingJob {job.name} {job.end}"), snapshot.now
        )
    if snapshot.framework is None or not snapshot.launcher.pod_uid or job.is_resizing:
        return None
    workers = list_workers(snapshot.framework)
    ended = list_ended(snapshot.framework, workers)
    plan = plan_workers(scaler.kind, spec, job, workers, ended)
    if isinstance(plan, Failure):
        return _fail(scaler, plan, snapshot.now)
    status = replace(scaler.status, pods=plan, launcher_uid=snapshot.launcher.pod_uid)
    text = f"trainingjob {job.name} executes {scaler.title}"
    return WriteStatus(
        scaler, statuses.add_condition(status, statuses.SCALING, _IN_PROGRESS, text, snapshot.now)
    )


def _find_failure(
    scaler: Scaler, spec: ScalerSpec, job: JobFacts, snapshot: ScalingSnapshot
) -> Action | None:
    """Store why the scaler fails, or the Pod of a new launcher."""
    launcher = snapshot.launcher
    failure = (
        _find_change(scaler, spec, job)
        or _find_job_failure(job)
        or _find_limit_failure(scaler, job, snapshot)
        or _find_result_failure(scaler, snapshot)
        or _find_worker_failure(scaler, job, snapshot)
        or _find_timeout(scaler, spec, job, snapshot)
    )
    if failure is None and launcher.pod_uid not in {"", scaler.status.launcher_uid}:
        if not spec.script:
            return WriteStatus(scaler, replace(scaler.status, launcher_uid=launcher.pod_uid))
        failure = Failure(
            "LauncherReplaced", "the launcher was replaced before the result of the script arrived"
        )
    if failure is None:
        return None
    return WriteStatus(scaler, replace(scaler.status, failure=failure))


def _find_change(scaler: Scaler, spec: ScalerSpec, job: JobFacts) -> Failure | None:
    """Find a change of the spec after the start, which the definition refuses."""
    if scaler.spec is None:
        return _build_invalid(scaler)
    if spec.job == job.name and len(read_plan(scaler, job)) == len(set(scaler.status.pods)):
        return None
    why = f"its workers are not those of {job.name}: do not change the selector of a scaler"
    return Failure("InvalidSpec", why)


def _find_job_failure(job: JobFacts) -> Failure | None:
    return Failure("JobFinished", f"the TrainingJob {job.name} {job.end}") if job.end else None


def _find_limit_failure(scaler: Scaler, job: JobFacts, snapshot: ScalingSnapshot) -> Failure | None:
    """Find limits of the job that a plan that is not carried out yet does not keep any more."""
    if snapshot.framework is None:
        return None
    workers, plan = list_workers(snapshot.framework), read_plan(scaler, job)
    ended = list_ended(snapshot.framework, workers)
    if scaler.kind is ScalerKind.SCALE_IN:
        return check_removal(job, workers, ended, plan) if plan & workers else None
    total = workers | plan
    return check_most(job, len(total), len(ended)) if total != workers else None


def _has_answered(scaler: Scaler, snapshot: ScalingSnapshot) -> bool:
    """Return whether the agent of the launcher that was asked has finished."""
    launcher, result = snapshot.launcher, snapshot.launcher.result
    is_same = launcher.pod_uid == scaler.status.launcher_uid
    return is_same and result is not None and result.uid == scaler.uid


def _find_result_failure(scaler: Scaler, snapshot: ScalingSnapshot) -> Failure | None:
    result = snapshot.launcher.result
    if result is None or result.code == 0 or not _has_answered(scaler, snapshot):
        return None
    reason = "ScriptFailed" if result.code > 0 else "AgentFailed"
    return Failure(reason, result.message or f"code {result.code}")


def _find_worker_failure(
    scaler: Scaler, job: JobFacts, snapshot: ScalingSnapshot
) -> Failure | None:
    if scaler.kind is ScalerKind.SCALE_IN or _has_answered(scaler, snapshot):
        return None
    if snapshot.launcher.pod_uid != scaler.status.launcher_uid:
        return None  # with the launcher, all Pods of its attempt have ended
    for task in find_worker_tasks(snapshot.framework, read_plan(scaler, job)):
        # A Task that was scaled down before has the same index, and is replaced.
        if task.is_completed:
            return Failure("WorkerEnded", f"the new worker {task.index} has ended")
    return None


def _find_timeout(
    scaler: Scaler, spec: ScalerSpec, job: JobFacts, snapshot: ScalingSnapshot
) -> Failure | None:
    if _has_answered(scaler, snapshot):
        return None  # in time: it was observed late
    elapsed = _count_seconds(scaler, snapshot)
    if elapsed >= _get_limit(scaler, spec):
        return Failure("Timeout", f"the launcher's agent has not answered for {elapsed:.0f} s")
    missing = _list_missing(scaler, job, snapshot)
    if missing and elapsed >= spec.timeout_seconds:
        names = _name(job, missing)
        return Failure(
            "Timeout",
            f"{len(missing)} of the new workers do not run after {elapsed:.0f} s: {names}",
        )
    if _lacks_agent(scaler, spec, snapshot) and elapsed >= AGENT_SECONDS:
        return Failure(
            "NoAgent",
            "no agent runs in the launcher that could start the script: its container needs a "
            "command and Python 3.7, and the agent the right to acknowledge",
        )
    return None


def _lacks_agent(scaler: Scaler, spec: ScalerSpec, snapshot: ScalingSnapshot) -> bool:
    """Return whether no agent can report the script of a scaler: so no agent is asked to run it."""
    launcher = snapshot.launcher
    is_same = launcher.pod_uid == scaler.status.launcher_uid
    is_asked = launcher.request_uid == scaler.uid
    return bool(spec.script) and is_same and not launcher.has_agent and not is_asked


def _apply(
    scaler: Scaler, spec: ScalerSpec, job: JobFacts, snapshot: ScalingSnapshot
) -> Action | None:
    """Write the request and change the wanted workers, in the order of the kind."""
    if not snapshot.launcher.pod_uid or snapshot.framework is None:
        return None
    workers, plan = list_workers(snapshot.framework), read_plan(scaler, job)
    is_requested = snapshot.launcher.request_uid == scaler.uid
    is_held = _lacks_agent(scaler, spec, snapshot)
    request = None if is_requested or is_held else _write_request(scaler, spec, job, snapshot)
    if scaler.kind is ScalerKind.SCALE_IN:
        return None if is_held else request or _set_workers(workers, workers - plan, spec)
    action = _set_workers(workers, workers | plan, spec)
    return action or (None if _list_missing(scaler, job, snapshot) else request)


def _await_agent(scaler: Scaler, job: JobFacts, snapshot: ScalingSnapshot) -> Action | None:
    if _has_answered(scaler, snapshot):
        text = f"the launcher's agent has finished {scaler.title}"
    elif _is_alone(scaler, snapshot) and not _list_missing(scaler, job, snapshot):
        text = f"no agent in the launcher answers for {scaler.title}, and there is no script"
    else:
        return None
    return WriteStatus(
        scaler,
        statuses.add_condition(scaler.status, statuses.SCRIPT_EXECUTED, "", text, snapshot.now),
    )


def _is_alone(scaler: Scaler, snapshot: ScalingSnapshot) -> bool:
    """Return whether a scaler without a script waits for an agent that does not exist."""
    launcher = snapshot.launcher
    is_same = launcher.pod_uid == scaler.status.launcher_uid
    if _get_spec(scaler).script or launcher.has_agent or not is_same:
        return False
    return _count_seconds(scaler, snapshot) >= AGENT_SECONDS


def _finish(
    scaler: Scaler, spec: ScalerSpec, job: JobFacts, snapshot: ScalingSnapshot
) -> Action | None:
    if snapshot.launcher.request_uid:
        return ClearRequest(scaler.uid)
    text = f"{scaler.title} has succeeded"
    leaving = [] if job.end else _list_leaving(scaler, job, snapshot)
    if scaler.kind is ScalerKind.SCALE_IN and leaving:
        answered = statuses.find_condition(scaler.status, statuses.SCRIPT_EXECUTED)
        limit = timedelta(seconds=spec.timeout_seconds)
        if answered is not None and snapshot.now < answered.since + limit:
            return None
        text += f"; Pods that are not deleted yet: {_name(job, leaving)}"
    reason = f"{_ENDS[scaler.kind]}Succeeded"
    return WriteStatus(
        scaler,
        statuses.add_condition(scaler.status, statuses.SUCCEEDED, reason, text, snapshot.now),
    )


def _name(job: JobFacts, indexes: list[int]) -> str:
    """Name the first Pods of these workers."""
    return ", ".join(name_workers(job.name, indexes[:_MAX_NAMED]))


def _undo(
    scaler: Scaler, spec: ScalerSpec, failure: Failure, job: JobFacts, snapshot: ScalingSnapshot
) -> Action | None:
    if snapshot.launcher.request_uid:
        return ClearRequest(scaler.uid)
    if snapshot.framework is not None and not job.is_final:
        workers, plan = list_workers(snapshot.framework), read_plan(scaler, job)
        before = workers | plan if scaler.kind is ScalerKind.SCALE_IN else workers - plan
        action = _set_workers(workers, before, spec)
        if action is not None:
            return action
    return _fail(scaler, failure, snapshot.now)


def _set_workers(workers: Workers, wanted: Workers, spec: ScalerSpec) -> Action | None:
    if workers == wanted or not wanted:
        return None
    # The agent answers before this deadline of the drain.
    return SetWorkers(build_wanted(wanted, 2 * spec.timeout_seconds + _DRAIN_MARGIN_SECONDS))


def _get_limit(scaler: Scaler, spec: ScalerSpec) -> int:
    """Return the seconds after which the scaler fails in any case.

    The agent waits, and the script runs; before that, new workers are waited for.
    """
    parts = 2 if scaler.kind is ScalerKind.SCALE_IN else 3
    return parts * spec.timeout_seconds + ANSWER_SECONDS


def _count_seconds(scaler: Scaler, snapshot: ScalingSnapshot) -> float:
    started = statuses.find_condition(scaler.status, statuses.SCALING)
    return 0.0 if started is None else (snapshot.now - started.since).total_seconds()


def _list_missing(scaler: Scaler, job: JobFacts, snapshot: ScalingSnapshot) -> list[int]:
    """List the new workers that do not run yet."""
    if scaler.kind is ScalerKind.SCALE_IN:
        return []
    plan = read_plan(scaler, job)
    running = {
        task.index
        for task in find_worker_tasks(snapshot.framework, plan)
        if is_running(task) and not task.deletion_pending
    }
    return sorted(plan - running)


def _list_leaving(scaler: Scaler, job: JobFacts, snapshot: ScalingSnapshot) -> list[int]:
    """List the workers whose Pods are not deleted yet; not those that are wanted again."""
    plan = read_plan(scaler, job) - list_workers(snapshot.framework)
    tasks = find_worker_tasks(snapshot.framework, plan)
    return [task.index for task in tasks if task.state is not TaskState.COMPLETED]


def _write_request(
    scaler: Scaler, spec: ScalerSpec, job: JobFacts, snapshot: ScalingSnapshot
) -> WriteRequest:
    plan = read_plan(scaler, job)
    is_scale_in = scaler.kind is ScalerKind.SCALE_IN
    leaving = plan if is_scale_in else frozenset[int]()
    addresses = (t.attempt_status.pod_ip for t in find_worker_tasks(snapshot.framework, leaving))
    request = ScaleRequest(
        uid=scaler.uid,
        is_scale_in=is_scale_in,
        role=WORKER,
        indexes=tuple(sorted(plan)),
        hosts=tuple(address for address in addresses if address),
        slots=job.slots,
        script=spec.script,
        env=tuple(sorted(spec.env)),
        timeout_seconds=spec.timeout_seconds,
    )
    return WriteRequest(encode_request(request))
