"""Gives each Pod an address.

Called by ``pod_worker``. A namespace per Pod is to come behind the same protocol; until then every
Pod has a loopback address, which all processes of this machine can reach.
"""

import errno
import socket
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from typing import Protocol

# Blocks 127.64.0 to 127.127.255: whoever runs servers on loopback addresses by hand stays below.
_FIRST_BLOCK, _LAST_BLOCK = 64 * 256, 127 * 256 + 255
_HOSTS = range(1, 255)


class NetworkError(Exception):
    """No address is left."""


class PodNetwork(Protocol):
    """Where Pods get their addresses from."""

    async def attach(self, uid: str) -> tuple[str, ...]:
        """Return the addresses of this Pod, unique among the Pods attached.

        Raises:
            NetworkError: none is to be had.
        """
        ...

    async def detach(self, uid: str) -> None:
        """Take the Pod's addresses back; nothing of it runs any more."""
        ...

    def close(self) -> None:
        """Give everything back; no Pod is attached any more."""
        ...


class BlockClaim(Protocol):
    """A block of addresses that is ours until closed."""

    def close(self) -> None:
        """Give it back."""
        ...


def claim_block(prefix: str) -> BlockClaim | None:
    """Claim a block for this process, for example ``127.64.0``; None if another one has it.

    Two local clusters on one machine must not give out the same address: a worker of the one would
    train with the parameter server of the other. An abstract socket is as wide as the loopback
    interface, one network namespace, and goes with its process.
    """
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0frameworkbarrier-pods-{prefix}")
    except OSError as e:
        claim.close()
        if e.errno == errno.EADDRINUSE:
            return None
        raise
    return claim


class LoopbackNetwork:
    """Addresses from 127.64.0.1 upwards; nothing has to be set up for them on Linux."""

    def __init__(self, claim: Callable[[str], BlockClaim | None] = claim_block) -> None:
        """Take blocks of 254 addresses, one after another, as they are needed."""
        self._claim = claim
        self._claims = ExitStack()
        self._next_block = _FIRST_BLOCK
        # An address given back goes to the end: a peer that still holds it should meet nobody
        # rather than a stranger.
        self._free: deque[str] = deque()
        self._taken: dict[str, str] = {}

    async def attach(self, uid: str) -> tuple[str, ...]:
        """Return an address that is free.

        Raises:
            NetworkError: all are taken.
        """
        if uid not in self._taken:
            if not self._free:
                self._claim_block()
            self._taken[uid] = self._free.popleft()
        return (self._taken[uid],)

    async def detach(self, uid: str) -> None:
        """Take the address back."""
        address = self._taken.pop(uid, None)
        if address is not None:
            self._free.append(address)

    def close(self) -> None:
        """Give the blocks back."""
        self._claims.close()
        self._free.clear()

    def _claim_block(self) -> None:
        while self._next_block <= _LAST_BLOCK:
            prefix = f"127.{self._next_block // 256}.{self._next_block % 256}"
            self._next_block += 1
            claim = self._claim(prefix)
            if claim is not None:
                self._claims.callback(claim.close)
                self._free.extend(f"{prefix}.{host}" for host in _HOSTS)
                return
        raise NetworkError("all loopback addresses for Pods are taken")


def render_hosts(hostname: str, ips: tuple[str, ...], aliases: list[dict[str, object]]) -> str:
    """Write the Pod's ``/etc/hosts``."""
    lines = ["# Written by the local cluster's kubelet.", "127.0.0.1\tlocalhost", "::1\tlocalhost"]
    lines += [f"{ip}\t{hostname}" for ip in ips]
    for alias in aliases:
        names = alias.get("hostnames")
        if isinstance(names, list):
            lines.append("\t".join([str(alias["ip"]), *map(str, names)]))
    return "\n".join(lines) + "\n"
