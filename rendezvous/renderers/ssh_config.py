"""An ssh configuration by which members reach one another by name or address. Pure.

Members' host keys are new with every Pod, so they are not checked: a process that can take over a
Pod's address in the cluster's network can answer here, too.
"""

from rendezvous.core.membership import Peer, View
from rendezvous.renderers.rendered import Rendered, build_lines_file
from rendezvous.settings.options import Options

FILE_NAME = "ssh_config"


def render(view: View, options: Options) -> Rendered:
    """Render one Host block a member, and the variable that names the file."""
    lines = []
    for peer in view.peers:
        lines += _render_block(peer, view.framework, options)
    return Rendered(
        {FILE_NAME: build_lines_file(lines)}, {"FB_SSH_CONFIG": view.get_path(FILE_NAME)}
    )


def _render_block(peer: Peer, framework: str, options: Options) -> "list[str]":
    patterns = [peer.host_name, f"{peer.host_name}.{framework}"] if peer.host_name else []
    lines = [
        "Host " + " ".join([*patterns, *peer.addresses]),
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
