"""The interface of a network of Pods.

NetworkError    an address, a namespace or the requested network is not available
"""

from typing import Protocol, TypeAlias

from localcluster.stdio import Streams

# An open file of a namespace, and the flag of ``setns`` for its kind.
OpenNamespace: TypeAlias = tuple[int, int]
NO_NETWORK = "the Pod has no network yet"


class NetworkError(Exception):
    """An address, a namespace or the requested network is not available."""


class PodNetwork(Protocol):
    """Gives Pods their addresses, and connects to Pods.

    Without a free address or a namespace, a method raises NetworkError; without an answer of the
    Pod, it raises OSError.
    """

    @property
    def api_address(self) -> str:
        """Address of the API server for Pods, for example ``http://127.0.0.1:6443``."""
        ...

    @property
    def resolver(self) -> str | None:
        """Address of the cluster's name server; None: Pods use the host's name servers."""
        ...

    async def attach(self, uid: str) -> tuple[str, ...]:
        """Return the addresses of this Pod, unique among the Pods attached."""
        ...

    async def open_namespaces(self, uid: str) -> tuple[OpenNamespace, ...]:
        """Return the namespaces that the Pod's processes join, open until ``detach``."""
        ...

    async def connect(self, host: str, port: int) -> Streams:
        """Connect to a Pod from outside of it."""
        ...

    async def connect_inside(self, uid: str, port: int) -> Streams:
        """Connect from inside of a Pod: to 127.0.0.1 if the Pod has a loopback of its own."""
        ...

    async def detach(self, uid: str) -> None:
        """Release the Pod's addresses, after all its processes have ended."""
        ...

    async def close(self) -> None:
        """Release everything, after all Pods are detached."""
        ...
