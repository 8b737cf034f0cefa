"""The interface of a network of Pods.

NetworkError    an address, a namespace or the requested network is not available
"""

import asyncio
from typing import Protocol, TypeAlias

# An open file of a namespace, and the flag of ``setns`` for its kind.
OpenNamespace: TypeAlias = tuple[int, int]
Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


NO_NETWORK = "the Pod has no network yet"


class NetworkError(Exception):
    """An address, a namespace or the requested network is not available."""


class PodNetwork(Protocol):
    """Gives Pods their addresses."""

    @property
    def api_address(self) -> str:
        """Address of the API server for Pods, for example ``http://127.0.0.1:6443``."""
        ...

    @property
    def resolver(self) -> str | None:
        """Address of the cluster's name server; None: Pods use the host's name servers."""
        ...

    async def attach(self, uid: str) -> tuple[str, ...]:
        """Return the addresses of this Pod, unique among the Pods attached.

        Raises:
            NetworkError: no address is free.
        """
        ...

    async def open_namespaces(self, uid: str) -> tuple[OpenNamespace, ...]:
        """Return the namespaces that the Pod's processes join, open until ``detach``.

        Raises:
            NetworkError: they cannot be made.
        """
        ...

    async def connect(self, host: str, port: int) -> Streams:
        """Connect to a Pod from outside of it.

        Raises:
            OSError: it does not answer.
        """
        ...

    async def connect_inside(self, uid: str, port: int) -> Streams:
        """Connect to a Pod's port from inside: to 127.0.0.1 if the Pod has a loopback of its own.

        Raises:
            OSError: it does not answer, or it is not attached.
        """
        ...

    async def detach(self, uid: str) -> None:
        """Release the Pod's addresses, after all its processes have ended."""
        ...

    async def close(self) -> None:
        """Release everything, after all Pods are detached."""
        ...
