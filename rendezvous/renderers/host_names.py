"""Members' names for consumers without DNS: a block for /etc/hosts, and an ssh configuration. Pure.

Each Pod has new host keys, so ssh does not check them: a process that takes over the address of a
Pod in the cluster's network can also answer in its place.
"""

from typing import List

from rendezvous.core.membership import Peer, View
from rendezvous.renderers.rendered import Rendered, build_lines_file
from rendezvous.settings.options import Options

_HOSTS_FILE_NAME = "etc-hosts"
_SSH_FILE_NAME = "ssh_config"
_BEGIN = "# BEGIN frameworkbarrier"
_END = "# END frameworkbarrier"


def render_etc_hosts(view: View, _options: Options) -> Rendered:
    """Render ``address name name.framework`` lines, one for every address of a member."""
    lines = [
        "\t".join([address, " ".join(_list_names(peer, view))])
        for peer in view.peers
        for address in (peer.addresses if peer.host_name else ())
    ]
    return Rendered({_HOSTS_FILE_NAME: build_lines_file([_BEGIN, *lines, _END])})


def render_ssh_config(view: View, options: Options) -> Rendered:
    """Render a Host block for each member, and the variable that names the file."""
    lines = [line for peer in view.peers for line in _render_block(peer, view, options)]
    files = {_SSH_FILE_NAME: build_lines_file(lines)}
    return Rendered(files, {"FB_SSH_CONFIG": view.get_path(_SSH_FILE_NAME)})


def _render_block(peer: Peer, view: View, options: Options) -> List[str]:
    lines = [
        "Host " + " ".join([*_list_names(peer, view), *peer.addresses]),
        f"    HostName {peer.address}",
        f"    Port {options.ssh_server_port}",
        "    StrictHostKeyChecking no",
        "    UserKnownHostsFile /dev/null",
        "    LogLevel ERROR",
    ]
    if options.ssh_user:
        lines.append(f"    User {options.ssh_user}")
    if options.ssh_identity_file:
        lines.append(f'    IdentityFile "{options.ssh_identity_file}"')
    return lines


def _list_names(peer: Peer, view: View) -> List[str]:
    """List the names of a member; none if it has no name that is short enough."""
    return [peer.host_name, f"{peer.host_name}.{view.framework}"] if peer.host_name else []
