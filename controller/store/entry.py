"""An Entry: all that is known about one Framework, in three parts that have one writer each.

1. ``observed``: the objects that the API server has shown. Written by ``controller.store``.
2. ``outcomes``: requests in flight, and the results of others. Written by ``controller.execute``.
3. ``pacing``: the times of the next decision and write. Written by ``controller.reconcile``.

Every part may read the others. When another Framework of the same name appears, the store starts a
new incarnation in ``observed``, and the owners of the other two parts drop their state of the
former one before the next decision (``follow``).

Example: the create of a Pod is refused. The executor records a failure in ``outcomes`` and wakes
the key; the worker decides from ``observed`` and ``outcomes``, and sets
``pacing.next_decision_at``. Then the user replaces the Framework by another one of its name: the
store sets ``observed.framework`` and raises ``observed.incarnation``, and the next decision starts
without that failure.
"""

from dataclasses import dataclass, field

from controller.store.observed import Observed
from controller.store.outcomes import Outcomes
from controller.store.pacing import Pacing


@dataclass(frozen=True, slots=True)
class Entry:
    """All that is known about one Framework of one name."""

    namespace: str
    name: str
    observed: Observed = field(default_factory=Observed)
    outcomes: Outcomes = field(default_factory=Outcomes)
    pacing: Pacing = field(default_factory=Pacing)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is known any more."""
        known = self.observed
        is_known = known.version or known.fault or known.configmap or known.pods
        return not (is_known or self.outcomes.in_flight)
