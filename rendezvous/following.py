"""The gang of one agent, followed: what is shown next, and what is wrong with the sources.

Called by ``agent``. The sources and their order are ``framework.agent``'s. Once there was a
published roster nothing else is read: the last good one is kept while the API is away.
"""

from typing import List, Optional, Union

from framework.agent.access import Access
from framework.agent.clock import AgentClock
from framework.agent.dns_source import ExpectedGang
from framework.agent.gang import (
    SOURCE_CONFIGMAP,
    SOURCE_DNS,
    SOURCE_FRAMEWORK,
    Gang,
    Knowledge,
    is_framework_gone,
    is_framework_trusted,
    select_roster,
)
from framework.agent.gang_observer import GangObserver, open_sources
from framework.agent.health import Health
from framework.agent.permission import Permission
from rendezvous.core.selection import Sight, Wait, select_sight
from rendezvous.core.target import Target


class Follower:
    """Follows one gang. ``poll`` it in a loop, then ``look``."""

    def __init__(
        self,
        access: Optional[Access],
        clock: AgentClock,
        target: Target,
        expected: Optional[ExpectedGang] = None,
    ) -> None:
        """Follow the gang of ``target``; without an access to the API server by DNS alone."""
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
        self._has_roster = False

    def poll(self, timeout_seconds: float) -> None:
        """Wait for news, at most about so long (connecting may take longer)."""
        self._sources.poll(timeout_seconds, reads_framework=not self._has_roster)

    def look(self) -> Union[Sight, Wait]:
        """Tell what is known now."""
        knowledge, now = self._sources.knowledge, self._clock.monotonic()
        told = None if self._has_roster else select_roster(knowledge, self._gang, now)
        if told is not None and told.source == SOURCE_DNS:
            return Sight(told.roster, SOURCE_DNS)
        target = self._target
        view = knowledge.view if told is not None and told.source == SOURCE_FRAMEWORK else None
        sight = select_sight(knowledge.configmap, view, target.identity, target.configmap_uid)
        if isinstance(sight, Wait):
            return self._explain(sight, knowledge, now)
        if sight.source == SOURCE_CONFIGMAP:
            self._has_roster = True
        return sight

    def list_missing_rights(self) -> List[Permission]:
        """List the rights whose lack was met."""
        return [right for right, _ in self._sources.list_missing_rights()]

    def find_permanent_fault(self) -> str:
        """Say what no waiting mends: the Framework is gone or everything is denied; "" if so."""
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

    def _explain(self, wait: Wait, knowledge: Knowledge, now: float) -> Wait:
        """Say what is wrong with the source that should have told, if anything is."""
        is_trusted = not self._has_roster and is_framework_trusted(knowledge, self._gang, now)
        state = knowledge.framework_state if is_trusted else knowledge.configmap_state
        if state.health in {Health.HEALTHY, Health.STARTING}:
            return wait
        return Wait(f"{state.health.value}: {state.message}")
