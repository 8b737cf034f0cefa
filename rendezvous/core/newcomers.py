"""New members of a generation, and the checks whether they answer. Pure.

A generation with new members is held back until they accept connections (FB_REACH), or until all
Pods of their role run (FB_REACH_RUNNING).
"""

from typing import List, Optional, Tuple

from framework.agent.addresses import MAX_PORT
from framework.agent.gang import Identity, index_members
from framework.agent.probes import Probe
from framework.api.naming import TaskKey
from framework.api.roster import Member, Roster
from rendezvous.settings.options import Options


def list_starting(before: Roster, after: Roster, options: Options) -> List[str]:
    """List the roles of FB_REACH_RUNNING with new members, if not all of their Pods run."""
    known = index_members(before)
    return [
        role.name
        for role in after.roles
        if role.name in options.reach_running
        and not role.running
        and any(
            _is_new(known.get(TaskKey(role.name, member.index)), member) for member in role.members
        )
    ]


def _is_new(was: Optional[Member], member: Member) -> bool:
    return was is None or (was.addresses[:1], was.fingerprint) != (
        member.addresses[:1],
        member.fingerprint,
    )


def list_probes(
    before: Roster, after: Roster, identity: Identity, options: Options
) -> Tuple[Probe, ...]:
    """List the connections that test whether the new members of a generation answer."""
    known, reach = index_members(before), options.reach
    own = TaskKey(identity.role, identity.index)
    probes = []
    for key, member in index_members(after).items():
        port = reach.get(key.role, reach.get(""))
        is_known = not _is_new(known.get(key), member)
        if key == own or is_known or not member.addresses or port is None:
            continue
        if port.of(key.index) <= MAX_PORT:
            # The fingerprint is used as the name: an earlier Pod of this address has another one.
            address, fingerprint = member.addresses[0], member.fingerprint
            probes.append(Probe(key.role, key.index, address, port.of(key.index), fingerprint))
    return tuple(sorted(probes))
