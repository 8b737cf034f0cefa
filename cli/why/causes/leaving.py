"""Tasks that leave the gang: before their nodes go, or in a drain. Pure."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from cli.why.cause import Cause, Kind, Remedy
from cli.why.observation import Observation, TaskFacts, get_mapping, group_tasks
from cli.why.remedies import name_pods
from framework.api import constants
from framework.api.states import TaskState
from framework.api.wire import format_time

# Agents acknowledge within a second.
_ACKNOWLEDGING_SECONDS = 5
_SHOWN = 5


def find_drain(observation: Observation) -> Iterator[Cause]:
    """Find Tasks that wait for the acknowledgements of agents."""
    leaving = [
        task
        for task in observation.tasks
        if task.status.deletion_pending
        and task.status.drain_deadline_time is not None
        and task.status.state is TaskState.ATTEMPT_RUNNING
        and not task.is_terminating
    ]
    silent = _list_silent(observation)
    since = _find_start(observation, leaving[0]) if leaving else None
    limit = timedelta(seconds=_ACKNOWLEDGING_SECONDS)
    if not leaving or not silent or (since is not None and observation.now - since < limit):
        return
    deadline = leaving[0].status.drain_deadline_time
    shown = ", ".join(str(task.key) for task in silent[:_SHOWN])
    more = f" and {len(silent) - _SHOWN} more" if len(silent) > _SHOWN else ""
    pods = name_pods(observation, leaving) or [task.pod_name for task in leaving[:_SHOWN]]
    ends = format_time(deadline) if deadline else "its deadline"
    yield Cause(
        Kind.DRAIN,
        f"leaves the gang, and agents have not acknowledged it: those of {shown}{more}",
        tasks=tuple(task.key for task in leaving),
        since=since,
        facts=(f"at {ends} it is deleted in any case",),
        remedies=(
            Remedy(
                "end the drain now",
                (observation.commands.build_kubectl("delete", "pod", *pods),),
            ),
        ),
    )


def find_leaving(observation: Observation) -> Iterator[Cause]:
    """Find Tasks that leave before their nodes go, or because their Pods are evicted."""
    found = []
    for task in observation.tasks:
        leaving = task.status.attempt_status.leaving
        is_over = task.status.state in (TaskState.ATTEMPT_COMPLETED, TaskState.COMPLETED)
        if leaving is not None and not is_over:
            deadline = format_time(leaving.deadline_time) if leaving.deadline_time else ""
            found.append((task, (leaving.reason, leaving.message, deadline)))
    for (reason, message, deadline), tasks in group_tasks(observation.tasks, found):
        facts = [f"reason {reason}; the retry is not counted, and another node is chosen"]
        if deadline:
            facts.append(f"at {deadline} its Pod is deleted in any case")
        pods = name_pods(observation, tasks) or [task.pod_name for task in tasks[:_SHOWN]]
        command = observation.commands.build_kubectl("delete", "pod", *pods)
        yield Cause(
            Kind.LEAVING,
            f"leaves: {message}",
            tasks=tuple(task.key for task in tasks),
            facts=tuple(facts),
            remedies=(Remedy("wait for its checkpoint, or end it now", (command,)),),
        )


def _list_silent(observation: Observation) -> list[TaskFacts]:
    """List the Tasks whose agent has acknowledged before, and not the newest generation."""
    annotations = get_mapping(get_mapping(observation.configmap or {}, "metadata"), "annotations")
    newest = _read_number(annotations.get(constants.GENERATION_ANNOTATION))
    if newest is None:
        return []
    silent = []
    for task in observation.tasks:
        own = get_mapping(get_mapping(task.pod or {}, "metadata"), "annotations")
        generation = _read_number(own.get(constants.ACKNOWLEDGED_GENERATION_ANNOTATION))
        is_running = task.phase == "Running" and not task.is_terminating
        if is_running and generation is not None and generation < newest:
            silent.append(task)
    return silent


def _find_start(observation: Observation, task: TaskFacts) -> datetime | None:
    deadline, index = task.status.drain_deadline_time, task.role_index
    if deadline is None or index is None:
        return None
    timeout = get_mapping(observation.roles[index], constants.DRAIN_FIELD).get(
        constants.DRAIN_TIMEOUT_FIELD
    )
    try:
        return deadline - timedelta(seconds=timeout) if isinstance(timeout, int) else None
    except OverflowError:
        # Users may have changed the timeout since.
        return None


def _read_number(value: object) -> int | None:
    is_number = isinstance(value, str) and value.isascii() and value.isdecimal()
    return int(value) if isinstance(value, str) and is_number and len(value) < 20 else None  # noqa: PLR2004 a generation is an int64
