"""Maps a Framework to the status of its TrainingJob. Pure.

1. ``conditions`` are added in the order Created, WorkersCreated, WorkersReady, LauncherCreated,
   Running, then Succeeded or Failed; each waits for the one before it. Suspended and Scaling may
   come at any time. A condition that changes moves to the end. Before them are the
   conditions that the original does not have (``AddedCondition``).
2. ``phase`` is Created, Running, Scaling, Succeeded, Failed or Suspended.
3. When the job is started again, its conditions begin anew, and ``restartCount`` has the number.
4. ``targetWorkers`` has the names of the wanted workers, ``currentWorkers`` of those that run.
   ``workerSelector`` selects their Pods, for the subresource scale.

Invariants: equal inputs give equal statuses; a status without news is the old one; after Succeeded
and Failed, Running is False.

Example: both workers run, and the launcher is still in its barrier: phase Created, last condition
LauncherCreated, replicaStatuses {Launcher: {}, Worker: {active: 2}}.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from framework.api.naming import build_pod_name
from framework.api.states import FrameworkState
from framework.api.types import Framework, TaskStatus
from framework.api.wire import format_time
from framework.kinds.compiled import Object
from framework.kinds.observing import (
    MAX_MESSAGE,
    AddedCondition,
    is_running,
    list_tasks,
    read_conditions,
    split_added,
    update_added,
)
from framework.kinds.trainingjob.types import LAUNCHER, WORKER

CREATED, RUNNING, SUCCEEDED, FAILED = "Created", "Running", "Succeeded", "Failed"
SCALING, SUSPENDED = "Scaling", "Suspended"
WORKERS_CREATED, WORKERS_READY = "WorkersCreated", "WorkersReady"
LAUNCHER_CREATED = "LauncherCreated"
_EVICTED = "Evicted"
_TIMES = frozenset({"lastUpdateTime", "lastTransitionTime"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJobFacts:
    """What the TrainingJob itself and its scalers say about its status."""

    is_suspended: bool = False
    """Whether its annotation stops it."""
    fault: str = ""
    """Why it was refused; "" if it was not."""
    scaler: str = ""
    """Scaler that is in progress: ``ScaleIn:namespace/name``; "" if there is none."""
    added_conditions: tuple[AddedCondition, ...] = ()
    """Conditions that the original does not have."""
    is_still_blocked: bool = False
    """Whether an object that could not be created is being tried again."""


@dataclass(frozen=True, slots=True)
class _News:
    """A condition that is true."""

    type: str
    reason: str
    message: str


def map_trainingjob_status(
    name: str,
    framework: Framework | None,
    old: Mapping[str, Any] | None,
    now: datetime,
    facts: TrainingJobFacts,
) -> Object:
    """Compute the status of the job ``name``; ``framework`` None: it does not exist yet."""
    restarts = _count_restarts(framework)
    is_new_attempt = restarts > _read_number((old or {}).get("restartCount"))
    ours, known = split_added(read_conditions(old))
    conditions = [] if is_new_attempt else known
    for news in _list_news(name, framework, facts):
        conditions = _set_condition(conditions, news, now)
    added_conditions = update_added(
        ours,
        facts.added_conditions,
        lambda added: build_added_condition(added, now),
        _TIMES,
        is_still_blocked=facts.is_still_blocked,
    )
    status: Object = {
        "phase": _find_phase(conditions, facts),
        "conditions": [*added_conditions, *conditions],
        "replicaStatuses": _count_replicas(framework),
        "restartCount": restarts,
        "workerSelector": f"training-job-name={name},training-job-role={WORKER}",
    }
    if framework is not None:
        status |= _list_workers(name, framework) | _find_times(framework)
    if facts.scaler:
        status["currentScaler"] = facts.scaler
    return status


def _list_news(name: str, framework: Framework | None, facts: TrainingJobFacts) -> Iterator[_News]:
    yield _News(CREATED, "TrainingJobCreated", f"TrainingJob {name} is created.")
    if facts.fault:
        yield _News(FAILED, "TrainingJobFailed", facts.fault)
        return
    if facts.is_suspended:
        yield _News(SUSPENDED, "WaitingResourceTimeout", f"TrainingJob {name} is suspended.")
        return
    if framework is None or framework.status is None:
        return
    yield from _list_starts(name, framework)
    if facts.scaler:
        yield _News(SCALING, "ScalingStart", f"trainingjob {name} executes {facts.scaler}")
    end = _find_end(name, framework)
    if end is not None:
        yield end


def _list_starts(name: str, framework: Framework) -> Iterator[_News]:
    """List what has been reached on the way to Running; each step needs the one before it."""
    workers, launchers = list_tasks(framework, WORKER), list_tasks(framework, LAUNCHER)
    wanted = framework.spec.find_role(WORKER)
    count = wanted.wanted_count if wanted else 0
    running = sum(1 for worker in workers if is_running(worker))
    launcher = launchers[0] if launchers else None
    is_launched = launcher is not None and (is_running(launcher) or launcher.is_completed)
    steps = (
        (
            sum(map(_is_created, workers)) >= count,
            _News(WORKERS_CREATED, "", "workers are created"),
        ),
        (
            running >= count or is_launched,
            _News(WORKERS_READY, "", f"all workers ({count}) are running"),
        ),
        (
            launcher is not None and _is_created(launcher),
            _News(LAUNCHER_CREATED, "", "launcher is created"),
        ),
        (is_launched, _News(RUNNING, "TrainingJobRunning", f"job {name} is running.")),
    )
    for is_reached, news in steps:
        if not is_reached:
            return
        yield news


def _is_created(task: TaskStatus) -> bool:
    return task.attempt_status.pod_uid is not None


def _find_end(name: str, framework: Framework) -> _News | None:
    status = framework.status
    if status is None or status.state is not FrameworkState.COMPLETED:
        return None
    completion = status.attempt_status.completion_status
    if completion is not None and completion.type.is_succeeded:
        return _News(SUCCEEDED, "TrainingJobSucceeded", f"job {name} successfully completed.")
    is_evicted = any(
        task.attempt_status.completion_status is not None
        and task.attempt_status.completion_status.pod is not None
        and task.attempt_status.completion_status.pod.reason == _EVICTED
        for task in list_tasks(framework, LAUNCHER)
    )
    reason = "TrainingJobEvicted" if is_evicted else "TrainingJobFailed"
    details = "" if completion is None else completion.diagnostics
    if completion is not None and completion.trigger is not None:
        details = completion.trigger.message
    return _News(FAILED, reason, f"job {name} has failed: {details}")


def _set_condition(conditions: list[Object], news: _News, now: datetime) -> list[Object]:
    """Add a condition at the end, unless it is there already; nothing follows Failed."""
    true = {c["type"]: c for c in conditions if c.get("status") == "True"}
    if FAILED in true or SUCCEEDED in true:
        return conditions
    old = true.get(news.type) or {}
    # The text of the others may change without news, for example with the number of workers.
    is_same_text = news.type != SCALING or old.get("message") == news.message
    if old and (old.get("reason") or "") == news.reason and is_same_text:
        return conditions
    kept = [c for c in conditions if c["type"] != news.type]
    if news.type in {FAILED, SUCCEEDED}:
        kept = [_set_false(c, now) if c["type"] == RUNNING else c for c in kept]
    return [*kept, _build_condition(news.type, news.reason, news.message, now)]


def build_added_condition(added: AddedCondition, now: datetime) -> Object:
    """Build the JSON of a condition that the original does not have."""
    return _build_condition(added.type, added.reason, added.message, now)


def _build_condition(type_: str, reason: str, message: str, now: datetime) -> Object:
    time = format_time(now)
    condition = {
        "type": type_,
        "status": "True",
        "reason": reason,
        "message": message[:MAX_MESSAGE],
        "lastUpdateTime": time,
        "lastTransitionTime": time,
    }
    return {key: value for key, value in condition.items() if value}


def _set_false(condition: Object, now: datetime) -> Object:
    time = format_time(now)
    return {**condition, "status": "False", "lastUpdateTime": time, "lastTransitionTime": time}


def _find_phase(conditions: list[Object], facts: TrainingJobFacts) -> str:
    true = {c["type"] for c in conditions if c.get("status") == "True"}
    for phase in (FAILED, SUCCEEDED):
        if phase in true:
            return phase
    if facts.is_suspended:
        return SUSPENDED
    if RUNNING in true:
        return SCALING if facts.scaler else RUNNING
    return CREATED


def _count_restarts(framework: Framework | None) -> int:
    status = None if framework is None else framework.status
    return 0 if status is None else status.retry_policy_status.total_retried_count


def _read_number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _count_replicas(framework: Framework | None) -> Object:
    counts: Object = {}
    for role, key in ((LAUNCHER, "Launcher"), (WORKER, "Worker")):
        tasks = () if framework is None else list_tasks(framework, role)
        numbers = {
            "active": sum(1 for task in tasks if is_running(task)),
            "succeeded": sum(1 for task in tasks if task.is_succeeded),
            "failed": sum(1 for task in tasks if task.is_failed),
        }
        counts[key] = {name: number for name, number in numbers.items() if number}
    return counts


def _list_workers(name: str, framework: Framework) -> Object:
    role = framework.spec.find_role(WORKER)
    wanted = [i for i in range(role.task_number) if i not in role.absent] if role else []
    running = [task.index for task in list_tasks(framework, WORKER) if is_running(task)]
    lists = {"targetWorkers": wanted, "currentWorkers": running}
    return {
        key: [build_pod_name(name, WORKER, index) for index in indexes]
        for key, indexes in lists.items()
        if indexes
    }


def _find_times(framework: Framework) -> Object:
    status = framework.status
    if status is None:
        return {}
    times = {"startTime": status.start_time, "completionTime": status.completion_time}
    return {key: format_time(time) for key, time in times.items() if time is not None}
