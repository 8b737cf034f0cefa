"""The judgement about a gang: it moves, it is asked for stacks, or it has a verdict. Pure.

``watch`` has the steps, the invariants and an example. Transitions::

    Moving --stands still--------------------> Asked
    Asked  --all have answered, or 10 s------> Judged
    Judged --still stands still, after a time-> Asked
    Asked, Judged --moves, or cannot be judged-> Moving

Rules: docs/design/recovery.md, "Hangs".
"""

import enum
from typing import NamedTuple, Optional, Sequence, Tuple

from rendezvous.core.hangs.observation import (
    ObservedGang,
    ObservedProcess,
    describe_ranks,
)
from rendezvous.core.hangs.progress import (
    RankProgress,
    Standstill,
    StandstillLimits,
    bound_first_seconds,
    find_standstill,
)
from rendezvous.core.hangs.reports import MAX_NAMED, NO_RUN, Acting, Answer, Verdict

_STACKS_SECONDS = 10.0
_REPEAT_SECONDS = 60.0


class State(enum.Enum):
    """The state of a judgement."""

    MOVING = "Moving"
    ASKED = "Asked"
    JUDGED = "Judged"


class Judgement(NamedTuple):
    """The state of the gang, and the verdict."""

    state: State
    """The state."""
    number: int
    """The number of the last request for stacks."""
    since: float = 0.0
    """When the state began; unused while the gang moves."""
    verdict: Optional[Verdict] = None
    """The verdict, in the state Judged."""

    def withdraw(self) -> "Judgement":
        """Return the judgement of a gang that moves, or cannot be judged."""
        return Judgement(State.MOVING, self.number)

    def to_answer(self) -> Answer:
        """Build the answer to a report."""
        return Answer(0 if self.state is State.MOVING else self.number, self.verdict)


class _StandingGang(NamedTuple):
    """A gang that stands still."""

    gang: ObservedGang
    processes: Sequence[ObservedProcess]
    ranks: Sequence[RankProgress]
    found: Standstill


def judge(
    judgement: Judgement, gang: ObservedGang, limits: StandstillLimits, now: float
) -> Judgement:
    """Judge whether the gang stands still, and which ranks are behind."""
    longest = max(limits.step_seconds, bound_first_seconds(limits))
    if now < _compute_repeat_at(judgement, gang, longest, now):
        return judgement
    processes = gang.list_processes()
    ranks = describe_ranks(processes, now)
    found = find_standstill(ranks, limits, now)
    if found is None or gang.is_regrouping(ranks, longest, now) or not gang.is_complete(now):
        return judgement.withdraw()
    if judgement.state is not State.ASKED:
        return Judgement(State.ASKED, judgement.number + 1, now)
    answers = (known.report.answered for known in gang.reports.values())
    is_answered = all(number == judgement.number for number in answers)
    if not is_answered and now - judgement.since < _STACKS_SECONDS:
        return judgement
    verdict = _build_verdict(_StandingGang(gang, processes, ranks, found), judgement.number, now)
    return Judgement(State.JUDGED, judgement.number, now, verdict)


def _compute_repeat_at(
    judgement: Judgement, gang: ObservedGang, longest: float, now: float
) -> float:
    """Compute when a gang with a verdict is judged again; at once, without a verdict."""
    if judgement.verdict is None:
        return now
    acting = [gang.reports.get((role, index)) for role, index, _ in judgement.verdict.acting]
    is_pod_lost = any(known is None or known.is_silent(now) for known in acting)
    seconds = longest if is_pod_lost or not acting else _REPEAT_SECONDS
    return judgement.since + seconds


def _build_verdict(standing: _StandingGang, number: int, now: float) -> Verdict:
    gang, processes, ranks, found = standing
    behind = [processes[i].name for i in found.behind]
    waiting = [processes[i].name for i in found.waiting]
    return Verdict(
        number=number,
        run=gang.run,
        behind=tuple(behind[:MAX_NAMED]),
        behind_count=len(behind),
        waiting=tuple(waiting[:MAX_NAMED]),
        waiting_count=len(waiting),
        step=_find_step([ranks[i] for i in found.behind], ranks),
        seconds=now - found.since,
        acting=_choose_acting(standing, now),
    )


def _choose_acting(standing: _StandingGang, now: float) -> Tuple[Acting, ...]:
    """Choose the members that end their processes: step 4 of ``watch``."""
    gang, processes, _, found = standing
    reports = gang.reports
    heard = [member for member in sorted(reports) if not reports[member].is_silent(now)]
    behind = dict.fromkeys(processes[i].member for i in found.behind)
    acting = [member for member in behind if member in heard]
    is_member_lost = not acting or any(member not in reports for member in gang.members)
    if acting and found.waiting:
        chosen = acting[:MAX_NAMED]
    elif is_member_lost and gang.run == NO_RUN:
        chosen = []
    else:
        # One member is enough for a restart of all.
        chosen = heard[:1]
    return tuple((*member, reports[member].fingerprint) for member in chosen)


def _find_step(behind: Sequence[RankProgress], ranks: Sequence[RankProgress]) -> int:
    """Find the lowest step of those behind; if they report none, of all. -1: before the first."""
    reporting = [each for each in behind if not (each.has_no_steps or each.is_outdated)]
    reporting = reporting or [each for each in ranks if not (each.has_no_steps or each.is_outdated)]
    return min((-1 if each.step is None else each.step for each in reporting), default=-1)
