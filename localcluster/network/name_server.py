"""The cluster's name server, on sockets of the Pods' network.

``cluster_names`` answers for names of the cluster; the machine's own name servers for all others.
"""

import asyncio
import logging
import socket
import struct
from collections.abc import Coroutine, Sequence
from pathlib import Path

import dns.asyncquery
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.resolver
import dns.rrset

from localcluster.network.cluster_names import CLUSTER_DOMAIN, ClusterNames

logger = logging.getLogger(__name__)

HOST_RESOLV_CONF = Path("/etc/resolv.conf")
_ZONE = dns.name.from_text(CLUSTER_DOMAIN)
# Short: Pods come and go.
_TTL_SECONDS = 5
_UPSTREAM_SECONDS = 3.0
_IDLE_SECONDS = 10.0
_UDP_LIMIT = 512
_TCP_LIMIT = 65535
# serial, refresh, retry, expire, negative TTL
_SOA = f"ns.dns.{CLUSTER_DOMAIN}. hostmaster.{CLUSTER_DOMAIN}. 1 7200 1800 86400 {_TTL_SECONDS}"


def read_upstreams(path: Path = HOST_RESOLV_CONF) -> list[str]:
    """Read this machine's name servers."""
    try:
        resolver = dns.resolver.Resolver(configure=False)
        with path.open(encoding="utf-8", errors="replace") as file:
            resolver.read_resolv_conf(file)
    except (OSError, dns.exception.DNSException):
        return []
    return [str(server) for server in resolver.nameservers]


class NameServer:
    """Answers over UDP and TCP until closed."""

    def __init__(self, names: ClusterNames, upstreams: Sequence[str]) -> None:
        """Prepare; without ``upstreams``, all names that are not of the cluster fail at once."""
        self._names = names
        self._upstreams = list(upstreams)
        self._tasks: set[asyncio.Task[None]] = set()
        self._transport: asyncio.DatagramTransport | None = None
        self._server: asyncio.Server | None = None

    async def start(self, datagrams: socket.socket, listener: socket.socket) -> None:
        """Serve on two bound sockets."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: _Datagrams(self), sock=datagrams
        )
        self._server = await asyncio.start_server(self._take_stream, sock=listener)

    async def close(self) -> None:
        """Stop answering."""
        if self._transport is not None:
            self._transport.close()
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def take_datagram(self, raw: bytes, client: tuple[str, int]) -> None:
        """Answer a datagram, later if another name server must be asked."""
        self._start(self._answer_datagram(raw, client))

    def _take_stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A coroutine here would end in a traceback when it is cancelled, up to Python 3.12.
        self._start(self._serve_stream(reader, writer))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="name-server")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer_datagram(self, raw: bytes, client: tuple[str, int]) -> None:
        answer = await self.answer(raw, is_datagram=True)
        if answer is not None and self._transport is not None:
            self._transport.sendto(answer, client)

    async def _serve_stream(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            while True:
                async with asyncio.timeout(_IDLE_SECONDS):
                    (length,) = struct.unpack("!H", await reader.readexactly(2))
                    raw = await reader.readexactly(length)
                answer = await self.answer(raw, is_datagram=False)
                if answer is None:
                    return
                writer.write(struct.pack("!H", len(answer)) + answer)
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    async def answer(self, raw: bytes, *, is_datagram: bool) -> bytes | None:
        """Answer a request; None if the bytes are no request."""
        try:
            request = dns.message.from_wire(raw)
        except dns.exception.DNSException:
            return None
        if request.flags & dns.flags.QR:
            return None
        if request.opcode() is not dns.opcode.QUERY or len(request.question) != 1:
            response = _respond(request, dns.rcode.NOTIMP)
        elif request.question[0].name.is_subdomain(_ZONE):
            response = self._answer_for_cluster(request)
        else:
            response = await self._ask_upstream(request, is_datagram=is_datagram)
        limit = max(request.payload, _UDP_LIMIT) if is_datagram else _TCP_LIMIT
        return _encode(response, limit)

    def _answer_for_cluster(self, request: dns.message.Message) -> dns.message.Message:
        question = request.question[0]
        response = _respond(request, dns.rcode.NOERROR)
        response.flags |= dns.flags.AA
        addresses = self._names.find(question.name.relativize(_ZONE).to_text().removesuffix("@"))
        if addresses is None:
            response.set_rcode(dns.rcode.NXDOMAIN)
        elif addresses and question.rdtype == dns.rdatatype.A:
            response.answer.append(_build_set(question.name, dns.rdatatype.A, addresses))
        if not response.answer:
            response.authority.append(_build_set(_ZONE, dns.rdatatype.SOA, [_SOA]))
        return response

    async def _ask_upstream(
        self, request: dns.message.Message, *, is_datagram: bool
    ) -> dns.message.Message:
        """Ask the servers in turn; without servers, the name fails at once."""
        ask = dns.asyncquery.udp if is_datagram else dns.asyncquery.tcp
        for upstream in self._upstreams:
            try:
                return await ask(request, upstream, timeout=_UPSTREAM_SECONDS)
            except (OSError, dns.exception.DNSException, EOFError) as e:
                extra = {"server": upstream, "error": str(e) or type(e).__name__}
                logger.debug("name server does not answer", extra=extra)
        return _respond(request, dns.rcode.SERVFAIL)


class _Datagrams(asyncio.DatagramProtocol):
    """Passes datagrams to the name server."""

    def __init__(self, server: NameServer) -> None:
        self._server = server

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer a datagram."""
        self._server.take_datagram(data, addr)


def _respond(request: dns.message.Message, code: dns.rcode.Rcode) -> dns.message.Message:
    response = dns.message.make_response(request, recursion_available=True)
    response.set_rcode(code)
    return response


def _encode(response: dns.message.Message, limit: int) -> bytes:
    try:
        return response.to_wire(max_size=limit)
    except dns.exception.TooBig:
        # The client asks again over TCP.
        response.flags |= dns.flags.TC
        for section in (response.answer, response.authority, response.additional):
            section.clear()
        return response.to_wire()


def _build_set(
    name: dns.name.Name, kind: dns.rdatatype.RdataType, texts: Sequence[str]
) -> dns.rrset.RRset:
    return dns.rrset.from_text_list(name, _TTL_SECONDS, dns.rdataclass.IN, kind, texts)
