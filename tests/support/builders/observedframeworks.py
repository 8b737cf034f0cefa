"""The objects of one Framework, with defaults: for the views of the command line."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from cli.see.eventlog import EventLog
from cli.see.observation import ObservedFramework
from framework.api.states import TaskState
from framework.api.types import TaskRoleStatus, TaskStatus
from framework.api.wire import format_time
from framework.kube.resources import Object
from tests.support.builders import (
    FRAMEWORK,
    FRAMEWORK_UID,
    NAMESPACE,
    at,
    build_framework_wire,
    build_pod_wire,
    build_role_status,
    build_role_wire,
    build_status_wire,
    build_task,
    end_task,
)


def build_event(
    reason: str = "Started",
    message: str = "",
    *,
    kind: str = "Framework",
    name: str = FRAMEWORK,
    seconds: float = 1,
    **fields: Any,
) -> Object:
    """An Event of the Framework, or of another object, as the API server stores it."""
    involved = {"kind": kind, "name": name, "namespace": NAMESPACE}
    if kind == "Framework":
        involved["uid"] = FRAMEWORK_UID
    return {
        "metadata": {"name": f"{name}.{reason}".lower(), "namespace": NAMESPACE},
        "involvedObject": involved,
        "type": "Normal",
        "reason": reason,
        "message": message,
        "count": 1,
        "firstTimestamp": format_time(at(seconds)),
        "lastTimestamp": format_time(at(seconds)),
        **fields,
    }


def build_failed_task(index: int, code: int, attempt: int = 0) -> TaskStatus:
    """A Task that is Completed, because its Pod failed."""
    ended = end_task(build_task(TaskState.COMPLETED, index=index), code)
    return replace(ended, attempt_status=replace(ended.attempt_status, id=attempt))


def build_running(number: int, *changed: TaskStatus) -> TaskRoleStatus:
    """The role worker; its Tasks run, except those of ``changed``."""
    role = build_role_status(number=number)
    tasks = {task.index: task for task in (*role.tasks, *changed)}
    return replace(role, tasks=tuple(tasks.values()))


def build_observed(
    *roles: TaskRoleStatus,
    events: Iterable[Object] = (),
    pods: int | None = 0,
    spec: Object | None = None,
    metadata: Object | None = None,
    hidden: tuple[str, ...] = (),
    **status: Any,
) -> ObservedFramework:
    """A Framework whose roles have a status, and ``pods`` running Pods of the role worker."""
    numbers = {role.name: len(role.tasks) for role in roles}
    wires = [build_role_wire(name, number) for name, number in numbers.items()]
    framework = build_framework_wire(*wires, **(spec or {}))
    framework["metadata"].update(metadata or {})
    framework["status"] = build_status_wire(*roles, **status)
    log = EventLog(framework)
    log.add(events)
    built = [build_pod_wire(index=index) for index in range(pods or 0)]
    return ObservedFramework(
        framework=framework,
        configmap=None,
        pods=None if pods is None else {pod["metadata"]["name"]: pod for pod in built},
        events=log,
        hidden=hidden,
    )
