"""Starts ``hub`` and sends it requests. It ends with this process."""

import asyncio
import itertools
import marshal
import os
import socket
import subprocess
import sys
from pathlib import Path

from localcluster.network.pod_network import NetworkError

_ROOM = Path(__file__).parents[2]
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); from localcluster.network.hub import main; main()"
)
_MESSAGE_LIMIT = 65536
_MAX_DESCRIPTORS = 4
_START_SECONDS = 10.0
_STOP_SECONDS = 5.0


class HubProcess:
    """A started hub; each request is a coroutine."""

    def __init__(self, gateway: str, *, in_user_namespace: bool) -> None:
        """Start it, in the loop's thread, which must outlive it; ``ready`` waits for it."""
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[list[int]] = self._loop.create_future()
        self._answers = {0: self._opened}
        self._numbers = itertools.count(1)
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            numbers = (os.getpid(), theirs.fileno(), int(in_user_namespace))
            arguments = [*map(str, numbers), gateway]
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BOOT, str(_ROOM), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                cwd="/",
            )
        self._connection.setblocking(False)  # noqa: FBT003 the standard library's
        self._loop.add_reader(self._connection, self._read)

    @property
    def pid(self) -> int:
        """The process."""
        return self._popen.pid

    async def ready(self) -> int | None:
        """Wait until the network is up; return its open user namespace if it has its own.

        Raises:
            NetworkError: this host forbids it.
        """
        try:
            async with asyncio.timeout(_START_SECONDS):
                descriptors = await self._opened
        except TimeoutError as e:
            raise NetworkError(f"it was not up after {_START_SECONDS:g} s") from e
        return descriptors[0] if descriptors else None

    async def attach(self, address: str) -> int:
        """Make and join a Pod's network namespace; return it open.

        Raises:
            NetworkError: the kernel refuses.
        """
        return (await self._ask("attach", address))[0]

    async def open_socket(
        self, kind: socket.SocketKind, address: str = "", port: int = 0
    ) -> socket.socket:
        """Make a socket in the Pods' network, bound if a port is given.

        Raises:
            NetworkError: the kernel refuses.
        """
        descriptors = await self._ask("open_socket", int(kind), address, port)
        made = socket.socket(fileno=descriptors[0])
        made.setblocking(False)  # noqa: FBT003 the standard library's
        return made

    async def stop(self) -> None:
        """End it."""
        self._close("the network of Pods is down")
        try:
            await asyncio.to_thread(self._popen.wait, _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            await asyncio.to_thread(self._popen.wait)

    async def _ask(self, verb: str, *arguments: str | int) -> list[int]:
        if self._connection.fileno() < 0:
            raise NetworkError("the network of Pods is down")
        number = next(self._numbers)
        answer: asyncio.Future[list[int]] = self._loop.create_future()
        self._answers[number] = answer
        message = marshal.dumps((number, verb, arguments))
        try:
            await self._loop.sock_sendall(self._connection, message)
            return await answer
        except OSError as e:
            raise NetworkError(f"the network of Pods is down: {e}") from e

    def _read(self) -> None:
        try:
            raw, descriptors, _, _ = socket.recv_fds(
                self._connection, _MESSAGE_LIMIT, _MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return
        except OSError:
            raw, descriptors = b"", []
        if not raw:
            self._close("the network of Pods went down")
            return
        number, error = marshal.loads(raw)  # noqa: S302 our own hub's
        answer = self._answers.pop(number)
        if answer.done():
            # Whoever asked has gone.
            for descriptor in descriptors:
                os.close(descriptor)
        elif error is not None:
            answer.set_exception(NetworkError(error))
        else:
            answer.set_result(descriptors)

    def _close(self, reason: str) -> None:
        if self._connection.fileno() < 0:
            return
        self._loop.remove_reader(self._connection)
        self._connection.close()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(NetworkError(reason))
        self._answers.clear()
