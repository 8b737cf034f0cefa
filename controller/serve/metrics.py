"""The metrics of the controller, in the text form of Prometheus.

Served by ``controller.serve.health``. Each controller has a registry of its own instead of the
library's global one, so that one test can run two controllers.
"""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from framework.kube.errors import ApiError, KubeError

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_PREFIX = "frameworkcontroller"
# A decision takes microseconds to milliseconds; a whole second is a bug.
_DECISION_BUCKETS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
_REQUEST_BUCKETS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
_RELEASE_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 5.0)
# A gang may wait for a busy cluster: seconds to hours.
_GANG_BUCKETS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)


# The metrics by their names without the prefix: the help, the buckets, the labels.
_GAUGES = {
    "queue_depth": "Frameworks waiting to be decided",
    "frameworks": "Frameworks in the cache",
    "actions_in_flight": "Requests sent and not yet answered",
    "leader": "1 while this controller acts, else 0",
    "nodes_watched": "1 while nodes are watched, else 0",
    "nodes_to_leave": "Nodes that are cordoned or tainted, as far as Tasks leave them",
}
_COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "decision_failures": ("Decisions that raised an error", ()),
    "writes": ("Requests that change an object, by outcome", ("resource", "verb", "code")),
    "conflicts": ("Writes refused because the object had changed", ("resource",)),
    "relists": ("New lists because a watch could not continue", ("resource",)),
    "process_epochs": (
        "Epochs that failed processes began, by the reason in the status",
        ("reason",),
    ),
    "training_updates": ("Reports of how far a training is that were stored in a status", ()),
    "tasks_leaving": ("Tasks that began to leave, by the reason in the status", ("reason",)),
    "dropped_events": ("Events not recorded: too many", ()),
}
_HISTOGRAMS: dict[str, tuple[str, tuple[float, ...], tuple[str, ...]]] = {
    "decision_seconds": ("Time a decision took to compute", _DECISION_BUCKETS, ()),
    "write_seconds": ("Time until a write was answered", _REQUEST_BUCKETS, ("resource", "verb")),
    "gang_wait_seconds": (
        "From the start of an attempt until its gang was complete",
        _GANG_BUCKETS,
        (),
    ),
    "release_seconds": (
        "From the last member's address until the complete roster was published",
        _RELEASE_BUCKETS,
        (),
    ),
}


class Metrics:
    """All measurements; every method is cheap and never fails."""

    def __init__(self) -> None:
        """Start at zero."""
        registry = self._registry = CollectorRegistry()
        self._gauges = {
            name: Gauge(f"{_PREFIX}_{name}", text, registry=registry)
            for name, text in _GAUGES.items()
        }
        self._counters = {
            name: Counter(f"{_PREFIX}_{name}", text, labels, registry=registry)
            for name, (text, labels) in _COUNTERS.items()
        }
        self._histograms = {
            name: Histogram(f"{_PREFIX}_{name}", text, labels, buckets=buckets, registry=registry)
            for name, (text, buckets, labels) in _HISTOGRAMS.items()
        }

    def set_queue_depth(self, depth: int) -> None:
        """Record how many keys wait."""
        self._gauges["queue_depth"].set(depth)

    def follow_frameworks(self, count: Callable[[], int]) -> None:
        """Set the function that counts the Frameworks; it is called at each scrape."""
        self._gauges["frameworks"].set_function(count)

    def set_actions_in_flight(self, count: int) -> None:
        """Record how many requests are in flight."""
        self._gauges["actions_in_flight"].set(count)

    def set_leader(self, *, is_leader: bool) -> None:
        """Record whether this controller acts."""
        self._gauges["leader"].set(1 if is_leader else 0)

    def observe_decision(self, seconds: float) -> None:
        """Count one decision and its time."""
        self._histograms["decision_seconds"].observe(seconds)

    def count_decision_failure(self) -> None:
        """Count a decision that raised."""
        self._counters["decision_failures"].inc()

    def count_write(
        self, resource: str, verb: str, outcome: int | str, seconds: float | None = None
    ) -> None:
        """Count one write.

        Args:
            resource: plural, with its subresource: ``pods``, ``frameworks/status``.
            verb: ``create``, ``patch``, ``update``, ``delete``.
            outcome: HTTP status, or ``unreachable`` when there was no answer.
            seconds: how long the answer took, None if unknown.
        """
        self._counters["writes"].labels(resource, verb, str(outcome)).inc()
        if seconds is not None:
            self._histograms["write_seconds"].labels(resource, verb).observe(seconds)

    def count_answer(
        self, resource: str, verb: str, error: KubeError | None, seconds: float
    ) -> None:
        """Count one write by its answer; ``error`` None: it succeeded."""
        outcome: int | str = 200
        if error is not None:
            outcome = error.status if isinstance(error, ApiError) else "unreachable"
        self.count_write(resource, verb, outcome, seconds)

    def count_conflict(self, resource: str) -> None:
        """Count a write whose precondition did not hold."""
        self._counters["conflicts"].labels(resource).inc()

    def count_relist(self, resource: str) -> None:
        """Count a list taken because a watch could not go on."""
        self._counters["relists"].labels(resource).inc()

    def observe_gang_wait(self, seconds: float) -> None:
        """Record how long a gang took to be complete."""
        self._histograms["gang_wait_seconds"].observe(seconds)

    def observe_release(self, seconds: float) -> None:
        """Record how long the complete roster took to be published."""
        self._histograms["release_seconds"].observe(seconds)

    def count_epoch(self, reason: str) -> None:
        """Count an epoch that was stored; ``reason`` is that of the status."""
        self._counters["process_epochs"].labels(reason).inc()

    def count_training_update(self) -> None:
        """Count a report of how far a training is that was stored."""
        self._counters["training_updates"].inc()

    def count_leaving(self, reason: str) -> None:
        """Count a Task that began to leave; ``reason`` is that of the status."""
        self._counters["tasks_leaving"].labels(reason).inc()

    def follow_nodes(
        self, *, is_watched: Callable[[], bool], count_left: Callable[[], int]
    ) -> None:
        """Set the functions that are called at each scrape for the gauges of nodes."""
        self._gauges["nodes_watched"].set_function(is_watched)
        self._gauges["nodes_to_leave"].set_function(count_left)

    def count_dropped_event(self) -> None:
        """Count an Event that was not recorded."""
        self._counters["dropped_events"].inc()

    def render(self) -> bytes:
        """Render everything for a scrape."""
        return generate_latest(self._registry)
