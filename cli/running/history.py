"""Records the failures of earlier attempts: the status has only the newest attempt. Pure.

``run`` gives each view to ``observe`` and shows the new failures as lines that stay. In the table
at the end, ``annotate`` adds them to the notes. An attempt that begins and ends between two changes
of the view is missed; the Event ``TaskFailed`` of the Framework reports it.
"""

from collections import defaultdict
from dataclasses import dataclass, field, replace

from cli.running.views import GangView, TaskLine
from framework.api.naming import TaskKey

_SHOWN = 2


@dataclass(slots=True)
class _Failures:
    """How many attempts failed, and the newest of them."""

    count: int = 0
    newest: dict[tuple[int, int], str] = field(default_factory=dict)


class AttemptHistory:
    """The failed attempts of one Framework and of its Tasks; old attempts are only counted."""

    def __init__(self) -> None:
        """Begin without a failure."""
        self._failures: defaultdict[TaskKey | None, _Failures] = defaultdict(_Failures)

    def observe(self, view: GangView) -> list[str]:
        """Record the failed attempts of a view; return a line for each new failure."""
        lines = []
        if view.end:
            lines += self._add(None, (view.attempt, 0), view.end)
        for line in view.tasks:
            if line.is_own_failure:
                lines += self._add(line.key, (view.attempt, line.attempt), line.end)
        return lines

    def annotate(self, view: GangView) -> GangView:
        """Add the earlier failures of each Task and of the Framework to their notes."""
        note = self._add_earlier(None, (view.attempt, 0), view.note)
        return replace(view, note=note, tasks=tuple(self._annotate(view, t) for t in view.tasks))

    def _annotate(self, view: GangView, line: TaskLine) -> TaskLine:
        note = self._add_earlier(line.key, (view.attempt, line.attempt), line.note)
        return line if note == line.note else replace(line, note=note)

    def _add(self, key: TaskKey | None, attempt: tuple[int, int], end: str) -> list[str]:
        known = self._failures[key]
        if attempt in known.newest:
            return []
        known.count += 1
        known.newest[attempt] = end
        if len(known.newest) > _SHOWN + 1:
            del known.newest[next(iter(known.newest))]
        return [f"{key or 'the Framework'} failed in {_name(key, attempt)}: {end}"]

    def _add_earlier(self, key: TaskKey | None, attempt: tuple[int, int], note: str) -> str:
        known = self._failures.get(key, _Failures())
        earlier = [f"{_name(key, at)}: {end}" for at, end in known.newest.items() if at != attempt]
        shown = earlier[-_SHOWN:]
        more = known.count - (attempt in known.newest) - len(shown)
        return "; ".join(filter(None, (note, f"{more} more failed" if more else "", *shown)))


def _name(key: TaskKey | None, attempt: tuple[int, int]) -> str:
    """Name an attempt; after the first attempt of the Framework, name this one too."""
    framework, task = attempt
    if key is None:
        return f"attempt {framework}"
    return f"attempt {framework}/{task}" if framework else f"attempt {task}"
