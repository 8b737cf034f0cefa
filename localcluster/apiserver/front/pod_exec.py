"""``GET pods/NAME/exec``: runs a command in a container, its streams in a WebSocket.

The messages are those of ``v4.channel.k8s.io`` and ``v5.channel.k8s.io``: the first byte is the
channel. kubectl 1.31 or newer uses them; older ones use SPDY, which this server does not have.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import struct
import termios
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import WSMsgType, web

from localcluster.apiserver.front.pod_logs import choose_container
from localcluster.apiserver.front.targets import read_flag
from localcluster.apiserver.front.websockets import (
    DescriptorBudget,
    RunningPods,
    drain_while_connected,
    is_websocket,
)
from localcluster.apiserver.model.errors import Object, bad_request
from localcluster.stdio import StartError, Stdio

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
"""Channels. A message of CLOSE has one byte, the channel that its sender closes."""
_CHUNK_BYTES = 32 * 1024
_MAX_MESSAGE_BYTES = 1024 * 1024
_MAX_SIDE = 10_000
_DESCRIPTORS = 8
"""Descriptors of a command: the WebSocket, three pipes of two ends, and one for the process."""


@dataclass(frozen=True, slots=True)
class _Call:
    """One request."""

    uid: str
    container: str
    argv: list[str]
    has_stdin: bool
    has_terminal: bool


async def serve_command(
    request: web.Request,
    commands: RunningPods,
    pod: dict[str, Any],
    budget: DescriptorBudget,
) -> web.StreamResponse:
    """Run the command of a request until it ends or the client closes the connection."""
    call = _read_call(request, pod)
    if not is_websocket(request):
        raise bad_request(
            "Upgrade request required: this server has WebSockets only, which kubectl 1.31 or "
            "newer and `framework exec` use"
        )
    socket = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=_MAX_MESSAGE_BYTES)
    with budget.take(_DESCRIPTORS):
        await socket.prepare(request)
        status = await _Session(socket, call).run(commands)
        with contextlib.suppress(ConnectionError):
            await socket.send_bytes(bytes([ERROR]) + json.dumps(status).encode())
        await socket.close()
    return socket


def _read_call(request: web.Request, pod: dict[str, Any]) -> _Call:
    query = request.query
    argv = query.getall("command", [])
    if not argv:
        raise bad_request("you must specify at least 1 command for the container")
    container = choose_container(pod, query.get("container") or None)
    phase = (pod.get("status") or {}).get("phase")
    if phase in {"Succeeded", "Failed"}:
        raise bad_request(
            f"cannot exec into a container in a completed pod; current phase is {phase}"
        )
    return _Call(
        uid=str(pod["metadata"]["uid"]),
        container=container,
        argv=[str(word) for word in argv],
        has_stdin=read_flag(query, "stdin"),
        has_terminal=read_flag(query, "tty"),
    )


class _Session:
    """A command, and the tasks that copy between its descriptors and the WebSocket."""

    def __init__(self, socket: web.WebSocketResponse, call: _Call) -> None:
        self._socket = socket
        self._call = call
        self._terminal = -1
        self._stdin_descriptor = -1
        self._input: asyncio.StreamWriter | None = None
        self._outputs: list[tuple[int, int]] = []

    async def run(self, commands: RunningPods) -> Object:
        """Run to the end; return the Status for the client."""
        call = self._call
        with contextlib.ExitStack() as theirs:
            stdio = self._open_terminal(theirs) if call.has_terminal else self._open_pipes(theirs)
            receiving = asyncio.create_task(self._receive(), name="exec input")
            sending = [
                asyncio.create_task(self._send(channel, descriptor), name=f"exec output {channel}")
                for channel, descriptor in self._outputs
            ]
            running = asyncio.create_task(
                commands.run_command(call.uid, call.container, call.argv, stdio),
                name="exec command",
            )
            try:
                await asyncio.wait({receiving, running}, return_when=asyncio.FIRST_COMPLETED)
                if not running.done():
                    # The client has closed the connection.
                    running.cancel()
                status = await _await_status(running)
            finally:
                receiving.cancel()
                running.cancel()
                await asyncio.gather(receiving, running, return_exceptions=True)
        # The command's ends of the pipes are closed now, so the outputs end.
        await asyncio.gather(*sending, return_exceptions=True)
        return status

    def _open_pipes(self, theirs: contextlib.ExitStack) -> Stdio:
        ends = []
        for channel in (STDOUT, STDERR):
            ours, end = os.pipe()
            theirs.callback(os.close, end)
            self._outputs.append((channel, ours))
            ends.append(end)
        if not self._call.has_stdin:
            return Stdio(stdout=ends[0], stderr=ends[1])
        source, sink = os.pipe()
        theirs.callback(os.close, source)
        self._stdin_descriptor = sink
        return Stdio(source, ends[0], ends[1])

    def _open_terminal(self, theirs: contextlib.ExitStack) -> Stdio:
        ours, end = pty.openpty()
        theirs.callback(os.close, end)
        # A duplicate: `ours` is closed at the end of the output, and its number is used again.
        self._terminal = os.dup(ours)
        theirs.callback(os.close, self._terminal)
        self._outputs.append((STDOUT, ours))
        self._stdin_descriptor = os.dup(ours) if self._call.has_stdin else -1
        return Stdio(end, end, end, terminal=True)

    async def _send(self, channel: int, descriptor: int) -> None:
        """Copy an output of the command until its end."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_CHUNK_BYTES)
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
        )
        try:
            # A terminal reports an error when its last process ends.
            with contextlib.suppress(OSError):
                while chunk := await reader.read(_CHUNK_BYTES):
                    await self._socket.send_bytes(bytes([channel]) + chunk)
        finally:
            transport.close()

    async def _receive(self) -> None:
        """Copy the client's input to the command until the client closes the connection."""
        await self._open_input()
        try:
            async for message in self._socket:
                if message.type is WSMsgType.BINARY and message.data:
                    await self._take(message.data[0], message.data[1:])
        finally:
            if self._input is not None:
                self._input.close()

    async def _open_input(self) -> None:
        if self._stdin_descriptor < 0:
            return
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()),
            os.fdopen(self._stdin_descriptor, "wb", 0),
        )
        self._input = asyncio.StreamWriter(transport, protocol, None, loop)

    async def _take(self, channel: int, content: bytes) -> None:
        if channel == RESIZE and self._terminal >= 0:
            _resize(self._terminal, content)
        elif self._input is None:
            return
        elif channel == CLOSE and content == bytes([STDIN]):
            self._input.close()
        elif channel == STDIN and not self._input.is_closing():
            self._input.write(content)
            # The command may end, or close its input.
            await drain_while_connected(self._input, self._socket.ping)


async def _await_status(running: "asyncio.Task[int]") -> Object:
    try:
        code = await running
    except StartError as e:
        # kubectl prints the message and ends with 1, as on a cluster; our client uses the code.
        return _fail("InternalError", f"cannot run the command: {e}", e.exit_code)
    except asyncio.CancelledError:
        if not running.cancelled():
            raise
        return _fail("InternalError", "the client has gone")
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    message = f"command terminated with non-zero exit code: exit status {code}"
    return _fail("NonZeroExitCode", message, code)


def _fail(reason: str, message: str, exit_code: int | None = None) -> Object:
    status: Object = {"metadata": {}, "status": "Failure", "reason": reason, "message": message}
    if exit_code is not None:
        status["details"] = {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]}
    return status


def _resize(terminal: int, content: bytes) -> None:
    try:
        size: Mapping[str, Any] = json.loads(content)
        sides = [min(max(int(size[side]), 0), _MAX_SIDE) for side in ("Height", "Width")]
    except (ValueError, TypeError, KeyError, RecursionError):
        return
    with contextlib.suppress(OSError):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *sides, 0, 0))
