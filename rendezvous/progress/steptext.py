"""The steps of a command that does not call ``peers``: from its file or its output, over time.

A file may be emptied or moved away for a moment, and get lines without a step: the last step counts
until the next step. It may also still have the last step of the earlier command, which is ignored.
"""

import threading
from typing import Callable, List, NamedTuple, Optional

from framework.agent.report import LineReporter
from rendezvous.settings.progresspattern import TextStep

# A file server that hangs must not block the main thread, which forwards signals.
_READ_SECONDS = 1.0
_MISSING_SECONDS = 300.0


class ObservedStep(NamedTuple):
    """A step, and when it appeared, in monotonic seconds."""

    step: Optional[int]
    """The newest step; None before the first."""
    total: Optional[int]
    """How many steps there are; None if it is not known."""
    changed_at: float
    """When it appeared; before the first step, when the command was started."""
    moved_at: Optional[float]
    """When the step before it appeared; None if there was none."""


class StepText:
    """The steps of one command after another."""

    def __init__(
        self, read: Callable[[], Optional[TextStep]], setting: str, reporter: LineReporter
    ) -> None:
        """Take the step from ``read``; ``setting`` is the setting that says so, or "" for none."""
        self._read = read
        self._setting = setting
        self._reporter = reporter
        self._starts = 0
        self._old: Optional[TextStep] = None
        self._newest: Optional[TextStep] = None
        self._changed_at = 0.0
        self._moved_at: Optional[float] = None

    def describe(self) -> str:
        """Describe the source of the steps; "" if there is none."""
        return f"steps come from {self._setting}" if self._setting else ""

    def begin_command(self) -> None:
        """Forget the steps of the earlier command. Waits at most 1 s for the file."""
        self._starts += 1
        found: List[Optional[TextStep]] = []
        if self._setting:
            thread = threading.Thread(target=lambda: found.append(self._read()), daemon=True)
            thread.start()
            thread.join(_READ_SECONDS)
        self._old = found[0] if found else self._newest or self._old
        self._newest, self._moved_at = None, None

    def observe(self, started_at: float, now: float) -> ObservedStep:
        """Read the step of the command that was started at ``started_at``."""
        starts = self._starts
        read = self._read()
        if starts != self._starts:
            read = None  # it may be a step of the earlier command
        if read is not None and read not in (self._old, self._newest):
            self._moved_at = None if self._newest is None else self._changed_at
            self._newest, self._changed_at, self._old = read, now, None
        if self._newest is None:
            if self._setting and now - started_at >= _MISSING_SECONDS:
                text = f"progress: {self._setting} has given no step for {_MISSING_SECONDS:.0f} s"
                self._reporter.say_once(text, "warning")
            return ObservedStep(None, None, started_at, None)
        return ObservedStep(*self._newest, self._changed_at, self._moved_at)
