"""How many connections the hub of the barrier holds, and from which addresses.

For P Pods, Pods that leave included, in connections:

- 16 from each address for each Pod that has it;
- P + 64 that are silent, from all addresses together;
- P + 64 + 16 P in all, or fewer where the process may not open as many files: then at least 2 P,
  for a report and a barrier of each Pod, and if possible 512 less than the limit, which are left to
  the training code.

The hub remembers 64 tokens of released processes for each Pod, and at least 64 times 16.
"""

import contextlib
import ipaddress
import resource
from collections import Counter
from typing import Any, Dict, Tuple

from ..generations import Peer, Roster

# How many processes of one Pod may wait at barriers at a time.
PER_POD = 16
# How many connections may be silent beside one for each Pod of the roster.
_SILENT_RESERVE = 64
_KEPT_TOKENS_PER_POD = 64
# Files that training code opens beside the connections of a barrier: data, sockets, pipes.
_OTHER_FILES = 512


class Limits:
    """How many connections the hub holds for one generation, and from where. Never changed."""

    def __init__(self, gang: Roster, former: Dict[Tuple[str, int, str], Tuple[str, ...]]) -> None:
        self.pods: Counter[str] = Counter()
        for addresses in [list_addresses(peer) for peer in gang.peers] + list(former.values()):
            self.pods.update(set(addresses))
        self.all_pods = len(gang.peers) + len(former)
        self.silent = self.all_pods + _SILENT_RESERVE
        self.wanted = self.silent + PER_POD * self.all_pods
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        is_endless = soft == resource.RLIM_INFINITY
        room = self.wanted if is_endless else max(2 * self.all_pods, soft - _OTHER_FILES)
        self.total = min(self.wanted, room)
        self.tokens = _KEPT_TOKENS_PER_POD * max(PER_POD, self.all_pods)


def make_room(connections: int) -> None:
    """Let this process open a file for each connection; some runtimes allow 1024 at first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if resource.RLIM_INFINITY != soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def list_addresses(peer: Peer) -> Tuple[str, ...]:
    """List the addresses of a Pod, each in its one form."""
    return tuple(normalize(address) for address in peer.addresses or (peer.address,))


def normalize(address: str) -> str:
    """Normalize an address: mapped IPv4 as IPv4, and without a zone."""
    try:
        found: Any = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(getattr(found, "ipv4_mapped", None) or found)


def is_loopback(address: str) -> bool:
    """Return whether an address is of this host alone."""
    return ipaddress.ip_address(normalize(address)).is_loopback
