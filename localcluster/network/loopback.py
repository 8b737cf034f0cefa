"""Loopback addresses for Pods, where they cannot have network namespaces.

All Pods share this machine's network: all processes of the machine reach them, and a Pod that binds
a port on every address collides with other Pods that do.
"""

import asyncio
import errno
import socket
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack

from localcluster.network.pod_network import NO_NETWORK, NetworkError, OpenNamespace
from localcluster.stdio import Streams

# Blocks 127.64.0 to 127.127.255: other servers on loopback addresses are usually below.
_FIRST_BLOCK, _LAST_BLOCK = 64 * 256, 127 * 256 + 255
_HOSTS = range(1, 255)


def lock_block(prefix: str) -> Callable[[], None] | None:
    """Claim a block for this process, for example ``127.64.0``; None if another one has it.

    Returns:
        The function that releases the block.

    Two local clusters on one machine must not use the same address: a worker of one cluster would
    train with the parameter server of the other. An abstract socket has the scope of the loopback
    interface, one network namespace, and ends with its process.
    """
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0frameworkbarrier-pods-{prefix}")
    except OSError as e:
        claim.close()
        if e.errno == errno.EADDRINUSE:
            return None
        raise
    return claim.close


class LoopbackNetwork:
    """Addresses from 127.64.0.1 upwards; nothing has to be set up for them on Linux."""

    def __init__(
        self, api_address: str, claim: Callable[[str], Callable[[], None] | None] = lock_block
    ) -> None:
        """Take blocks of 254 addresses, one after another, as they are needed."""
        self.api_address = api_address
        self.resolver = None
        self._claim = claim
        self._claims = ExitStack()
        self._next_block = _FIRST_BLOCK
        # A released address goes to the end: a peer that still has it should rather reach no Pod
        # than another one.
        self._free: deque[str] = deque()
        self._taken: dict[str, str] = {}

    async def attach(self, uid: str) -> tuple[str, ...]:
        """Return an address that is free."""
        if uid not in self._taken:
            if not self._free:
                self._lock_block()
            self._taken[uid] = self._free.popleft()
        return (self._taken[uid],)

    async def open_namespaces(self, uid: str) -> tuple[OpenNamespace, ...]:
        """Return none: every process of this machine is in the network."""
        del uid
        return ()

    async def connect(self, host: str, port: int) -> Streams:
        """Connect to a Pod."""
        return await asyncio.open_connection(host, port)

    async def connect_inside(self, uid: str, port: int) -> Streams:
        """Connect to the address of a Pod, because all Pods share 127.0.0.1."""
        address = self._taken.get(uid)
        if address is None:
            raise OSError(NO_NETWORK)
        return await asyncio.open_connection(address, port)

    async def detach(self, uid: str) -> None:
        """Release the address."""
        address = self._taken.pop(uid, None)
        if address is not None:
            self._free.append(address)

    async def close(self) -> None:
        """Release the blocks."""
        self._claims.close()
        self._free.clear()

    def _lock_block(self) -> None:
        while self._next_block <= _LAST_BLOCK:
            prefix = f"127.{self._next_block // 256}.{self._next_block % 256}"
            self._next_block += 1
            release = self._claim(prefix)
            if release is not None:
                self._claims.callback(release)
                self._free.extend(f"{prefix}.{host}" for host in _HOSTS)
                return
        raise NetworkError("all loopback addresses for Pods are taken")
