"""Pods whose scheduler does not act, because it does not run or has another name. Pure."""

from collections.abc import Iterator, Sequence

from cli.why.cause import Cause, Kind, Remedy
from cli.why.causes.scheduling import FAILED_SCHEDULING, is_unscheduled
from cli.why.observation import Observation, TaskFacts, group_tasks
from cli.why.remedies import build_operation, build_template_path, change_template

_DEFAULT_SCHEDULER = "default-scheduler"
# A scheduler binds a Pod, or says why it does not, within a second, or some seconds if it is busy.
_USUAL_SECONDS = 3
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


def describe_unscheduled(observation: Observation) -> str:
    """Describe Pods without an answer of a scheduler, which are no cause yet; "" if there are none.

    A Pod that has waited for longer than a scheduler usually needs has a hint what to check.
    """
    silent = [task for task in observation.tasks if _is_unanswered(task)]
    ages = [observation.now - task.created_at for task in silent if task.created_at is not None]
    if not ages:
        return ""
    seconds = int(max(ages).total_seconds())
    count = f"{len(silent)} Pod{'s are' if len(silent) > 1 else ' is'}"
    text = f"{count} not scheduled yet, for {max(seconds, 0)} s"
    return text if seconds < _USUAL_SECONDS else f"{text}; {_advise(observation, silent)}"


def _advise(observation: Observation, silent: Sequence[TaskFacts]) -> str:
    if observation.is_local:
        return "a local cluster needs its kubelet for this: start it without --no-kubelet"
    names = ", ".join(dict.fromkeys(map(_name_scheduler, silent)))
    command = observation.commands.build_global_kubectl("get", "pods", "-n", "kube-system")
    return f"a scheduler usually answers within a second: check that {names} runs: {command}"


def _name_scheduler(task: TaskFacts) -> str:
    return str(task.pod_spec.get("schedulerName") or _DEFAULT_SCHEDULER)


def _is_silent(observation: Observation, task: TaskFacts) -> bool:
    """Return whether a Pod has waited too long for the first answer of its scheduler."""
    created = task.created_at
    if created is None or not _is_unanswered(task):
        return False
    is_default = _name_scheduler(task) == _DEFAULT_SCHEDULER
    limit = _DEFAULT_SILENT_SECONDS if is_default else _SILENT_SECONDS
    return (observation.now - created).total_seconds() >= limit


def _is_unanswered(task: TaskFacts) -> bool:
    """Return whether a Pod waits for the first answer of its scheduler."""
    is_answered = task.find_condition("PodScheduled") or task.find_event(*FAILED_SCHEDULING)
    return is_unscheduled(task) and not is_answered


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
