"""The gang as renderers see it: a roster, the own Task and the user's settings. Pure.

Two numbers are kept apart: the *index* is a Task's identity and may have gaps, the *rank* is its
dense position in one list. Each renderer decides which of them its consumer needs; the agent
decides which generation is shown. All values of a view are checked, so renderers quote them without
a check.

Rules: docs/design/agents.md, "Checks of a roster".
"""

import re
from typing import Iterator, List, NamedTuple, Optional, Tuple

from framework.agent.addresses import IPV4, IPV6, MAX_PORT, find_family, is_pod_address
from framework.agent.gang import Identity, assess
from framework.api.naming import build_pod_name, is_framework_name, is_role_name
from framework.api.roster import (
    FINGERPRINT_LENGTH,
    PHASE_ACTIVE,
    PHASE_COMPLETING,
    STATE_FAILED,
    STATE_SUCCEEDED,
    Member,
    RoleRoster,
    Roster,
)
from rendezvous.core.refusal import MembershipError, RefusedError
from rendezvous.core.target import UID_FORM
from rendezvous.settings.kinds import RANKED_KINDS, RoleKind, map_roles
from rendezvous.settings.options import Options
from rendezvous.settings.values import RolePort

_MAX_LABEL = 63
_TIME = re.compile(r"[0-9TZ:.+-]{0,40}\Z")
_FINGERPRINT = re.compile(rf"[0-9a-f]{{{FINGERPRINT_LENGTH}}}\Z")


class Peer(NamedTuple):
    """A member. ``rank`` is its position among the members of its role."""

    role: str
    """The name of its task role."""
    kind: RoleKind
    """The function of the role in training."""
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not used
    """The index of its Task."""
    rank: int
    """The position among the members of its role."""
    addresses: Tuple[str, ...]
    """Its addresses, the preferred one first."""
    port: int
    """The port it serves on."""
    slots: int
    """How many processes a launcher starts on it."""
    pod_name: str
    """The name of its Pod."""
    host_name: str
    """A name of one label for it; "" if none is short enough."""
    fingerprint: str
    """The fingerprint of its Pod's UID; "" if it is not known."""
    attempt_id: int
    """The Task attempt."""

    def __str__(self) -> str:
        """Render as users write it: ``worker/3``."""
        return f"{self.role}/{self.index}"

    @property
    def address(self) -> str:
        """The address its peers use."""
        return self.addresses[0]

    def find_ipv4(self) -> str:
        """Find an IPv4 address; "" if it has none."""
        return next((a for a in self.addresses if find_family(a) == IPV4), "")


class RoleView(NamedTuple):
    """One role: as it is in the roster, and its members in order of their index."""

    roster: RoleRoster
    kind: RoleKind
    peers: Tuple[Peer, ...]

    @property
    def name(self) -> str:
        """The name of the task role."""
        return self.roster.name


class View(NamedTuple):
    """One generation for one Pod. ``own`` is None if its Task is not a member (it leaves)."""

    roster: Roster
    """The generation. It has the instance of the attempt, also if its source does not."""
    identity: Identity
    """The own Task and Pod."""
    own_kind: RoleKind
    """The kind of the own role."""
    own: Optional[Peer]
    """The own Pod as a member."""
    roles: Tuple[RoleView, ...]
    """All task roles, in the order of the Framework."""
    ranked: Tuple[Peer, ...]
    """The members that compute together, by rank."""
    directory: str
    """The volume, as the training container finds it."""

    @property
    def framework(self) -> str:
        """The name of the Framework."""
        return self.roster.framework

    @property
    def peers(self) -> Iterator[Peer]:
        """All members, role by role."""
        for role in self.roles:
            yield from role.peers

    @property
    def rank(self) -> int:
        """The own position among those that compute together; -1 without one."""
        return self.ranked.index(self.own) if self.own in self.ranked else -1

    @property
    def coordinator(self) -> Optional[Peer]:
        """The member that serves the store: rank 0, which scale-in removes last."""
        return self.ranked[0] if self.ranked else None

    def list_kind(self, kind: RoleKind) -> List[Peer]:
        """List the members of all roles of a kind."""
        return [peer for role in self.roles if role.kind is kind for peer in role.peers]

    def get_path(self, file_name: str) -> str:
        """Get the path of a file of the newest generation, as the training container finds it."""
        return f"{self.directory.rstrip('/')}/current/{file_name}"


def build_view(roster: Roster, identity: Identity, options: Options) -> View:
    """Build the view of a roster, and check each name and address in it.

    Raises:
        MembershipError: The roster has an invalid name, number or address.
        RefusedError: The settings do not fit this gang.
    """
    _check_roster(roster)
    kinds = map_roles((role.name for role in roster.roles), options.roles)
    roles = tuple(
        _build_role(roster.framework, role, kinds[role.name], options) for role in roster.roles
    )
    is_member = assess(roster, identity).own is not None
    own_key = (identity.role, identity.index)
    peers = (peer for role in roles for peer in role.peers)
    return View(
        roster=roster._replace(instance_uid=roster.instance_uid or identity.instance_uid),
        identity=identity,
        own_kind=kinds.get(identity.role, RoleKind.NONE),
        own=next((p for p in peers if is_member and (p.role, p.index) == own_key), None),
        roles=roles,
        ranked=_rank(roles, options),
        directory=options.directory,
    )


def _rank(roles: Tuple[RoleView, ...], options: Options) -> Tuple[Peer, ...]:
    """Order the members that compute together: the coordinator's role, masters, chiefs, workers."""
    ranked = [role for kind in RANKED_KINDS for role in roles if role.kind is kind]
    names = [role.name for role in ranked]
    if options.coordinator and options.coordinator not in names:
        raise RefusedError(
            f"the coordinator's role {options.coordinator!r:.80} is not master, chief or worker",
            "name one of " + (", ".join(names) or "those (there is none: set FB_ROLES)"),
        )
    ranked.sort(key=lambda role: role.name != options.coordinator)
    return tuple(peer for role in ranked for peer in role.peers)


def _build_role(framework: str, role: RoleRoster, kind: RoleKind, options: Options) -> RoleView:
    default_slots = options.slots.get("", 1) if kind in RANKED_KINDS else 0
    slots = options.slots.get(role.name, default_slots)
    port = options.ports.get(role.name) or options.ports[""]
    peers: List[Peer] = []
    for rank, member in enumerate(role.members):
        pod_name = build_pod_name(framework, role.name, member.index)
        peers.append(
            Peer(
                role=role.name,
                kind=kind,
                index=member.index,
                rank=rank,
                port=_choose_port(role.name, member.index, port),
                addresses=_choose_addresses(role.name, member, options.ip_family),
                slots=slots,
                pod_name=pod_name,
                host_name=_choose_host_name(pod_name, role.name, member.index),
                fingerprint=member.fingerprint,
                attempt_id=member.attempt_id,
            )
        )
    return RoleView(role, kind, tuple(peers))


def _choose_port(role: str, index: int, port: RolePort) -> int:
    number = port.of(index)
    if number > MAX_PORT:
        raise RefusedError(f"{role}/{index} would serve on port {number}", "use a lower port")
    return number


def _choose_host_name(pod_name: str, role: str, index: int) -> str:
    """Choose a name of one label, because Open MPI cuts names at the first dot; "" if too long."""
    for name in (pod_name, f"{role}-{index}"):
        if len(name) <= _MAX_LABEL:
            return name
    return ""


def _choose_addresses(role: str, member: Member, family: str) -> Tuple[str, ...]:
    """Return the addresses of this family; all addresses for ``auto``."""
    if family == "auto":
        return member.addresses
    chosen = tuple(a for a in member.addresses if find_family(a) == family)
    if not chosen:
        other = IPV4 if family == IPV6 else IPV6
        raise RefusedError(
            f"{role}/{member.index} has no {family} address",
            f"set FB_IP_FAMILY to auto or {other}",
        )
    return chosen


def _check_roster(roster: Roster) -> None:
    for text, is_good in (
        (roster.framework, is_framework_name(roster.framework)),
        (roster.namespace, is_framework_name(roster.namespace)),
        (roster.framework_uid, UID_FORM.match(roster.framework_uid) is not None),
        (roster.instance_uid, UID_FORM.match(roster.instance_uid) is not None),
        (roster.phase, roster.phase in {PHASE_ACTIVE, PHASE_COMPLETING}),
    ):
        if not is_good:
            raise MembershipError(f"{text!r:.80} is not a name, UID or phase of a Framework")
    names = [role.name for role in roster.roles]
    if len(set(names)) != len(names):
        raise MembershipError("a task role is listed twice")
    for role in roster.roles:
        _check_role(role)
    for leaving in roster.leaving:
        is_named = is_role_name(leaving.role) and _FINGERPRINT.match(leaving.fingerprint)
        if not is_named or leaving.index < 0 or not _TIME.match(leaving.deadline):
            raise MembershipError(f"{leaving!r:.160} is not a leaving Task")


def _check_role(role: RoleRoster) -> None:
    if not is_role_name(role.name):
        raise MembershipError(f"{role.name!r:.80} is not the name of a task role")
    previous = -1
    for member in role.members:
        if member.index <= previous:
            raise MembershipError(f"the indexes of {role.name} are not in order")
        previous = member.index
        if not member.addresses or not all(map(is_pod_address, member.addresses)):
            raise MembershipError(
                f"{role.name}/{member.index} has {member.addresses!r:.80}, "
                "which is not an address of a Pod"
            )
        if member.fingerprint and not _FINGERPRINT.match(member.fingerprint):
            raise MembershipError(
                f"{role.name}/{member.index} has {member.fingerprint!r:.80}, "
                "which is not a fingerprint"
            )
    for task in role.completed:
        is_address = not task.address or is_pod_address(task.address)
        if not is_address or task.state not in {STATE_SUCCEEDED, STATE_FAILED}:
            raise MembershipError(
                f"{role.name}/{task.index} has {task!r:.120}, which is not a completed Task"
            )
