"""Epochs: which reports of failed processes start the next epoch, and which are refused. Pure.

``decide_epoch`` takes these steps:

1. Keep the reports of the current epoch, without those of Pods that are refused. Reports of earlier
   epochs have had their restart, and reports of later epochs are not from an agent of this attempt.
2. Without such a report, change nothing but the refusals of Pods that are gone.
3. Refuse a report if its role has no restart in place, if its code is permanent, or if the budget
   of its role is used up.
4. Start the next epoch. It counts for each role with a report, unless a report is refused: then a
   Pod ends, and the retry policy of its Task counts that.

While the gang waits for a Task that leaves its node, an epoch may not count (``missing_peers``).
Such an epoch needs no budget.

Invariants:

- The epoch increases by at most 1 in a decision. The same reports decided again change nothing.
- A Pod is refused once: its later reports start no epoch.
- In each window of ``within_seconds``, at most ``max_restarts`` restarts are counted for a role.

Example: epoch 4 runs, and worker 1 reports ``4 137``: epoch 5, with one restart counted for the
role. Worker 2 reports ``4 1``: nothing changes. Worker 0 reports ``5 1``, and the budget is used
up: epoch 6, and worker 0 is refused.

Rules: docs/design/recovery.md, "Steps".
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from framework.api.constants import MAX_IN_PLACE_SECONDS
from framework.api.naming import TaskKey
from framework.api.recovery import (
    BUDGET_USED_UP,
    NOT_IN_PLACE,
    PERMANENT_FAILURE,
    RESTARTED,
    InPlaceSpec,
)


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """The end of a process, as its agent reported it."""

    key: TaskKey
    """The Task."""
    fingerprint: str
    """Fingerprint of the Pod."""
    epoch: int
    """Epoch of the process."""
    code: int
    """Exit code of the process."""
    is_permanent: bool = False
    """Whether podFailureSpec says that a retry cannot succeed."""


@dataclass(frozen=True, slots=True)
class EpochState:
    """The epochs of an attempt, as its status stores them."""

    epoch: int = 0
    """The current epoch."""
    decided_at: datetime | None = None
    """When the epoch was decided; None for epoch 0."""
    restarts: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)
    """Times of the counted restarts of each role, the oldest first."""
    refused: frozenset[str] = frozenset()
    """Fingerprints of Pods whose reports are refused."""
    first_failed: ProcessReport | None = None
    """The first report that led to the current epoch."""
    reason: str = ""
    """Why the epoch was decided: RESTARTED, or why a report is refused; "" for epoch 0."""


def decide_epoch(
    state: EpochState,
    reports: Sequence[ProcessReport],
    policies: Mapping[str, InPlaceSpec],
    live: Collection[str],
    now: datetime,
    *,
    is_counted: bool = True,
) -> EpochState:
    """Decide the next state.

    Args:
        state: the stored state.
        reports: the reports of all Pods, the earliest first.
        policies: restart in place of each role that has it.
        live: fingerprints of the Pods that exist.
        now: the current time.
        is_counted: whether the epoch counts, and needs a budget.
    """
    refused = state.refused.intersection(live)
    current = _select_current(state, reports)
    if not current:
        return state if refused == state.refused else replace(state, refused=refused)
    roles = {report.key.role for report in current}
    recent = {role: _list_recent(state, role, policies.get(role), now) for role in roles}
    refusals = _find_refusals(current, policies, recent)
    if not is_counted:
        refusals = {pod: why for pod, why in refusals.items() if why != BUDGET_USED_UP}
    restarts = dict(state.restarts)
    if is_counted and not refusals:
        restarts |= {role: (*times, now) for role, times in recent.items()}
    return EpochState(
        epoch=state.epoch + 1,
        decided_at=now,
        restarts=restarts,
        refused=refused.union(refusals),
        first_failed=current[0],
        reason=next(iter(refusals.values()), RESTARTED),
    )


def _select_current(state: EpochState, reports: Sequence[ProcessReport]) -> list[ProcessReport]:
    """Select the reports of the current epoch, without those of Pods that are refused."""
    return [
        report
        for report in reports
        if report.epoch == state.epoch and report.fingerprint not in state.refused
    ]


def _list_recent(
    state: EpochState, role: str, policy: InPlaceSpec | None, now: datetime
) -> tuple[datetime, ...]:
    """List the counted restarts that are within the window of a role."""
    if policy is None:
        return ()
    times = state.restarts.get(role, ())
    window = timedelta(seconds=min(policy.within_seconds, MAX_IN_PLACE_SECONDS))
    # A time in the future is from before the clock was set back: it counts.
    return tuple(time for time in times if now - time < window)


def _find_refusals(
    reports: Sequence[ProcessReport],
    policies: Mapping[str, InPlaceSpec],
    recent: Mapping[str, tuple[datetime, ...]],
) -> dict[str, str]:
    """Find the reports that are refused: by fingerprint of the Pod, the reason."""
    refusals: dict[str, str] = {}
    for report in reports:
        role = report.key.role
        reason = _find_refusal(report, policies.get(role), len(recent[role]))
        if reason:
            refusals[report.fingerprint] = reason
    return refusals


def _find_refusal(report: ProcessReport, policy: InPlaceSpec | None, recent_restarts: int) -> str:
    """Find why a report is refused; "" if it is not."""
    if policy is None:
        return NOT_IN_PLACE
    if report.is_permanent:
        return PERMANENT_FAILURE
    return "" if recent_restarts < policy.max_restarts else BUDGET_USED_UP
