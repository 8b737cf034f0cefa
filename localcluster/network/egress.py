"""Connections of Pods to other machines.

The Pods' network routes every address outside of it to this program, which listens there on the
usual ports and makes the same connection from this machine. The network of this machine is not
changed, so this needs no rights. UDP and other ports are refused at once, and this machine's
loopback addresses are out of reach.
"""

import asyncio
import ipaddress
import logging
import socket
import struct
from collections.abc import Iterable
from ipaddress import IPv4Network

logger = logging.getLogger(__name__)

PORTS = (
    *(20, 21, 22, 80, 443, 636, 873, 989, 990, 1080, 1433, 1521, 2049, 3000, 3128, 3306, 5000),
    *(5432, 6379, 8000, 8080, 8081, 8200, 8443, 8888, 9000, 9092, 9200, 9418, 27017),
)
_CHUNK = 256 * 1024
_CONNECT_SECONDS = 20.0
# With this option, close sends a reset, as a failed connection does.
_NO_LINGER = struct.pack("ii", 1, 0)


class Egress:
    """Relays connections until closed."""

    def __init__(self, block: IPv4Network) -> None:
        """Prepare; addresses of ``block`` are inside."""
        self._block = block
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, listeners: Iterable[socket.socket]) -> None:
        """Serve on sockets of the Pods' network that are bound to every address."""
        for listener in listeners:
            self._servers.append(await asyncio.start_server(self._take, sock=listener))

    async def close(self) -> None:
        """End all connections."""
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A coroutine here would end in a traceback when it is cancelled, up to Python 3.12.
        task = asyncio.get_running_loop().create_task(self._relay(reader, writer), name="egress")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The address that the Pod connected to.
        host, port = writer.get_extra_info("sockname")[:2]
        try:
            if ipaddress.ip_address(host) in self._block:
                raise ConnectionRefusedError
            async with asyncio.timeout(_CONNECT_SECONDS):
                far_reader, far_writer = await asyncio.open_connection(host, port)
        except (OSError, TimeoutError) as e:
            logger.debug("no way out", extra={"host": host, "port": port, "error": str(e)})
            inside = writer.get_extra_info("socket")
            inside.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            writer.transport.abort()
            return
        try:
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        finally:
            far_writer.close()
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction to its end; the other direction may go on."""
    try:
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
    except OSError:
        # This ends the other direction.
        writer.close()
