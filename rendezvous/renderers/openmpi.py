"""Open MPI and PRRTE: the host file and the variables that point a launcher to it. Pure.

Called by ``registry``. ``host:N`` would be taken for a name and an IPv6 address in brackets is
refused; a bare one is read, but Open MPI 4 then crashes while it packs the names of the nodes,
unless it is told to pack them naively (seen with 4.1.4). Lines of the same host add up.
"""

from typing import Dict

from rendezvous.core.membership import View
from rendezvous.renderers.hosts import list_hosts
from rendezvous.renderers.rendered import Rendered, build_lines_file
from rendezvous.settings.kinds import RoleKind
from rendezvous.settings.options import Options

FILE_NAME = "hosts.openmpi"


def render(view: View, options: Options) -> Rendered:
    """Render ``host slots=N`` lines; the variables only where mpirun is run.

    Raises:
        RefusedError: Nobody has slots.
    """
    hosts = list_hosts(view, options, "Open MPI", reads_ipv6=True, merges_same=True)
    lines = [f"{host.name} slots={host.slots}" for host in hosts]
    env: Dict[str, str] = {}
    if is_launching(view):
        path = view.get_path(FILE_NAME)
        env = {
            "OMPI_MCA_orte_default_hostfile": path,
            "OMPI_MCA_orte_keep_fqdn_hostnames": "1",
            "PRTE_MCA_prte_default_hostfile": path,
        }
        if any(":" in host.name for host in hosts):
            env["OMPI_MCA_regx"] = "naive"
    return Rendered({FILE_NAME: build_lines_file(lines)}, env)


def is_launching(view: View) -> bool:
    """Return whether this Pod starts the processes: a launcher, or without one rank 0."""
    has_launcher = any(role.kind is RoleKind.LAUNCHER and role.wanted for role in view.roles)
    return view.own_kind is RoleKind.LAUNCHER if has_launcher else view.rank == 0
