"""Maps a Framework to the status of its TrainingJob. Pure.

1. ``conditions`` are added in the order Created, WorkersCreated, WorkersReady, LauncherCreated,
   Running, then Succeeded or Failed; each waits for the one before it. Once the launcher runs, the
   others no longer wait for WorkersReady, which may not have been observed. Suspended and Scaling
   may come at any time; at the end of a scaler, Scaling becomes False, and ScaleSucceeded or
   ScaleFailed follows. A condition that changes moves to the end. Before them are the
   conditions that the original does not have (``AddedCondition``).
2. ``phase`` is Created, Running, Scaling, Succeeded, Failed or Suspended.
3. When the job is started again, its conditions begin anew, ``restartCount`` has the number, and
   AttemptFailed why the attempt before failed.
4. ``targetWorkers`` has the names of the wanted workers, ``currentWorkers`` of those that run.
   ``workerSelector`` selects their Pods, for the subresource scale.
5. ``reason`` says why the job has failed, or why nothing can be created for it.

Invariants: equal inputs give equal statuses; a status without news is the old one; after Succeeded
and Failed, Running is False; Suspended stays True once the job had a Framework.

Example: both workers run, and the launcher is still in its barrier: phase Created, last condition
LauncherCreated, replicaStatuses {Launcher: {}, Worker: {active: 2}}.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from framework.api.completion import is_left_running
from framework.api.naming import build_pod_name
from framework.api.types import Framework, TaskStatus
from framework.api.wire import format_time
from framework.kinds.compiled import Object
from framework.kinds.ends import describe_failure
from framework.kinds.observing import (
    ATTEMPT_FAILED,
    MAX_MESSAGE,
    AddedCondition,
    find_obstacle,
    is_completed,
    is_running,
    list_tasks,
    read_conditions,
    split_added,
    update_added,
)
from framework.kinds.trainingjob.conditions import (
    CREATED,
    FAILED,
    LAUNCHER_CREATED,
    RUNNING,
    SCALE_FAILED,
    SCALE_SUCCEEDED,
    SCALING,
    SUCCEEDED,
    SUSPENDED,
    TIMES,
    WORKERS_CREATED,
    WORKERS_READY,
    News,
    build_added_condition,
    end_condition,
    set_condition,
)
from framework.kinds.trainingjob.failures import has_failed
from framework.kinds.trainingjob.types import LAUNCHER, SUSPENDED_ANNOTATION, WORKER

_EVICTED = "Evicted"


@dataclass(frozen=True, slots=True)
class ScalerEnd:
    """The end of the scaler that was in progress."""

    title: str
    """``ScaleIn:namespace/name``."""
    is_succeeded: bool
    """Whether it has succeeded."""
    reason: str
    """Reason of its last condition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJobFacts:
    """What the TrainingJob itself and its scalers say about its status."""

    is_suspended: bool = False
    """Whether it is stopped (``is_suspended``)."""
    fault: str = ""
    """Why it was refused; "" if it was not."""
    scaler: str = ""
    """Scaler that is in progress: ``ScaleIn:namespace/name``; "" if there is none."""
    scaler_end: ScalerEnd | None = None
    """How the scaler ended that the old status names; None if none has ended."""
    added_conditions: tuple[AddedCondition, ...] = ()
    """Conditions that the original does not have, also those of ``failures``."""
    is_still_blocked: bool = False
    """Whether an object that could not be created is being tried again."""


def is_suspended(job: Mapping[str, Any]) -> bool:
    """Return whether a TrainingJob is stopped.

    It is while it has the annotation. If it had a Framework, it stays so without the annotation:
    the Framework was stopped, which is final.
    """
    annotations = job["metadata"].get("annotations")
    if isinstance(annotations, Mapping) and annotations.get(SUSPENDED_ANNOTATION) == "true":
        return True
    status = job.get("status")
    if not isinstance(status, Mapping) or not status.get("targetWorkers"):
        return False
    conditions = read_conditions(status)
    return any(c["type"] == SUSPENDED and c.get("status") == "True" for c in conditions)


def map_trainingjob_status(
    name: str,
    framework: Framework | None,
    old: Mapping[str, Any] | None,
    now: datetime,
    facts: TrainingJobFacts,
) -> Object:
    """Compute the status of the job ``name``; ``framework`` None: it does not exist yet."""
    conditions = _update_conditions(name, framework, old, now, facts)
    status: Object = {
        "phase": _find_phase(conditions, facts),
        "conditions": conditions,
        "replicaStatuses": _count_replicas(framework),
        "restartCount": _count_restarts(framework),
        "workerSelector": f"training-job-name={name},training-job-role={WORKER}",
    }
    reason = _find_reason(conditions)
    if reason:
        status["reason"] = reason
    if framework is not None:
        status |= _list_workers(name, framework) | _find_times(framework)
    if facts.scaler:
        status["currentScaler"] = facts.scaler
    return status


def _update_conditions(
    name: str,
    framework: Framework | None,
    old: Mapping[str, Any] | None,
    now: datetime,
    facts: TrainingJobFacts,
) -> list[Object]:
    """Compute the conditions: first the added ones, then those that the original has."""
    restarts = _count_restarts(framework)
    is_new_attempt = restarts > _read_number((old or {}).get("restartCount"))
    ours, known = split_added(read_conditions(old))
    conditions = [] if is_new_attempt else known
    if not facts.scaler:
        conditions = end_condition(conditions, SCALING, now)
    if not facts.is_suspended:
        conditions = end_condition(conditions, SUSPENDED, now)
    for news in _list_news(name, framework, facts):
        conditions = set_condition(conditions, news, now)
    if is_completed(framework):
        ours = [condition for condition in ours if condition["type"] != ATTEMPT_FAILED]
    added_conditions = update_added(
        ours,
        facts.added_conditions,
        lambda added: build_added_condition(added, now),
        TIMES,
        is_still_blocked=facts.is_still_blocked,
    )
    return [*added_conditions, *conditions]


def _list_news(name: str, framework: Framework | None, facts: TrainingJobFacts) -> Iterator[News]:
    yield News(CREATED, "TrainingJobCreated", f"TrainingJob {name} is created.")
    if facts.fault:
        yield News(FAILED, "TrainingJobFailed", facts.fault)
        return
    if facts.is_suspended:
        yield News(SUSPENDED, "WaitingResourceTimeout", f"TrainingJob {name} is suspended.")
        return
    if framework is None or framework.status is None:
        return
    yield from _list_starts(name, framework)
    if facts.scaler_end is not None:
        yield _describe_scaler_end(facts.scaler_end)
    if facts.scaler:
        yield News(SCALING, "ScalingStart", f"trainingjob {name} executes {facts.scaler}")
    end = _find_end(name, framework)
    if end is not None:
        yield end


def _list_starts(name: str, framework: Framework) -> Iterator[News]:
    """List what has been reached on the way to Running."""
    workers, launchers = list_tasks(framework, WORKER), list_tasks(framework, LAUNCHER)
    wanted = framework.spec.find_role(WORKER)
    count = wanted.wanted_count if wanted else 0
    running = sum(1 for worker in workers if is_running(worker))
    launcher = launchers[0] if launchers else None
    is_launched = launcher is not None and _has_run(launcher)
    steps = (
        (
            sum(map(_is_created, workers)) >= count,
            News(WORKERS_CREATED, "", "workers are created"),
        ),
        (running >= count, News(WORKERS_READY, "", f"all workers ({count}) are running")),
        (
            launcher is not None and _is_created(launcher),
            News(LAUNCHER_CREATED, "", "launcher is created"),
        ),
        (is_launched, News(RUNNING, "TrainingJobRunning", f"job {name} is running.")),
    )
    for is_reached, news in steps:
        if is_reached:
            yield news
        elif not is_launched:
            return


def _has_run(launcher: TaskStatus) -> bool:
    """Return whether the container of the launcher runs or has run: its barrier has ended well."""
    has_started = launcher.attempt_status.run_time is not None
    is_over = launcher.is_completed and (has_started or launcher.is_succeeded)
    return is_running(launcher) or is_over


def _is_created(task: TaskStatus) -> bool:
    return task.attempt_status.pod_uid is not None


def _find_end(name: str, framework: Framework) -> News | None:
    status = framework.status
    if status is None or not is_completed(framework):
        return None
    completion = status.attempt_status.completion_status
    if completion is not None and completion.type.is_succeeded:
        return News(SUCCEEDED, "TrainingJobSucceeded", f"job {name} successfully completed.")
    is_evicted = any(
        task.attempt_status.completion_status is not None
        and task.attempt_status.completion_status.pod is not None
        and task.attempt_status.completion_status.pod.reason == _EVICTED
        for task in list_tasks(framework, LAUNCHER)
    )
    reason = "TrainingJobEvicted" if is_evicted else "TrainingJobFailed"
    return News(FAILED, reason, f"job {name} has failed: {describe_failure(status, LAUNCHER)}")


def _describe_scaler_end(end: ScalerEnd) -> News:
    kind, _, name = end.title.partition(":")
    reason = f"Scaling{kind.removeprefix('Scale')}"
    if end.is_succeeded:
        return News(SCALE_SUCCEEDED, f"{reason}Succeeded", f"{end.title} has succeeded")
    remedy = f"kubectl describe {kind.lower()} {name.rpartition('/')[2]}"
    text = f"{end.title} has failed ({end.reason}); details: {remedy}"
    return News(SCALE_FAILED, f"{reason}Failed", text)


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


def _find_reason(conditions: Sequence[Object]) -> str:
    """Find why the job has failed, or why nothing can be created for it; "" if neither."""
    failed = [c for c in conditions if c["type"] == FAILED and c.get("status") == "True"]
    if failed:
        return str(failed[0].get("message") or "")
    obstacle = find_obstacle(conditions)
    text = "" if obstacle is None else f"{obstacle.get('reason')}: {obstacle.get('message')}"
    return text[:MAX_MESSAGE]


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
            "active": sum(1 for task in tasks if _is_active(task)),
            "succeeded": sum(1 for task in tasks if task.is_succeeded),
            "failed": sum(1 for task in tasks if has_failed(task)),
        }
        counts[key] = {name: number for name, number in numbers.items() if number}
    return counts


def _is_active(task: TaskStatus) -> bool:
    """Return whether a Task runs, or ran when the job ended and was left running."""
    has_run = task.attempt_status.run_time is not None
    return is_running(task) or (has_run and _is_left_running(task))


def _is_left_running(task: TaskStatus) -> bool:
    return is_left_running(task.attempt_status.completion_status)


def _list_workers(name: str, framework: Framework) -> Object:
    role = framework.spec.find_role(WORKER)
    wanted = [i for i in range(role.task_number) if i not in role.absent] if role else []
    running = [task.index for task in list_tasks(framework, WORKER) if _is_active(task)]
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
