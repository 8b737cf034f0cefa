"""The progress of the gang, from the newest reports of its ranks. Pure; times are given.

Steps of ``GangMeter.follow``:

1. The step of the gang is the lowest step of its ranks, because ranks that train together wait for
   each other. Before the first step, there is no progress. The step of a silent rank does not count
   if it is outdated (``progress``, step 5): the others could not go on without that rank.
2. When the step of the gang changes, it is a sample. If it decreased, or the processes were started
   anew, all samples before are dropped: the processes repeat steps since a checkpoint. Samples
   older than a minute are dropped, except for the last two.
3. The rate is the increase from the first sample to the last one, by the time between them. If two
   more steps should have followed at this rate, the time until now counts.
4. The slowest rank has the lowest step, if neither the age of its report nor the number of steps
   between two reports explains the difference. Else it is the rank that needs more than 1.2 times
   as long as the median rank for its own part of a step. Else there is none. But a rank with an
   outdated step is named first, because its agent cannot be reached.

Invariants: without two samples there is no rate; samples of different runs are never compared.

Example: ranks with the steps 41, 40 and 41, whose own parts took 1, 2 and 1 s. The step is 40, and
the second rank is the slowest.

Rules: docs/design/recovery.md, "Progress in the status".
"""

import statistics
from collections import deque
from typing import Deque, Dict, Optional, Sequence, Tuple

from framework.api.trainingprogress import TrainingProgress
from rendezvous.core.hangs.reports import ProcessReport

_WINDOW_SECONDS = 60.0
_MAX_SAMPLES = 128
_LEAST_SAMPLES = 2
# If more steps than this are missing, the gang has become slower.
_MISSED_STEPS = 2
# Agents report every 5 s at the latest; on a busy machine, a little later.
_REPORT_AGE_SECONDS = 10.0
# A smaller difference is chance.
_SLOWER_FACTOR = 1.2

_Named = Tuple[str, ProcessReport]


class GangMeter:
    """Measures the progress of one gang."""

    def __init__(self) -> None:
        """Start without samples."""
        self._run: Optional[Tuple[int, int]] = None
        self._last: Optional[TrainingProgress] = None
        self._samples: Deque[Tuple[float, int]] = deque(maxlen=_MAX_SAMPLES)
        # The last step of each rank, and by how much it increased last.
        self._increases: Dict[str, Tuple[int, int]] = {}

    def follow(
        self,
        generation: int,
        run: Tuple[int, int],
        ranks: Sequence[_Named],
        stragglers: Sequence[str],
        now: float,
        outdated: Sequence[str] = (),
    ) -> Optional[TrainingProgress]:
        """Take the newest reports; return the progress of the gang, None before its first step.

        Args:
            generation: of the roster.
            run: the run of the processes.
            ranks: the names of the ranks, with their newest reports.
            stragglers: the names of the ranks that are much slower than the others.
            now: in monotonic seconds.
            outdated: the names of the silent ranks whose steps are outdated.
        """
        ignored = frozenset(outdated)
        ranks = [each for each in ranks if each[0] not in ignored] if ignored else ranks
        steps = [report.step for _, report in ranks if report.step is not None]
        if not steps:
            return self._start_anew(generation) if ranks else None
        step = min(steps)
        self._take(run, step, now)
        increase = self._find_increase()
        self._take_ranks(ranks)
        rate = self._compute_rate(now)
        totals = [report.total for _, report in ranks if report.total is not None]
        self._last = TrainingProgress(
            generation=generation,
            step=step,
            total=max(totals) if totals else None,
            steps_per_second=rate,
            slowest=outdated[0] if outdated else _find_slowest(ranks, step, rate, increase),
            straggler_count=len(stragglers),
            stragglers=tuple(stragglers),
        )
        return self._last

    def _start_anew(self, generation: int) -> Optional[TrainingProgress]:
        """Keep the last step of processes that were started anew and have ended no step yet."""
        if self._last is None:
            return None
        return TrainingProgress(
            generation=generation,
            step=self._last.step,
            total=self._last.total,
            steps_per_second=None,
            slowest="",
            straggler_count=0,
            stragglers=(),
        )

    def _take(self, run: Tuple[int, int], step: int, now: float) -> None:
        samples = self._samples
        if run != self._run:
            self._increases = {}
        if run != self._run or (samples and step < samples[-1][1]):
            self._run = run
            samples.clear()
        if not samples or step != samples[-1][1]:
            samples.append((now, step))
        while len(samples) > _LEAST_SAMPLES and now - samples[0][0] > _WINDOW_SECONDS:
            samples.popleft()

    def _find_increase(self) -> int:
        """Find the largest of the last increases of the ranks; 0 if there is none."""
        return max((increase for _, increase in self._increases.values()), default=0)

    def _take_ranks(self, ranks: Sequence[_Named]) -> None:
        known, self._increases = self._increases, {}
        for name, report in ranks:
            if report.step is not None:
                before, increase = known.get(name, (report.step, 0))
                increase = report.step - before if report.step > before else increase
                self._increases[name] = (report.step, increase)

    def _compute_rate(self, now: float) -> Optional[float]:
        if len(self._samples) < _LEAST_SAMPLES:
            return None
        (begin, first), (end, last) = self._samples[0], self._samples[-1]
        if end <= begin:
            return None
        rate = (last - first) / (end - begin)
        is_slower = (now - end) * rate > _MISSED_STEPS
        return (last - first) / (now - begin) if is_slower else rate


def _find_slowest(ranks: Sequence[_Named], step: int, rate: Optional[float], increase: int) -> str:
    """Find the rank that is behind the others, or needs longer for a step; "" if none does.

    ``increase`` is the largest number of steps between two reports of a rank.
    """
    known = [(name, report) for name, report in ranks if report.step is not None]
    steps = [report.step for _, report in known if report.step is not None]
    # Ranks that train together differ by the age of their reports, by one step, and by the steps
    # between two reports: some print each hundredth step only.
    expected = 1 + increase + (rate or 0.0) * _REPORT_AGE_SECONDS
    is_together = rate is None or max(steps) - step <= expected
    if not is_together:
        behind = [each for each in known if each[1].step == step]
        return max(behind, key=lambda each: each[1].busy_seconds)[0]
    busy = [report.busy_seconds for _, report in known if report.busy_seconds > 0]
    name, slowest = max(known, key=lambda each: each[1].busy_seconds)
    is_slower = busy and slowest.busy_seconds > _SLOWER_FACTOR * statistics.median_low(busy)
    return name if is_slower else ""
