"""Pauses: when the next decision about a Framework is due, when its status is written, and retries.

1. After a decision, its key pauses, so that several events share the next decision
   (``pause_after_decision``). So it does after a decode that took long (``pause_after_decode``).
2. A status change that only informs waits, so that later changes share its write
   (``find_coalescing_seconds``).
3. After a request that failed, the key is retried after a growing delay (``next_retry_seconds``).
   After a failed write it waits as long as the writer or the server asks (``Outcomes.retry_at``).
   A status that the server refuses is tried rarely, until the spec changes
   (``pause_after_refusal``, ``find_pause``).

Invariants:
- A pause after a decode or a decision shortens no other pause. A refusal replaces the pause, and a
  stored status ends the pause of a refusal.
- A change of the spec ends all pauses of a refused status, also the wait for a retry.

Example: a decision takes 2 ms, and a status write takes 40 ms on average. The key pauses for 10 ms:
the greater of 4 times the decision and a quarter of the write.

All times are seconds of the monotonic clock. The functions change only ``Entry.pacing``. Rules:
docs/design/state-machines.md, "When a status is written", "Failed writes".
"""

from datetime import datetime

from controller.core.actions import Urgency
from controller.store.entry import Entry
from framework.kube.backoff import Backoff

# Informative status changes are written at most once per this time, or per this many times the cost
# of a decision.
_SOON_SECONDS = 0.1
_COALESCE_COST_FACTOR = 5.0
# While a gang starts or is deleted, more changes are certain: they share their writes.
_LATER_SECONDS = 0.25
# The pause after a decision: this many times its duration or, if that is longer, this share of the
# duration of a status write.
_DECISION_SHARE = 4.0
_SLOWNESS_SHARE = 0.25
_MAX_SLOWNESS_SECONDS = 0.1
# A shorter pause is left out.
_MIN_PAUSE_SECONDS = 0.005
# Longest pause between the tries of a status that the server refuses, until the spec changes.
_REFUSED_MAX_SECONDS = 60.0


def find_pause(entry: Entry, now: float) -> float:
    """Find the seconds until the next decision is allowed; 0 or less: now."""
    version, refusal = entry.observed.version, entry.outcomes.refusal
    if version is None and entry.observed.fault is None:
        # The Framework is gone. A new Framework with this name may appear.
        return 0.0
    if version and refusal and not refusal.is_of(version):
        return 0.0
    return max(entry.pacing.next_decision_at, entry.outcomes.retry_at) - now


def pause_after_decode(entry: Entry, spent: float, now: float) -> None:
    """Pause after a decode that took ``spent`` seconds."""
    _pause(entry, spent * _DECISION_SHARE, now)


def pause_after_decision(entry: Entry, spent: float, write_seconds: float, now: float) -> None:
    """Pause after a decision.

    Args:
        entry: the Framework.
        spent: duration of the decision.
        write_seconds: usual duration of a status write.
        now: the end of the decision.
    """
    entry.pacing.decision_seconds = spent
    slowness = min(write_seconds * _SLOWNESS_SHARE, _MAX_SLOWNESS_SECONDS)
    _pause(entry, max(spent * _DECISION_SHARE, slowness), now)


def _pause(entry: Entry, seconds: float, now: float) -> None:
    if seconds > _MIN_PAUSE_SECONDS:
        entry.pacing.next_decision_at = max(entry.pacing.next_decision_at, now + seconds)


def pause_after_refusal(entry: Entry, now: float) -> None:
    """Pause after the server has refused a status, longer each time."""
    pacing = entry.pacing
    if pacing.refusal_backoff is None:
        pacing.refusal_backoff = Backoff(1.0, 2.0, _REFUSED_MAX_SECONDS)
    pacing.next_decision_at = now + pacing.refusal_backoff.next_bound_seconds()


def end_refusal(entry: Entry) -> None:
    """End the pause after refused statuses, because a status was stored."""
    if entry.pacing.refusal_backoff is not None:
        entry.pacing.refusal_backoff = None
        entry.pacing.next_decision_at = 0.0


def find_coalescing_seconds(entry: Entry, urgency: Urgency, now: float) -> float:
    """Find how long a status change that only informs still waits; 0 or less: write it now."""
    least = _LATER_SECONDS if urgency is Urgency.LATER else _SOON_SECONDS
    window = max(least, _COALESCE_COST_FACTOR * entry.pacing.decision_seconds)
    return (entry.pacing.changed_at or 0.0) + window - now


def next_retry_seconds(entry: Entry) -> float:
    """Return the delay of the next retry after a request that failed; the later ones are longer."""
    if entry.pacing.backoff is None:
        entry.pacing.backoff = Backoff(0.1, 2.0, 10.0)
    return entry.pacing.backoff.next_bound_seconds()


def seconds_until(at: datetime, now: datetime) -> float:
    """Return the seconds until a wall time.

    One millisecond is added, so that the time has passed at any resolution of the clock.
    """
    return max(0.001, (at - now).total_seconds() + 0.001)
