"""Checks of the progress in the status (I20) in a simulation: docs/design/recovery.md.

The auditor passes each Pod and each stored status.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

from framework.api.constants import TRAINING_PROGRESS_ANNOTATION
from framework.api.pods import PodView
from framework.api.trainingprogress import parse_training_progress
from framework.api.types import FrameworkStatus

_PERIOD = timedelta(seconds=15)


@dataclass(slots=True)
class Trainings:
    """The reports so far; calls ``fail`` for violations."""

    fail: Callable[[str], None]
    is_time_steady: bool = True
    reported: set[tuple[int, int]] = field(default_factory=set)
    """Generations and steps that Pods reported."""

    def note_pod(self, pod: PodView) -> None:
        text = pod.annotations.get(TRAINING_PROGRESS_ANNOTATION, "")
        progress = parse_training_progress(text)
        if progress is not None:
            self.reported.add((progress.generation, progress.step))

    def check(self, after: FrameworkStatus, before: FrameworkStatus | None) -> None:
        """Check a stored status against the one before."""
        new = after.attempt_status.training
        old = before.attempt_status.training if before is not None else None
        if new is None or new == old:
            return
        if (new.generation, new.step) not in self.reported:
            self.fail(f"I20: {new} is stored, and no Pod reported it")
        if before is None or old is None or not self.is_time_steady:
            return
        attempt = replace(after.attempt_status, training=old)
        is_alone = replace(after, attempt_status=attempt) == before
        if new.update_time is None or old.update_time is None:
            self.fail(f"I20: {new} or {old} has no time")
        elif is_alone and new.update_time - old.update_time < _PERIOD:
            self.fail(f"I20: a write for the progress alone at {new.update_time}, after {old}")
