"""The hosts that launchers start processes on: who, by which name, how many. Pure.

Called by the renderers of host files, whose grammars differ: no file is shared by two consumers.
"""

from typing import List, NamedTuple

from framework.agent.addresses import IPV6, find_family
from rendezvous.core.membership import Peer, View
from rendezvous.core.refusal import RefusedError
from rendezvous.settings.kinds import RoleKind
from rendezvous.settings.options import Options

_USE_NAMES = "set FB_HOST_STYLE=name and make the names known (DNS, the hosts block, ssh_config)"


class Host(NamedTuple):
    """One line of a host file."""

    name: str
    slots: int


def list_hosts(
    view: View, options: Options, consumer: str, *, reads_ipv6: bool, merges_same: bool
) -> List[Host]:
    """List the members that have slots: launchers with slots, then by rank, then the others.

    ``merges_same``: the consumer adds up the slots of two lines with the same host.

    Raises:
        RefusedError: There is none, or the consumer would misread one.
    """
    launchers = [peer for peer in view.list_kind(RoleKind.LAUNCHER) if peer.slots]
    first = launchers + [peer for peer in view.ranked if peer.slots]
    listed = {(peer.role, peer.index) for peer in first}
    rest = [p for p in view.peers if p.slots and (p.role, p.index) not in listed]
    hosts = [
        Host(_name_host(peer, options, consumer, reads_ipv6=reads_ipv6), peer.slots)
        for peer in first + rest
    ]
    if not hosts:
        raise RefusedError(
            f"no member has slots, and {consumer} does not take an empty list",
            "set FB_ROLES or FB_SLOTS (for example FB_SLOTS=trainer=1)",
        )
    if not merges_same and len({host.name for host in hosts}) != len(hosts):
        raise RefusedError(f"members share an address, which {consumer} takes once", _USE_NAMES)
    return hosts


def _name_host(peer: Peer, options: Options, consumer: str, *, reads_ipv6: bool) -> str:
    if options.host_style == "name":
        if not peer.host_name:
            raise RefusedError(
                f"{peer.role}-{peer.index} is longer than a host name may be",
                "shorten the role's name, or set FB_HOST_STYLE=address",
            )
        return peer.host_name
    if reads_ipv6 or find_family(peer.address) != IPV6:
        return peer.address
    if peer.find_ipv4():
        return peer.find_ipv4()
    raise RefusedError(f"{consumer} cannot read the IPv6 address of {peer}", _USE_NAMES)
