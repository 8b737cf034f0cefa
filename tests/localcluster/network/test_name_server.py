import asyncio
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import dns.asyncquery
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdatatype
import pytest

from framework.kube.resources import Object
from localcluster.network.name_server import NameServer, read_upstreams
from tests.localcluster.network.builders import build_names, build_pod, build_service
from tests.support.waiting import HANG_SECONDS

pytestmark = [pytest.mark.local, pytest.mark.looptime(False)]  # noqa: FBT003 the marker's


NAME = "train.default.svc.cluster.local"


class Ports(NamedTuple):
    udp: int
    tcp: int


@asynccontextmanager
async def serve(service: Object, *pods: Object) -> AsyncGenerator[Ports]:
    """Serve on free ports of this machine, without an upstream server."""
    names = build_names(service, *pods)
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", 0))
    # The number of the one may be taken for the other.
    listener = socket.create_server(("127.0.0.1", 0))
    for opened in (datagrams, listener):
        opened.setblocking(False)  # noqa: FBT003 the standard library's
    server = NameServer(names, [])
    await server.start(datagrams, listener)
    try:
        yield Ports(datagrams.getsockname()[1], listener.getsockname()[1])
    finally:
        await server.close()


async def ask(
    ports: Ports, name: str = NAME, kind: str = "A", *, tcp: bool = False
) -> dns.message.Message:
    query = dns.message.make_query(name, kind)
    if tcp:
        return await dns.asyncquery.tcp(query, "127.0.0.1", port=ports.tcp, timeout=HANG_SECONDS)
    return await dns.asyncquery.udp(query, "127.0.0.1", port=ports.udp, timeout=HANG_SECONDS)


def list_texts(answer: dns.message.Message) -> list[str]:
    return sorted(record.to_text() for rrset in answer.answer for record in rrset)


POD = build_pod("a", "10.0.0.2", hostname="zero", subdomain="train")
OTHER = build_pod("b", "10.0.0.3")


@pytest.mark.parametrize("transport", ["udp", "tcp"])
async def test_name_server_answers_for_services(transport: str) -> None:
    tcp = transport == "tcp"
    async with serve(build_service(), POD, OTHER) as served:
        addresses = await ask(served, tcp=tcp)
        assert list_texts(addresses) == ["10.0.0.2", "10.0.0.3"]
        assert addresses.flags & dns.flags.AA
        assert list_texts(await ask(served, f"zero.{NAME}", tcp=tcp)) == ["10.0.0.2"]


async def test_name_server_unknown_name_differs_from_a_name_without_records_of_this_kind() -> None:
    async with serve(build_service(), POD) as served:
        for name, kind, code in (
            (NAME, "AAAA", dns.rcode.NOERROR),
            (NAME, "TXT", dns.rcode.NOERROR),
            ("default.svc.cluster.local", "A", dns.rcode.NOERROR),
            ("unknown.default.svc.cluster.local", "A", dns.rcode.NXDOMAIN),
            ("example.com.default.svc.cluster.local", "AAAA", dns.rcode.NXDOMAIN),
        ):
            answer = await ask(served, name, kind)
            assert (name, answer.rcode()) == (name, code)
            assert answer.answer == []
            # A resolver needs it to cache the answer.
            assert [rrset.rdtype for rrset in answer.authority] == [dns.rdatatype.SOA]


async def test_name_server_without_an_upstream_fails_at_once() -> None:
    async with serve(build_service()) as served:
        answer = await ask(served, "example.com")
        assert answer.rcode() == dns.rcode.SERVFAIL


async def test_name_server_long_answer_is_asked_for_again_over_tcp() -> None:
    pods = [build_pod(f"p{i}", f"10.0.{i // 250}.{i % 250 + 2}") for i in range(1000)]
    async with serve(build_service(), *pods) as served:
        short = await ask(served)
        assert short.flags & dns.flags.TC
        assert short.answer == []
        assert len(list_texts(await ask(served, tcp=True))) == 1000


async def test_name_server_ignores_datagrams_that_are_no_query() -> None:
    async with serve(build_service(), POD) as served:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(("127.0.0.1", served.udp))
            client.send(b"\xff" * 40)
            client.send(dns.message.make_response(dns.message.make_query("x", "A")).to_wire())
        update = dns.message.make_query("x", "A")
        update.set_opcode(dns.opcode.NOTIFY)
        refused = await dns.asyncquery.udp(
            update, "127.0.0.1", port=served.udp, timeout=HANG_SECONDS
        )
        assert refused.rcode() == dns.rcode.NOTIMP
        assert list_texts(await ask(served)) == ["10.0.0.2"]


async def test_name_server_closed_while_a_client_waits_ends() -> None:
    async with serve(build_service()) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.tcp)
        query = dns.message.make_query("svc.cluster.local", "A").to_wire(prepend_length=True)
        writer.write(query)
        (length,) = struct.unpack("!H", await reader.readexactly(2))
        await reader.readexactly(length)
    assert await reader.read() == b""
    writer.close()


def test_read_upstreams_reads_name_servers_and_accepts_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    assert read_upstreams(path) == []
    path.write_text("nameserver 192.0.2.1\nsearch x\nnameserver 192.0.2.2\n")
    assert read_upstreams(path) == ["192.0.2.1", "192.0.2.2"]
