"""DeepSpeed: its host file. Pure.

Called by ``registry``. A *missing* file makes DeepSpeed train on one node without a word, so pass
``--hostfile $FB_DEEPSPEED_HOSTFILE`` and let the shell fail on an unset variable (``set -u``). Bare
IPv6 is read, also by its launcher pdsh; two lines of one host are not.
"""

from rendezvous.core.membership import View
from rendezvous.renderers.hosts import list_hosts
from rendezvous.renderers.rendered import Rendered, build_lines_file
from rendezvous.settings.options import Options

FILE_NAME = "hosts.deepspeed"


def render(view: View, options: Options) -> Rendered:
    """Render ``host slots=N`` lines.

    Raises:
        RefusedError: Two hosts are the same (a ValueError to DeepSpeed), or nobody has slots.
    """
    hosts = list_hosts(view, options, "DeepSpeed", reads_ipv6=True, merges_same=False)
    lines = [f"{host.name} slots={host.slots}" for host in hosts]
    env = {"FB_DEEPSPEED_HOSTFILE": view.get_path(FILE_NAME)}
    return Rendered({FILE_NAME: build_lines_file(lines)}, env)
