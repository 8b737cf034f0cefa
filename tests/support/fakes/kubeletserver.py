"""The HTTPS port of a kubelet: logs, programs and ports of containers that do not exist.

A real API server connects to it for ``logs``, ``exec`` and ``port-forward``; the answers come from
a script. Programs and ports use SPDY/3.1, as between the API server and a kubelet. The server reads
no header of a stream: clients open the streams of a program, and of a connection, in a fixed order.
"""

import asyncio
import json
import ssl
import struct
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

_SYN_STREAM, _SYN_REPLY, _PING = 1, 2, 6
_CONTROL = 0x80030000
_FIN = 1
_EXEC_PROTOCOL, _FORWARD_PROTOCOL = "v4.channel.k8s.io", "portforward.k8s.io"


class Ended(NamedTuple):
    """The output and the exit code of a program."""

    output: str
    code: int = 0


@dataclass(frozen=True)
class Contents:
    """The answers of the containers of a Pod."""

    read_log: Callable[[str, str], str] = lambda _pod, _container: ""
    """The log of a container; each line begins with its time."""
    run: Callable[[str, tuple[str, ...]], Ended] = lambda _pod, _argv: Ended("")
    """Runs a program in a Pod."""
    answer: bytes = field(default=b"")
    """The answer of each port of a Pod to a request; then it closes the connection."""


@asynccontextmanager
async def open_kubelet_server(contents: Contents, tls: ssl.SSLContext) -> AsyncIterator[int]:
    """Serve on a port of 127.0.0.1, which is yielded, until the block ends."""
    connections = _Connections(contents)
    server = await asyncio.start_server(connections.serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await connections.close()


class _Connections:
    """The connections that are open."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # The client or the test has ended.
        finally:
            self._tasks.discard(task)
            writer.close()

    async def close(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        url = urlsplit(head.split(" ", 2)[1])
        query = parse_qs(url.query)
        action, _namespace, pod, *rest = url.path.strip("/").split("/")
        if action == "containerLogs":
            lines = self._contents.read_log(pod, rest[0]).splitlines(keepends=True)
            if "tailLines" in query:
                lines = lines[-int(query["tailLines"][0]) :]
            if "timestamps" not in query:
                lines = [line.partition(" ")[2] for line in lines]
            text = "".join(lines)
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + text.encode())
            await writer.drain()
            return
        protocol = _EXEC_PROTOCOL if action == "exec" else _FORWARD_PROTOCOL
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
            b"X-Stream-Protocol-Version: %s\r\n\r\n" % protocol.encode()
        )
        streams = _Streams(reader, writer)
        if action == "exec":
            ended = self._contents.run(pod, tuple(query["command"]))
            wanted = [name for name in ("input", "output", "error") if name in query]
            await _send_program(streams, ended, wanted)
        else:
            await _forward(streams, self._contents.answer)
        await streams.wait_for_end()


async def _send_program(streams: "_Streams", ended: Ended, wanted: Sequence[str]) -> None:
    """Accept the stream of the exit code, then those that the client wants, and answer."""
    result = await streams.accept()
    for name in wanted:
        stream = await streams.accept()
        if name != "input":
            streams.send(stream, ended.output.encode() if name == "output" else b"")
    streams.send(result, json.dumps(_build_status(ended.code)).encode())


def _build_status(code: int) -> dict[str, object]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


async def _forward(streams: "_Streams", answer: bytes) -> None:
    """Answer each connection, which is a stream for errors and a stream for data.

    A program that answers before it has read the request makes the forwarding program close a
    connection with unread bytes: the client may then lose the answer.
    """
    while True:
        error, data = await streams.accept(), await streams.accept()
        await streams.wait_for_data(data)
        streams.send(data, answer)
        streams.send(error, b"")


class _Streams:
    """The streams that a client opens on a connection, each of which is answered once."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        # One compressor for all headers of a connection.
        self._compressor = zlib.compressobj()

    async def accept(self) -> int:
        """Wait until the client opens a stream; reply, and return its id.

        Raises:
            asyncio.IncompleteReadError: the client has closed the connection.
        """
        while True:
            word, payload = await self._read_frame()
            if word == _CONTROL + _SYN_STREAM:
                (stream,) = struct.unpack(">I", payload[:4])
                no_headers = self._compressor.compress(bytes(4))
                no_headers += self._compressor.flush(zlib.Z_SYNC_FLUSH)
                self._write(_CONTROL + _SYN_REPLY, 0, payload[:4] + no_headers)
                return int(stream)

    async def wait_for_data(self, stream: int) -> None:
        """Wait until the client has sent data on a stream; the data is not kept.

        Raises:
            asyncio.IncompleteReadError: the client has closed the connection.
        """
        while True:
            word, payload = await self._read_frame()
            if word == stream and payload:
                return

    def send(self, stream: int, content: bytes) -> None:
        """Send all of a stream."""
        self._write(stream, _FIN, content)

    async def wait_for_end(self) -> None:
        """Wait until the client closes the connection, which is the error of this function."""
        while True:
            await self._read_frame()

    async def _read_frame(self) -> tuple[int, bytes]:
        word, length = struct.unpack(">II", await self._reader.readexactly(8))
        payload = await self._reader.readexactly(length & 0xFFFFFF)
        if word == _CONTROL + _PING:
            self._write(word, 0, payload)
        return word, payload

    def _write(self, word: int, flags: int, payload: bytes) -> None:
        self._writer.write(struct.pack(">II", word, flags << 24 | len(payload)) + payload)
