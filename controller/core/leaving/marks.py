"""The changed Tasks of a status change, and those newly marked to leave: for Events and metrics."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from framework.api.leaving import LeavingStatus
from framework.api.types import FrameworkAttemptStatus, TaskStatus

Change: TypeAlias = tuple[str, TaskStatus | None, TaskStatus]
"""Name of a Task, its stored status (None: no entry) and its new status."""


class Mark(NamedTuple):
    """A Task that leaves."""

    name: str
    """ROLE/INDEX of the Task."""
    leaving: LeavingStatus


def walk_changed(
    old: FrameworkAttemptStatus | None, new: FrameworkAttemptStatus
) -> Iterator[Change]:
    """Walk the Tasks of the new status that are new or changed."""
    roles = {role.name: role for role in old.task_roles} if old is not None else {}
    for role in new.task_roles:
        known = roles.get(role.name)
        if known is role:
            continue
        tasks = {task.index: task for task in known.tasks} if known is not None else {}
        for task in role.tasks:
            stored = tasks.get(task.index)
            if stored is not task:
                yield f"{role.name}/{task.index}", stored, task


def select_new_marks(changed: Iterable[Change]) -> list[Mark]:
    """Select the Tasks that have a mark in the new status, and none in the stored status."""
    return [
        Mark(name, new.attempt_status.leaving)
        for name, old, new in changed
        if new.attempt_status.leaving is not None
        and (old is None or old.attempt_status.leaving is None)
    ]
