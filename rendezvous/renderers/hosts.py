"""Host files: the hosts on which launchers start processes, and how many on each. Pure.

The grammars differ, so no file is shared by two consumers:

- Open MPI and PRRTE take ``host:N`` for a name and refuse an IPv6 address in brackets. They read a
  bare one, but then Open MPI 4 crashes while it packs the names of the nodes, unless it is told to
  pack them naively (seen with 4.1.4). Lines of the same host add up.
- Hydra (Intel MPI, MPICH) splits at the first colon, so IPv6 cannot be written, and ``slots=N`` is
  an unknown word to it.
- DeepSpeed trains on one node if its file is *missing*, without a message. So pass ``--hostfile
  $FB_DEEPSPEED_HOSTFILE`` and let the shell fail on an unset variable (``set -u``). It reads bare
  IPv6, as does its launcher pdsh; it does not read two lines of one host.
"""

from typing import Dict, List, NamedTuple

from framework.agent.addresses import IPV6, find_family
from rendezvous.core.membership import Peer, View
from rendezvous.core.refusal import RefusedError
from rendezvous.renderers.rendered import Rendered, build_lines_file
from rendezvous.settings.kinds import RoleKind
from rendezvous.settings.options import Options

_USE_NAMES = "set FB_HOST_STYLE=name and make the names known (DNS, the hosts block, ssh_config)"


class Host(NamedTuple):
    """One line of a host file."""

    name: str
    slots: int


def render_openmpi(view: View, options: Options) -> Rendered:
    """Render ``host slots=N`` lines; the variables only where mpirun is run.

    Raises:
        RefusedError: No member has slots.
    """
    hosts = list_hosts(view, options, "Open MPI", reads_ipv6=True, merges_same=True)
    file_name, env = "hosts.openmpi", {}
    if _is_launching(view):
        path = view.get_path(file_name)
        env = {
            "OMPI_MCA_orte_default_hostfile": path,
            "OMPI_MCA_orte_keep_fqdn_hostnames": "1",
            "PRTE_MCA_prte_default_hostfile": path,
        }
        if any(":" in host.name for host in hosts):
            env["OMPI_MCA_regx"] = "naive"
    return _render(file_name, "{} slots={}", hosts, env)


def render_hydra(view: View, options: Options) -> Rendered:
    """Render ``host:N`` lines; the variables only where mpiexec is run.

    Raises:
        RefusedError: A host is an IPv6 address, or no member has slots.
    """
    hosts = list_hosts(view, options, "Hydra", reads_ipv6=False, merges_same=True)
    path, env = view.get_path("hosts.hydra"), {}
    if _is_launching(view):
        env = {"HYDRA_HOST_FILE": path, "I_MPI_HYDRA_HOST_FILE": path}
    return _render("hosts.hydra", "{}:{}", hosts, env)


def render_deepspeed(view: View, options: Options) -> Rendered:
    """Render ``host slots=N`` lines.

    Raises:
        RefusedError: Two hosts are the same (a ValueError to DeepSpeed), or no member has slots.
    """
    hosts = list_hosts(view, options, "DeepSpeed", reads_ipv6=True, merges_same=False)
    env = {"FB_DEEPSPEED_HOSTFILE": view.get_path("hosts.deepspeed")}
    return _render("hosts.deepspeed", "{} slots={}", hosts, env)


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


def _render(file_name: str, line: str, hosts: List[Host], env: Dict[str, str]) -> Rendered:
    return Rendered({file_name: build_lines_file([line.format(*host) for host in hosts])}, env)


def _is_launching(view: View) -> bool:
    """Return whether this Pod starts the processes: a launcher, or without one rank 0."""
    has_launcher = any(role.kind is RoleKind.LAUNCHER and role.roster.wanted for role in view.roles)
    return view.own_kind is RoleKind.LAUNCHER if has_launcher else view.rank == 0


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
