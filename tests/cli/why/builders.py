"""Observations of one gang, for the rules of ``framework why``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cli.why.commands import Commands
from cli.why.observation import EventFacts, Observation, build_tasks, read_status
from framework.api.codec import encode_status
from framework.api.states import FrameworkState, TaskState
from framework.api.types import FrameworkStatus
from framework.kube.resources import Object
from tests.support.builders import (
    AT,
    FRAMEWORK,
    NAMESPACE,
    at,
    build_framework_wire,
    build_pod_wire,
    build_role_status,
    build_role_wire,
    build_status,
)

LATER = at(300)


def observe(
    pods: Sequence[Object] = (),
    *,
    status: FrameworkStatus | None = None,
    number: int = 2,
    task_state: TaskState = TaskState.ATTEMPT_PREPARING,
    events: Mapping[int, Sequence[EventFacts]] | None = None,
    metadata: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    role: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Observation:
    """A gang of a role ``worker``, five minutes after its start."""
    if status is None:
        tasks = build_role_status("worker", number, task_state)
        status = build_status(tasks, state=FrameworkState.ATTEMPT_PREPARING)
    wire = build_framework_wire(build_role_wire("worker", number, **(role or {})), **(spec or {}))
    wire["metadata"] = {**wire["metadata"], **(metadata or {})}
    wire["status"] = {**encode_status(status), **fields.pop("wire_status", {})}
    decoded, fault = read_status(wire)
    by_name = {pod["metadata"]["name"]: pod for pod in pods}
    facts = build_tasks(wire, decoded, by_name) if decoded else ()
    with_events = [
        replace(task, events=tuple((events or {}).get(task.key.index, ()))) for task in facts
    ]
    return Observation(
        name=FRAMEWORK,
        namespace=NAMESPACE,
        now=LATER,
        framework=wire,
        commands=Commands(FRAMEWORK),
        status=decoded,
        fault=fault,
        tasks=tuple(with_events),
        **fields,
    )


def wait(reason: str, message: str = "", name: str = "main") -> Object:
    """The status of a container that waits."""
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}}


def pending(index: int = 0, *containers: Object, **status: Any) -> Object:
    """A Pod on its node whose containers have not started."""
    return build_pod_wire(index=index, phase="Pending", containers=containers, **status)


def unscheduled(index: int, message: str, **spec: Any) -> Object:
    """A Pod that the scheduler cannot place."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
    }
    spec = {"nodeName": "", **spec}
    return build_pod_wire(index=index, phase="Pending", spec=spec, conditions=[condition])


def event(reason: str, message: str) -> EventFacts:
    """A Warning of the kubelet."""
    return EventFacts(reason, message, is_warning=True, since=AT, last=at(200))
