"""How far the gang is, from the newest reports of its ranks. Pure; times are given.

The gang is as far as its slowest rank, because ranks that train together wait for each other. The
rate is the increase of that step, from the first sample of the last minute to the newest one; a
sample is taken when the step changes. It begins again if the step decreases or the processes were
started anew, because then they repeat steps since a checkpoint.

Example: ranks with the steps 41, 40 and 41. The step is 40, and the second rank is the slowest.
"""

from collections import deque
from typing import Deque, Optional, Sequence, Tuple

from framework.api.trainingprogress import TrainingProgress
from rendezvous.core.hangs import ProcessReport

_WINDOW_SECONDS = 60.0
_MAX_SAMPLES = 128
_LEAST_SAMPLES = 2
# So many steps may be missing before the gang counts as one that became slower.
_MISSED_STEPS = 2

_Named = Tuple[str, ProcessReport]


class GangMeter:
    """Measures the progress of one gang."""

    def __init__(self) -> None:
        """Start without samples."""
        self._run: Optional[Tuple[int, int]] = None
        self._samples: Deque[Tuple[float, int]] = deque(maxlen=_MAX_SAMPLES)

    def follow(
        self,
        generation: int,
        run: Tuple[int, int],
        ranks: Sequence[_Named],
        stragglers: Sequence[str],
        now: float,
    ) -> Optional[TrainingProgress]:
        """Take the newest reports; return how far the gang is, None before its first step.

        Args:
            generation: of the roster.
            run: the run of the processes.
            ranks: the names of the ranks, with their newest reports.
            stragglers: the names of the ranks that are much slower than the others.
            now: in monotonic seconds.
        """
        steps = [report.step for _, report in ranks if report.step is not None]
        if not steps:
            return None
        step = min(steps)
        self._take(run, step, now)
        totals = [report.total for _, report in ranks if report.total is not None]
        return TrainingProgress(
            generation=generation,
            step=step,
            total=max(totals) if totals else None,
            steps_per_second=self._compute_rate(now),
            slowest=_find_slowest(ranks, step),
            straggler_count=len(stragglers),
            stragglers=tuple(stragglers),
        )

    def _take(self, run: Tuple[int, int], step: int, now: float) -> None:
        samples = self._samples
        if run != self._run or (samples and step < samples[-1][1]):
            self._run = run
            samples.clear()
        if not samples or step != samples[-1][1]:
            samples.append((now, step))
        while len(samples) > _LEAST_SAMPLES and now - samples[0][0] > _WINDOW_SECONDS:
            samples.popleft()

    def _compute_rate(self, now: float) -> Optional[float]:
        if len(self._samples) < _LEAST_SAMPLES:
            return None
        (begin, first), (end, last) = self._samples[0], self._samples[-1]
        if end <= begin:
            return None
        rate = (last - first) / (end - begin)
        is_slower = (now - end) * rate > _MISSED_STEPS
        return (last - first) / (now - begin) if is_slower else rate


def _find_slowest(ranks: Sequence[_Named], step: int) -> str:
    """Find the rank that is behind the others; "" if none is."""
    known = [(name, report) for name, report in ranks if report.step is not None]
    behind = [each for each in known if each[1].step == step]
    is_together = all(report.step in {step, step + 1} for _, report in known)
    # Ranks that train together are one step apart at times, by chance.
    compared = known if is_together else behind
    name, slowest = max(compared, key=lambda each: each[1].busy_seconds)
    if slowest.busy_seconds > min(each[1].busy_seconds for each in known):
        return name
    return behind[0][0] if len(behind) < len(known) else ""
