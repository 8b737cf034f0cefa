"""The lines of progress in a pipe: one for each change, one for many Tasks that change alike. Pure.

Each ``observe`` compares a view with the view before. Tasks of a role that are now in the same
state, attempt and note are summed up in one line if there are more than ``_FEW`` of them. Failed
Tasks are always named: the first ``_NAMED_FAILURES`` have a line each, and the indices of the
others are complete.

The progress of a training changes all the time. It has at most one line in 15 s for each Framework,
and one more when the attempt ends.
"""

from collections.abc import Hashable, Iterable, Iterator

from cli.running.folding import TaskRow
from cli.running.views import GangPhase, GangView, TaskLine
from cli.texts.ranges import list_ranges
from framework.api.naming import TaskKey

_FEW = 4
_NAMED_FAILURES = 20
_TRAINING_SECONDS = 15.0
# States that without a note add nothing to the line of the gang.
_PLAIN_STATES = frozenset({"Waiting", "Ending"})
_Row = tuple[str, int, str]


class Transitions:
    """The last line about each Framework and Task."""

    def __init__(self, *, folds: bool = True) -> None:
        """Begin without lines; with ``folds`` False each Task has lines of its own."""
        self._folds = folds
        self._last: dict[tuple[str, TaskKey | None], _Row] = {}
        self._epochs: dict[str, tuple[int, str]] = {}
        self._trainings: dict[str, tuple[float, str]] = {}
        self._alert = ""

    def observe(
        self, gang: GangView, elapsed_seconds: float, *, names_framework: bool
    ) -> list[str]:
        """Return the lines for the changes of a Framework.

        Args:
            gang: the Framework now.
            elapsed_seconds: since the start.
            names_framework: whether the lines of Tasks name it, because there are several.
        """
        lines = []
        if self._record(gang.name, None, (gang.state, gang.attempt, gang.note)):
            lines.append(f"{gang.name}  {_describe(gang.state, gang.attempt, gang.note)}")
        if gang.epoch and self._epochs.get(gang.name) != (gang.attempt, gang.epoch):
            self._epochs[gang.name] = gang.attempt, gang.epoch
            lines.append(f"{gang.name}  {gang.epoch}")
        if self._record_training(gang, elapsed_seconds):
            lines.append(f"{gang.name}  {gang.training}")
        changed = [
            line
            for line in gang.tasks
            if (line.state not in _PLAIN_STATES or line.note)
            and self._record(gang.name, line.key, (line.state, line.attempt, line.note))
        ]
        prefix = f"{gang.name} " if names_framework else ""
        return lines + [prefix + text for text in self._sum_up(changed)]

    def observe_alert(self, alert: str | None) -> list[str]:
        """Return the line for a connection that was lost or came back."""
        before, self._alert = self._alert, alert or ""
        return [f"alert  {alert or 'connected again'}"] if self._alert != before else []

    def _record(self, gang: str, key: TaskKey | None, row: _Row) -> bool:
        """Record a row; return whether it has changed."""
        is_new = self._last.get((gang, key)) != row
        if is_new:
            self._last[gang, key] = row
        return is_new

    def _record_training(self, gang: GangView, elapsed_seconds: float) -> bool:
        """Record the progress of a training if a line about it is due; return whether it is."""
        shown_at, shown = self._trainings.get(gang.name, (float("-inf"), ""))
        has_ended = gang.phase is not GangPhase.ACTIVE
        is_due = has_ended or elapsed_seconds - shown_at >= _TRAINING_SECONDS
        if gang.training in {"", shown} or not is_due:
            return False
        self._trainings[gang.name] = elapsed_seconds, gang.training
        return True

    def _sum_up(self, changed: Iterable[TaskLine]) -> Iterator[str]:
        groups: dict[Hashable, list[TaskLine]] = {}
        failures = 0
        for line in changed:
            failures += line.is_own_failure
            is_named = line.is_own_failure and failures <= _NAMED_FAILURES
            alike = (line.key.role, line.state, line.attempt, line.note, line.is_own_failure)
            is_alone = is_named or not self._folds
            groups.setdefault(line.key if is_alone else alike, []).append(line)
        for group in groups.values():
            yield from _describe_group(group)


def _describe_group(group: list[TaskLine]) -> Iterator[str]:
    if len(group) <= _FEW:
        for line in group:
            yield f"{line.key}  {_describe(line.state, line.attempt, line.note)}"
        return
    first = group[0]
    indices = tuple(sorted(line.key.index for line in group))
    name = TaskRow(first, indices).name.partition(" ")[0]
    if first.is_own_failure:
        name = f"{first.key.role}/{','.join(list_ranges(indices))}"
    yield f"{name}  {_describe(first.state, first.attempt, first.note, count=len(group))}"


def _describe(state: str, attempt: int, note: str, *, count: int = 1) -> str:
    facts = [f"attempt {attempt}"] if attempt else []
    facts += [f"{count} Tasks"] if count > 1 else []
    text = f"{state} ({', '.join(facts)})" if facts else state
    return f"{text}: {note}" if note else text
