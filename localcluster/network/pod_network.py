"""The interface of a network of Pods.

NetworkError    an address, a namespace or the requested network is not available
"""

import asyncio
from typing import Protocol, TypeAlias

# An open file of a namespace, and the flag by which ``setns`` knows its kind.
OpenNamespace: TypeAlias = tuple[int, int]
Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


NO_NETWORK = "the Pod has no network yet"


class NetworkError(Exception):
    """It is not to be had."""


class PodNetwork(Protocol):
    """Where Pods get their addresses from."""

    @property
    def api_address(self) -> str:
        """Where Pods find the API server, for example ``http://127.0.0.1:6443``."""
        ...

    @property
    def resolver(self) -> str | None:
        """The address of the cluster's own name server; None leaves the host's to the Pods."""
        ...

    async def attach(self, uid: str) -> tuple[str, ...]:
        """Return the addresses of this Pod, unique among the Pods attached.

        Raises:
            NetworkError: none is to be had.
        """
        ...

    async def open_namespaces(self, uid: str) -> tuple[OpenNamespace, ...]:
        """Return what the Pod's processes must join, open until ``detach``; may take a while.

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
        """Connect to a port of a Pod as a program in the Pod does, to 127.0.0.1 if it has its own.

        Raises:
            OSError: it does not answer, or it is not attached.
        """
        ...

    async def detach(self, uid: str) -> None:
        """Take the Pod's addresses back; nothing of it runs any more."""
        ...

    async def close(self) -> None:
        """Give everything back; no Pod is attached any more."""
        ...
