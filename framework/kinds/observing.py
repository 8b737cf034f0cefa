"""What the status maps of all kinds read from a Framework and from an old status. Pure."""

from collections.abc import Mapping
from typing import Any

from framework.api.states import TaskState
from framework.api.types import Framework, TaskStatus
from framework.kinds.compiled import Object

MAX_MESSAGE = 512
_MAX_CONDITIONS = 32


def list_tasks(framework: Framework, role: str) -> tuple[TaskStatus, ...]:
    """List the Tasks of a role that are not scaled down; none before the first status."""
    status = None if framework.status is None else framework.status.attempt_status.find_role(role)
    tasks = () if status is None else status.tasks
    spec = framework.spec.find_role(role)
    absent = spec.absent if spec else frozenset[int]()
    return tuple(t for t in tasks if not t.deletion_pending and t.index not in absent)


def is_running(task: TaskStatus) -> bool:
    """Return whether the containers of its Pod run; init containers have ended."""
    return task.state is TaskState.ATTEMPT_RUNNING


def read_conditions(status: Mapping[str, Any] | None) -> list[Object]:
    """Read the conditions of an old status; entries of another form are left out."""
    conditions = (status or {}).get("conditions")
    if not isinstance(conditions, list):
        return []
    return [
        dict(condition)
        for condition in conditions[-_MAX_CONDITIONS:]
        if isinstance(condition, Mapping) and isinstance(condition.get("type"), str)
    ]
