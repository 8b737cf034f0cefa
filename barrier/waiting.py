"""The wait: watch, read, decide, report, until the decision is no longer to wait.

Called by ``app``. One thread, no callbacks: everything that takes time is bounded, and SIGTERM
ends it by an exception. What is decided is in ``decision``; what is done after, in ``release``.
"""

from typing import Protocol

from barrier.config import Config
from barrier.decision import (
    DENIED_SECONDS,
    Decision,
    Fail,
    FirstSight,
    Observation,
    Pass,
    Wait,
    decide,
    get_denied_since,
    get_own_configmap,
    is_denied_everywhere,
    needs_framework,
    note_first_sight,
)
from barrier.report import Reporter
from framework.agent.clock import AgentClock
from framework.agent.framework_roster import FrameworkView
from framework.agent.permission import Permission
from framework.agent.sources import AttemptConfigMap, SourceState
from framework.agent.watch import Health
from framework.api import constants

# The share of the check interval after which the Framework is read again.
_READS_PER_INTERVAL = 5.0
# Reading a large Framework costs the server: ten of 1000 Tasks a second are enough for it.
_SECONDS_PER_TASK = 0.01
_LONGEST_LOOK_SECONDS = 5.0
# While something is wrong, deadlines that depend on it are looked at this often.
_ANXIOUS_LOOK_SECONDS = 1.0


class ConfigMaps(Protocol):
    """The attempt's ConfigMap, as ``framework.agent.sources.ConfigMapSource`` gives it."""

    configmap: AttemptConfigMap | None
    state: SourceState

    def poll(self, timeout_seconds: float) -> None:
        """Wait for news."""
        ...


class Frameworks(Protocol):
    """The Framework, as ``framework.agent.sources.FrameworkSource`` gives it."""

    view: FrameworkView | None
    state: SourceState
    retry_after_seconds: float

    def read(self, *, is_cached: bool = True) -> None:
        """Read it once."""
        ...


class Reviews(Protocol):
    """Asks whether rights are really missing."""

    def is_denied(self, permission: Permission) -> bool | None:
        """Ask; None if there is no answer now."""
        ...


def build_permissions(config: Config) -> tuple[Permission, Permission]:
    """Name the two rights of which one is enough: (watch the ConfigMap, get the Framework)."""
    return (
        Permission("watch", "", "configmaps", config.namespace, config.configmap),
        Permission(
            "get",
            constants.GROUP,
            constants.FRAMEWORK_PLURAL,
            config.namespace,
            config.framework,
        ),
    )


class Waiting:
    """The wait of one barrier."""

    def __init__(
        self,
        config: Config,
        clock: AgentClock,
        configmaps: ConfigMaps,
        frameworks: Frameworks,
        reviews: Reviews,
        reporter: Reporter,
    ) -> None:
        """Wait on the given sources; time runs from here."""
        self._config = config
        self._clock = clock
        self._configmaps = configmaps
        self._frameworks = frameworks
        self._reviews = reviews
        self._reporter = reporter
        self._started_at = clock.monotonic()
        self._first_sight: FirstSight | None = None
        self._next_read_at = self._started_at
        self._next_review_at = 0.0
        self._is_denial_confirmed = False
        self._told: set[str] = set()

    def wait(self) -> Pass | Fail:
        """Wait until the barrier passes or fails."""
        wake_at = None
        while True:
            self._look(wake_at)
            self._read_framework_when_due()
            self._tell_missing_rights()
            self._review_denial()
            decision = self._decide()
            if not isinstance(decision, Wait):
                return decision
            self._reporter.show_wait(decision, self._clock.monotonic())
            wake_at = decision.wake_at

    def _decide(self) -> Decision:
        now = self._clock.monotonic()
        self._first_sight = note_first_sight(self._observe(), self._config, now)
        return decide(self._observe(), self._config, now)

    def _observe(self) -> Observation:
        return Observation(
            started_at=self._started_at,
            configmap=self._configmaps.configmap,
            configmap_state=self._configmaps.state,
            view=self._frameworks.view,
            framework_state=self._frameworks.state,
            first_sight=self._first_sight,
            is_denial_confirmed=self._is_denial_confirmed,
        )

    def _look(self, wake_at: float | None) -> None:
        """Let the ConfigMap's watch wait for news, or sleep where it is not used."""
        now = self._clock.monotonic()
        longest = _LONGEST_LOOK_SECONDS if self._is_calm() else _ANXIOUS_LOOK_SECONDS
        ends = [now + longest, self._started_at + self._config.timeout_seconds]
        ends += [end for end in (wake_at, self._reporter.next_line_at) if end and end > now]
        if needs_framework(self._observe(), self._config, now):
            ends.append(self._next_read_at)
        seconds = max(0.0, min(ends) - now)
        if self._config.identity is None:
            self._clock.sleep(seconds)
        else:
            self._configmaps.poll(seconds)

    def _is_calm(self) -> bool:
        observation = self._observe()
        has_roster_to_come = get_own_configmap(observation, self._config) is not None
        return has_roster_to_come and self._configmaps.state.health is Health.HEALTHY

    def _read_framework_when_due(self) -> None:
        now = self._clock.monotonic()
        if now < self._next_read_at or not needs_framework(self._observe(), self._config, now):
            return
        self._frameworks.read()
        view = self._frameworks.view
        tasks = 0 if view is None else view.roster.wanted
        interval = float(self._config.interval_seconds)
        seconds = min(max(interval / _READS_PER_INTERVAL, tasks * _SECONDS_PER_TASK), interval)
        pause = self._clock.uniform(0.5, 1.5) * seconds + self._frameworks.retry_after_seconds
        self._next_read_at = self._clock.monotonic() + pause

    def _review_denial(self) -> None:
        """When every source is denied for long, ask the server whether that is what it means."""
        now = self._clock.monotonic()
        observation = self._observe()
        if not is_denied_everywhere(observation, self._config):
            self._is_denial_confirmed = False
            return
        is_due = now - get_denied_since(observation, self._config) >= DENIED_SECONDS
        if not is_due or now < self._next_review_at:
            return
        self._next_review_at = now + DENIED_SECONDS
        configmap_right, framework_right = build_permissions(self._config)
        needed = [framework_right]
        if self._config.identity is not None:
            needed.append(configmap_right)
        self._is_denial_confirmed = all(self._reviews.is_denied(p) is True for p in needed)

    def _tell_missing_rights(self) -> None:
        configmap_right, framework_right = build_permissions(self._config)
        if self._configmaps.state.health is Health.FORBIDDEN:
            consequence = "the Framework is read instead, which is slower and costs the server more"
            self._tell_once(configmap_right, consequence)
        if self._frameworks.state.health is Health.FORBIDDEN:
            self._tell_once(framework_right, "there is nothing else to read")
        if is_denied_everywhere(self._observe(), self._config) and "all" not in self._told:
            self._told.add("all")
            self._reporter.say(
                f"every source is denied; this ends with exit 210 after {DENIED_SECONDS:.0f} s "
                "unless a right above is given",
                "error",
            )

    def _tell_once(self, permission: Permission, consequence: str) -> None:
        if permission.plural not in self._told:
            self._told.add(permission.plural)
            self._reporter.say(f"{permission.describe_rule()} ({consequence})", "warning")
