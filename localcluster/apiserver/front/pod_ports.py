"""``GET pods/NAME/portforward``: connects a client to ports of a Pod, through one WebSocket.

The WebSocket carries SPDY frames, as kubectl 1.31 or newer sends them. The client opens two streams
for each connection: one with the streamtype ``error``, then one with ``data``. Both name the port
and the same requestid. The message of a failure goes to the error stream.

Memory is bounded: the WebSocket is not read while a Pod does not read the content before, so a
blocked connection also blocks the other connections of the same WebSocket.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from aiohttp import WSMsgType, web

from localcluster.apiserver.front.spdy import (
    INTERNAL_ERROR,
    REFUSED_STREAM,
    Decoder,
    Encoder,
    Frame,
    Goodbye,
    Opened,
    Ping,
    ProtocolError,
    Received,
    Reset,
    build_data,
    build_ping,
    build_reset,
)
from localcluster.apiserver.front.websockets import (
    DescriptorBudget,
    RunningPods,
    drain_while_connected,
    is_websocket,
)
from localcluster.apiserver.model.errors import bad_request
from localcluster.stdio import Streams

PROTOCOL = "SPDY/3.1+portforward.k8s.io"
MAX_CONNECTIONS = 256
"""Maximum at the same time in a WebSocket."""
_CONNECT_SECONDS = 10.0
_CHUNK_BYTES = 32 * 1024
_MAX_MESSAGE_BYTES = 1024 * 1024
_MAX_PORT, _PORT_DIGITS = 65535, 5

_Send: TypeAlias = Callable[[bytes], Awaitable[None]]


async def serve_ports(
    request: web.Request,
    ports: RunningPods,
    pod: dict[str, Any],
    budget: DescriptorBudget,
) -> web.StreamResponse:
    """Forward connections until the client closes the WebSocket."""
    phase = (pod.get("status") or {}).get("phase")
    if phase != "Running":
        raise bad_request(f"pod is not running. Current status={phase or 'Pending'}")
    offered = request.headers.get("Sec-WebSocket-Protocol", "")
    if not is_websocket(request) or PROTOCOL not in (word.strip() for word in offered.split(",")):
        raise bad_request(
            f"Upgrade request required: this server has WebSockets with {PROTOCOL} only, which "
            "kubectl 1.31 or newer uses"
        )
    socket = web.WebSocketResponse(
        protocols=(PROTOCOL,), max_msg_size=_MAX_MESSAGE_BYTES, compress=False
    )
    with budget.take(1):
        await socket.prepare(request)
        await _Session(socket, ports, pod["metadata"], budget).run()
        await socket.close()
    return socket


class _Connection:
    """A connection of the client to the Pod, with its two streams."""

    def __init__(self, send: _Send, error_stream: int, data_stream: int) -> None:
        self._send = send
        self._error_stream = error_stream
        self._data_stream = data_stream
        self._writer: asyncio.StreamWriter | None = None
        self._has_started = asyncio.Event()
        """Set when the connection to the Pod has succeeded or failed."""
        self._input_ended = asyncio.Event()

    async def run(self, connect: Callable[[], Awaitable[Streams]], description: str) -> None:
        """Connect to the Pod and copy its content to the client, until both directions end."""
        last = b""
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                reader, self._writer = await connect()
            if self._input_ended.is_set():
                # The client gave up before the connection succeeded.
                self._writer.transport.abort()
            self._has_started.set()
            while chunk := await reader.read(_CHUNK_BYTES):
                await self._send(build_data(self._data_stream, chunk))
            await self._send(build_data(self._data_stream, b"", is_last=True))
            await self._input_ended.wait()
        except asyncio.CancelledError:
            # A Pod that does not read must not keep the content in memory.
            self.abort()
            raise
        except OSError as e:
            if self._writer is None:
                fault = f"error forwarding {description}: {_describe(e)}"
                await self._send(build_data(self._error_stream, fault.encode()))
                last = build_data(self._data_stream, b"", is_last=True)
            else:
                # The client must not regard the content as complete.
                last = build_reset(self._data_stream, INTERNAL_ERROR)
        finally:
            self._has_started.set()
            if self._writer is not None:
                self._writer.close()
        await self._send(build_data(self._error_stream, b"", is_last=True) + last)

    async def take(
        self, content: bytes, *, is_last: bool, ping: Callable[[], Awaitable[None]]
    ) -> None:
        """Pass content of the client on, and wait until there is room for more.

        Raises:
            ConnectionError: the client has gone.
        """
        await self._has_started.wait()
        if self._input_ended.is_set():
            # A client that sends more after its end breaks the protocol.
            return
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(content)
            await drain_while_connected(self._writer, ping)
            if is_last and not self._writer.is_closing():
                with contextlib.suppress(OSError):
                    self._writer.write_eof()
        if is_last:
            self._input_ended.set()

    def abort(self) -> None:
        """End both directions: the client has given the connection up."""
        self._input_ended.set()
        if self._writer is not None:
            self._writer.transport.abort()


def _describe(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: no program in the Pod listens on this port"
    if isinstance(error, TimeoutError):
        return f"no answer after {_CONNECT_SECONDS:g} s"
    return str(error.strerror or error)


class _Session:
    """The streams of one WebSocket."""

    def __init__(
        self,
        socket: web.WebSocketResponse,
        ports: RunningPods,
        metadata: dict[str, Any],
        budget: DescriptorBudget,
    ) -> None:
        self._socket = socket
        self._ports = ports
        self._budget = budget
        self._uid = str(metadata["uid"])
        self._pod = str(metadata["name"])
        self._decoder = Decoder()
        self._encoder = Encoder()
        self._waiting: dict[str, int] = {}
        """Error streams without a data stream yet, by requestid."""
        self._connections: dict[int, _Connection] = {}
        """By data stream."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Handle frames until the client closes the WebSocket; then end all connections."""
        try:
            # A client that breaks the protocol, or is gone, gets only the end of the WebSocket.
            with contextlib.suppress(ProtocolError, ConnectionError):
                await self._receive()
        finally:
            tasks = tuple(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _receive(self) -> None:
        async for message in self._socket:
            if message.type is not WSMsgType.BINARY:
                continue
            for frame in self._decoder.feed(message.data):
                if isinstance(frame, Goodbye):
                    return
                await self._take(frame)
                # Let other tasks run: a message can have many frames, and ``_take`` may not wait.
                await asyncio.sleep(0)

    async def _take(self, frame: Frame) -> None:
        match frame:
            case Opened(stream, headers):
                await self._open(stream, headers)
            case Received(stream, content, is_last) if stream in self._connections:
                connection = self._connections[stream]
                await connection.take(content, is_last=is_last, ping=self._socket.ping)
            case Reset(stream) if stream in self._connections:
                self._connections[stream].abort()
            case Reset(stream):
                self._forget_waiting(stream)
            case Ping(number):
                await self._send(build_ping(number))
            case _:
                # Content for an error stream, or for a connection that has ended.
                pass

    async def _open(self, stream: int, headers: Mapping[str, str]) -> None:
        request, kind = headers.get("requestid", ""), headers.get("streamtype")
        is_full = len(self._waiting) + len(self._connections) >= MAX_CONNECTIONS
        is_accepted = request in self._waiting and stream not in self._connections
        if kind == "error" and not is_full and request not in self._waiting:
            self._waiting[request] = stream
            await self._send(self._encoder.accept(stream))
        elif kind == "data" and is_accepted and self._budget.left:
            self._start(self._waiting.pop(request), stream, headers.get("port", ""))
            await self._send(self._encoder.accept(stream))
        else:
            await self._send(build_reset(stream, REFUSED_STREAM))

    def _forget_waiting(self, error_stream: int) -> None:
        for request in [key for key, stream in self._waiting.items() if stream == error_stream]:
            del self._waiting[request]

    def _start(self, error_stream: int, data_stream: int, port: str) -> None:
        connection = _Connection(self._send, error_stream, data_stream)
        self._connections[data_stream] = connection
        slot = contextlib.ExitStack()
        slot.enter_context(self._budget.take(1))
        description = f"port {port[:_PORT_DIGITS]} to pod {self._pod}"
        task = asyncio.create_task(
            connection.run(partial(self._connect, port), description), name=f"forward {description}"
        )
        self._tasks.add(task)

        def remove(task: asyncio.Task[None]) -> None:
            slot.close()
            self._tasks.discard(task)
            self._connections.pop(data_stream, None)

        task.add_done_callback(remove)

    async def _connect(self, port: str) -> Streams:
        is_number = port.isascii() and port.isdecimal() and len(port) <= _PORT_DIGITS
        if not is_number or not 0 < int(port) <= _MAX_PORT:
            raise OSError("it must be a number from 1 to 65535")
        return await self._ports.connect(self._uid, int(port))

    async def _send(self, frame: bytes) -> None:
        """Send a frame; without a client, ``run`` ends."""
        with contextlib.suppress(ConnectionError):
            await self._socket.send_bytes(frame)
