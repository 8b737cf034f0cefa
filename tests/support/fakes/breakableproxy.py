"""A TCP proxy that a test can cut, so that a running server becomes unreachable.

The proxy forwards bytes, so TLS is end to end.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

_CHUNK_BYTES = 65536


class BreakableProxy:
    """Listens on its own port while it is open, and forwards each connection."""

    def __init__(self, host: str, port: int) -> None:
        """Forward to a server; ``open`` starts to listen."""
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
            server_reader, server_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, server_writer}
        self._writers |= ends
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_forward(reader, server_writer), name="to-server")
                tasks.create_task(_forward(server_reader, writer), name="to-client")
        finally:
            self._writers -= ends
            for end in ends:
                end.transport.abort()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while content := await reader.read(_CHUNK_BYTES):
            writer.write(content)
            await writer.drain()
    writer.transport.abort()


@contextlib.asynccontextmanager
async def open_proxy(host: str, port: int) -> AsyncIterator[BreakableProxy]:
    """Forward to a server until the block ends."""
    proxy = BreakableProxy(host, port)
    await proxy.open()
    try:
        yield proxy
    finally:
        await proxy.cut()
