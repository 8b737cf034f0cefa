"""Folds equal Tasks into one row, such as ``worker/0-31``. Pure."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from cli.running.progress import TaskLine

_SHOWN_RANGES = 4


@dataclass(frozen=True, slots=True)
class Fold:
    """Tasks of one role that are equal in all that a row shows."""

    lines: tuple[TaskLine, ...]

    @property
    def first(self) -> TaskLine:
        """The Task whose values the row shows."""
        return self.lines[0]

    @property
    def name(self) -> str:
        """Their name, for example worker/0-31,40."""
        return f"{self.first.key.role}/{name_indices([line.key.index for line in self.lines])}"


def fold_tasks(
    lines: Iterable[TaskLine], identify: Callable[[TaskLine], Hashable]
) -> Sequence[Fold]:
    """Fold Tasks of one role with an equal identity; the order is that of their first Tasks."""
    groups: dict[Hashable, list[TaskLine]] = {}
    for line in lines:
        groups.setdefault((line.key.role, identify(line)), []).append(line)
    return [Fold(tuple(group)) for group in groups.values()]


def name_indices(indices: Sequence[int]) -> str:
    """Name indices by their ranges; after some ranges, the number of the other indices."""
    runs: list[tuple[int, int]] = []
    for index in indices:
        if runs and runs[-1][1] == index - 1:
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    shown = runs[:_SHOWN_RANGES]
    text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in shown)
    left = len(indices) - sum(b - a + 1 for a, b in shown)
    return f"{text} and {left} more" if left else text


def count_states(lines: Iterable[TaskLine]) -> dict[str, int]:
    """Count Tasks by their state."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line.state] = counts.get(line.state, 0) + 1
    return counts


def describe_states(lines: Iterable[TaskLine]) -> str:
    """Describe the states of Tasks, for example "4 Running, 1 Failed"."""
    return ", ".join(f"{number} {state}" for state, number in count_states(lines).items())
