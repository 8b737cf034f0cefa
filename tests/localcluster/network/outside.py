"""Run by ``test_egress`` in a network namespace of its own, whose loopback interface is the world.

Prints which addresses a Pod reaches.
"""

import asyncio
import socket
import sys
from pathlib import Path
from typing import cast
from unittest import mock

import dns.message
import dns.rrset

from localcluster import syscalls
from localcluster.network.choice import NetworkChoice
from localcluster.network.netlink import Netlink
from tests.localcluster.kubelet.nodes import build_pod, open_node

WORLD = "198.51.100.1"
POD = """
import socket, urllib.request
print(urllib.request.urlopen("http://world.example:8080/", timeout=240).read().decode())
for address, port in (("198.51.100.1", 8081), ("198.51.100.1", 4711), ("127.0.0.1", 8080)):
    try:
        with socket.create_connection((address, port), 240) as connection:
            print(port, connection.recv(1))
    except OSError as e:
        print(port, type(e).__name__)
"""


class Resolver(asyncio.DatagramProtocol):
    """A name server that knows one address for every name."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        query = dns.message.from_wire(data)
        answer = dns.message.make_response(query)
        question = query.question[0]
        answer.answer.append(dns.rrset.from_text(question.name, 60, "IN", "A", WORLD))
        self.transport.sendto(answer.to_wire(), addr)


async def serve_page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.0 200 OK\r\n\r\nthe world")
    await writer.drain()
    writer.close()


async def main(root: Path) -> None:
    loop = asyncio.get_running_loop()
    await asyncio.start_server(serve_page, WORLD, 8080)
    await loop.create_datagram_endpoint(Resolver, local_addr=(WORLD, 53))
    with (
        mock.patch("localcluster.network.namespaces.read_upstreams", return_value=[WORLD]),
        mock.patch("localcluster.network.name_server._UPSTREAM_SECONDS", 240.0),
        mock.patch("localcluster.network.egress._CONNECT_SECONDS", 240.0),
    ):
        await run_pod(root)


async def run_pod(root: Path) -> None:
    async with open_node(root, network=NetworkChoice.NAMESPACE) as node:
        container = {"name": "main", "image": "any", "command": [sys.executable, "-c", POD]}
        resolver = {"options": [{"name": "timeout", "value": "30"}]}
        await node.finish(build_pod("client", container, dnsConfig=resolver))
        print(await node.read_log("client"), end="")


if __name__ == "__main__":
    syscalls.unshare(syscalls.CLONE_NEWNET)
    netlink = Netlink()
    loopback = socket.if_nametoindex("lo")
    netlink.set_up(loopback)
    netlink.add_address(loopback, WORLD)
    asyncio.run(main(Path(sys.argv[1])))
