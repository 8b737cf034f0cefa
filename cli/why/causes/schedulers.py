"""Pods whose scheduler does not act, because it does not run or has another name. Pure."""

from collections.abc import Iterator, Sequence

from cli.why.cause import Cause, Kind, Remedy
from cli.why.causes.scheduling import FAILED_SCHEDULING, is_unscheduled
from cli.why.observation import Observation, TaskFacts, group_tasks
from cli.why.remedies import build_operation, build_template_path, change_template

_DEFAULT_SCHEDULER = "default-scheduler"
# A scheduler binds a Pod, or says why it does not, within a second, or some seconds if it is busy.
_SILENT_SECONDS = 10
# The default scheduler usually runs, and thousands of Pods may wait for it.
_DEFAULT_SILENT_SECONDS = 30


def find_silent_scheduler(observation: Observation) -> Iterator[Cause]:
    """Find Pods to which their scheduler has not reacted since they were created."""
    # Only the Events of some Pods are read: an Event of any Pod shows that its scheduler runs.
    answering = {_name_scheduler(t) for t in observation.tasks if t.find_event(*FAILED_SCHEDULING)}
    silent = [
        (task, _name_scheduler(task))
        for task in observation.tasks
        if _is_silent(observation, task) and _name_scheduler(task) not in answering
    ]
    works = {_name_scheduler(task) for task in observation.tasks if task.node}
    for scheduler, tasks in group_tasks(observation.tasks, silent):
        yield Cause(
            Kind.UNSCHEDULABLE,
            f"waits for the scheduler {scheduler}, which has not answered"
            + ("" if scheduler in works else _explain_silence(scheduler)),
            tasks=tuple(task.key for task in tasks),
            since=tasks[0].created_at,
            remedies=tuple(_list_remedies(observation, scheduler, tasks)),
        )


def _name_scheduler(task: TaskFacts) -> str:
    return str(task.pod_spec.get("schedulerName") or _DEFAULT_SCHEDULER)


def _is_silent(observation: Observation, task: TaskFacts) -> bool:
    """Return whether a Pod has waited too long for the first answer of its scheduler."""
    created = task.created_at
    if not is_unscheduled(task) or created is None or task.find_condition("PodScheduled"):
        return False
    is_default = _name_scheduler(task) == _DEFAULT_SCHEDULER
    limit = _DEFAULT_SILENT_SECONDS if is_default else _SILENT_SECONDS
    return (observation.now - created).total_seconds() >= limit


def _explain_silence(scheduler: str) -> str:
    is_default = scheduler == _DEFAULT_SCHEDULER
    return f": it does not run{'' if is_default else ', or has another name'}"


def _list_remedies(
    observation: Observation, scheduler: str, tasks: Sequence[TaskFacts]
) -> Iterator[Remedy]:
    if scheduler != _DEFAULT_SCHEDULER:
        removal = build_operation("remove", build_template_path(tasks[0], "schedulerName"))
        yield change_template(observation, tasks, "use the default scheduler", removal)
    yield Remedy(f"start the scheduler {scheduler} (an administrator)")
