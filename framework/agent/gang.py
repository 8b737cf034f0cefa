"""Which source of a gang an agent uses, and whether its roster is for this Pod. Pure.

The order of the sources:

1. The attempt ConfigMap.
2. The Framework, if the ConfigMap is denied, not found, unreachable for some time, or never gets a
   roster.
3. DNS, if the Framework is denied or unreachable too, and ``BARRIER_EXPECT`` describes the gang.

Invariants: a source that is used later in this order is used only while the earlier ones cannot be;
a ConfigMap of another attempt is never used.

Example: the Role of a Pod lacks ``watch configmaps``. The ConfigMap answers 403, so
``is_framework_trusted`` is true and ``select_roster`` returns the roster built from the Framework.
After the Role is corrected, the ConfigMap answers, and ``select_roster`` returns its roster.

All times are monotonic seconds of the agent. Rules: docs/design/agents.md, "Choice of the source"
and "Own attempt".
"""

from typing import Dict, Iterator, NamedTuple, Optional, Tuple

from framework.agent.dns_source import ExpectedGang
from framework.agent.framework_roster import FrameworkView
from framework.agent.health import Health, SourceState
from framework.agent.permission import Permission
from framework.agent.sources import AttemptConfigMap
from framework.api import constants
from framework.api.gangreadiness import Missing
from framework.api.naming import TaskKey
from framework.api.roster import PHASE_COMPLETING, Leaving, Member, Roster, fingerprint_uid

# While a CRD or a Role is being created, the API server answers 404 or 403 for some seconds.
STABLE_SECONDS = 30.0

# The source of a roster.
SOURCE_CONFIGMAP = "configmap"
SOURCE_FRAMEWORK = "framework"
SOURCE_DNS = "dns"

_UNANSWERED = (Health.FORBIDDEN, Health.UNAUTHORIZED, Health.NOT_FOUND)
_DENIED = (Health.FORBIDDEN, Health.UNAUTHORIZED)


class Gang(NamedTuple):
    """The gang of an agent."""

    namespace: str
    """Namespace of the Framework."""
    framework: str
    """Name of the Framework."""
    configmap: str
    """Name of the attempt ConfigMap; "" if the attempt is unknown and none is watched."""
    configmap_uid: str
    """UID of the attempt ConfigMap; "" accepts every UID."""
    expected: Optional[ExpectedGang] = None
    """The gang to look up in DNS; None if DNS is not a source."""
    fallback_seconds: float = 10.0
    """For how long a source is unreachable before the next source is used."""


class Knowledge(NamedTuple):
    """The newest result of every source, and the health of each."""

    started_at: float
    """Start of the observation."""
    configmap: Optional[AttemptConfigMap]
    """The watched ConfigMap, of any attempt; None if it does not exist or was not read yet."""
    configmap_state: SourceState
    """Health of the watch of the ConfigMap."""
    view: Optional[FrameworkView]
    """The Framework as it was read last."""
    framework_state: SourceState
    """Health of the reads of the Framework."""
    dns_view: Optional[FrameworkView] = None
    """The newest result of DNS."""
    dns_state: Optional[SourceState] = None
    """Health of the DNS source; None if DNS is not a source."""
    is_denial_confirmed: bool = False
    """Whether SelfSubjectAccessReviews confirm that every source is denied."""


class SelectedRoster(NamedTuple):
    """A roster and its source."""

    roster: Roster
    source: str


class Identity(NamedTuple):
    """The identity of a Pod. A UID is "" if it is unknown."""

    role: str
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not used
    pod_uid: str = ""
    instance_uid: str = ""


class Assessment(NamedTuple):
    """The facts of a roster that decisions need, about the gang and about this Pod."""

    other_attempt: str
    """The attempt of the roster, as a message, if it is not that of the Pod; otherwise ""."""
    is_complete: bool
    """Whether the roster is marked complete, and its numbers agree."""
    is_completing: bool
    """Whether the attempt is ending."""
    own: Optional[Member]
    """This Pod as a member; UIDs are compared if both sides have them."""
    leaving: Optional[Leaving]
    """This Pod as a Task that drains."""


def get_own_configmap(knowledge: Knowledge, gang: Gang) -> Optional[AttemptConfigMap]:
    """Return the ConfigMap if it is of this attempt. All attempts use the same name."""
    configmap = knowledge.configmap
    if configmap is None or not gang.configmap:
        return None
    if gang.configmap_uid and configmap.uid != gang.configmap_uid:
        return None
    return configmap


def is_framework_trusted(knowledge: Knowledge, gang: Gang, now: float) -> bool:
    """Return whether the Framework is used, because the ConfigMap gives no roster."""
    if not gang.configmap:
        return True
    state = knowledge.configmap_state
    if state.health in _UNANSWERED:
        return True
    if state.health is Health.UNREACHABLE:
        return now - state.since >= gang.fallback_seconds
    configmap = get_own_configmap(knowledge, gang)
    # This controller creates the ConfigMap with the mark; the original never publishes a roster.
    return configmap is not None and not configmap.carries_roster


def needs_framework(knowledge: Knowledge, gang: Gang, now: float) -> bool:
    """Return whether to read the Framework: to use it, or to detect that it is deleted."""
    if is_framework_trusted(knowledge, gang, now):
        return True
    is_overdue = now - knowledge.started_at >= gang.fallback_seconds
    return is_overdue and get_own_configmap(knowledge, gang) is None


def is_dns_trusted(knowledge: Knowledge, gang: Gang, now: float) -> bool:
    """Return whether DNS is used: the gang's size is configured and no better source answers."""
    if gang.expected is None:
        return False
    if not _is_lost(knowledge.framework_state, gang, now):
        return False
    return not gang.configmap or _is_lost(knowledge.configmap_state, gang, now)


def select_roster(knowledge: Knowledge, gang: Gang, now: float) -> Optional[SelectedRoster]:
    """Select the roster of the best source; None if no source has one."""
    is_fresh = knowledge.framework_state.health is Health.HEALTHY
    view = knowledge.view
    if view is not None and is_fresh and is_framework_trusted(knowledge, gang, now):
        return SelectedRoster(view.roster, SOURCE_FRAMEWORK)
    if knowledge.dns_view is not None and is_dns_trusted(knowledge, gang, now):
        return SelectedRoster(knowledge.dns_view.roster, SOURCE_DNS)
    configmap = get_own_configmap(knowledge, gang)
    if configmap is None or configmap.roster is None:
        return None
    return SelectedRoster(configmap.roster, SOURCE_CONFIGMAP)


def list_reasons(knowledge: Knowledge, gang: Gang, source: str) -> Tuple[Missing, ...]:
    """List the missing Tasks with their reasons, if the source has reasons."""
    if source == SOURCE_CONFIGMAP:
        configmap = get_own_configmap(knowledge, gang)
        known = configmap.readiness if configmap is not None else None
        return known.missing if known is not None else ()
    view = knowledge.view if source == SOURCE_FRAMEWORK else knowledge.dns_view
    return view.missing if view is not None else ()


def is_denied_everywhere(knowledge: Knowledge, gang: Gang) -> bool:
    """Return whether the API server answers 403 for every source."""
    if knowledge.framework_state.health is not Health.FORBIDDEN:
        return False
    return not gang.configmap or knowledge.configmap_state.health is Health.FORBIDDEN


def is_denial_stable(knowledge: Knowledge, gang: Gang, now: float) -> bool:
    """Return whether every source has answered 403 for ``STABLE_SECONDS``."""
    if not is_denied_everywhere(knowledge, gang):
        return False
    since = knowledge.framework_state.since
    if gang.configmap:
        since = max(since, knowledge.configmap_state.since)
    return now - since >= STABLE_SECONDS


def is_framework_gone(knowledge: Knowledge, gang: Gang, now: float) -> bool:
    """Return whether the Framework is absent for ``STABLE_SECONDS``, and so is the ConfigMap."""
    state = knowledge.framework_state
    if state.health is not Health.NOT_FOUND or now - state.since < STABLE_SECONDS:
        return False
    return get_own_configmap(knowledge, gang) is None


def build_permissions(gang: Gang) -> Tuple[Permission, Permission]:
    """Build the permissions to watch the ConfigMap and to get the Framework; one is enough."""
    return (
        Permission("watch", "", "configmaps", gang.namespace, gang.configmap),
        _build_framework_permission(gang, "get"),
    )


def build_watch_permission(gang: Gang) -> Permission:
    """Build the permission to watch the Framework."""
    return _build_framework_permission(gang, "watch")


def assess(
    roster: Roster, identity: Optional[Identity] = None, source: str = SOURCE_CONFIGMAP
) -> Assessment:
    """Assess a roster; without an ``identity``, only the facts of the gang."""
    own = leaving = None
    other = ""
    if identity is not None:
        other = explain_other_attempt(roster, identity, source)
        fingerprint = fingerprint_uid(identity.pod_uid) if identity.pod_uid else ""
        own = roster.find_member(identity.role, identity.index)
        if own is not None and fingerprint and own.fingerprint not in {"", fingerprint}:
            own = None
        leaving = _find_leaving(roster, identity, fingerprint)
    return Assessment(
        other_attempt=other,
        is_complete=roster.complete
        and all(role.ready >= min(role.minimum, role.wanted) for role in roster.roles),
        is_completing=roster.phase == PHASE_COMPLETING,
        own=own,
        leaving=leaving,
    )


def explain_other_attempt(roster: Roster, identity: Identity, source: str) -> str:
    """Name the attempt of a roster that is not that of the Pod; "" if it is, or for DNS."""
    expected, seen = identity.instance_uid, roster.instance_uid
    if source == SOURCE_DNS or not expected or seen == expected:
        return ""
    return f"attempt {seen or 'none'} is seen, not {expected}"


def index_members(roster: Optional[Roster]) -> Dict[TaskKey, Member]:
    """Return the members of all roles by Task, in the order of the roster; {} without a roster."""
    return {
        TaskKey(role.name, member.index): member
        for role in (roster.roles if roster else ())
        for member in role.members
    }


def walk_missing(roster: Roster) -> Iterator[TaskKey]:
    """Walk the wanted Tasks that are neither members nor completed."""
    for role in roster.roles:
        if role.ready >= role.wanted:
            continue
        known = {member.index for member in role.members} | {c.index for c in role.completed}
        known.update(role.absent)
        for index in range(role.wanted + len(role.absent)):
            if index not in known:
                yield TaskKey(role.name, index)


def _find_leaving(roster: Roster, identity: Identity, fingerprint: str) -> Optional[Leaving]:
    for leaving in roster.leaving:
        is_own = (leaving.role, leaving.index) == (identity.role, identity.index)
        if is_own and fingerprint in {"", leaving.fingerprint}:
            return leaving
    return None


def _build_framework_permission(gang: Gang, verb: str) -> Permission:
    plural = constants.FRAMEWORK_PLURAL
    return Permission(verb, constants.GROUP, plural, gang.namespace, gang.framework)


def _is_lost(state: SourceState, gang: Gang, now: float) -> bool:
    if state.health in _DENIED:
        return True
    return state.health is Health.UNREACHABLE and now - state.since >= gang.fallback_seconds
