"""``pods/portforward``: connections to the ports of a Pod, through one WebSocket with SPDY."""

import asyncio
import contextlib
import itertools
import resource
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import aiohttp
import pytest

from localcluster.apiserver.front import websockets
from localcluster.apiserver.front.pod_ports import MAX_CONNECTIONS, PROTOCOL
from localcluster.apiserver.front.spdy import (
    Decoder,
    Encoder,
    Frame,
    Ping,
    Received,
    Reset,
    build_data,
    build_ping,
    build_reset,
)
from localcluster.stdio import StartError, Stdio, Streams
from tests.localcluster.server.conftest import TOKEN, Running, open_server
from tests.support.waiting import wait_until_async

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "pod", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "any"}]},
}
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Pods:
    """Programs in a Pod: port 80 is served by ``talk``, and nothing else."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._server: asyncio.Server | None = None
        self._theirs: list[asyncio.StreamWriter] = []
        self.writers: list[asyncio.StreamWriter] = []
        """Of the server, one for each connection."""
        self.is_open = asyncio.Event()
        """While it is not set, connections wait."""
        self.is_open.set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def run_command(self, uid: str, container: str, argv: Sequence[str], stdio: Stdio) -> int:
        del uid, container, argv, stdio
        raise StartError("not here")

    async def connect(self, uid: str, port: int) -> Streams:
        assert uid
        if port != 80:
            raise ConnectionRefusedError(111, "Connection refused")
        await self.is_open.wait()
        assert self._server is not None
        reader, writer = await asyncio.open_connection(*self._server.sockets[0].getsockname())
        self.writers.append(writer)
        return reader, writer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._theirs.append(writer)
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            await self._talk(reader, writer)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in self._theirs:
                writer.transport.abort()


class Client:
    """A client of one WebSocket, with the streams of its connections."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self._encoder = Encoder()
        self._decoder = Decoder()
        self._frames: list[Frame] = []
        self._numbers = itertools.count(1, 2)

    async def open(self, port: object) -> tuple[int, int]:
        """Open a connection; return its error stream and its data stream."""
        error, data = next(self._numbers), next(self._numbers)
        for stream, kind in ((error, "error"), (data, "data")):
            headers = {"streamtype": kind, "port": str(port), "requestid": str(error)}
            await self.socket.send_bytes(self._encoder.open(stream, headers))
        await self.socket.send_bytes(build_data(error, b"", is_last=True))
        return error, data

    async def open_stream(self, kind: str, port: object) -> int:
        """Open one stream only, with a requestid of its own."""
        stream = next(self._numbers)
        headers = {"streamtype": kind, "port": str(port), "requestid": str(stream)}
        await self.socket.send_bytes(self._encoder.open(stream, headers))
        return stream

    async def send(self, stream: int, content: bytes, *, is_last: bool = False) -> None:
        await self.socket.send_bytes(build_data(stream, content, is_last=is_last))

    async def read_until(self, predicate: Callable[[Frame], bool]) -> Frame:
        seen = 0
        while True:
            for frame in self._frames[seen:]:
                if predicate(frame):
                    return frame
            seen = len(self._frames)
            self._frames += self._decoder.feed(await self.socket.receive_bytes())

    async def read_all(self, stream: int) -> bytes:
        """Return the content of a stream up to its end."""
        await self.read_until(
            lambda frame: isinstance(frame, Received) and frame.stream == stream and frame.is_last
        )
        return self.get_content(stream)

    def has_ended(self, stream: int) -> bool:
        """Return whether the end of a stream was among the frames that were read."""
        return any(
            isinstance(frame, Received) and frame.stream == stream and frame.is_last
            for frame in self._frames
        )

    def get_content(self, stream: int) -> bytes:
        return b"".join(
            frame.content
            for frame in self._frames
            if isinstance(frame, Received) and frame.stream == stream
        )


@asynccontextmanager
async def forward(talk: Talk) -> AsyncIterator[tuple[Pods, Client]]:
    async with open_server() as running:
        await create_pod(running, "Running")
        pods = Pods(talk)
        await pods.start()
        running.server.attach_pods(pods)
        async with connect(running) as socket:
            yield pods, Client(socket)
        await pods.close()


async def create_pod(running: Running, phase: str) -> None:
    rt = running.storage.registry.find("", "v1", "pods")
    assert rt is not None
    running.storage.create(rt, "default", POD)
    patch = {"status": {"phase": phase}}
    path = f"{running.url}/api/v1/namespaces/default/pods/pod/status"
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/merge-patch+json"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.patch(path, json=patch) as answer,
    ):
        assert answer.status == 200


@asynccontextmanager
async def connect(
    running: Running, protocol: str = PROTOCOL
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    path = f"{running.url}/api/v1/namespaces/default/pods/pod/portforward"
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.ws_connect(path, protocols=(protocol,)) as socket,
    ):
        yield socket


async def count_input(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer after the end of the input only."""
    writer.write(b"%d bytes" % len(await reader.read(-1)))


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65536):
        writer.write(chunk)
        await writer.drain()


async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read nothing until the connection ends."""
    del reader
    await writer.wait_closed()


async def test_the_end_of_the_input_reaches_the_pod_before_its_answer() -> None:
    async with forward(count_input) as (_, client):
        error, data = await client.open(80)
        await client.send(data, b"x" * 100_000)
        await client.send(data, b"x" * 5, is_last=True)
        assert await client.read_all(data) == b"100005 bytes"
        assert await client.read_all(error) == b""


async def test_connections_of_one_socket_are_kept_apart() -> None:
    async with forward(echo) as (_, client):
        streams = [(await client.open(80))[1] for _ in range(10)]
        for turn in range(3):
            for stream in streams:
                await client.send(stream, b"%d of %d;" % (turn, stream), is_last=turn == 2)
        for stream in streams:
            expected = b"".join(b"%d of %d;" % (turn, stream) for turn in range(3))
            assert await client.read_all(stream) == expected


@pytest.mark.parametrize(
    ("port", "fault"),
    [
        (81, b"connection refused: no program in the Pod listens on this port"),
        (0, b"it must be a number from 1 to 65535"),
        ("99999999", b"it must be a number from 1 to 65535"),
        ("http", b"it must be a number from 1 to 65535"),
    ],
)
async def test_a_port_that_cannot_be_reached_is_told_and_others_go_on(
    port: object, fault: bytes
) -> None:
    async with forward(echo) as (_, client):
        error, data = await client.open(port)
        assert (await client.read_all(error)).endswith(fault)
        assert await client.read_all(data) == b""
        _, good = await client.open(80)
        await client.send(good, b"hello", is_last=True)
        assert await client.read_all(good) == b"hello"


async def test_a_reset_ends_the_connection_to_the_pod() -> None:
    async with forward(echo) as (pods, client):
        error, data = await client.open(80)
        await client.send(data, b"hello")
        await client.read_until(lambda frame: isinstance(frame, Received) and bool(frame.content))
        await client.socket.send_bytes(build_reset(data, 5))
        assert await client.read_all(error) == b""
        await wait_until_closed(pods)


async def test_a_reset_before_the_pod_is_connected_ends_the_connection_too() -> None:
    async with forward(say_nothing) as (pods, client):
        pods.is_open.clear()
        error, data = await client.open(80)
        await client.socket.send_bytes(build_reset(data, 5) + build_ping(7))
        await client.read_until(lambda frame: frame == Ping(7))
        pods.is_open.set()
        assert await client.read_all(error) == b""
        await wait_until_closed(pods)


async def test_content_after_the_end_of_the_input_is_dropped_and_others_go_on() -> None:
    async with forward(count_input) as (_, client):
        _, data = await client.open(80)
        await client.send(data, b"hello", is_last=True)
        await client.send(data, b"more", is_last=True)
        assert await client.read_all(data) == b"5 bytes"
        _, good = await client.open(80)
        await client.send(good, b"hello", is_last=True)
        assert await client.read_all(good) == b"5 bytes"


async def test_a_reset_of_an_error_stream_makes_room_for_another() -> None:
    async with forward(echo) as (_, client):
        errors = [await client.open_stream("error", 80) for _ in range(MAX_CONNECTIONS)]
        await client.socket.send_bytes(build_reset(errors[-1], 5))
        _, data = await client.open(80)
        await client.send(data, b"hello", is_last=True)
        assert await client.read_all(data) == b"hello"


async def test_many_frames_in_one_message_do_not_hold_up_other_clients() -> None:
    async with forward(echo) as (_, client):
        frames, turns = 5000, 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count_turns())
        content = b"".join(build_ping(number) for number in range(frames))
        await client.socket.send_bytes(content)
        await client.read_until(lambda frame: frame == Ping(frames - 1))
        counting.cancel()
        assert turns >= frames


async def test_a_connection_that_breaks_in_the_pod_is_reset() -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        # Closed without lingering, the connection ends with a reset, after any read.
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async with forward(break_off) as (_, client):
        _, data = await client.open(80)
        await client.send(data, b"hello")
        await client.read_until(lambda frame: frame == Reset(data))
        assert not client.has_ended(data)


async def test_the_end_of_the_client_ends_connections_whose_pod_reads_nothing() -> None:
    async with forward(say_nothing) as (pods, client):
        _, data = await client.open(80)
        sending = asyncio.create_task(send_without_end(client, data))
        # The server waits for the Pod to read, and reads no more of what the client sends.
        await wait_until_async(lambda: any(map(is_full, pods.writers)))
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        assert client.socket._conn is not None
        assert client.socket._conn.transport is not None
        client.socket._conn.transport.abort()
        await wait_until_closed(pods)


async def wait_until_closed(pods: Pods) -> None:
    with contextlib.suppress(ConnectionError):
        await pods.writers[-1].wait_closed()


def is_full(writer: asyncio.StreamWriter) -> bool:
    """Return whether content waits beyond the limit above which ``drain`` waits."""
    transport = writer.transport
    return transport.get_write_buffer_size() > transport.get_write_buffer_limits()[1]


async def send_without_end(client: Client, stream: int) -> None:
    while True:
        await client.send(stream, bytes(65536))


async def test_more_connections_than_allowed_are_refused() -> None:
    async with forward(echo) as (_, client):
        for _ in range(MAX_CONNECTIONS):
            await client.open(80)
        error, data = await client.open(80)
        await client.read_until(lambda frame: frame == Reset(error))
        await client.read_until(lambda frame: frame == Reset(data))


async def test_a_ping_is_answered() -> None:
    async with forward(echo) as (_, client):
        await client.socket.send_bytes(build_ping(7))
        assert await client.socket.receive_bytes() == build_ping(7)


async def test_bytes_of_another_protocol_end_the_socket() -> None:
    async with forward(echo) as (_, client):
        await client.socket.send_bytes(b"\x80\x02\x00\x01\x00\x00\x00\x00")
        message = await client.socket.receive()
        assert message.type is aiohttp.WSMsgType.CLOSE


@pytest.mark.parametrize(
    ("phase", "protocol", "fault"),
    [
        ("Pending", PROTOCOL, "pod is not running. Current status=Pending"),
        ("Running", "v4.channel.k8s.io", f"this server has WebSockets with {PROTOCOL} only"),
    ],
)
async def test_what_cannot_be_forwarded_is_refused(phase: str, protocol: str, fault: str) -> None:
    async with open_server() as running:
        await create_pod(running, phase)
        running.server.attach_pods(Pods(echo))
        path = f"{running.url}/api/v1/namespaces/default/pods/pod/portforward"
        headers = {"Authorization": f"Bearer {TOKEN}", "Sec-WebSocket-Protocol": protocol}
        headers |= {"Upgrade": "websocket", "Connection": "Upgrade"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(path) as answer,
        ):
            assert answer.status == 400
            assert fault in (await answer.json())["message"]


async def test_sockets_and_connections_of_a_client_with_a_token_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(websockets, "_MAX_DESCRIPTORS", 10)
    async with open_server() as running:
        await create_pod(running, "Running")
        pods = Pods(echo)
        await pods.start()
        running.server.attach_pods(pods)
        async with connect(running) as socket:
            client = Client(socket)
            streams = [await client.open(80) for _ in range(10)]
            refused = await client.read_until(lambda frame: isinstance(frame, Reset))
            assert refused == Reset(streams[9][1])
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await connect(running).__aenter__()
            assert caught.value.status == 429
            # The end of one makes room for another.
            error, data = streams[0]
            await client.send(data, b"", is_last=True)
            await client.read_all(error)
            async with connect(running):
                pass
        await pods.close()


def test_half_of_the_descriptors_are_left_to_other_connections() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 0 < websockets.DescriptorBudget().left <= soft // 2
