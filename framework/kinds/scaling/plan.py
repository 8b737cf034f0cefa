"""Which workers a scaler adds or removes, or why it must not. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from framework.api.constants import MAX_TASKS
from framework.api.text import make_printable
from framework.api.types import Framework, TaskStatus
from framework.kinds.scaling.snapshot import JobFacts
from framework.kinds.scaling.types import Failure, Scaler, ScalerKind, ScalerSpec
from framework.kinds.scaling.workers import (
    Workers,
    choose_highest,
    choose_new,
    find_index,
    name_workers,
    read_workers,
)
from framework.kinds.trainingjob.types import WORKER

_MOST_WORKERS = MAX_TASKS - 1  # the launcher is a Task, too
_MAX_NAMED = 5


def plan_workers(
    kind: ScalerKind,
    spec: ScalerSpec,
    job: JobFacts,
    workers: Workers,
    ended: Workers = frozenset(),
) -> tuple[str, ...] | Failure:
    """Choose the Pods of the workers to remove or to add.

    Workers that have ``ended`` may be removed by name. They do not count for the limits of the job.
    """
    if kind is ScalerKind.SCALE_IN:
        return _plan_removal(spec, job, workers, ended)
    return _plan_addition(spec, job, workers, ended)


def read_plan(scaler: Scaler, job: JobFacts) -> Workers:
    """Read the indexes of the stored plan."""
    indexes = (find_index(job.name, pod) for pod in scaler.status.pods)
    return frozenset(index for index in indexes if index is not None)


def list_workers(framework: Framework | None) -> Workers:
    """List the wanted workers."""
    return read_workers(None if framework is None else framework.spec.find_role(WORKER))


def find_worker_tasks(framework: Framework | None, indexes: Workers) -> Iterator[TaskStatus]:
    """Find the Tasks of these workers, as far as they exist."""
    if framework is None or framework.status is None:
        return
    role = framework.status.attempt_status.find_role(WORKER)
    if role is not None:
        yield from (task for task in role.tasks if task.index in indexes)


def list_ended(framework: Framework | None, indexes: Workers) -> Workers:
    """List those of these workers that have ended and are not replaced."""
    tasks = find_worker_tasks(framework, indexes)
    return frozenset(task.index for task in tasks if task.is_completed)


def check_removal(
    job: JobFacts, workers: Workers, ended: Workers, removed: Workers
) -> Failure | None:
    """Find why these workers must not be removed; None if they may.

    ``minReplicas`` does not hold back workers that have ended.
    """
    alive = workers - ended
    if removed & alive:
        return check_least(job, len(alive - removed))
    return check_least(replace(job, min_workers=None), len(workers - removed))


def check_least(job: JobFacts, left: int) -> Failure | None:
    """Find why a job must not have so few workers; None if it may."""
    least = max(1, job.min_workers or 1)
    if left >= least:
        return None
    why = f"minReplicas of {job.name} is {least}: lower it, or create a ScaleIn of fewer workers"
    if job.min_workers is None:
        why = "a job keeps one worker: create a ScaleIn of fewer workers, or delete the job"
    return Failure("BelowMinReplicas", f"{max(left, 0)} workers would be left, and {why}")


def check_most(job: JobFacts, total: int, ended: int) -> Failure | None:
    """Find why a job must not have so many workers; None if it may.

    ``ended`` of the workers do not count for ``maxReplicas``.
    """
    alive = total - ended
    if job.max_workers is not None and alive > job.max_workers:
        return Failure(
            "AboveMaxReplicas",
            f"there would be {alive} workers, and maxReplicas of {job.name} is {job.max_workers}: "
            "raise it, or create a ScaleOut of fewer workers",
        )
    if total > _MOST_WORKERS:
        return Failure(
            "AboveMaxReplicas",
            f"there would be {total} workers, and a job has at most {_MOST_WORKERS}: create a "
            "ScaleOut of fewer workers",
        )
    return None


def _plan_removal(
    spec: ScalerSpec, job: JobFacts, workers: Workers, ended: Workers
) -> tuple[str, ...] | Failure:
    if spec.pod_names:
        known = name_workers(job.name, sorted(workers))
        unknown = sorted(set(spec.pod_names) - set(known), key=spec.pod_names.index)
        if unknown:
            return Failure(
                "UnknownWorker",
                f"{_list(unknown)}: no worker of {job.name}; create a ScaleIn with names of its "
                f"workers: {_list(known)}",
            )
        pods = spec.pod_names
    else:
        pods = name_workers(job.name, choose_highest(workers - ended, spec.count))
    names = dict(zip(name_workers(job.name, sorted(workers)), sorted(workers), strict=True))
    removed = frozenset(names[pod] for pod in pods)
    if len(removed) < spec.count:
        return check_least(job, len(workers - ended) - spec.count) or pods
    return check_removal(job, workers, ended, removed) or pods


def _plan_addition(
    spec: ScalerSpec, job: JobFacts, workers: Workers, ended: Workers
) -> tuple[str, ...] | Failure:
    failure = check_most(job, len(workers) + spec.count, len(ended))
    return failure or name_workers(job.name, choose_new(workers, spec.count))


def _list(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMED
    shown = ", ".join(make_printable(name) for name in names[:_MAX_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown
