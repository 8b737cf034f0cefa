"""Which source of a gang is believed, and what its roster says of this Pod. Pure.

Called by ``following``, the barrier's decision and rendezvous' selection. All times are the
agent's monotonic seconds. The order of the sources: the attempt's ConfigMap; where it may not be
read, is out of reach or will never carry a roster, the Framework; where that cannot be read
either, and the size of the gang was selected, DNS. Rules: docs/design/agents.md, "Choice of the
source" and "Own attempt".
"""

from typing import NamedTuple, Optional, Tuple

from framework.agent.dns_source import ExpectedGang
from framework.agent.framework_roster import FrameworkView
from framework.agent.health import Health, SourceState
from framework.agent.permission import Permission
from framework.agent.sources import AttemptConfigMap
from framework.api import constants
from framework.api.roster import Member, Missing, Roster, fingerprint_uid

# A CRD or a rule that is being established answers 404 or 403 for some seconds.
STABLE_SECONDS = 30.0

# What told a roster.
SOURCE_CONFIGMAP = "configmap"
SOURCE_FRAMEWORK = "framework"
SOURCE_DNS = "dns"

_UNANSWERED = (Health.FORBIDDEN, Health.UNAUTHORIZED, Health.NOT_FOUND)
_DENIED = (Health.FORBIDDEN, Health.UNAUTHORIZED)


class Gang(NamedTuple):
    """Which gang is followed.

    ``configmap`` is "" where none is followed, because the attempt is not known; an empty
    ``configmap_uid`` believes any. ``fallback_seconds`` is how long a source out of reach is
    waited for.
    """

    namespace: str
    framework: str
    configmap: str
    configmap_uid: str
    expected: Optional[ExpectedGang] = None
    fallback_seconds: float = 10.0


class Knowledge(NamedTuple):
    """Everything the sources have selected, and how they fare."""

    started_at: float
    configmap: Optional[AttemptConfigMap]
    configmap_state: SourceState
    view: Optional[FrameworkView]
    framework_state: SourceState
    dns_view: Optional[FrameworkView] = None
    dns_state: Optional[SourceState] = None
    is_denial_confirmed: bool = False


class SelectedRoster(NamedTuple):
    """A roster, and which source told it."""

    roster: Roster
    source: str


def get_own_configmap(knowledge: Knowledge, gang: Gang) -> Optional[AttemptConfigMap]:
    """Return the ConfigMap if it is this attempt's own: its name is the same for all attempts."""
    configmap = knowledge.configmap
    if configmap is None or not gang.configmap:
        return None
    if gang.configmap_uid and configmap.uid != gang.configmap_uid:
        return None
    return configmap


def is_framework_trusted(knowledge: Knowledge, gang: Gang, now: float) -> bool:
    """Return whether the Framework is believed, because no roster can be had."""
    if not gang.configmap:
        return True
    state = knowledge.configmap_state
    if state.health in _UNANSWERED:
        return True
    if state.health is Health.UNREACHABLE:
        return now - state.since >= gang.fallback_seconds
    configmap = get_own_configmap(knowledge, gang)
    # Our controller marks the ConfigMap when it creates it; another never publishes a roster.
    return configmap is not None and not configmap.carries_roster


def needs_framework(knowledge: Knowledge, gang: Gang, now: float) -> bool:
    """Return whether the Framework should be read: to believe it, or to learn if it is gone."""
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
    """Take the published roster; where there can be none, what the Framework or DNS tells."""
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
    """List why Tasks are missing, as far as the source of the roster knows."""
    if source == SOURCE_CONFIGMAP:
        configmap = get_own_configmap(knowledge, gang)
        known = configmap.progress if configmap is not None else None
        return known.missing if known is not None else ()
    view = knowledge.view if source == SOURCE_FRAMEWORK else knowledge.dns_view
    return view.missing if view is not None else ()


def is_denied_everywhere(knowledge: Knowledge, gang: Gang) -> bool:
    """Return whether every source of the API server answers 403."""
    if knowledge.framework_state.health is not Health.FORBIDDEN:
        return False
    return not gang.configmap or knowledge.configmap_state.health is Health.FORBIDDEN


def is_denial_stable(knowledge: Knowledge, gang: Gang, now: float) -> bool:
    """Return whether every source has answered 403 for so long that it is no hiccup."""
    if not is_denied_everywhere(knowledge, gang):
        return False
    since = knowledge.framework_state.since
    if gang.configmap:
        since = max(since, knowledge.configmap_state.since)
    return now - since >= STABLE_SECONDS


def is_framework_gone(knowledge: Knowledge, gang: Gang, now: float) -> bool:
    """Return whether the Framework does not exist: for long, and its ConfigMap is not seen."""
    state = knowledge.framework_state
    if state.health is not Health.NOT_FOUND or now - state.since < STABLE_SECONDS:
        return False
    return get_own_configmap(knowledge, gang) is None


def build_permissions(gang: Gang) -> Tuple[Permission, Permission]:
    """Name the two rights of which one is enough: (watch the ConfigMap, get the Framework)."""
    return (
        Permission("watch", "", "configmaps", gang.namespace, gang.configmap),
        _build_framework_permission(gang, "get"),
    )


def build_wake_permission(gang: Gang) -> Permission:
    """Name the right by which a reader of the Framework is told of changes."""
    return _build_framework_permission(gang, "watch")


def is_complete(roster: Roster) -> bool:
    """Return whether the gang is there: the controller says so, and the numbers agree."""
    return roster.complete and all(r.ready >= min(r.minimum, r.wanted) for r in roster.roles)


def find_own_member(roster: Roster, role: str, number: int, pod_uid: str) -> Optional[Member]:
    """Find this very Pod among the members, as far as UIDs are known on both sides."""
    member = roster.find_member(role, number)
    if member is None or not pod_uid or not member.fingerprint:
        return member
    return member if member.fingerprint == fingerprint_uid(pod_uid) else None


def explain_other_attempt(roster: Roster, instance_uid: str) -> str:
    """Say that a roster is of another attempt; "" if it is of this one, or that is not known."""
    if not instance_uid or roster.instance_uid == instance_uid:
        return ""
    return "attempt {} is seen, not {}".format(roster.instance_uid or "none", instance_uid)


def _build_framework_permission(gang: Gang, verb: str) -> Permission:
    plural = constants.FRAMEWORK_PLURAL
    return Permission(verb, constants.GROUP, plural, gang.namespace, gang.framework)


def _is_lost(state: SourceState, gang: Gang, now: float) -> bool:
    if state.health in _DENIED:
        return True
    return state.health is Health.UNREACHABLE and now - state.since >= gang.fallback_seconds
