"""The sources, followed: what is known of the gang now, and what is wrong with the sources.

Called by ``agent``. The attempt's ConfigMap is watched; where it may not be read, or where its
controller publishes no roster, the Framework is read now and then. What is shown of it is decided
in ``selection``.
"""

from typing import List, Union

from framework.agent.access import Access
from framework.agent.clock import AgentClock
from framework.agent.connection import Connection
from framework.agent.permission import Permission, is_denied
from framework.agent.sources import ConfigMapSource, FrameworkSource
from framework.agent.watch import Health
from framework.api import constants
from rendezvous.selection import PUBLISHED, Sight, Wait, select_sight
from rendezvous.settings import Target

# A CRD or a rule that is being established answers 404 or 403 for some seconds.
SETTLED_SECONDS = 30.0
_UNREACHABLE_SECONDS = 10.0
_READ_SECONDS = 2.0
# Reading a large Framework costs the server: ten of 1000 Tasks a second are enough for it.
_SECONDS_PER_TASK = 0.01
_READ_MAX_SECONDS = 10.0
_UNANSWERED = (Health.FORBIDDEN, Health.UNAUTHORIZED, Health.NOT_FOUND)


class Follower:
    """Follows one gang. ``poll`` it in a loop, then ``look``."""

    def __init__(self, access: Access, clock: AgentClock, target: Target) -> None:
        """Follow the gang of ``target``."""
        self._clock = clock
        self._target = target
        self._configmaps = ConfigMapSource(access, clock, target.namespace, target.configmap)
        self._frameworks = FrameworkSource(
            access, clock, target.namespace, target.framework, is_attempt_aware=True
        )
        self._reviews = Connection(access, clock)
        self._next_read_at = 0.0
        self._next_review_at = 0.0
        self._is_denial_confirmed = False
        self._has_roster = False

    def poll(self, timeout_seconds: float) -> None:
        """Wait for news, at most about so long (connecting may take longer)."""
        now = self._clock.monotonic()
        if self._needs_framework():
            timeout_seconds = min(timeout_seconds, max(0.0, self._next_read_at - now))
        self._configmaps.poll(timeout_seconds)
        now = self._clock.monotonic()
        if self._needs_framework() and now >= self._next_read_at:
            self._read_framework()
        self._review_denial()

    def look(self) -> Union[Sight, Wait]:
        """Tell what is known now."""
        view = self._frameworks.view if self._needs_framework() else None
        target = self._target
        sight = select_sight(
            self._configmaps.configmap, view, target.identity, target.configmap_uid
        )
        if isinstance(sight, Sight) and sight.source == PUBLISHED:
            self._has_roster = True
        if isinstance(sight, Wait):
            state = self._frameworks.state if self._needs_framework() else self._configmaps.state
            if state.health not in {Health.HEALTHY, Health.STARTING}:
                return Wait(f"{state.health.value}: {state.message}")
        return sight

    def list_missing_rights(self) -> List[Permission]:
        """List the rights whose lack was met."""
        configmap_right, framework_right = self._list_rights()
        missing = []
        if self._configmaps.state.health is Health.FORBIDDEN:
            missing.append(configmap_right)
        if self._frameworks.state.health is Health.FORBIDDEN:
            missing.append(framework_right)
        return missing

    def find_permanent_fault(self) -> str:
        """Say what no waiting mends: the Framework is gone or everything is denied; "" if so."""
        states = (self._configmaps.state, self._frameworks.state)
        now = self._clock.monotonic()
        if now - max(state.since for state in states) < SETTLED_SECONDS:
            return ""
        if states[1].health is Health.NOT_FOUND and not self._has_own():
            name = f"{self._target.namespace}/{self._target.framework}"
            return f"Framework {name} does not exist: {states[1].message}"
        if self._is_denial_confirmed:
            return f"the API server denies every source: {states[1].message}"
        return ""

    def is_answered(self) -> bool:
        """Tell whether any source is read now."""
        states = (self._configmaps.state, self._frameworks.state)
        return any(state.health is Health.HEALTHY for state in states)

    def close(self) -> None:
        """Close all connections."""
        self._configmaps.close()
        self._frameworks.close()
        self._reviews.close()

    def _has_own(self) -> bool:
        configmap, uid = self._configmaps.configmap, self._target.configmap_uid
        return configmap is not None and (not uid or configmap.uid == uid)

    def _needs_framework(self) -> bool:
        """Tell whether no roster can be had now; once there was one, the last is kept instead."""
        if self._has_roster:
            return False
        state = self._configmaps.state
        if state.health in _UNANSWERED:
            return True
        if state.health is Health.UNREACHABLE:
            return self._clock.monotonic() - state.since >= _UNREACHABLE_SECONDS
        configmap = self._configmaps.configmap
        # Our controller marks the ConfigMap when it creates it; another never publishes a roster.
        return self._has_own() and configmap is not None and not configmap.carries_roster

    def _read_framework(self) -> None:
        self._frameworks.read()
        view = self._frameworks.view
        tasks = 0 if view is None else view.roster.wanted
        seconds = min(max(_READ_SECONDS, tasks * _SECONDS_PER_TASK), _READ_MAX_SECONDS)
        pause = self._clock.uniform(0.5, 1.5) * seconds + self._frameworks.retry_after_seconds
        self._next_read_at = self._clock.monotonic() + pause

    def _review_denial(self) -> None:
        """When every source is denied for long, ask the server whether that is what it means."""
        states = (self._configmaps.state, self._frameworks.state)
        if not all(state.health is Health.FORBIDDEN for state in states):
            self._is_denial_confirmed = False
            return
        now = self._clock.monotonic()
        is_settled = now - max(state.since for state in states) >= SETTLED_SECONDS
        if is_settled and now >= self._next_review_at:
            self._next_review_at = now + SETTLED_SECONDS
            answers = [is_denied(self._reviews, right) for right in self._list_rights()]
            self._is_denial_confirmed = all(answer is True for answer in answers)

    def _list_rights(self) -> "tuple[Permission, Permission]":
        target = self._target
        return (
            Permission("watch", "", "configmaps", target.namespace, target.configmap),
            Permission(
                "get",
                constants.GROUP,
                constants.FRAMEWORK_PLURAL,
                target.namespace,
                target.framework,
            ),
        )
