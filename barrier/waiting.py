"""The loop of the barrier: observe and decide until the decision is Pass or Fail.

Each turn takes these steps, in one thread:

1. Poll the sources until they have a change, a line about the readiness is due, or time may change
   the decision (``wake_at``, timeout, next round of probes).
2. Report permissions that are missing, each once.
3. Decide (``decision``). Pass and Fail end the loop.
4. Print the readiness if it has changed or the interval is over.
5. Check once whether the roles wait for one another (``requirements.find_cycle``).
6. Connect for the read of the Framework that ``release`` needs.
7. Run the probes of the decision.

Invariants: every step has a timeout, so the decision is repeated at least every 5 s (1 s while the
ConfigMap is not healthy, because deadlines depend on that); SIGTERM ends the loop by an exception.

Example: a gang of 2 with one Pod. Turn 1 reads the ConfigMap with the readiness 1/2: Wait, a
line about it, and the connection for the release opens. After 3 s the watch delivers the complete
roster: turn 2 decides Pass.
"""

from barrier.config import AUTO_FRAMEWORK_JSON_TASKS, Config
from barrier.decision import (
    Decision,
    Fail,
    GraceStart,
    Observation,
    Pass,
    Wait,
    decide,
)
from barrier.release import Frameworks, wants_framework_json
from barrier.report import Reporter
from barrier.requirements import find_cycle
from framework.agent.clock import AgentClock
from framework.agent.gang import (
    STABLE_SECONDS,
    Knowledge,
    get_own_configmap,
    is_denied_everywhere,
    is_dns_trusted,
)
from framework.agent.gang_observer import GangObserver, Sources
from framework.agent.health import Health
from framework.agent.probes import Prober
from framework.api.gangreadiness import GangReadiness

_LONGEST_POLL_SECONDS = 5.0
# While the ConfigMap is not healthy, deadlines depend on its health.
_UNHEALTHY_POLL_SECONDS = 1.0
# Pause between two rounds of probes, and its minimum per probe.
_PROBE_PAUSE_SECONDS = 0.5
_PROBE_SECONDS_EACH = 0.002
_PROBE_ROUND_SECONDS = 2.0
_CYCLE_RETRY_SECONDS = 5.0


class Waiting:
    """The wait of one barrier."""

    def __init__(
        self, config: Config, clock: AgentClock, sources: Sources, reporter: Reporter
    ) -> None:
        """Prepare; the timeout starts now."""
        self._config = config
        self._clock = clock
        self._frameworks: Frameworks | None = sources.frameworks
        self._observer = GangObserver(clock, config.gang, sources)
        self._reporter = reporter
        self._started_at = clock.monotonic()
        self._grace_start: GraceStart | None = None
        self._prober = Prober(clock)
        self._prepared_for: GangReadiness | None = None
        self._cycle = ""
        self._next_cycle_check_at = self._started_at

    def wait(self) -> Pass | Fail:
        """Run the loop until the barrier passes or fails."""
        last: Wait | None = None
        while True:
            self._poll_sources(last)
            self._report_missing_rights()
            decision = self._decide()
            if not isinstance(decision, Wait):
                return decision
            self._reporter.show_wait(decision, self._clock.monotonic())
            self._check_cycle_when_due()
            self._prepare_release()
            self._probe(decision)
            last = decision

    def _decide(self) -> Decision:
        observation = Observation(
            knowledge=self._observer.knowledge,
            grace_start=self._grace_start,
            reached=frozenset(self._prober.reached),
            cycle=self._cycle,
        )
        decision = decide(observation, self._config, self._clock.monotonic())
        if isinstance(decision, Wait):
            self._grace_start = decision.grace_start
        return decision

    def _poll_sources(self, last: Wait | None) -> None:
        """Poll the sources, at most until time may change the decision or a line is due."""
        now = self._clock.monotonic()
        is_healthy = _is_configmap_healthy(self._observer.knowledge, self._config)
        ends = [now + (_LONGEST_POLL_SECONDS if is_healthy else _UNHEALTHY_POLL_SECONDS)]
        ends.append(self._started_at + self._config.timeout_seconds)
        wake_at = None if last is None else last.wake_at
        ends += [end for end in (wake_at, self._reporter.next_line_at) if end and end > now]
        if last is not None and last.probes:
            pause = max(_PROBE_PAUSE_SECONDS, len(last.probes) * _PROBE_SECONDS_EACH)
            ends.append(now + self._clock.uniform(0.5, 1.0) * pause)
        self._observer.poll(max(0.0, min(ends) - now))

    def _probe(self, wait: Wait) -> None:
        if wait.probes:
            self._prober.try_once(wait.probes, _PROBE_ROUND_SECONDS)

    def _prepare_release(self) -> None:
        """Connect for the read of the Framework after the Pass.

        kube-apiserver closes an unused connection after 32 s. A small gang therefore connects again
        at each change of its readiness; for a large gang that is too expensive for the server.
        """
        configmap = get_own_configmap(self._observer.knowledge, self._config.gang)
        readiness = None if configmap is None else configmap.readiness
        before, frameworks = self._prepared_for, self._frameworks
        if frameworks is None or readiness is None or readiness == before:
            return
        self._prepared_for = readiness
        is_due = before is None or readiness.total <= AUTO_FRAMEWORK_JSON_TASKS
        if is_due and wants_framework_json(self._config, readiness.total, is_published=True):
            frameworks.prepare()

    def _check_cycle_when_due(self) -> None:
        """Check once whether other roles wait for the role of this Pod."""
        config = self._config
        needs_it = any(requirement.level.needs_running_pods for requirement in config.requirements)
        if not needs_it or self._clock.monotonic() < self._next_cycle_check_at:
            return
        identity, frameworks = config.identity, self._frameworks
        if identity is None or frameworks is None:
            self._next_cycle_check_at = float("inf")
            return
        if frameworks.framework is None:
            frameworks.read()
        if frameworks.framework is not None:
            self._cycle = find_cycle(frameworks.framework, identity.role, config.requirements)
            self._next_cycle_check_at = float("inf")
        elif frameworks.state.health is Health.FORBIDDEN:
            self._next_cycle_check_at = float("inf")
            self._reporter.say(
                "whether other roles wait for this one cannot be checked: the Framework may not "
                "be read",
                "warning",
            )
        else:
            self._next_cycle_check_at = self._clock.monotonic() + _CYCLE_RETRY_SECONDS

    def _report_missing_rights(self) -> None:
        for right, consequence in self._observer.list_missing_rights():
            self._reporter.say_once(f"{right.describe_rule()} ({consequence})", "warning")
        knowledge, gang = self._observer.knowledge, self._config.gang
        if is_dns_trusted(knowledge, gang, self._clock.monotonic()):
            self._reporter.say_once(
                "DNS is the source: it knows no attempts, so an address may be that of a Pod of an "
                "earlier attempt",
                "warning",
            )
        elif is_denied_everywhere(knowledge, gang):
            self._reporter.say_once(
                f"every source is denied; this ends with exit 210 after {STABLE_SECONDS:.0f} s "
                "unless a right above is granted",
                "error",
            )


def _is_configmap_healthy(knowledge: Knowledge, config: Config) -> bool:
    has_roster_to_come = get_own_configmap(knowledge, config.gang) is not None
    return has_roster_to_come and knowledge.configmap_state.health is Health.HEALTHY
