"""A block for /etc/hosts: every member's names, for consumers that want names without DNS. Pure."""

from rendezvous.core.membership import View
from rendezvous.renderers.rendered import Rendered, build_lines_file
from rendezvous.settings.options import Options

FILE_NAME = "etc-hosts"
BEGIN = "# BEGIN frameworkbarrier"
END = "# END frameworkbarrier"


def render(view: View, _options: Options) -> Rendered:
    """Render ``address name name.framework`` lines, one for every address of a member."""
    lines = [BEGIN]
    for peer in view.peers:
        if peer.host_name:
            names = f"{peer.host_name} {peer.host_name}.{view.framework}"
            lines.extend(f"{address}\t{names}" for address in peer.addresses)
    lines.append(END)
    return Rendered({FILE_NAME: build_lines_file(lines)})
