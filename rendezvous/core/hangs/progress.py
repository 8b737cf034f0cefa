"""Hangs: decides whether a gang stands still, and for which of its ranks the others wait. Pure.

Training code reports its steps (``peers.progress``). Ranks that train together wait for each other
in each step, so the hang of one soon stops all. Steps of ``find_standstill``:

1. A rank was active when its step increased last, or when the pause that it has declared ends.
2. The gang moves if a rank was active within the limit: ``first_seconds`` before its first step,
   ``step_seconds`` after it. When all ranks with steps may have ended the last one, the longer of
   both, or 1800 s if the first has no limit: an evaluation or an export may follow.
3. Else it stands still. The ranks with the lowest step are behind. Ranks that report no step while
   others do are ignored: often only rank 0 prints its steps, and nothing is known of the others.
4. If all have the same step, the ranks whose process is stopped are behind; else the ranks whose
   stack differs from that of most ranks; else all ranks. Stacks are compared from their outermost
   frame. The first frame that differs decides, because ranks that wait may be anywhere in a loop.

5. Ranks train together, so a rank whose agent is silent has gone on if others have ended two steps
   since its last report. Its step is outdated: it is behind only if no other rank differs from the
   rest.

Invariants: no rank that is behind has a higher step than one that waits, apart from outdated steps;
no rank is both; while a declared pause lasts, there is no standstill.

Example: 8 ranks, limit 60 s. Rank 3 sleeps in step 41: all have reported step 40 for 60 s. Seven
stacks are in ``all_reduce``, that of rank 3 is in ``sleep``: rank 3 is behind, the others wait.

Rules: docs/design/recovery.md, "Hangs".
"""

import statistics
from collections import Counter
from typing import Mapping, NamedTuple, Optional, Sequence, Tuple

# With two ranks, neither is the usual one.
_LEAST_COMPARED = 3
# Characters of a frame in a stack.
FRAME_LENGTH = 4
# Without a limit for the first step, a rank that never reports one would be active for ever.
_UNLIMITED_FIRST_SECONDS = 1800.0


class RankProgress(NamedTuple):
    """The state of a rank. Times are monotonic seconds of the agent that decides."""

    rank: int
    """Its number."""
    step: Optional[int]
    """The newest step that it has reported; None before the first."""
    changed_at: float
    """When the step increased last; before the first step, when the process was started."""
    paused_until: float = 0.0
    """When its declared pause ends at the latest; a time in the past if it has none."""
    is_stopped: bool = False
    """Whether its process is stopped (SIGSTOP, a debugger), so that it gives no stack."""
    stack: str = ""
    """The stack of its main thread: 4 characters for each frame, the outermost first; "" if
    unknown."""
    has_no_steps: bool = False
    """Whether it reports no step while others do, so that its progress is not known."""
    is_last: bool = False
    """Whether the step may be the last one of the training."""
    is_outdated: bool = False
    """Whether its agent is silent and the others have ended two steps since its last report."""


class StandstillLimits(NamedTuple):
    """The longest times without progress before a gang stands still."""

    step_seconds: float
    """Between two steps."""
    first_seconds: float
    """Until the first step: data is loaded, code is compiled."""


class Standstill(NamedTuple):
    """A gang that stands still."""

    behind: Tuple[int, ...]
    """The ranks that the others wait for, ascending."""
    waiting: Tuple[int, ...]
    """The other ranks, ascending."""
    since: float
    """When a rank was active last."""


def find_standstill(
    ranks: Sequence[RankProgress], limits: StandstillLimits, now: float
) -> Optional[Standstill]:
    """Find whether the gang stands still; None if it moves, or has no ranks."""
    reporting = [rank for rank in ranks if rank.step is not None]
    if reporting and all(rank.is_last for rank in reporting):
        longest = max(limits.step_seconds, bound_first_seconds(limits))
        limits = limits._replace(step_seconds=longest)  # an evaluation, an export
    if not ranks or any(now < compute_active_until(rank, limits) for rank in ranks):
        return None
    behind = {rank.rank for rank in _find_behind(ranks)}
    return Standstill(
        behind=tuple(sorted(behind)),
        waiting=tuple(sorted(rank.rank for rank in ranks if rank.rank not in behind)),
        since=max(_get_active_at(rank) for rank in ranks),
    )


def compute_active_until(rank: RankProgress, limits: StandstillLimits) -> float:
    """Compute the end of the time in which a rank is active, if it reports nothing new."""
    limit = limits.step_seconds
    if rank.step is None:
        limit = limits.first_seconds
    if rank.has_no_steps:
        limit = bound_first_seconds(limits)
    return _get_active_at(rank) + limit


def bound_first_seconds(limits: StandstillLimits) -> float:
    """Return the time for the first step; 1800 s if it has no limit."""
    first = limits.first_seconds
    return first if first < float("inf") else _UNLIMITED_FIRST_SECONDS


def find_stragglers(step_seconds: Mapping[int, Sequence[float]], factor: float) -> Tuple[int, ...]:
    """Find the ranks whose own part of a step takes longer than ``factor`` times the median.

    Args:
        step_seconds: for each rank, the time of its last steps without the wait for other ranks.
        factor: above 1.
    """
    medians = {rank: statistics.median(own) for rank, own in step_seconds.items() if own}
    if len(medians) < _LEAST_COMPARED:
        return ()
    usual = statistics.median(medians.values())
    return tuple(sorted(rank for rank, own in medians.items() if own > factor * usual))


def _get_active_at(rank: RankProgress) -> float:
    return max(rank.changed_at, rank.paused_until)


def _find_behind(ranks: Sequence[RankProgress]) -> Sequence[RankProgress]:
    """Find the ranks that the others wait for, of a gang that stands still."""
    current = [rank for rank in ranks if not rank.is_outdated]
    compared = [rank for rank in current if not rank.has_no_steps]
    lowest = min((_get_step(rank) for rank in compared), default=-1)
    behind = [rank for rank in compared if _get_step(rank) == lowest]
    if len(behind) < len(compared):
        return behind
    stopped = [rank for rank in current if rank.is_stopped]
    if stopped:
        return stopped
    unusual = _find_unusual([rank for rank in current if rank.stack])
    return unusual or [rank for rank in ranks if rank.is_outdated] or ranks


def _find_unusual(ranks: Sequence[RankProgress]) -> Sequence[RankProgress]:
    """Find the ranks whose stack differs from that of most ranks; none if no stack differs."""
    longest = max((len(rank.stack) for rank in ranks), default=0)
    for end in range(FRAME_LENGTH, longest + FRAME_LENGTH, FRAME_LENGTH):
        counts = Counter(rank.stack[:end] for rank in ranks)
        if len(counts) > 1:
            most = max(counts.values())
            return [rank for rank in ranks if counts[rank.stack[:end]] < most]
    return ()


def _get_step(rank: RankProgress) -> int:
    return -1 if rank.step is None else rank.step
