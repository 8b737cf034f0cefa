"""Host files: the hosts on which launchers start processes, and how many on each. Pure.

The grammars differ, so no file is shared by two consumers:

- Open MPI and PRRTE read ``host:N`` as a name and refuse an IPv6 address in brackets. They read an
  IPv6 address without brackets, but then Open MPI 4 crashes while it packs the names of the nodes,
  except with OMPI_MCA_regx=naive (seen with 4.1.4). Lines of the same host add up.
- Hydra (Intel MPI, MPICH) splits at the first colon, so IPv6 cannot be written, and ``slots=N`` is
  an unknown word to it.
- DeepSpeed trains on one node if its file is *missing*, without a message. So pass ``--hostfile
  $FB_DEEPSPEED_HOSTFILE`` and let the shell fail on an unset variable (``set -u``). It reads bare
  IPv6, as does its launcher pdsh; it does not read two lines of one host.
"""

from typing import List, NamedTuple

from framework.agent.addresses import IPV6, find_family
from rendezvous.core.membership import Peer, View
from rendezvous.core.refusal import RefusedError
from rendezvous.renderers.rendered import Rendered, RenderedFile, build_lines_file
from rendezvous.settings.kinds import RoleKind
from rendezvous.settings.options import Options

_USE_NAMES = "set FB_HOST_STYLE=name and make the names known (DNS, the hosts block, ssh_config)"


class Host(NamedTuple):
    """One line of a host file."""

    name: str
    slots: int


class HostFile(NamedTuple):
    """The host file of a consumer."""

    consumer: str
    """The name of the consumer, for messages."""
    name: str
    """The name of the file."""
    line: str
    """The form of a line, with places for the host and its slots."""
    reads_ipv6: bool
    """Whether the consumer reads IPv6 addresses."""
    merges_same: bool
    """Whether the consumer adds up the slots of lines of one host."""

    def build(self, hosts: List[Host]) -> RenderedFile:
        """Build the file."""
        return build_lines_file([self.line.format(*host) for host in hosts])


OPEN_MPI = HostFile("Open MPI", "hosts.openmpi", "{} slots={}", reads_ipv6=True, merges_same=True)
HYDRA = HostFile("Hydra", "hosts.hydra", "{}:{}", reads_ipv6=False, merges_same=True)
DEEPSPEED = HostFile(
    "DeepSpeed", "hosts.deepspeed", "{} slots={}", reads_ipv6=True, merges_same=False
)


def render_openmpi(view: View, options: Options) -> Rendered:
    """Render ``host slots=N`` lines; the variables only where mpirun is run.

    Raises:
        RefusedError: No member has slots.
    """
    hosts, env = list_hosts(view, options, OPEN_MPI), {}
    if _is_launching(view):
        path = view.get_path(OPEN_MPI.name)
        env = {
            "OMPI_MCA_orte_default_hostfile": path,
            "OMPI_MCA_orte_keep_fqdn_hostnames": "1",
            "PRTE_MCA_prte_default_hostfile": path,
        }
        if any(":" in host.name for host in hosts):
            env["OMPI_MCA_regx"] = "naive"
    return Rendered({OPEN_MPI.name: OPEN_MPI.build(hosts)}, env)


def render_hydra(view: View, options: Options) -> Rendered:
    """Render ``host:N`` lines; the variables only where mpiexec is run.

    Raises:
        RefusedError: A host is an IPv6 address, or no member has slots.
    """
    files = {HYDRA.name: HYDRA.build(list_hosts(view, options, HYDRA))}
    names = ("HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE") if _is_launching(view) else ()
    return Rendered(files, dict.fromkeys(names, view.get_path(HYDRA.name)))


def render_deepspeed(view: View, options: Options) -> Rendered:
    """Render ``host slots=N`` lines.

    Raises:
        RefusedError: Two hosts are the same (a ValueError to DeepSpeed), or no member has slots.
    """
    files = {DEEPSPEED.name: DEEPSPEED.build(list_hosts(view, options, DEEPSPEED))}
    return Rendered(files, {"FB_DEEPSPEED_HOSTFILE": view.get_path(DEEPSPEED.name)})


def list_hosts(view: View, options: Options, file: HostFile) -> List[Host]:
    """List the members that have slots: launchers with slots, then by rank, then the others.

    Raises:
        RefusedError: No member has slots, or the consumer would misread a host.
    """
    launchers = [peer for peer in view.list_kind(RoleKind.LAUNCHER) if peer.slots]
    first = launchers + [peer for peer in view.ranked if peer.slots]
    listed = {(peer.role, peer.index) for peer in first}
    rest = [p for p in view.peers if p.slots and (p.role, p.index) not in listed]
    hosts = [Host(_name_host(peer, options, file), peer.slots) for peer in first + rest]
    if not hosts:
        raise RefusedError(
            f"no member has slots, and {file.consumer} does not accept an empty list",
            "set FB_ROLES or FB_SLOTS (for example FB_SLOTS=trainer=1)",
        )
    if not file.merges_same and len({host.name for host in hosts}) != len(hosts):
        reason = f"members share an address, which {file.consumer} accepts only once"
        raise RefusedError(reason, _USE_NAMES)
    return hosts


def _is_launching(view: View) -> bool:
    """Return whether this Pod starts the processes: a launcher, or without one rank 0."""
    has_launcher = any(role.kind is RoleKind.LAUNCHER and role.roster.wanted for role in view.roles)
    return view.own_kind is RoleKind.LAUNCHER if has_launcher else view.rank == 0


def _name_host(peer: Peer, options: Options, file: HostFile) -> str:
    if options.host_style == "name":
        if not peer.host_name:
            raise RefusedError(
                f"{peer.role}-{peer.index} is longer than a host name may be",
                "shorten the role's name, or set FB_HOST_STYLE=address",
            )
        return peer.host_name
    if file.reads_ipv6 or find_family(peer.address) != IPV6:
        return peer.address
    if peer.find_ipv4():
        return peer.find_ipv4()
    raise RefusedError(f"{file.consumer} cannot read the IPv6 address of {peer}", _USE_NAMES)
