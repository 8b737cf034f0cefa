"""Starts ``hub`` and sends it requests. It ends with this process."""

import asyncio
import socket
from collections.abc import Sequence

from localcluster.child_program import ChildProgram, ProgramEndedError, RequestError
from localcluster.network.pod_network import NetworkError

# Only ends a hanging start: on a busy machine the start of a process takes many seconds.
_START_SECONDS = 60.0


class HubProcess:
    """A started hub; each request is a coroutine."""

    def __init__(self, gateway: str, *, in_user_namespace: bool) -> None:
        """Start it in the thread of the loop, which must outlive it; ``ready`` waits for it."""
        self._program = ChildProgram("localcluster.network.hub")
        self._opened = self._program.request("open", gateway, in_user_namespace).answered

    @property
    def pid(self) -> int:
        """The process."""
        return self._program.pid

    async def ready(self) -> int | None:
        """Wait until the network is up; return its open user namespace, None without one.

        Raises:
            NetworkError: this host forbids it.
        """
        try:
            async with asyncio.timeout(_START_SECONDS):
                descriptors = (await self._opened).descriptors
        except TimeoutError as e:
            raise NetworkError(f"it was not up after {_START_SECONDS:g} s") from e
        except RequestError as e:
            raise NetworkError(str(e)) from e
        return descriptors[0] if descriptors else None

    async def attach(self, address: str) -> int:
        """Make and connect a Pod's network namespace; return it open.

        Raises:
            NetworkError: the kernel refuses.
        """
        return await self._ask("attach", address)

    async def open_socket(
        self, kind: socket.SocketKind, address: str = "", port: int = 0
    ) -> socket.socket:
        """Make a socket in the Pods' network, bound if a port is given.

        Raises:
            NetworkError: the kernel refuses.
        """
        return _take_socket(await self._ask("open_socket", int(kind), address, port))

    async def open_socket_in(self, namespace: int) -> socket.socket:
        """Make a TCP socket in the network namespace of a Pod, which is open here.

        Raises:
            NetworkError: the kernel refuses.
        """
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


def _take_socket(descriptor: int) -> socket.socket:
    made = socket.socket(fileno=descriptor)
    made.setblocking(False)  # noqa: FBT003 the standard library's
    return made
