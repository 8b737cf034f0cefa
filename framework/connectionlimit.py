"""Bounds the open connections of a server, in total and per source. Pure.

A server adds every connection that it accepts and closes those that ``add`` returns. The new
connection always stays: a server that refused new connections could be blocked by idle ones.

1. A source above its bound loses its own oldest connection.
2. A server above its bound loses the oldest connection of the source that has the most.
"""

import ipaddress
import resource
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Connection = TypeVar("Connection", bound=Hashable)

_IPV6_SITE_BITS = 64
"""A host usually owns all addresses of its IPv6 /64 network, so that is the source."""
_SHARE_OF_DESCRIPTORS = 4


@dataclass(frozen=True, slots=True)
class ConnectionLimit:
    """How many connections may be open."""

    in_all: int
    per_source: int


def limit_by_descriptors(most: int) -> ConnectionLimit:
    """Return a limit of ``most`` connections, or fewer if this process may open few files.

    A quarter of the file descriptors may be connections, and a source may have half of that.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_all = most if soft == resource.RLIM_INFINITY else min(most, soft // _SHARE_OF_DESCRIPTORS)
    return ConnectionLimit(in_all=max(in_all, 2), per_source=max(in_all // 2, 1))


def name_source(address: str) -> str:
    """Return the source of a connection: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
        return str(ipaddress.ip_network((ip, _IPV6_SITE_BITS), strict=False))
    return str(ip)


class ConnectionTable(Generic[Connection]):
    """The open connections, each with its source, oldest first."""

    def __init__(self, limit: ConnectionLimit) -> None:
        """Start empty."""
        self._limit = limit
        # Dictionaries keep the order of insertion and remove in constant time.
        self._by_source: dict[str, dict[Connection, None]] = {}
        self._sources: dict[Connection, str] = {}

    def __len__(self) -> int:
        """Return how many connections are open."""
        return len(self._sources)

    def list_open(self) -> list[Connection]:
        """List the open connections."""
        return list(self._sources)

    def add(self, connection: Connection, source: str) -> list[Connection]:
        """Add a new connection; return the older ones that must be closed for it."""
        own = self._by_source.setdefault(source, {})
        own[connection] = None
        self._sources[connection] = source
        evicted = []
        if len(own) > self._limit.per_source:
            evicted.append(self._evict_oldest(own))
        if len(self._sources) > self._limit.in_all:
            # If several sources have the most, max takes the first. The new connection stays,
            # because its source is the last.
            evicted.append(self._evict_oldest(max(self._by_source.values(), key=len)))
        return evicted

    def remove(self, connection: Connection) -> None:
        """Remove a closed connection, if it is still listed."""
        source = self._sources.pop(connection, None)
        if source is None:
            return
        own = self._by_source[source]
        del own[connection]
        if not own:
            del self._by_source[source]

    def _evict_oldest(self, connections: dict[Connection, None]) -> Connection:
        oldest = next(iter(connections))
        self.remove(oldest)
        return oldest
