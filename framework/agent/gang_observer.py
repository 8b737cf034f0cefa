"""Observes a gang through its sources, for the barrier and the rendezvous agent.

An agent calls ``poll`` in a loop in one thread and then reads ``knowledge``. Each ``poll`` takes
these steps; ``gang`` decides which sources are needed.

1. If DNS is used: run a round of lookups, within the timeout.
2. Wait until a watch has an event, the Framework is due to be read, or the timeout is over.
3. If the Framework is needed: read it when a read is due. Without a healthy watch of it, a read is
   due about five times per ``fallback_seconds``. With a healthy watch, a read is due after a
   change, plus a random time that spreads the reads of a gang, and otherwise every 15 s.
4. If the Framework is not needed: close its watch.
5. If every source has been denied for ``STABLE_SECONDS``: ask by SelfSubjectAccessReviews whether
   the permissions are missing. This is repeated every ``STABLE_SECONDS``.

Invariants: every step has a timeout; the Framework is not read while the watch of the ConfigMap is
healthy and its ConfigMap carries rosters; a source that is not configured counts as unreachable
from the start, so no agent waits for it.

Example: a gang of 1000 Pods may not watch ConfigMaps. A Task gets an address, and the watch of the
Framework's metadata reports a change to all 1000 agents. Each waits a random time of up to 0.5 s
and reads the Framework from the server's cache. The next read starts 5 to 15 s later.
"""

import select
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from framework.agent.access import Access
from framework.agent.clock import AgentClock
from framework.agent.dns_source import DnsSource
from framework.agent.gang import (
    STABLE_SECONDS,
    Gang,
    Knowledge,
    build_permissions,
    build_watch_permission,
    is_denial_stable,
    is_dns_trusted,
    needs_framework,
)
from framework.agent.health import Health, SourceState
from framework.agent.permission import Permission, SelfReviews
from framework.agent.sources import ConfigMapSource, FrameworkSource

# Reads of the Framework per ``fallback_seconds`` without a healthy watch.
_READS_PER_FALLBACK_TIME = 5.0
# With a healthy watch, a read without a change only detects lost events.
_PRECAUTION_SECONDS = 15.0
_SHORTEST_READ_SECONDS = 0.1
# Least time between two reads, times the number of Tasks: to read a large Framework is expensive
# for the server.
_SECONDS_PER_TASK = 0.01
# All agents of a gang see a change at the same time. Their reads are spread over this time, times
# the number of Tasks.
_SPREAD_SECONDS_PER_TASK = 0.0005
_NO_API = "no API server is configured"


class Sources(NamedTuple):
    """The sources of a gang; None for each that the agent does not use.

    The types are ``ConfigMapSource``, ``FrameworkSource``, ``SelfReviews`` and ``DnsSource``. They
    are ``Any`` because tests pass scripted sources.
    """

    configmaps: Any
    frameworks: Any
    reviews: Any
    dns: Any

    def close(self) -> None:
        """Close all connections."""
        for source in (self.configmaps, self.frameworks, self.reviews):
            if source is not None:
                source.close()


def open_sources(
    access: Optional[Access], clock: AgentClock, gang: Gang, *, is_attempt_aware: bool
) -> Sources:
    """Build the sources of a gang; only DNS without access to an API server."""
    dns = None
    if gang.expected is not None:
        dns = DnsSource(clock, gang.namespace, gang.framework, gang.expected)
    if access is None:
        return Sources(None, None, None, dns)
    configmaps = None
    if gang.configmap:
        configmaps = ConfigMapSource(
            access, clock, gang.namespace, gang.configmap, gang.configmap_uid, gang.framework
        )
    frameworks = FrameworkSource(
        access, clock, gang.namespace, gang.framework, is_attempt_aware=is_attempt_aware
    )
    return Sources(configmaps, frameworks, SelfReviews(access, clock), dns)


class GangObserver:
    """Observes one gang. Call ``poll`` in a loop, then read ``knowledge``."""

    def __init__(self, clock: AgentClock, gang: Gang, sources: Sources) -> None:
        """Start the observation; the sources connect at the first ``poll``."""
        self._clock = clock
        self._gang = gang
        self._sources = sources
        self._started_at = clock.monotonic()
        # -inf: no wait for a source that is not configured.
        self._no_api = SourceState(Health.UNREACHABLE, float("-inf"), _NO_API)
        self._last_read_at: Optional[float] = None
        self._jitter = 1.0
        self._early_read_at: Optional[float] = None
        self._next_review_at = 0.0
        self._is_denial_confirmed = False

    @property
    def knowledge(self) -> Knowledge:
        """The newest result of every source."""
        sources = self._sources
        configmaps, frameworks, dns = sources.configmaps, sources.frameworks, sources.dns
        return Knowledge(
            started_at=self._started_at,
            configmap=configmaps.configmap if configmaps is not None else None,
            configmap_state=configmaps.state if configmaps is not None else self._no_api,
            view=frameworks.view if frameworks is not None else None,
            framework_state=frameworks.state if frameworks is not None else self._no_api,
            dns_view=dns.view if dns is not None else None,
            dns_state=dns.state if dns is not None else None,
            is_denial_confirmed=self._is_denial_confirmed,
        )

    def poll(self, timeout_seconds: float, *, reads_framework: bool = True) -> None:
        """Observe for at most about ``timeout_seconds`` (connecting may take longer).

        ``reads_framework`` is whether the Framework may be read when it is needed.
        """
        is_read = reads_framework and self._needs_framework()
        watched = [self._sources.configmaps] if self._sources.configmaps is not None else []
        if is_read:
            # A barrier that passes with the first read needs no watch.
            if self._sources.frameworks.state.health is not Health.STARTING:
                watched.append(self._sources.frameworks)
            left = self._compute_next_read() - self._clock.monotonic()
            timeout_seconds = min(timeout_seconds, max(0.0, left))
        if is_dns_trusted(self.knowledge, self._gang, self._clock.monotonic()):
            self._sources.dns.poll(timeout_seconds)
            timeout_seconds = 0.0
        _wait_for_any(watched, self._clock, timeout_seconds)
        if is_read:
            self._schedule_early_read()
            self._read_when_due()
        elif self._sources.frameworks is not None:
            self._sources.frameworks.stop_watching()
        self._review_denial()

    def list_missing_rights(self) -> List[Tuple[Permission, str]]:
        """List the permissions that are missing, each with the consequence."""
        knowledge = self.knowledge
        configmap_right, framework_right = build_permissions(self._gang)
        frameworks = self._sources.frameworks
        missing = []
        if knowledge.configmap_state.health is Health.FORBIDDEN:
            consequence = "the Framework is read instead, which is slower and costs the server more"
            missing.append((configmap_right, consequence))
        if knowledge.framework_state.health is Health.FORBIDDEN:
            last = "DNS is used instead" if self._gang.expected else "there is nothing else to read"
            missing.append((framework_right, last))
        elif frameworks is not None and frameworks.watch_health is Health.FORBIDDEN:
            watch_right = build_watch_permission(self._gang)
            missing.append((watch_right, "the Framework is read every few seconds instead"))
        return missing

    def close(self) -> None:
        """Close all connections."""
        self._sources.close()

    def _needs_framework(self) -> bool:
        if self._sources.frameworks is None:
            return False
        return needs_framework(self.knowledge, self._gang, self._clock.monotonic())

    def _schedule_early_read(self) -> None:
        """After a change, schedule a read at a random time that spreads the reads of a gang."""
        if self._sources.frameworks.has_newer_version and self._early_read_at is None:
            spread = self._count_tasks() * _SPREAD_SECONDS_PER_TASK
            self._early_read_at = self._clock.monotonic() + self._clock.uniform(0.0, spread)

    def _compute_next_read(self) -> float:
        """Compute when the Framework is read next."""
        if self._last_read_at is None:
            return self._started_at
        frameworks: FrameworkSource = self._sources.frameworks
        fallback, early_at = self._gang.fallback_seconds, self._early_read_at
        cost = min(self._count_tasks() * _SECONDS_PER_TASK, fallback)
        since = self._last_read_at + frameworks.retry_after_seconds
        if not frameworks.watch_health is frameworks.state.health is Health.HEALTHY:
            return since + self._jitter * max(fallback / _READS_PER_FALLBACK_TIME, cost)
        if early_at is not None:
            return max(early_at, since + self._jitter * max(_SHORTEST_READ_SECONDS, cost))
        return since + self._jitter * _PRECAUTION_SECONDS

    def _read_when_due(self) -> None:
        if self._clock.monotonic() < self._compute_next_read():
            return
        self._sources.frameworks.read()
        self._last_read_at, self._early_read_at = self._clock.monotonic(), None
        self._jitter = self._clock.uniform(0.5, 1.5)

    def _count_tasks(self) -> int:
        view = self._sources.frameworks.view
        return 0 if view is None else int(view.roster.wanted)

    def _review_denial(self) -> None:
        """Let the server confirm the denial when every source has been denied for long."""
        now = self._clock.monotonic()
        if not is_denial_stable(self.knowledge, self._gang, now):
            self._is_denial_confirmed = False
            return
        if now < self._next_review_at:
            return
        self._next_review_at = now + STABLE_SECONDS
        configmap_right, framework_right = build_permissions(self._gang)
        needed = [framework_right, configmap_right] if self._gang.configmap else [framework_right]
        reviews = self._sources.reviews
        self._is_denial_confirmed = all(reviews.is_denied(p) is True for p in needed)


def _wait_for_any(sources: Sequence[Any], clock: AgentClock, timeout_seconds: float) -> None:
    """Wait until a source receives bytes or the time is over, then poll all sources."""
    if len(sources) == 1:
        sources[0].poll(timeout_seconds)
        return
    idle = min([timeout_seconds, *(source.get_idle_seconds() for source in sources)])
    if idle > 0.0:
        numbers = [source.get_descriptor() for source in sources]
        open_ones = [number for number in numbers if number >= 0]
        if open_ones:
            select.select(open_ones, [], [], clock.to_machine(idle))
        else:
            clock.sleep(idle)
    for source in sources:
        source.poll(0.0)
