"""Horovod: the discovery script, the file it prints, and the host file of ``horovodrun``. Pure.

Horovod reads *every* line of the script's output as a host, ends if its first call of the script
fails, and reads no form of an IPv6 address (use names). It keeps hosts in a hash set, so no file
can choose the ranks. It merges changes within a second, so it needs the debounce of
``core.generations``.
"""

from framework.api.text import quote_shell
from rendezvous.core.membership import View
from rendezvous.renderers.hosts import HostFile, list_hosts
from rendezvous.renderers.rendered import EXECUTABLE, Rendered, RenderedFile
from rendezvous.settings.options import Options

DISCOVERED = HostFile("Horovod", "hosts.horovod", "{}:{}", reads_ipv6=False, merges_same=False)
# Neither blank line nor comment may be in it: horovodrun fails with an IndexError.
HOROVODRUN = DISCOVERED._replace(name="hosts.horovodrun", line="{} slots={}")
SCRIPT_NAME = "discover_hosts.sh"

# Reads the whole file before it prints the first byte. A generation may be removed between the
# lookup of ``current`` and the open: then the script tries again, and reads the next generation. If
# ``current`` is missing, the script prints the newest generation of the volume.
_SCRIPT = """\
#!/bin/sh
# Prints host:slots of every host of the newest complete generation, and nothing else.
directory=${{0%/*}}
[ -d "$directory/current" ] || directory={directory}
tries=0
while [ "$tries" -lt 20 ]; do
    if hosts=$(cat "$directory/current/{file}" 2>/dev/null) && [ -n "$hosts" ]; then
        printf '%s\\n' "$hosts"
        exit 0
    fi
    newest=
    number=-1
    for generation in "$directory"/gen-*; do
        case ${{generation##*/gen-}} in '' | *[!0-9]*) continue ;; esac
        if [ "${{generation##*/gen-}}" -gt "$number" ] && [ -f "$generation/{file}" ]; then
            number=${{generation##*/gen-}}
            newest=$generation
        fi
    done
    if [ -n "$newest" ] && hosts=$(cat "$newest/{file}" 2>/dev/null) && [ -n "$hosts" ]; then
        printf '%s\\n' "$hosts"
        exit 0
    fi
    tries=$((tries + 1))
    sleep 0.1
done
echo "$0: no $directory/current/{file}: has the rendezvous agent written it?" >&2
exit 1
"""


def render(view: View, options: Options) -> Rendered:
    """Render ``host:slots`` lines, the script that prints them, and ``host slots=N`` lines.

    Raises:
        RefusedError: A host is an IPv6 address, or two have the same.
    """
    hosts = list_hosts(view, options, DISCOVERED)
    return Rendered(
        {DISCOVERED.name: DISCOVERED.build(hosts), HOROVODRUN.name: HOROVODRUN.build(hosts)},
        {"FB_HOROVOD_HOST_LIST": ",".join(DISCOVERED.line.format(*host) for host in hosts)},
        {SCRIPT_NAME: RenderedFile(render_script(view.directory), EXECUTABLE)},
    )


def render_script(directory: str) -> bytes:
    """Render the script. It reads the files beside it; a copy reads those in ``directory``."""
    return _SCRIPT.format(directory=quote_shell(directory), file=DISCOVERED.name).encode()
