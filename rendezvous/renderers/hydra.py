"""Intel MPI and MPICH (the Hydra launcher): the host file and its variables. Pure.

Called by ``registry``. Hydra splits at the first colon, so IPv6 cannot be written, and ``slots=N``
is an unknown word to it.
"""

from rendezvous.core.membership import View
from rendezvous.renderers.hosts import list_hosts
from rendezvous.renderers.openmpi import is_launching
from rendezvous.renderers.rendered import Rendered, build_lines_file
from rendezvous.settings.options import Options

FILE_NAME = "hosts.hydra"


def render(view: View, options: Options) -> Rendered:
    """Render ``host:N`` lines; the variables only where mpiexec is run.

    Raises:
        RefusedError: A host is an IPv6 address, or nobody has slots.
    """
    hosts = list_hosts(view, options, "Hydra", reads_ipv6=False, merges_same=True)
    env = {}
    if is_launching(view):
        path = view.get_path(FILE_NAME)
        env = {"HYDRA_HOST_FILE": path, "I_MPI_HYDRA_HOST_FILE": path}
    return Rendered(
        {FILE_NAME: build_lines_file([f"{host.name}:{host.slots}" for host in hosts])}, env
    )
