"""Observes the gang of one agent: the candidate for the next generation, and faults of sources.

``framework.agent`` defines the sources and their order. After the first published roster, no other
source is read.
"""

from typing import List, Optional, Union

from framework.agent.access import Access
from framework.agent.clock import AgentClock
from framework.agent.dns_source import ExpectedGang
from framework.agent.gang import (
    SOURCE_CONFIGMAP,
    Gang,
    SelectedRoster,
    get_own_configmap,
    is_framework_gone,
)
from framework.agent.gang_observer import GangObserver, open_sources
from framework.agent.health import Health
from framework.agent.permission import Permission
from rendezvous.core.selection import NoRoster, select_candidate
from rendezvous.core.target import Target


class AttemptObserver:
    """Observes the gang of one attempt. ``poll`` it in a loop, then ``select``."""

    def __init__(
        self,
        access: Optional[Access],
        clock: AgentClock,
        target: Target,
        expected: Optional[ExpectedGang] = None,
    ) -> None:
        """Observe the gang of ``target``; without access to the API server, by DNS only."""
        self._clock = clock
        self._target = target
        self._gang = Gang(
            namespace=target.namespace,
            framework=target.framework,
            configmap=target.configmap,
            configmap_uid=target.configmap_uid,
            expected=expected,
        )
        sources = open_sources(access, clock, self._gang, is_attempt_aware=True)
        self._sources = GangObserver(clock, self._gang, sources)
        self._has_published = False

    def poll(self, timeout_seconds: float) -> None:
        """Wait for news for about ``timeout_seconds`` at most (connecting may take longer)."""
        self._sources.poll(timeout_seconds, reads_framework=not self._has_published)

    def select(self) -> Union[SelectedRoster, NoRoster]:
        """Select the roster for the next decision."""
        candidate = select_candidate(
            self._sources.knowledge,
            self._gang,
            self._target.identity,
            self._clock.monotonic(),
            has_published=self._has_published,
        )
        if isinstance(candidate, SelectedRoster) and candidate.source == SOURCE_CONFIGMAP:
            self._has_published = True
        return candidate

    def get_scaler(self) -> str:
        """Return the stored request of a scaler in the ConfigMap of this attempt; "" for none."""
        configmap = get_own_configmap(self._sources.knowledge, self._gang)
        return "" if configmap is None else configmap.scaler

    def restarts_unpublished(self) -> bool:
        """Return whether the own role restarts in place in the spec, and no roster is published."""
        view = self._sources.knowledge.view
        role = self._target.identity.role
        return not self._has_published and view is not None and role in view.restarted

    def list_missing_rights(self) -> List[Permission]:
        """List the missing rights for which requests were refused."""
        return [right for right, _ in self._sources.list_missing_rights()]

    def find_permanent_fault(self) -> str:
        """Find a permanent fault: the Framework does not exist, or every source is denied."""
        knowledge, now = self._sources.knowledge, self._clock.monotonic()
        message = knowledge.framework_state.message
        if is_framework_gone(knowledge, self._gang, now):
            name = f"{self._target.namespace}/{self._target.framework}"
            return f"Framework {name} does not exist: {message}"
        if knowledge.is_denial_confirmed and self._gang.expected is None:
            return f"the API server denies every source: {message}"
        return ""

    def is_answered(self) -> bool:
        """Return whether any source is read now."""
        knowledge = self._sources.knowledge
        states = (knowledge.configmap_state, knowledge.framework_state, knowledge.dns_state)
        return any(state is not None and state.health is Health.HEALTHY for state in states)

    def close(self) -> None:
        """Close all connections."""
        self._sources.close()
