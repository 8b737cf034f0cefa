"""Outcomes: the requests for one Framework that are in flight, and the results of others.

Only ``controller.execute`` writes it: tests/controller/test_entry_owners.py.
"""

from dataclasses import dataclass, field

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.core.snapshot import Failure
from controller.store.object_identity import Version


@dataclass(frozen=True, slots=True)
class Refusal:
    """The server refuses the status that was decided for one generation of a Framework."""

    uid: str
    generation: int
    message: str

    def is_of(self, version: Version) -> bool:
        """Return whether a status decided from this version's spec would be refused again."""
        return (version.uid, version.generation) == (self.uid, self.generation)


@dataclass(slots=True)
class Outcomes:
    """Requests of one Framework that are in flight, and answers that the next decision needs."""

    incarnation: int = 0
    """The Framework of this name that ``failures`` and ``blocked`` are of."""
    in_flight: set[ActionKey] = field(default_factory=set)
    """Actions that are sent and not answered."""
    sent: set[ActionKey] = field(default_factory=set)
    """Actions that were sent since the last decision began, so that it did not know of them."""
    failures: dict[ActionKey, Failure] = field(default_factory=dict)
    """How actions failed last."""
    failed_keys: dict[tuple[Verb, ObjectKind, str], ActionKey] = field(default_factory=dict)
    """The key of a failure by its verb, kind and name: each has one failure at most."""
    retry_at: float = 0.0
    """Until then the server asked us to wait, in seconds of the monotonic clock."""
    refusal: Refusal | None = None
    """Why the server refuses the last status that was decided."""
    blocked: tuple[str, str] | None = None
    """Reason and message of the condition Blocked that was written without a decision."""

    def follow(self, incarnation: int) -> None:
        """Forget the outcomes for another Framework of this name."""
        if incarnation != self.incarnation:
            self.incarnation = incarnation
            self.failures.clear()
            self.failed_keys.clear()
            self.blocked = None

    def is_delete_in_flight(self, uid: str) -> bool:
        """Return whether a delete of this instance is in flight."""
        return any(
            key.verb is Verb.DELETE and key.identity.partition("/")[0] == uid
            for key in self.in_flight
        )

    def record_failure(self, key: ActionKey, failure: Failure) -> None:
        """Record how an action failed."""
        self.failures[key] = failure
        self.failed_keys[key.verb, key.kind, key.name] = key

    def drop_failure(self, key: ActionKey) -> None:
        """Forget how an action failed, if it did."""
        if self.failures.pop(key, None) is not None:
            del self.failed_keys[key.verb, key.kind, key.name]

    def drop_former_failure(self, key: ActionKey) -> int:
        """Drop the failure of the same name for an attempt that is over; it would stay for ever.

        This does not walk all failures: ten thousand creates may fail at each try.

        Returns:
            How many consecutive failures it counted.
        """
        known = self.failed_keys.get((key.verb, key.kind, key.name))
        if known is None or known == key:
            return 0
        count = self.failures[known].consecutive_failures
        self.drop_failure(known)
        return count
