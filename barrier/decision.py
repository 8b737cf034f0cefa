"""Pass, wait or fail: the barrier's decision, a pure function of what it has seen.

Called by ``waiting`` after everything that happens; which source is believed is decided in
``framework.agent.gang``. Nothing here reads a clock, does I/O or logs.
Rules: docs/design/agents.md, "Decision of the barrier".
All times are the agent's monotonic seconds.
"""

from typing import NamedTuple, TypeAlias

from barrier.addresses import find_fault
from barrier.config import Config, Identity
from barrier.requirements import find_unknown_role, find_unmet
from framework.agent.exitcodes import ExitCode
from framework.agent.gang import (
    SOURCE_DNS,
    Knowledge,
    SelectedRoster,
    explain_other_attempt,
    find_own_member,
    get_own_configmap,
    is_complete,
    is_denial_stable,
    is_dns_trusted,
    is_framework_gone,
    is_framework_trusted,
    list_reasons,
    select_roster,
)
from framework.agent.health import Health
from framework.agent.probes import Probe
from framework.api import constants
from framework.api.roster import PHASE_COMPLETING, Missing, Progress, Roster

# A roster read from the Framework has generation 0; both mean "from the gang's first moment".
_FIRST_GENERATION = 1


class GraceStart(NamedTuple):
    """When, and in which generation, this Pod first saw itself in a complete roster."""

    generation: int
    at: float


class Observation(NamedTuple):
    """Everything the barrier has seen. ``cycle`` says which roles would wait for one another."""

    knowledge: Knowledge
    grace_start: GraceStart | None = None
    reached: frozenset[Probe] = frozenset()
    cycle: str = ""


class Wait(NamedTuple):
    """Not yet. ``wake_at`` is when time alone may change the decision; ``probes`` may, too."""

    reason: str
    message: str
    progress: Progress | None = None
    wake_at: float | None = None
    probes: tuple[Probe, ...] = ()


class Pass(NamedTuple):
    """The gang is there. The roster's generation is 0 where no ConfigMap told it."""

    roster: Roster
    source: str


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
    if not isinstance(verdict, Wait):
        return verdict
    knowledge = observation.knowledge
    return (
        _fail_when_circular(observation)
        or _fail_when_gone(knowledge, config, now)
        or _fail_when_denied(knowledge, config, now)
        or _fail_when_late(knowledge, config, verdict, now)
        or verdict
    )


def find_grace_start(observation: Observation, config: Config, now: float) -> GraceStart | None:
    """Remember the first complete roster that names this Pod."""
    if observation.grace_start is not None:
        return observation.grace_start
    selected = select_roster(observation.knowledge, config.gang, now)
    if selected is None or not is_complete(selected.roster):
        return None
    if config.identity is not None and not _is_own(selected, config.identity):
        return None
    return GraceStart(selected.roster.generation, now)


def list_missing(roster: Roster, reasons: tuple[Missing, ...]) -> tuple[Missing, ...]:
    """List the wanted Tasks that a roster lacks, with the reasons known."""
    known = {(m.role, m.index): m.reason for m in reasons}
    missing = []
    for role in roster.roles:
        if role.ready >= role.wanted:
            continue
        present = {m.index for m in role.members} | {c.index for c in role.completed}
        present.update(role.absent)
        missing += [
            Missing(role.name, i, known.get((role.name, i), "it has no address yet"))
            for i in range(role.wanted + len(role.absent))
            if i not in present
        ]
    return tuple(missing)


def _judge(observation: Observation, config: Config, now: float) -> Decision:
    knowledge, identity = observation.knowledge, config.identity
    configmap = get_own_configmap(knowledge, config.gang)
    if configmap is not None and configmap.is_terminating:
        return Wait("AttemptEnding", "this attempt is ending; its Pods will be deleted")
    selected = select_roster(knowledge, config.gang, now)
    if selected is None:
        return _wait_for_roster(knowledge, config, now)
    if identity is not None and selected.source != SOURCE_DNS:
        other = explain_other_attempt(selected.roster, identity.instance_uid)
        if other:
            return Wait("OtherAttempt", other)
        if selected.roster.phase == PHASE_COMPLETING:
            return Wait("AttemptEnding", "this attempt is ending; its Pods will be deleted")
    progress = _measure(selected, knowledge, config)
    if not is_complete(selected.roster):
        return Wait("GangIncomplete", "", progress)
    if identity is not None and not _is_own(selected, identity):
        message = f"{identity.role}/{identity.task_index} is not in it with this Pod yet"
        return Wait("NotInRoster", message, progress)
    fault = find_fault(selected.roster)
    if fault:
        return Wait("BadRoster", fault, progress)
    return (
        _wait_for_the_rest(selected.roster, observation, config, progress, now)
        or _check_requirements(selected.roster, observation, config, progress)
        or Pass(selected.roster, selected.source)
    )


def _check_requirements(
    roster: Roster, observation: Observation, config: Config, progress: Progress
) -> Wait | Fail | None:
    if not config.requirements:
        return None
    unknown = find_unknown_role(roster, config.requirements)
    if unknown:
        message = f"${constants.BARRIER_REQUIRE_ENV}: {unknown}; correct it"
        return Fail(ExitCode.PERMANENT, "BadConfig", message, progress)
    unmet = find_unmet(roster, config.requirements, observation.reached, config.dns_name)
    if unmet is None:
        return None
    return Wait("RequirementUnmet", unmet.message, progress, probes=unmet.probes)


def _wait_for_the_rest(
    roster: Roster, observation: Observation, config: Config, progress: Progress, now: float
) -> Wait | None:
    """A quorum is there; whoever belongs to the first generation gives the others some time.

    Not more than is left: at the timeout a quorum is a gang, too.
    """
    if roster.ready >= roster.wanted:
        return None
    sight = observation.grace_start or GraceStart(roster.generation, now)
    times_out_at = observation.knowledge.started_at + config.timeout_seconds
    ends_at = min(sight.at + config.quorum_grace_seconds, times_out_at)
    if sight.generation > _FIRST_GENERATION or now >= ends_at:
        return None
    return Wait("QuorumGrace", "the quorum is there, the rest has some time", progress, ends_at)


def _wait_for_roster(knowledge: Knowledge, config: Config, now: float) -> Wait:
    gang = config.gang
    name, state = f"ConfigMap {config.configmap}", knowledge.configmap_state
    is_framework_read = knowledge.framework_state.health is not Health.STARTING
    if is_framework_read and is_framework_trusted(knowledge, gang, now):
        name, state = f"Framework {config.framework}", knowledge.framework_state
    if state.health not in {Health.HEALTHY, Health.STARTING}:
        return Wait(state.health.reason, f"{name} is {state.health.value}: {state.message}")
    configmap = get_own_configmap(knowledge, gang)
    if configmap is None:
        if knowledge.configmap is not None:
            return Wait("OtherAttempt", f"ConfigMap {config.configmap} is of another attempt")
        return Wait("NothingSeen", f"{name} is not seen yet")
    if configmap.problem:
        return Wait("BadRoster", configmap.problem, configmap.progress)
    return Wait("GangIncomplete", "", configmap.progress)


def _measure(selected: SelectedRoster, knowledge: Knowledge, config: Config) -> Progress:
    roster = selected.roster
    reasons = list_reasons(knowledge, config.gang, selected.source)
    return Progress(roster.ready, roster.wanted, list_missing(roster, reasons))


def _is_own(selected: SelectedRoster, identity: Identity) -> bool:
    member = find_own_member(selected.roster, identity.role, identity.task_index, identity.pod_uid)
    if selected.source == SOURCE_DNS:
        return member is not None  # DNS knows neither attempts nor UIDs
    if selected.roster.instance_uid != identity.instance_uid:
        return False
    return member is not None and member.attempt_id == identity.task_attempt_id


def _fail_when_circular(observation: Observation) -> Fail | None:
    if not observation.cycle:
        return None
    message = f"${constants.BARRIER_REQUIRE_ENV}: {observation.cycle}"
    return Fail(ExitCode.PERMANENT, "BadConfig", message)


def _fail_when_gone(knowledge: Knowledge, config: Config, now: float) -> Fail | None:
    if not is_framework_gone(knowledge, config.gang, now):
        return None
    name = f"{config.namespace}/{config.framework}"
    message = f"Framework {name} does not exist: {knowledge.framework_state.message}"
    return Fail(ExitCode.PERMANENT, "FrameworkNotFound", message)


def _fail_when_denied(knowledge: Knowledge, config: Config, now: float) -> Fail | None:
    is_meant = knowledge.is_denial_confirmed and is_denial_stable(knowledge, config.gang, now)
    if not is_meant or is_dns_trusted(knowledge, config.gang, now):
        return None
    message = f"the API server denies every source: {knowledge.framework_state.message}"
    return Fail(ExitCode.PERMANENT, "Forbidden", message)


def _fail_when_late(knowledge: Knowledge, config: Config, wait: Wait, now: float) -> Fail | None:
    if now - knowledge.started_at < config.timeout_seconds:
        return None
    states = (knowledge.configmap_state, knowledge.framework_state, knowledge.dns_state)
    if any(state is not None and state.health is Health.HEALTHY for state in states):
        message = f"not complete within {config.timeout_seconds} s"
        if wait.message:
            message += f": {wait.message}"
        return Fail(ExitCode.TRANSIENT_CONFLICT, "GangIncomplete", message, wait.progress)
    return Fail(ExitCode.UNKNOWN, wait.reason, wait.message, wait.progress)
