"""The next step of the scalers of one TrainingJob: a pure function. The caller executes it.

1. Each new scaler gets the job as owner, and then the condition Created. One with faults ends.
2. One scaler at a time is in progress; the others wait in the order of their creation. Of those
   that were created in the same second, the resourceVersion decides with which a controller first
   saw each (status field ``order``), and then the name. A scaler starts when the launcher runs and
   the job has the workers that its ``replicas`` ask for.
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
- The reason of a change is stored before the change: the names of the workers before the Framework
  changes, and the failure before the workers are put back.
- Scalers that end change nothing any more.

Example: a job has the workers 0 and 1. A ScaleIn of one stores the name of worker 1, asks the
agent, and sets ``taskNumber: 1``. The agent answers with code 3: the failure is stored,
``taskNumber: 2`` is set again, so that a new Pod replaces worker 1, and ScaleFailed is stored.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from framework.kinds.scaling import status as statuses
from framework.kinds.scaling.active import AGENT_SECONDS, ActiveScaler
from framework.kinds.scaling.admission import admit, end, find_deadline, is_admitted
from framework.kinds.scaling.snapshot import (
    Action,
    AddOwner,
    ClearRequest,
    ScalingDecision,
    ScalingSnapshot,
    SetWorkers,
    WriteRequest,
    WriteStatus,
)
from framework.kinds.scaling.steps import take_step
from framework.kinds.scaling.types import Failure, Scaler


def decide(snapshot: ScalingSnapshot) -> ScalingDecision:
    """Decide the next step of each scaler."""
    waiting = sorted(
        (s for s in snapshot.scalers if statuses.find_end(s.status) is None), key=_get_order
    )
    admissions = [(s, admit(s, snapshot.job, snapshot.now)) for s in waiting]
    ready = [s for s, action in admissions if action is None and is_admitted(s)]
    current = next((s for s in ready if statuses.is_started(s.status)), next(iter(ready), None))
    active = _observe(current, snapshot)
    step = _clear_foreign_request(current, snapshot) or (take_step(active) if active else None)
    actions = [step, *(action for _, action in admissions)]
    deadlines = [*(find_deadline(s, snapshot.job) for s in waiting), *_list_limits(active)]
    is_in_progress = current is not None and statuses.is_started(current.status)
    return ScalingDecision(
        actions=tuple(action for action in actions if action is not None),
        current=current.title if current is not None and is_in_progress else "",
        wake_at=min((time for time in deadlines if time and time > snapshot.now), default=None),
    )


def refuse(scaler: Scaler, action: Action, failure: Failure, now: datetime) -> WriteStatus | None:
    """Decide what follows a step of a scaler that the API server has refused.

    None: nothing can be stored. A refused change that puts workers back is tried again.
    """
    if isinstance(action, AddOwner):
        return end(scaler, failure, now)
    if not isinstance(action, SetWorkers | WriteRequest) or scaler.status.failure is not None:
        return None
    return WriteStatus(scaler, replace(scaler.status, failure=failure))


def _get_order(scaler: Scaler) -> tuple[datetime, int, str, str]:
    # Creation times are in seconds. A new controller sees later versions, so the first is stored.
    order = scaler.status.order or scaler.first_version
    return scaler.created_at, order, scaler.name, scaler.kind


def _observe(current: Scaler | None, snapshot: ScalingSnapshot) -> ActiveScaler | None:
    if current is None or snapshot.job is None:
        return None
    return ActiveScaler.observe(current, snapshot.job, snapshot)


def _clear_foreign_request(current: Scaler | None, snapshot: ScalingSnapshot) -> Action | None:
    """Clear the request of a scaler that was deleted."""
    requested = snapshot.launcher.request_uid
    if not requested or (current is not None and requested == current.uid):
        return None
    return ClearRequest(requested)


def _list_limits(active: ActiveScaler | None) -> Iterator[datetime]:
    """List when the limits of the scaler in progress are over."""
    if active is None:
        return
    status, timeout_seconds = active.scaler.status, active.spec.timeout_seconds
    started = statuses.find_condition(status, statuses.SCALING)
    if started is not None:
        for seconds in (AGENT_SECONDS, timeout_seconds, active.limit_seconds):
            yield started.since + timedelta(seconds=seconds)
    answered = statuses.find_condition(status, statuses.SCRIPT_EXECUTED)
    if answered is not None:
        yield answered.since + timedelta(seconds=timeout_seconds)
