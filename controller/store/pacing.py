"""Pacing: the times of the next decision and write of one Framework.

Only ``controller.reconcile`` writes it: tests/controller/test_entry_owners.py.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from controller.core.policies.limits import Growth
from controller.core.waits import Wait
from controller.store.object_identity import Version
from framework.kube.backoff import Backoff


@dataclass(frozen=True, slots=True)
class MemoryWait:
    """A Framework that had no memory; it is not read again before there is enough."""

    version: Version
    growth: Growth
    decided_at: float


@dataclass(slots=True)
class Pacing:
    """Pauses of one Framework. Times are seconds of the monotonic clock."""

    incarnation: int = 0
    """The Framework of this name that ``changed_at`` is of."""
    next_decision_at: float = 0.0
    """No decision is taken before."""
    decision_seconds: float = 0.0
    """How long the last decision took."""
    changed_at: float | None = None
    """Since when a status change waits to be written; None for no such change."""
    is_paused: bool = False
    """Whether a worker took its key while no decision was allowed."""
    backoff: Backoff | None = None
    """Delays of retries after a request of the worker failed; None after a success."""
    refusal_backoff: Backoff | None = None
    """Delays of retries while the server refuses the status for good."""
    memory_wait: MemoryWait | None = None
    """The memory that the Framework waited for when it was stripped; None if it did not wait."""
    waits: dict[Wait, float] = field(default_factory=dict)
    """For each wait of the last decision, when a decision first had it."""

    def compute_waited(self, now: float) -> Mapping[Wait, float]:
        """Compute how long decisions have waited."""
        return {wait: now - begin for wait, begin in self.waits.items()}

    def keep_waits(self, waits: Iterable[Wait], now: float) -> None:
        """Keep the waits of the last decision, and forget the others."""
        self.waits = {wait: self.waits.get(wait, now) for wait in waits}

    def follow(self, incarnation: int) -> None:
        """Forget the change of another Framework of this name."""
        if incarnation != self.incarnation:
            self.incarnation = incarnation
            self.changed_at = None
