"""Gives each Pod an address.

Called by ``pod_worker``. A namespace per Pod is to come behind the same protocol; until then every
Pod has a loopback address, which all processes of this machine can reach.
"""

import ipaddress
from typing import Protocol

_FIRST = int(ipaddress.IPv4Address("127.64.0.1"))
_LAST = int(ipaddress.IPv4Address("127.127.255.254"))


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


class LoopbackNetwork:
    """127.64.0.1 and upwards, one for each Pod; nothing has to be set up for them on Linux."""

    def __init__(self, first: int = _FIRST, last: int = _LAST) -> None:
        """Take the range, both ends included."""
        self._first = first
        self._last = last
        self._next = first
        self._taken: dict[str, int] = {}

    async def attach(self, uid: str) -> tuple[str, ...]:
        """Return the next address that is free.

        An address given back is not given again before all others were: a peer that still holds
        it should meet nobody rather than a stranger.

        Raises:
            NetworkError: all are taken.
        """
        if uid not in self._taken:
            taken = set(self._taken.values())
            if len(taken) > self._last - self._first:
                raise NetworkError("all loopback addresses for Pods are taken")
            while self._next in taken:
                self._advance()
            self._taken[uid] = self._next
            self._advance()
        return (str(ipaddress.IPv4Address(self._taken[uid])),)

    async def detach(self, uid: str) -> None:
        """Take the address back."""
        self._taken.pop(uid, None)

    def _advance(self) -> None:
        self._next = self._first if self._next == self._last else self._next + 1


def render_hosts(hostname: str, ips: tuple[str, ...], aliases: list[dict[str, object]]) -> str:
    """Write the Pod's ``/etc/hosts``."""
    lines = ["# Written by the local cluster's kubelet.", "127.0.0.1\tlocalhost", "::1\tlocalhost"]
    lines += [f"{ip}\t{hostname}" for ip in ips]
    for alias in aliases:
        names = alias.get("hostnames")
        if isinstance(names, list):
            lines.append("\t".join([str(alias["ip"]), *map(str, names)]))
    return "\n".join(lines) + "\n"
