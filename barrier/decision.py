"""Pass, wait or fail: the barrier's decision, a pure function of what it has seen.

Called by ``waiting`` after everything that happens. Nothing here reads a clock, does I/O or logs.
All times are the agent's monotonic seconds.
"""

from typing import NamedTuple, TypeAlias

from barrier.addresses import find_fault
from barrier.config import Config, Identity
from framework.agent.exitcodes import ExitCode
from framework.agent.framework_roster import FrameworkView
from framework.agent.sources import AttemptConfigMap, SourceState
from framework.agent.watch import Health
from framework.api.roster import PHASE_COMPLETING, Missing, Progress, Roster

# A CRD that is being re-established answers 404 for some seconds: that is not "deleted".
GONE_SECONDS = 30.0
# RBAC rules of a new namespace may come some seconds after the Pod.
DENIED_SECONDS = 30.0

_UNANSWERED = (Health.FORBIDDEN, Health.UNAUTHORIZED, Health.NOT_FOUND)
# A roster read from the Framework has generation 0; both mean "from the gang's first moment".
_FIRST_GENERATION = 1


class FirstSight(NamedTuple):
    """When, and in which generation, this Pod first saw itself in a complete roster."""

    generation: int
    at: float


class Observation(NamedTuple):
    """Everything the barrier has seen."""

    started_at: float
    configmap: AttemptConfigMap | None
    configmap_state: SourceState
    view: FrameworkView | None
    framework_state: SourceState
    first_sight: FirstSight | None
    is_denial_confirmed: bool


class Wait(NamedTuple):
    """Not yet. ``wake_at`` is when time alone may change the decision."""

    reason: str
    message: str
    progress: Progress | None = None
    wake_at: float | None = None


class Pass(NamedTuple):
    """The gang is there. The roster's generation is 0 when the Framework told it."""

    roster: Roster


class Fail(NamedTuple):
    """It will not come about."""

    exit_code: ExitCode
    reason: str
    message: str
    progress: Progress | None = None


Decision: TypeAlias = Wait | Pass | Fail


def decide(observation: Observation, config: Config, now: float) -> Decision:
    """Decide what to do at ``now``."""
    verdict = _judge(observation, config, now)
    if isinstance(verdict, Pass):
        return verdict
    return (
        _fail_when_gone(observation, config, now)
        or _fail_when_denied(observation, config, now)
        or _fail_when_late(observation, config, verdict, now)
        or verdict
    )


def needs_framework(observation: Observation, config: Config, now: float) -> bool:
    """Tell whether the Framework should be read: to pass by it, or to learn whether it is gone."""
    if is_framework_trusted(observation, config, now):
        return True
    is_overdue = now - observation.started_at >= config.interval_seconds
    return is_overdue and get_own_configmap(observation, config) is None


def is_framework_trusted(observation: Observation, config: Config, now: float) -> bool:
    """Tell whether the barrier may pass by the Framework, because no roster can be had."""
    if config.identity is None:
        return True
    state = observation.configmap_state
    if state.health in _UNANSWERED:
        return True
    if state.health is Health.UNREACHABLE:
        return now - state.since >= config.interval_seconds
    configmap = get_own_configmap(observation, config)
    # Our controller marks the ConfigMap when it creates it; another never publishes a roster.
    return configmap is not None and not configmap.carries_roster


def get_own_configmap(observation: Observation, config: Config) -> AttemptConfigMap | None:
    """Return the ConfigMap if it is this attempt's own: its name is the same for all attempts."""
    configmap, identity = observation.configmap, config.identity
    if configmap is None or identity is None or configmap.uid != identity.configmap_uid:
        return None
    return configmap


def note_first_sight(observation: Observation, config: Config, now: float) -> FirstSight | None:
    """Remember the first complete roster that names this Pod."""
    if observation.first_sight is not None:
        return observation.first_sight
    roster = _select_roster(observation, config, now)
    if roster is None or not _is_complete(roster):
        return None
    if config.identity is not None and not _is_own(roster, config.identity):
        return None
    return FirstSight(roster.generation, now)


def is_denied_everywhere(observation: Observation, config: Config) -> bool:
    """Tell whether every source this barrier has answers 403."""
    if observation.framework_state.health is not Health.FORBIDDEN:
        return False
    return config.identity is None or observation.configmap_state.health is Health.FORBIDDEN


def get_denied_since(observation: Observation, config: Config) -> float:
    """Return since when every source answers 403."""
    if config.identity is None:
        return observation.framework_state.since
    return max(observation.framework_state.since, observation.configmap_state.since)


def list_missing(roster: Roster, reasons: tuple[Missing, ...]) -> tuple[Missing, ...]:
    """List the wanted Tasks that a roster lacks, with the reasons known."""
    known = {(m.role, m.index): m.reason for m in reasons}
    missing = []
    for role in roster.roles:
        present = {m.index for m in role.members} | {c.index for c in role.completed}
        present.update(role.absent)
        missing += [
            Missing(role.name, i, known.get((role.name, i), "it has no address yet"))
            for i in range(role.wanted + len(role.absent))
            if i not in present
        ]
    return tuple(missing)


def _judge(observation: Observation, config: Config, now: float) -> Wait | Pass:
    configmap = get_own_configmap(observation, config)
    if configmap is not None and configmap.is_terminating:
        return Wait("AttemptEnding", "this attempt is ending; its Pods will be deleted")
    roster = _select_roster(observation, config, now)
    if roster is None:
        return _wait_for_roster(observation, config, now)
    identity = config.identity
    if identity is not None and roster.instance_uid != identity.instance_uid:
        seen = roster.instance_uid or "none"
        return Wait("OtherAttempt", f"attempt {seen} is seen, not {identity.instance_uid}")
    if identity is not None and roster.phase == PHASE_COMPLETING:
        return Wait("AttemptEnding", "this attempt is ending; its Pods will be deleted")
    progress = _measure(roster, observation, config)
    if not _is_complete(roster):
        return Wait("GangIncomplete", "", progress)
    if identity is not None and not _is_own(roster, identity):
        message = f"{identity.role}/{identity.task_index} is not in it with this Pod yet"
        return Wait("NotInRoster", message, progress)
    fault = find_fault(roster)
    if fault:
        return Wait("BadRoster", fault, progress)
    return _wait_for_the_rest(roster, observation, config, progress, now) or Pass(roster)


def _wait_for_the_rest(
    roster: Roster, observation: Observation, config: Config, progress: Progress, now: float
) -> Wait | None:
    """A quorum is there; whoever belongs to the first generation gives the others some time."""
    if roster.ready >= roster.wanted:
        return None
    sight = observation.first_sight or FirstSight(roster.generation, now)
    ends_at = sight.at + config.quorum_grace_seconds
    if sight.generation > _FIRST_GENERATION or now >= ends_at:
        return None
    return Wait("QuorumGrace", "the quorum is there, the rest has some time", progress, ends_at)


def _wait_for_roster(observation: Observation, config: Config, now: float) -> Wait:
    name, state = f"ConfigMap {config.configmap}", observation.configmap_state
    is_framework_read = observation.framework_state.health is not Health.STARTING
    if is_framework_read and is_framework_trusted(observation, config, now):
        name, state = f"Framework {config.framework}", observation.framework_state
    if state.health not in {Health.HEALTHY, Health.STARTING}:
        return Wait(state.health.reason, f"{name} is {state.health.value}: {state.message}")
    configmap = get_own_configmap(observation, config)
    if configmap is None:
        if observation.configmap is not None:
            return Wait("OtherAttempt", f"ConfigMap {config.configmap} is of another attempt")
        return Wait("NothingSeen", f"{name} is not seen yet")
    if configmap.problem:
        return Wait("BadRoster", configmap.problem, configmap.progress)
    return Wait("GangIncomplete", "", configmap.progress)


def _select_roster(observation: Observation, config: Config, now: float) -> Roster | None:
    """Take the published roster; where there can be none, what the Framework tells."""
    is_fresh = observation.framework_state.health is Health.HEALTHY
    if observation.view is not None and is_fresh and is_framework_trusted(observation, config, now):
        return observation.view.roster
    configmap = get_own_configmap(observation, config)
    return None if configmap is None else configmap.roster


def _measure(roster: Roster, observation: Observation, config: Config) -> Progress:
    configmap = get_own_configmap(observation, config)
    reasons: tuple[Missing, ...] = ()
    if roster.generation == 0 and observation.view is not None:
        reasons = observation.view.missing
    elif configmap is not None and configmap.progress is not None:
        reasons = configmap.progress.missing
    return Progress(roster.ready, roster.wanted, list_missing(roster, reasons))


def _is_complete(roster: Roster) -> bool:
    # The controller says so, and the roster's own numbers must agree.
    return roster.complete and all(
        role.ready >= min(role.minimum, role.wanted) for role in roster.roles
    )


def _is_own(roster: Roster, identity: Identity) -> bool:
    if roster.instance_uid != identity.instance_uid:
        return False
    member = roster.find_member(identity.role, identity.task_index)
    return (
        member is not None
        and member.fingerprint == identity.fingerprint
        and member.attempt_id == identity.task_attempt_id
    )


def _fail_when_gone(observation: Observation, config: Config, now: float) -> Fail | None:
    state = observation.framework_state
    is_gone = state.health is Health.NOT_FOUND and now - state.since >= GONE_SECONDS
    if not is_gone or get_own_configmap(observation, config) is not None:
        return None
    message = f"Framework {config.namespace}/{config.framework} does not exist: {state.message}"
    return Fail(ExitCode.PERMANENT, "FrameworkNotFound", message)


def _fail_when_denied(observation: Observation, config: Config, now: float) -> Fail | None:
    if not observation.is_denial_confirmed or not is_denied_everywhere(observation, config):
        return None
    if now - get_denied_since(observation, config) < DENIED_SECONDS:
        return None
    message = f"the API server denies every source: {observation.framework_state.message}"
    return Fail(ExitCode.PERMANENT, "Forbidden", message)


def _fail_when_late(
    observation: Observation, config: Config, wait: Wait, now: float
) -> Fail | None:
    if now - observation.started_at < config.timeout_seconds:
        return None
    states = (observation.configmap_state, observation.framework_state)
    if any(state.health is Health.HEALTHY for state in states):
        message = f"not complete within {config.timeout_seconds} s"
        if wait.message:
            message += f": {wait.message}"
        return Fail(ExitCode.TRANSIENT_CONFLICT, "GangIncomplete", message, wait.progress)
    return Fail(ExitCode.UNKNOWN, wait.reason, wait.message, wait.progress)
