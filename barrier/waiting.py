"""The wait: watch, read, decide, report, until the decision is no longer to wait.

Called by ``app``. One thread, no callbacks: everything that takes time is bounded, and SIGTERM
ends it by an exception. What is decided is in ``decision``; what is done after, in ``release``.
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
    find_grace_start,
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
from framework.api.roster import Progress

_LONGEST_POLL_SECONDS = 5.0
# While something is wrong, deadlines that depend on it are looked at this often.
_UNHEALTHY_POLL_SECONDS = 1.0
# Between two rounds of probes, and at least this long for each of them.
_PROBE_PAUSE_SECONDS = 0.5
_PROBE_SECONDS_EACH = 0.002
_PROBE_ROUND_SECONDS = 2.0
_CYCLE_RETRY_SECONDS = 5.0


class Waiting:
    """The wait of one barrier."""

    def __init__(
        self, config: Config, clock: AgentClock, sources: Sources, reporter: Reporter
    ) -> None:
        """Wait on the given sources; time runs from here."""
        self._config = config
        self._clock = clock
        self._frameworks: Frameworks | None = sources.frameworks
        self._observer = GangObserver(clock, config.gang, sources)
        self._reporter = reporter
        self._started_at = clock.monotonic()
        self._first_sight: GraceStart | None = None
        self._prober = Prober(clock)
        self._prepared_for: Progress | None = None
        self._cycle = ""
        self._next_cycle_check_at = self._started_at

    def wait(self) -> Pass | Fail:
        """Wait until the barrier passes or fails."""
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
        now, observation = self._clock.monotonic(), self._observe()
        self._first_sight = find_grace_start(observation, self._config, now)
        return decide(observation._replace(grace_start=self._first_sight), self._config, now)

    def _observe(self) -> Observation:
        return Observation(
            knowledge=self._observer.knowledge,
            grace_start=self._first_sight,
            reached=frozenset(self._prober.reached),
            cycle=self._cycle,
        )

    def _poll_sources(self, last: Wait | None) -> None:
        """Wait for news, no longer than until time alone may change something."""
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
        """While there is time, connect for what is read after the release.

        A kube-apiserver closes after 32 s what was never used, so small gangs connect anew as they
        come nearer to being complete; for large ones that would cost the server too much.
        """
        configmap = get_own_configmap(self._observer.knowledge, self._config.gang)
        progress = None if configmap is None else configmap.progress
        before, frameworks = self._prepared_for, self._frameworks
        if frameworks is None or progress is None or progress == before:
            return
        self._prepared_for = progress
        is_due = before is None or progress.total <= AUTO_FRAMEWORK_JSON_TASKS
        if is_due and wants_framework_json(self._config, progress.total, is_published=True):
            frameworks.prepare()

    def _check_cycle_when_due(self) -> None:
        """Look once whether the other roles' barriers wait for this Pod's role, too."""
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
                "DNS is believed: it knows no attempts, so an address may be that of a Pod of the "
                "attempt before",
                "warning",
            )
        elif is_denied_everywhere(knowledge, gang):
            self._reporter.say_once(
                f"every source is denied; this ends with exit 210 after {STABLE_SECONDS:.0f} s "
                "unless a right above is given",
                "error",
            )


def _is_configmap_healthy(knowledge: Knowledge, config: Config) -> bool:
    has_roster_to_come = get_own_configmap(knowledge, config.gang) is not None
    return has_roster_to_come and knowledge.configmap_state.health is Health.HEALTHY
