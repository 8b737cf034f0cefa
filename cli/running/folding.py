"""Folds equal Tasks of a role into one row: ``worker/0-31``. Pure."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from cli.running.views import TaskLine, TaskPhase
from cli.texts.ranges import list_ranges

_SHOWN_RANGES = 4
# States in the order of attention; ``_rank`` puts failures and trouble before them.
_ORDER = (
    "Retrying",
    "Pending",
    "Waiting",
    "Ending",
    "Running",
    "LeftRunning",
    "Stopped",
    "Succeeded",
)


@dataclass(frozen=True, slots=True)
class TaskRow:
    """Tasks of one role that need no separate rows."""

    line: TaskLine
    """The first of these Tasks."""
    indices: tuple[int, ...]
    """The indices of all of them, ascending."""

    @property
    def name(self) -> str:
        """The Tasks by their indices, ``worker/0-31``; with many ranges, the first and a count."""
        return name_tasks(self.line.key.role, self.indices)


def name_tasks(role: str, indices: Sequence[int]) -> str:
    """Name Tasks by their ascending indices, ``worker/0-31``; with many ranges, only the first."""
    ranges = list(list_ranges(indices))
    if len(ranges) <= _SHOWN_RANGES:
        return f"{role}/{','.join(ranges)}"
    return f"{role}/{','.join(ranges[:_SHOWN_RANGES])},… ({len(indices)} Tasks)"


def fold_tasks(
    tasks: Iterable[TaskLine], identify: Callable[[TaskLine], Hashable] | None = None
) -> list[TaskRow]:
    """Fold the Tasks that differ in their index only; rows that need attention come first.

    Args:
        tasks: of one Framework.
        identify: gives a further value that all Tasks of a row share; None for none.
    """
    groups: dict[Hashable, list[TaskLine]] = {}
    for line in tasks:
        more = None if identify is None else identify(line)
        groups.setdefault((_build_key(line), more), []).append(line)
    rows = [
        TaskRow(group[0], tuple(sorted(line.key.index for line in group)))
        for group in groups.values()
    ]
    return sorted(rows, key=lambda row: _rank(row.line))


def count_states(tasks: Iterable[TaskLine]) -> str:
    """Count the Tasks in each state: ``30 Running, 1 Waiting``."""
    counts: dict[str, int] = {}
    for line in sorted(tasks, key=_rank):
        counts[line.state] = counts.get(line.state, 0) + 1
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def _build_key(line: TaskLine) -> Hashable:
    facts = (line.state, line.attempt, line.code, line.note)
    return (line.key.role, *facts, line.is_own_failure, line.phase, line.is_in_init)


def _rank(line: TaskLine) -> int:
    """Return the place of a Task in the order of attention; 0 is first."""
    has_trouble = line.phase is TaskPhase.RESTARTING or (
        line.phase is TaskPhase.WAITING and bool(line.note) and not line.is_in_init
    )
    if line.is_own_failure or has_trouble:
        return 0 if line.is_own_failure else 1
    return 2 + (_ORDER.index(line.state) if line.state in _ORDER else 0)
