"""A network namespace for each Pod, and a router between them in a namespace of its own.

Every Pod has all ports and its own loopback interface; the network of this machine does not show
them. The router is the program ``hub``; it ends with this process. The kubelet and the API server
use sockets that were created in the Pods' network.
"""

import asyncio
import ipaddress
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Network
from typing import Self

from localcluster import syscalls
from localcluster.child_program import ChildProgram, ProgramEndedError, RequestError
from localcluster.network.addresses import AddressPool
from localcluster.network.cluster_names import ClusterNames
from localcluster.network.egress import PORTS, Egress
from localcluster.network.name_server import NameServer, read_upstreams
from localcluster.network.pod_network import NO_NETWORK, NetworkError, OpenNamespace
from localcluster.stdio import Streams

API_PORT = 6443
DNS_PORT = 53
ANYWHERE = "0.0.0.0"  # noqa: S104 of the Pods' network, which is not reachable from outside
# Only ends a hanging start: on a busy machine the start of a process takes many seconds.
_START_SECONDS = 60.0


class HubProcess:
    """The program ``hub``. Each request raises NetworkError if the kernel refuses it."""

    def __init__(self, gateway: str, *, in_user_namespace: bool) -> None:
        """Start it in the thread of the loop, which must outlive it; ``ready`` waits for it."""
        self._program = ChildProgram("localcluster.network.hub")
        self._opened = self._program.request("open", gateway, in_user_namespace).answered

    @property
    def pid(self) -> int:
        """The process."""
        return self._program.pid

    async def ready(self) -> int | None:
        """Wait until the network is up; return its open user namespace, None without one."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                descriptors = (await self._opened).descriptors
        except TimeoutError as e:
            raise NetworkError(f"it was not up after {_START_SECONDS:g} s") from e
        except RequestError as e:
            raise NetworkError(str(e)) from e
        return descriptors[0] if descriptors else None

    async def attach(self, address: str) -> int:
        """Make and connect a Pod's network namespace; return it open."""
        return await self._ask("attach", address)

    async def open_socket(
        self, kind: socket.SocketKind, address: str = "", port: int = 0
    ) -> socket.socket:
        """Make a socket in the Pods' network, bound if a port is given."""
        return _take_socket(await self._ask("open_socket", int(kind), address, port))

    async def open_socket_in(self, namespace: int) -> socket.socket:
        """Make a TCP socket in the network namespace of a Pod, which is open here."""
        return _take_socket(await self._ask("open_socket_in", descriptors=(namespace,)))

    async def stop(self) -> None:
        """End it."""
        await self._program.stop()

    async def _ask(self, verb: str, *arguments: str | int, descriptors: Sequence[int] = ()) -> int:
        """Send a request and return the open file that is its answer."""
        try:
            answer = await self._program.request(verb, *arguments, descriptors=descriptors).answered
        except ProgramEndedError as e:
            raise NetworkError("the network of Pods is down") from e
        except RequestError as e:
            raise NetworkError(str(e)) from e
        if not answer.descriptors:
            # The kernel drops descriptors beyond the limit.
            raise NetworkError("this process has too many open files")
        return answer.descriptors[0]


class NamespaceNetwork:
    """The network; use ``open``."""

    def __init__(self, hub: HubProcess, block: IPv4Network, pool: AddressPool) -> None:
        """Use a hub that was just started; ``open`` sets it up."""
        self.api_address = f"http://{pool.gateway}:{API_PORT}"
        self.resolver = str(pool.gateway)
        self._hub = hub
        self._block = block
        self._pool = pool
        self._user: int | None = None
        self._names: NameServer | None = None
        self._egress: Egress | None = None
        self._opened: dict[str, int] = {}

    @classmethod
    async def open(
        cls,
        block: IPv4Network,
        serve_api: Callable[[socket.socket], Awaitable[None]],
        names: ClusterNames,
        *,
        in_user_namespace: bool,
    ) -> Self:
        """Set the network up.

        ``serve_api`` makes the API server listen on a socket. ``in_user_namespace`` is whether Pods
        run in a user namespace.

        Raises:
            NetworkError: this host forbids it.
        """
        pool = AddressPool(block)
        hub = HubProcess(str(pool.gateway), in_user_namespace=in_user_namespace)
        network = cls(hub, block, pool)
        try:
            network._user = await hub.ready()
            # A kernel may have namespaces, but not the devices that connect them.
            os.close(await hub.attach(str(block.broadcast_address - 1)))
            names.api_address = str(pool.gateway)
            await serve_api(await network._listen(API_PORT))
            await network._serve(names)
        except BaseException:
            await network.close()
            raise
        return network

    async def _serve(self, names: ClusterNames) -> None:
        """Serve names, and connections to other machines, to the Pods."""
        gateway = str(self._pool.gateway)
        datagrams = await self._hub.open_socket(socket.SOCK_DGRAM, gateway, DNS_PORT)
        self._names = NameServer(names, read_upstreams())
        await self._names.start(datagrams, await self._listen(DNS_PORT))
        self._egress = Egress(self._block)
        await self._egress.start([await self._listen(port, ANYWHERE) for port in PORTS])

    async def _listen(self, port: int, address: str = "") -> socket.socket:
        """Bind a socket of the Pods' network, to the gateway's address by default."""
        address = address or str(self._pool.gateway)
        return await self._hub.open_socket(socket.SOCK_STREAM, address, port)

    async def attach(self, uid: str) -> tuple[str, ...]:
        """Return an address that is free."""
        return (self._pool.take(uid),)

    async def open_namespaces(self, uid: str) -> tuple[OpenNamespace, ...]:
        """Make the Pod's namespace."""
        if uid not in self._opened:
            self._opened[uid] = await self._hub.attach(self._pool.take(uid))
        own = ((self._opened[uid], syscalls.CLONE_NEWNET),)
        # The user namespace first: it gives the right to join the network namespace.
        return own if self._user is None else ((self._user, syscalls.CLONE_NEWUSER), *own)

    async def connect(self, host: str, port: int) -> Streams:
        """Connect to a Pod; or, from this machine, to another address."""
        if not self._has(host):
            return await asyncio.open_connection(host, port)
        return await _connect(self._hub.open_socket(socket.SOCK_STREAM), host, port)

    async def connect_inside(self, uid: str, port: int) -> Streams:
        """Connect to 127.0.0.1 in the namespace of a Pod."""
        if uid not in self._opened:
            raise OSError(NO_NETWORK)
        return await _connect(self._hub.open_socket_in(self._opened[uid]), "127.0.0.1", port)

    def _has(self, host: str) -> bool:
        try:
            return ipaddress.ip_address(host) in self._block
        except ValueError:
            return False

    async def detach(self, uid: str) -> None:
        """Release address and namespace."""
        self._pool.give_back(uid)
        opened = self._opened.pop(uid, None)
        if opened is not None:
            os.close(opened)

    async def close(self) -> None:
        """End the hub."""
        if self._names is not None:
            await self._names.close()
        if self._egress is not None:
            await self._egress.close()
        await self._hub.stop()
        for descriptor in (*self._opened.values(), self._user):
            if descriptor is not None:
                os.close(descriptor)
        self._opened.clear()
        self._user = None


async def _connect(opening: Awaitable[socket.socket], host: str, port: int) -> Streams:
    """Connect a socket of the Pods' network; every failure is an OSError."""
    try:
        made = await opening
    except NetworkError as e:
        raise OSError(str(e)) from e
    try:
        await asyncio.get_running_loop().sock_connect(made, (host, port))
        return await asyncio.open_connection(sock=made)
    except BaseException:
        made.close()
        raise


def _take_socket(descriptor: int) -> socket.socket:
    made = socket.socket(fileno=descriptor)
    made.setblocking(False)  # noqa: FBT003 the standard library's
    return made
