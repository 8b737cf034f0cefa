"""A way to a server that a test can cut: to its user the server is then away, though it is not.

Called by tests of outages. It passes bytes on, so TLS goes from end to end.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

_CHUNK_BYTES = 65536


class SeverableWay:
    """Listens on a port of its own while it is open, and forwards each connection."""

    def __init__(self, host: str, port: int) -> None:
        """Lead to a server; nothing listens yet."""
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def open(self) -> None:
        """Listen, always on the same port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Break all connections and refuse new ones."""
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, there_writer}
        self._writers |= ends
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_pass_on(reader, there_writer), name="way-there")
                tasks.create_task(_pass_on(there_reader, writer), name="way-back")
        finally:
            self._writers -= ends
            for end in ends:
                end.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while content := await reader.read(_CHUNK_BYTES):
            writer.write(content)
            await writer.drain()
    writer.transport.abort()


@contextlib.asynccontextmanager
async def open_way(host: str, port: int) -> AsyncIterator[SeverableWay]:
    """Lead to a server until the block is left."""
    way = SeverableWay(host, port)
    await way.open()
    try:
        yield way
    finally:
        await way.cut()
