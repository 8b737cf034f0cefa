"""The decision of the barrier: Pass, Wait or Fail. Pure.

``decide`` takes these steps. The first that applies gives the result:

1. The attempt is ending: Wait.
2. No source has a roster of this attempt: Wait.
3. The roster is incomplete, lacks this Pod, or has an invalid value: Wait.
4. A quorum is complete and its grace time is not over: Wait.
5. A requirement is for an unknown role, or for all Tasks of a role of which one has ended: Fail. A
   requirement is not met: Wait.
6. Pass.

Then a Wait becomes a Fail if the roles wait for one another, the Framework does not exist, every
source is denied, or the timeout is over, in this order.

Invariants:

- A barrier with an identity passes only with a roster of its own attempt that contains its Pod; DNS
  is the exception, because it has neither attempts nor UIDs.
- A Pass has a complete roster whose values are valid.
- Equal arguments give an equal result; reasons and readiness have no influence on it.

Example: role ``worker`` has 3 Tasks and a quorum of 2. At second 5, the barrier of worker/0 sees
generation 1 with members 0 and 1: complete, so its grace time starts, and the result is Wait with
``wake_at`` 35. At second 20, generation 2 has all three members: Pass. Without it, the result is
Pass with two members at second 35.

All times are monotonic seconds of the agent. Rules: docs/design/agents.md, "Decision of the
barrier".
"""

from itertools import islice
from typing import NamedTuple, TypeAlias

from barrier.config import Config, Identity
from barrier.injector import find_fault
from barrier.requirements import find_ended, find_unknown_role, find_unmet
from framework.agent import gang
from framework.agent.exitcodes import ExitCode
from framework.agent.gang import (
    SOURCE_DNS,
    Assessment,
    Knowledge,
    SelectedRoster,
    get_own_configmap,
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
from framework.api.constants import READINESS_MAX_MISSING
from framework.api.gangreadiness import GangReadiness, Missing
from framework.api.roster import Roster

# Generation 1 is the first complete roster; a roster built from the Framework has generation 0.
_FIRST_GENERATION = 1


class GraceStart(NamedTuple):
    """When this Pod was first in a complete roster, and the generation of that roster."""

    generation: int
    at: float


class Observation(NamedTuple):
    """The input of a decision. ``cycle`` describes roles that wait for one another, or is ""."""

    knowledge: Knowledge
    grace_start: GraceStart | None = None
    reached: frozenset[Probe] = frozenset()
    cycle: str = ""


class Wait(NamedTuple):
    """The gang is not ready. ``wake_at`` or a result of ``probes`` may change the decision."""

    reason: str
    """The reason, in CamelCase."""
    message: str
    """The reason for users; "" if the readiness says it."""
    readiness: GangReadiness | None = None
    """Counts and missing Tasks."""
    wake_at: float | None = None
    """When time alone may change the decision."""
    probes: tuple[Probe, ...] = ()
    """The connections to try before the next decision."""
    grace_start: GraceStart | None = None
    """The grace start of the next observation. Once known, it stays in all further decisions."""


class Pass(NamedTuple):
    """The gang is complete. The roster has generation 0 if it is not from the ConfigMap."""

    roster: Roster
    source: str


class Fail(NamedTuple):
    """The barrier ends with an exit code other than 0."""

    exit_code: ExitCode
    reason: str
    message: str
    readiness: GangReadiness | None = None


Decision: TypeAlias = Wait | Pass | Fail


def decide(observation: Observation, config: Config, now: float) -> Decision:
    """Decide at the time ``now``."""
    result = _decide_without_failures(observation, config, now)
    if not isinstance(result, Wait):
        return result
    result = result._replace(grace_start=result.grace_start or observation.grace_start)
    knowledge = observation.knowledge
    return (
        _fail_if_circular(observation)
        or _fail_if_framework_absent(knowledge, config, now)
        or _fail_if_denied(knowledge, config, now)
        or _fail_if_timed_out(knowledge, config, result, now)
        or result
    )


def _decide_without_failures(observation: Observation, config: Config, now: float) -> Decision:
    knowledge, identity = observation.knowledge, config.identity
    configmap = get_own_configmap(knowledge, config.gang)
    if configmap is not None and configmap.is_terminating:
        return Wait("AttemptEnding", "this attempt is ending; its Pods will be deleted")
    selected = select_roster(knowledge, config.gang, now)
    if selected is None:
        return _wait_for_roster(knowledge, config, now)
    assessment = _assess(selected, config)
    if assessment.other_attempt:
        return Wait("OtherAttempt", assessment.other_attempt)
    if identity is not None and assessment.is_completing:
        return Wait("AttemptEnding", "this attempt is ending; its Pods will be deleted")
    readiness = _measure(selected, knowledge, config)
    if not assessment.is_complete:
        return Wait("GangIncomplete", "", readiness)
    if identity is not None and not _is_own(selected, assessment, identity):
        message = f"{identity.role}/{identity.task_index} is not in it with this Pod yet"
        return Wait("NotInRoster", message, readiness)
    roster = selected.roster
    start = observation.grace_start or GraceStart(roster.generation, now)
    result = (
        _wait_for_valid_values(roster, readiness)
        or _wait_for_other_tasks(roster, start, knowledge, config, readiness, now)
        or _check_requirements(roster, observation, config, readiness)
        or Pass(roster, selected.source)
    )
    return result._replace(grace_start=start) if isinstance(result, Wait) else result


def _wait_for_valid_values(roster: Roster, readiness: GangReadiness) -> Wait | None:
    fault = find_fault(roster)
    return Wait("BadRoster", fault, readiness) if fault else None


def _check_requirements(
    roster: Roster, observation: Observation, config: Config, readiness: GangReadiness
) -> Wait | Fail | None:
    if not config.requirements:
        return None
    unknown = find_unknown_role(roster, config.requirements)
    if unknown:
        message = f"${constants.BARRIER_REQUIRE_ENV}: {unknown}; correct it"
        return Fail(ExitCode.PERMANENT, "BadConfig", message, readiness)
    ended = find_ended(roster, config.requirements)
    if ended:
        return Fail(ExitCode.UNKNOWN, "MemberEnded", ended, readiness)
    unmet = find_unmet(roster, config.requirements, observation.reached, config.dns_name)
    if unmet is None:
        return None
    return Wait("RequirementUnmet", unmet.message, readiness, probes=unmet.probes)


def _wait_for_other_tasks(
    roster: Roster,
    start: GraceStart,
    knowledge: Knowledge,
    config: Config,
    readiness: GangReadiness,
    now: float,
) -> Wait | None:
    """Return a Wait while a complete quorum of the first generation waits for other Tasks.

    The wait ends at the timeout at the latest; then the quorum passes.
    """
    if roster.ready >= roster.wanted:
        return None
    times_out_at = knowledge.started_at + config.timeout_seconds
    ends_at = min(start.at + config.quorum_grace_seconds, times_out_at)
    if start.generation > _FIRST_GENERATION or now >= ends_at:
        return None
    return Wait(
        "QuorumGrace", "the quorum is complete; waiting for the other Tasks", readiness, ends_at
    )


def _wait_for_roster(knowledge: Knowledge, config: Config, now: float) -> Wait:
    name, state = f"ConfigMap {config.configmap}", knowledge.configmap_state
    is_framework_read = knowledge.framework_state.health is not Health.STARTING
    if is_framework_read and is_framework_trusted(knowledge, config.gang, now):
        name, state = f"Framework {config.framework}", knowledge.framework_state
    if state.health not in {Health.HEALTHY, Health.STARTING}:
        return Wait(state.health.reason, f"{name} is {state.health.value}: {state.message}")
    configmap = get_own_configmap(knowledge, config.gang)
    if configmap is None:
        if knowledge.configmap is not None:
            return Wait("OtherAttempt", f"ConfigMap {config.configmap} is of another attempt")
        return Wait("NothingSeen", f"{name} is not seen yet")
    if configmap.problem:
        return Wait("BadRoster", configmap.problem, configmap.readiness)
    return Wait("GangIncomplete", "", configmap.readiness)


def _assess(selected: SelectedRoster, config: Config) -> Assessment:
    own = config.identity
    identity = own and gang.Identity(own.role, own.task_index, own.pod_uid, own.instance_uid)
    return gang.assess(selected.roster, identity, selected.source)


def _measure(selected: SelectedRoster, knowledge: Knowledge, config: Config) -> GangReadiness:
    """Count the Tasks, and list the first missing ones with the reasons known."""
    listed = list_reasons(knowledge, config.gang, selected.source)
    reasons = {(missing.role, missing.index): missing.reason for missing in listed}
    missing = tuple(
        Missing(key.role, key.index, reasons.get((key.role, key.index), "it has no address yet"))
        for key in islice(gang.walk_missing(selected.roster), READINESS_MAX_MISSING)
    )
    return GangReadiness(selected.roster.ready, selected.roster.wanted, missing)


def _is_own(selected: SelectedRoster, assessment: Assessment, identity: Identity | None) -> bool:
    """Return whether this Pod's Task attempt is a member; a Pod without identity is in any gang."""
    if identity is None:
        return True
    member = assessment.own
    if selected.source == SOURCE_DNS:
        return member is not None  # DNS has neither attempts nor UIDs
    if selected.roster.instance_uid != identity.instance_uid:
        return False
    return member is not None and member.attempt_id == identity.task_attempt_id


def _fail_if_circular(observation: Observation) -> Fail | None:
    if not observation.cycle:
        return None
    message = f"${constants.BARRIER_REQUIRE_ENV}: {observation.cycle}"
    return Fail(ExitCode.PERMANENT, "BadConfig", message)


def _fail_if_framework_absent(knowledge: Knowledge, config: Config, now: float) -> Fail | None:
    if not is_framework_gone(knowledge, config.gang, now):
        return None
    name = f"{config.namespace}/{config.framework}"
    message = f"Framework {name} does not exist: {knowledge.framework_state.message}"
    return Fail(ExitCode.PERMANENT, "FrameworkNotFound", message)


def _fail_if_denied(knowledge: Knowledge, config: Config, now: float) -> Fail | None:
    is_confirmed = knowledge.is_denial_confirmed and is_denial_stable(knowledge, config.gang, now)
    if not is_confirmed or is_dns_trusted(knowledge, config.gang, now):
        return None
    message = f"the API server denies every source: {knowledge.framework_state.message}"
    return Fail(ExitCode.PERMANENT, "Forbidden", message)


def _fail_if_timed_out(knowledge: Knowledge, config: Config, wait: Wait, now: float) -> Fail | None:
    if now - knowledge.started_at < config.timeout_seconds:
        return None
    states = (knowledge.configmap_state, knowledge.framework_state, knowledge.dns_state)
    if any(state is not None and state.health is Health.HEALTHY for state in states):
        message = f"not complete within {config.timeout_seconds} s"
        if wait.message:
            message += f": {wait.message}"
        return Fail(ExitCode.TRANSIENT_CONFLICT, "GangIncomplete", message, wait.readiness)
    return Fail(ExitCode.UNKNOWN, wait.reason, wait.message, wait.readiness)
