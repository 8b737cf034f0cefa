"""What the status maps of all kinds read from a Framework and from an old status. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from framework.api.states import FrameworkState, TaskState
from framework.api.types import Framework, TaskStatus
from framework.kinds.compiled import Object

MAX_MESSAGE = 512
_MAX_CONDITIONS = 32
BLOCKED = "Blocked"
"""Condition, not in the originals: nothing can be created for the job now."""
INVALID_SPEC = "InvalidSpec"
"""Condition, not in the originals: a change of the spec is refused; the job goes on without it."""
EDITED = "FrameworkEdited"
"""Condition, not in the originals: another client changed the Framework, and it was put back."""
SPEC_CHANGED = "SpecChanged"
"""Condition, not in the originals: a field that is fixed was changed; the job goes on as it was."""
ATTEMPT_FAILED = "AttemptFailed"
"""Condition, not in the originals: why an attempt failed; it stays while the job is started again.
"""
WORKERS_FAILED = "WorkersFailed"
"""Condition, not in the originals: workers of the attempt have failed, and are not replaced."""
_OURS = frozenset(
    {BLOCKED, INVALID_SPEC, EDITED, SPEC_CHANGED, ATTEMPT_FAILED, WORKERS_FAILED},
)


@dataclass(frozen=True, slots=True)
class AddedCondition:
    """A condition that the original kinds do not have. It tells the user about a problem."""

    type: str
    """One of the types above."""
    reason: str
    """One CamelCase word."""
    message: str
    """Field or object, fault and remedy."""


def split_added(conditions: Sequence[Object]) -> tuple[list[Object], list[Object]]:
    """Split conditions into added ones, and those that the originals have."""
    ours = [condition for condition in conditions if condition["type"] in _OURS]
    return ours, [condition for condition in conditions if condition["type"] not in _OURS]


def update_added(
    old: Sequence[Object],
    current: Sequence[AddedCondition],
    build: Callable[[AddedCondition], Object],
    times: frozenset[str],
    *,
    is_still_blocked: bool,
) -> list[Object]:
    """Compute the added conditions of a status.

    Args:
        old: those of the old status.
        current: those of now; the others end, except EDITED and ATTEMPT_FAILED, which stay.
        build: builds the JSON of one.
        times: fields of a condition that do not count as a change.
        is_still_blocked: whether BLOCKED stays, because what it says is being tried again.
    """
    stays = {EDITED, ATTEMPT_FAILED, *([BLOCKED] if is_still_blocked else [])}
    new = {added.type: build(added) for added in current}
    kept = {c["type"]: c for c in old if c["type"] in stays or c["type"] in new}
    for name, condition in new.items():
        before = kept.get(name)
        if before is None or _omit(before, times) != _omit(condition, times):
            kept[name] = condition
    return [kept[name] for name in sorted(kept)]


def find_obstacle(conditions: Sequence[Object]) -> Object | None:
    """Find the condition that says why nothing can be created for the job now; None if none."""
    return next((c for c in conditions if c.get("type") == BLOCKED), None)


def _omit(condition: Object, fields: frozenset[str]) -> Object:
    return {key: value for key, value in condition.items() if key not in fields}


def list_tasks(framework: Framework, role: str) -> tuple[TaskStatus, ...]:
    """List the Tasks of a role that are not scaled down; none before the first status."""
    status = None if framework.status is None else framework.status.attempt_status.find_role(role)
    tasks = () if status is None else status.tasks
    spec = framework.spec.find_role(role)
    absent = spec.absent if spec else frozenset[int]()
    return tuple(t for t in tasks if not t.deletion_pending and t.index not in absent)


def is_completed(framework: Framework | None) -> bool:
    """Return whether the Framework of a job is Completed; False without one."""
    status = None if framework is None else framework.status
    return status is not None and status.state is FrameworkState.COMPLETED


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
