"""Chooses the network of Pods on this host, by trying network namespaces."""

import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Network
from pathlib import Path

from localcluster.network.addresses import choose_block, parse_routes
from localcluster.network.cluster_names import ClusterNames
from localcluster.network.loopback import LoopbackNetwork
from localcluster.network.namespaces import NamespaceNetwork
from localcluster.network.pod_network import NetworkError, PodNetwork

logger = logging.getLogger(__name__)

_LIMITS = (
    "Pods share this machine's ports, so programs that bind the same port on all addresses collide "
    "(TensorFlow does), and names of Services do not resolve"
)
_ROUTES = Path("/proc/net/route")


class NetworkChoice(StrEnum):
    """The requested network."""

    AUTO = "auto"
    """Network namespaces where the host allows them, else loopback addresses."""
    NAMESPACE = "namespace"
    """Network namespaces, or an error."""
    LOOPBACK = "loopback"
    """Loopback addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkNeeds:
    """The inputs of a network."""

    api_address: str
    """Address of the API server for programs of this machine."""
    serve_api: Callable[[socket.socket], Awaitable[None]]
    """Makes the API server listen on one more socket."""
    has_private_root: bool
    """Whether containers can have files of their own."""
    in_user_namespace: bool
    """Whether they run in a user namespace."""
    names: ClusterNames
    """Names for the name server."""


async def open_network(choice: NetworkChoice, needs: NetworkNeeds) -> tuple[PodNetwork, str]:
    """Open the best network that the host allows; return it and its limits, "" for none.

    Raises:
        NetworkError: network namespaces are requested and not available.
    """
    if choice is NetworkChoice.LOOPBACK:
        return LoopbackNetwork(needs.api_address), ""
    try:
        return await _open_namespaces(needs), ""
    except NetworkError as e:
        if choice is NetworkChoice.NAMESPACE:
            raise NetworkError(
                f"network: no network namespaces here: {e}; allow them, or use network "
                f'"{NetworkChoice.LOOPBACK}"'
            ) from e
        logger.info("no network namespaces here", extra={"reason": str(e)})
        return LoopbackNetwork(needs.api_address), f"no network namespaces here ({e}): {_LIMITS}"


async def _open_namespaces(needs: NetworkNeeds) -> PodNetwork:
    if not needs.has_private_root:
        raise NetworkError("Pods have no private roots")
    return await NamespaceNetwork.open(
        choose_block(_read_routes()),
        needs.serve_api,
        needs.names,
        in_user_namespace=needs.in_user_namespace,
    )


def _read_routes() -> list[IPv4Network]:
    try:
        return parse_routes(_ROUTES.read_text())
    except OSError:
        return []
