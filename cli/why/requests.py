"""Decides what to read besides the Framework and its Pods: little, for a gang of any size. Pure.

Events, nodes and logs are read for a few Pods only: for the first of each role that wait for the
same reason, because the others have the same cause.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cli.why.causes.barriers import find_barrier
from cli.why.causes.ends import find_failed
from cli.why.observation import Observation, TaskFacts, get_mapping, list_mappings
from framework.api import constants
from framework.api.endings import INHERITED_CODES

_MAX_PODS = 8
_MAX_LOGS = 4
_MAX_BARRIERS = 2
_MAX_NODES = 20
_MAX_CLAIMS = 8
_TAKEN = re.compile(r"(Pod|ConfigMap|Secret) (\S+) cannot be created")


@dataclass(frozen=True, slots=True)
class LogRequest:
    """The log of one container."""

    pod: str
    container: str
    uid: str
    is_previous: bool = False
    """The run before its last restart."""


@dataclass(frozen=True, slots=True)
class Requests:
    """The objects and logs to read."""

    pods: tuple[TaskFacts, ...] = ()
    """Tasks whose Pods' Events are read."""
    nodes: tuple[str, ...] = ()
    """Names of nodes."""
    lists_nodes: bool = False
    """Whether the first page of all nodes is read."""
    claims: tuple[str, ...] = ()
    """Names of PersistentVolumeClaims."""
    holder: tuple[str, str] | None = None
    """Kind and name of the object that has a name which is taken."""
    logs: tuple[LogRequest, ...] = ()
    """Logs of containers."""


def plan_requests(observation: Observation) -> Requests:
    """Decide what to read, from what was read first."""
    suspects = _choose_suspects(observation.tasks)
    unscheduled = [task for task in suspects if task.phase == "Pending" and not task.node]
    nodes = {task.node for task in observation.tasks if task.node and _is_suspect(task)}
    return Requests(
        pods=tuple(suspects),
        nodes=tuple(sorted(nodes)[:_MAX_NODES]),
        lists_nodes=bool(unscheduled),
        claims=tuple(_list_claims(suspects)),
        holder=_find_holder(observation),
        logs=(
            *_list_ended_logs(observation),
            *_list_live_logs(suspects),
            *_list_barriers(observation),
        ),
    )


def _is_suspect(task: TaskFacts) -> bool:
    """Return whether a Pod may have a cause: it waits, restarts, is not ready or is deleted."""
    if task.pod is None:
        return False
    containers = task.list_containers()
    if task.phase == "Running" and not task.is_terminating:
        # If a node is lost, Kubernetes changes this condition and no status of a container.
        if task.find_condition("Ready").get("status") == "False":
            return True
        return any(c.restarts or (not c.is_init and not c.is_ready) for c in containers)
    return task.phase not in {"Succeeded", "Failed"} or task.is_terminating


def _choose_suspects(tasks: Iterable[TaskFacts]) -> list[TaskFacts]:
    """Choose the first Task of each role and reason, and then further ones up to the limit."""
    suspects = [task for task in tasks if _is_suspect(task)]
    seen: set[tuple[str, ...]] = set()
    first: list[TaskFacts] = []
    rest: list[TaskFacts] = []
    for task in suspects:
        reasons = {str(c.get_state("waiting").get("reason")) for c in task.list_containers()}
        signature = (task.key.role, task.phase, str(bool(task.node)), *sorted(reasons))
        (rest if signature in seen else first).append(task)
        seen.add(signature)
    return [*first, *rest][:_MAX_PODS]


def _list_claims(suspects: Iterable[TaskFacts]) -> list[str]:
    names: dict[str, None] = {}
    for task in suspects:
        for volume in list_mappings(task.pod_spec.get("volumes")):
            name = get_mapping(volume, "persistentVolumeClaim").get("claimName")
            if name:
                names[str(name)] = None
    return list(names)[:_MAX_CLAIMS]


def _find_holder(observation: Observation) -> tuple[str, str] | None:
    blocked = observation.find_blocked()
    if blocked.get("reason") != constants.NAME_TAKEN_REASON:
        return None
    found = _TAKEN.match(str(blocked.get("message") or ""))
    return (found.group(1), found.group(2)) if found else None


def _list_ended_logs(observation: Observation) -> list[LogRequest]:
    """List the logs of the containers that ended the attempts of Tasks."""
    found = []
    for task in observation.tasks:
        attempt = task.status.attempt_status
        end = attempt.completion_status
        if end is None or not end.type.is_failed or end.code in INHERITED_CODES:
            continue
        container = find_failed(end)
        if container is not None:
            found.append(LogRequest(task.pod_name, container.name, attempt.pod_uid or ""))
    trigger = _find_trigger_pod(observation)
    return sorted(found, key=lambda request: request.pod != trigger)[:_MAX_LOGS]


def _find_trigger_pod(observation: Observation) -> str:
    status = observation.status
    end = status.attempt_status.completion_status if status else None
    if end is None or end.trigger is None:
        return ""
    key = (end.trigger.task_role_name, end.trigger.task_index)
    return next((task.pod_name for task in observation.tasks if task.key == key), "")


def _list_live_logs(suspects: Iterable[TaskFacts]) -> list[LogRequest]:
    return list(_walk_live_logs(suspects))[:_MAX_LOGS]


def _walk_live_logs(suspects: Iterable[TaskFacts]) -> Iterator[LogRequest]:
    """Yield the logs of containers that restart, or run and are not ready."""
    for task in suspects:
        uid = task.status.attempt_status.pod_uid or ""
        for container in task.list_containers():
            if container.last:
                yield LogRequest(task.pod_name, container.name, uid, is_previous=True)
            elif (
                container.get_state("running") and not container.is_ready and not container.is_init
            ):
                yield LogRequest(task.pod_name, container.name, uid)


def _list_barriers(observation: Observation) -> list[LogRequest]:
    waiting = [(t, barrier) for t in observation.tasks if (barrier := find_barrier(t)) is not None]
    return [
        LogRequest(task.pod_name, barrier.name, task.status.attempt_status.pod_uid or "")
        for task, barrier in waiting[:_MAX_BARRIERS]
    ]
