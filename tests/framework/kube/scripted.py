"""A server on a real socket with scripted answers, which it can break at any byte.

It records every request, so that a test finds hidden retries.
"""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

JSON_TYPE = {"Content-Type": "application/json"}
# Of the event loop; far more than a client needs from the first byte to its caller.
_CLIENT_TURNS = 100


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    client_name: str = ""
    """The name in the certificate of the client."""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {key: values[0] for key, values in parse_qs(urlsplit(self.target).query).items()}


@dataclass(frozen=True)
class Reply:
    """An answer, and how it ends."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=lambda: JSON_TYPE)
    chunks: Sequence[bytes] | None = None
    ending: str = "whole"
    """whole | cut (close inside the body) | reset (RST) | silent (no byte more)"""
    before: Callable[[Seen], Awaitable[None]] | None = None


def answer(obj: object, status: int = 200, **headers: str) -> Reply:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, json.dumps(obj).encode(), {**JSON_TYPE, **names})


def refusal(code: int, reason: str, message: str = "no", **headers: str) -> Reply:
    return answer(status_object(code, reason, message), code, **headers)


def status_object(code: int, reason: str, message: str = "no") -> dict[str, Any]:
    answer = {"status": "Failure", "code": code, "reason": reason, "message": message}
    return {"kind": "Status", "apiVersion": "v1", **answer}


def event_line(event_type: str, obj: object) -> bytes:
    event = {"type": event_type, "object": obj}
    return json.dumps(event, ensure_ascii=False).encode() + b"\n"


def stream(*chunks: bytes, ending: str = "whole") -> Reply:
    return Reply(chunks=chunks, ending=ending)


def pod(name: str, version: int, **metadata: object) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version), **metadata}}


def pod_list(version: int, *items: dict[str, Any], more: str | None = None) -> Reply:
    metadata = {"resourceVersion": str(version)} | ({"continue": more} if more else {})
    return answer({"kind": "PodList", "metadata": metadata, "items": list(items)})


class ScriptedServer:
    """Answers the n-th request with the n-th reply; after the last reply it is silent."""

    def __init__(self, *replies: Reply, context: ssl.SSLContext | None = None) -> None:
        self._replies = list(replies)
        self._context = context
        self.seen: list[Seen] = []
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._arrived = asyncio.Condition()

    @property
    def url(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()
        return f"http{'s' if self._context else ''}://{host}:{port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def wait_for_requests(self, count: int) -> None:
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.seen) >= count)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        peer = writer.get_extra_info("peercert")
        name = peer["subject"][0][0][1] if peer else ""
        seen = replace(await _read_request(reader), client_name=name)
        reply = self._replies.pop(0) if self._replies else None
        async with self._arrived:
            self.seen.append(seen)
            self._arrived.notify_all()
        if reply is None:
            await reader.read()
            return False
        if reply.before is not None:
            await reply.before(seen)
        return await _write_reply(reply, reader, writer)


async def _read_request(reader: asyncio.StreamReader) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {k.title(): v for k, _, v in (line.partition(": ") for line in lines)}
    body = await reader.readexactly(int(headers.get("Content-Length", "0")))
    return Seen(method, target, headers, body)


async def _let_client_read() -> None:
    """Let the client, which runs in the same event loop, take what was sent.

    aiohttp discards what it has received, but not passed on, when the connection breaks.
    """
    for _ in range(_CLIENT_TURNS):
        await asyncio.sleep(0)


async def _write_reply(
    reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    # A cut answer promises more than it keeps.
    length = {"Content-Length": str(len(reply.body) + (reply.ending != "whole"))}
    if reply.chunks is not None:
        length = {"Transfer-Encoding": "chunked"}
    head = [f"HTTP/1.1 {reply.status} Scripted"]
    head += [f"{key}: {value}" for key, value in {**reply.headers, **length}.items()]
    writer.write("\r\n".join([*head, "", ""]).encode())
    for chunk in reply.chunks or ():
        writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        await writer.drain()
        # Two writes shall be two reads at the other end.
        await asyncio.sleep(0.001)
    if reply.chunks is None:
        writer.write(reply.body)
    elif reply.ending == "whole":
        writer.write(b"0\r\n\r\n")
    await writer.drain()
    if reply.ending == "silent":
        await reader.read()
    if reply.ending in {"cut", "reset"}:
        await _let_client_read()
    if reply.ending == "reset":
        writer.transport.abort()
    return reply.ending == "whole"
