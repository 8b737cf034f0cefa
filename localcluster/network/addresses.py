"""The block of addresses of a network of Pods, and the address of each Pod. Pure."""

from collections import deque
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network

from localcluster.network.pod_network import NetworkError


def list_candidates() -> Iterator[IPv4Network]:
    """List the blocks to choose from, the usual one of Kubernetes first."""
    for second in (*range(244, 256), *range(64, 244)):
        yield IPv4Network(f"10.{second}.0.0/16")
    for second in range(16, 32):
        yield IPv4Network(f"172.{second}.0.0/16")
    # Reserved for benchmarks of networks.
    yield IPv4Network("198.18.0.0/16")


def choose_block(routes: Iterable[IPv4Network]) -> IPv4Network:
    """Choose a block to which this machine has no route: Pods could not reach hosts there."""
    taken = [route for route in routes if route.prefixlen > 0]
    *candidates, last = list_candidates()
    return next((c for c in candidates if not any(c.overlaps(r) for r in taken)), last)


def parse_routes(table: str) -> list[IPv4Network]:
    """Read ``/proc/net/route``."""
    routes = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        address, mask = (int.from_bytes(bytes.fromhex(fields[i]), "little") for i in (1, 7))
        routes.append(IPv4Network((address, mask.bit_count()), strict=False))
    return routes


class AddressPool:
    """The addresses of a block, each given to one Pod at a time."""

    def __init__(self, block: IPv4Network) -> None:
        """Use all addresses but the first, which is that of the gateway."""
        self._hosts = block.hosts()
        self.gateway: IPv4Address = next(self._hosts)
        # Used again as late as possible: a peer that still has an old address should rather reach
        # no Pod than another one.
        self._returned: deque[str] = deque()
        self._taken: dict[str, str] = {}

    def take(self, uid: str) -> str:
        """Return the Pod's address."""
        if uid not in self._taken:
            fresh = next(self._hosts, None)
            if fresh is None and not self._returned:
                raise NetworkError("all addresses for Pods are taken")
            self._taken[uid] = str(fresh) if fresh is not None else self._returned.popleft()
        return self._taken[uid]

    def give_back(self, uid: str) -> None:
        """Take an address back, if the Pod had one."""
        address = self._taken.pop(uid, None)
        if address is not None:
            self._returned.append(address)
