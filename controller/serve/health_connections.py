"""The sockets of the health endpoint: one short request and one answer for each connection.

Without a NetworkPolicy, the port is open to every Pod. No number of slow or silent clients may
delay the answer to a probe, or use the descriptors that the controller needs for the API server:

1. A new connection is always accepted. If there are too many, the oldest one of the same source is
   closed for it, otherwise the oldest one of the source with the most (``ConnectionTable``).
2. A request that has arrived when its connection is accepted is answered at once, so a probe does
   not wait for other connections.
3. A connection ends after one answer, and at its deadline in any case. No body is read.
4. Few connections are accepted in one turn of the event loop, so its other work goes on.

aiohttp, which serves HTTP elsewhere, has neither a deadline for the head of a request nor a limit
of connections.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

from framework.connectionlimit import (
    ConnectionLimit,
    ConnectionTable,
    limit_by_descriptors,
    name_source,
)

Answer = Callable[[bytes], bytes]
"""Returns the whole answer to the head of a request."""

_MOST_CONNECTIONS = 256
_BACKLOG = 1024
_ACCEPTS_PER_TURN = 16
_PAUSE_SECONDS = 0.1
"""Pause of accepting when this process has no descriptor left and cannot free one."""
# Families and addresses of a host name that this host lacks, often IPv6.
_NOT_HERE = {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL}
_NO_DESCRIPTORS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_END_OF_HEAD = b"\r\n\r\n"
_CHUNK = 4096
_TOO_LARGE = b"HTTP/1.1 431 Request Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """Limits of clients."""

    connections: ConnectionLimit
    request_bytes: int = 8192
    """Most bytes of the request's line and headers."""
    seconds: float = 10.0
    """Most time from the connection to the end of its answer."""

    @classmethod
    def by_descriptors(cls) -> Self:
        """Return limits that leave this process most of its descriptors."""
        return cls(limit_by_descriptors(_MOST_CONNECTIONS))


class HealthConnections:
    """The open sockets. Made by ``listen``."""

    def __init__(
        self, listeners: list[socket.socket], *, answer: Answer, limits: HealthLimits
    ) -> None:
        """Serve on listening sockets, in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._listeners = listeners
        self._answer = answer
        self._limits = limits
        self._open: ConnectionTable[_Connection] = ConnectionTable(limits.connections)
        for listener in listeners:
            listener.setblocking(False)  # noqa: FBT003 the standard library's
            self._loop.add_reader(listener, self._accept_some, listener)

    @classmethod
    async def listen(cls, host: str, port: int, *, answer: Answer, limits: HealthLimits) -> Self:
        """Listen on all addresses of a host name that this host has.

        Raises:
            OSError: a port is taken, or none of the addresses is this host's.
        """
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        addresses = dict.fromkeys((entry[0], entry[4][:2]) for entry in found)
        listeners = _open_listeners(addresses)
        return cls(listeners, answer=answer, limits=limits)

    @property
    def port(self) -> int:
        """The port of the first address."""
        port: int = self._listeners[0].getsockname()[1]
        return port

    def close(self) -> None:
        """Close all sockets."""
        for listener in self._listeners:
            self._loop.remove_reader(listener)
            listener.close()
        for connection in self._open.list_open():
            self._end(connection)

    def _accept_some(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                accepted, address = listener.accept()
            except OSError as e:
                if e.errno in _NO_DESCRIPTORS:
                    self._free_descriptor(listener)
                return
            self._take(accepted, name_source(address[0]))

    def _free_descriptor(self, listener: socket.socket) -> None:
        """Close the oldest connection; if there is none, pause accepting."""
        oldest = next(iter(self._open.list_open()), None)
        if oldest is not None:
            self._end(oldest)
            return
        self._loop.remove_reader(listener)
        self._loop.call_later(_PAUSE_SECONDS, self._resume, listener)

    def _resume(self, listener: socket.socket) -> None:
        if listener.fileno() >= 0:
            self._loop.add_reader(listener, self._accept_some, listener)

    def _take(self, accepted: socket.socket, source: str) -> None:
        accepted.setblocking(False)  # noqa: FBT003 the standard library's
        connection = _Connection(accepted)
        for evicted in self._open.add(connection, source):
            self._end(evicted)
        self._loop.add_reader(accepted, self._read, connection)
        connection.deadline = self._loop.call_later(self._limits.seconds, self._end, connection)
        self._read(connection)

    def _read(self, connection: "_Connection") -> None:
        """Read the bytes that have arrived; answer when the head is complete."""
        try:
            chunk = connection.socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._end(connection)
            return
        connection.head += chunk
        head, end, _ = connection.head.partition(_END_OF_HEAD)
        if len(head) > self._limits.request_bytes:
            connection.answer = _TOO_LARGE
        elif end:
            connection.answer = self._answer(bytes(head))
        else:
            return
        self._loop.remove_reader(connection.socket)
        self._loop.add_writer(connection.socket, self._write, connection)
        self._write(connection)

    def _write(self, connection: "_Connection") -> None:
        """Write as much as the socket takes; end the connection after the last byte."""
        try:
            sent = connection.socket.send(connection.answer)
        except BlockingIOError:
            return
        except OSError:
            self._end(connection)
            return
        connection.answer = connection.answer[sent:]
        if not connection.answer:
            self._end(connection)

    def _end(self, connection: "_Connection") -> None:
        self._open.remove(connection)
        if connection.deadline is not None:
            connection.deadline.cancel()
        if connection.socket.fileno() >= 0:
            self._loop.remove_reader(connection.socket)
            self._loop.remove_writer(connection.socket)
            connection.socket.close()


def _open_listeners(
    addresses: Iterable[tuple[socket.AddressFamily, tuple[Any, ...]]],
) -> list[socket.socket]:
    """Open a listening socket for each address that this host has.

    Raises:
        OSError: a port is taken, or the host has none of the addresses.
    """
    listeners: list[socket.socket] = []
    not_here: OSError | None = None
    with ExitStack() as opened:
        for family, address in addresses:
            try:
                listener = socket.create_server(address, family=family, backlog=_BACKLOG)
            except OSError as e:
                if e.errno not in _NOT_HERE:
                    raise
                not_here = e
                continue
            listeners.append(opened.enter_context(listener))
        if not_here is not None and not listeners:
            raise not_here
        opened.pop_all()
    return listeners


class _Connection:
    """One client."""

    __slots__ = ("answer", "deadline", "head", "socket")

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self.head = bytearray()
        self.answer = b""
        self.deadline: asyncio.TimerHandle | None = None
