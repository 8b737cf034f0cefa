"""A minimal HTTP/1.1 client with one connection and a timeout for each wait.

``fetch`` takes these steps:

1. Connect, unless a connection is open. Each connection loads the CA and the client certificate
   again, because they are rotated.
2. Send the request with the current token, and read the head. Heads with a 1xx status are skipped.
3. Decode the body: chunked, of a known length, or until the server closes the connection.
4. If the connection was reused and failed, repeat the request once on a new connection: the server
   may have closed the old one in the meantime. A request may therefore arrive twice.

A watch calls ``start`` (steps 1 and 2) and then ``read_some`` for each part of the body.

Invariants: at most one request is in progress; after an error the connection is closed; an error
never contains the token or the path prefix.

Example: an agent reads the Framework every few seconds. The API server restarts between two reads.
The next ``fetch`` gets a reset on the old connection, connects again and returns the answer; the
caller sees no error.

``http.client`` is not used: with its import of ``email`` it needs more time and memory than the
rest of an agent. Redirects and proxies are not supported.
"""

import json
import select
import socket
import zlib
from typing import Any, Dict, NamedTuple, Optional

from framework.agent.access import Access, AccessError
from framework.agent.clock import AgentClock
from framework.api.text import cut_text, hide_values

_MAX_HEAD_BYTES = 64 * 1024
# A decimal number of this length fits 64 bits.
_MAX_DIGITS = 18
# Agents read single objects. etcd stores at most 1.5 MiB for each, and JSON needs at most 6 bytes
# for a byte.
_MAX_BODY_BYTES = 16 * 1024 * 1024
_RECEIVE_BYTES = 64 * 1024
_NO_BODY = (204, 304)
_SUCCESSES = range(200, 300)
_JSON = "application/json"
_MAX_MESSAGE_BYTES = 2048


class UnreachableError(Exception):
    """There is no valid answer. The server may have executed the request."""


class Head(NamedTuple):
    """Status and headers of an answer. Header names are in lower case."""

    status: int
    headers: Dict[str, str]

    @property
    def retry_after_seconds(self) -> Optional[float]:
        """The Retry-After of the server, at most 300; None without one in seconds."""
        text = self.headers.get("retry-after", "").strip()
        return min(float(text), 300.0) if is_number(text) else None


class Answer(NamedTuple):
    """A whole answer."""

    head: Head
    body: bytes

    def describe(self) -> str:
        """Describe an error: the message of the Status object, or the start of the body."""
        try:
            message = str(json.loads(self.body.decode())["message"])
        except (ValueError, KeyError, TypeError, RecursionError):
            message = self.body[:200].decode("utf-8", "replace").strip()
        message = cut_text(hide_values(message), _MAX_MESSAGE_BYTES)
        return f"HTTP {self.head.status}: {message}" if message else f"HTTP {self.head.status}"


class BodyDecoder:
    """Decodes the framing of a body: chunked, of a known length, or until the connection ends."""

    def __init__(self, head: Head) -> None:
        """Choose the framing by the headers.

        Raises:
            UnreachableError: The headers contradict HTTP/1.1.
        """
        self._chunked = "chunked" in head.headers.get("transfer-encoding", "").lower()
        length = head.headers.get("content-length")
        self._left: Optional[int] = 0
        if head.status in _NO_BODY:
            self._chunked = False
        elif not self._chunked:
            if length is not None and not is_number(length):
                raise UnreachableError(f"bad Content-Length {length!r}")
            self._left = None if length is None else int(length)
        self._buffer = bytearray()
        self._last_chunk = False
        self.is_finished = not self._chunked and self._left == 0
        self.is_delimited = self._chunked or self._left is not None

    def feed(self, received: bytes) -> bytes:
        """Decode received bytes; return bytes of the body.

        Raises:
            UnreachableError: The framing is broken.
        """
        if self._chunked:
            self._buffer += received
            return self._decode_chunks()
        if self._left is None:
            return received
        part = received[: self._left]
        self._left -= len(part)
        self.is_finished = self._left == 0
        return part

    def _decode_chunks(self) -> bytes:
        decoded = bytearray()
        while not self.is_finished:
            if self._left:
                part = self._buffer[: self._left]
                if not part:
                    break
                decoded += part
                del self._buffer[: len(part)]
                self._left -= len(part)
            elif not self._decode_line():
                break
        return bytes(decoded)

    def _decode_line(self) -> bool:
        """Decode a size line, the empty line after a chunk, or a trailer; False if incomplete."""
        end = self._buffer.find(b"\n")
        if end < 0:
            if len(self._buffer) > _MAX_HEAD_BYTES:
                raise UnreachableError("broken chunked body: a line without end")
            return False
        line = bytes(self._buffer[:end]).strip()
        del self._buffer[: end + 1]
        if self._last_chunk:
            self.is_finished = not line
        elif line:
            try:
                self._left = int(line.partition(b";")[0], 16)
            except ValueError as e:
                raise UnreachableError(f"broken chunked body: size {line[:20]!r}") from e
            if not 0 <= self._left <= _MAX_BODY_BYTES:
                raise UnreachableError(f"broken chunked body: size {line[:20]!r}")
            self._last_chunk = self._left == 0
        return True


class Connection:
    """A connection to the API server. It opens at the first request and is reused."""

    def __init__(
        self,
        access: Access,
        clock: AgentClock,
        timeout_seconds: float = 10.0,
        *,
        accept: str = _JSON,
        takes_gzip: bool = False,
    ) -> None:
        """Prepare. ``timeout_seconds`` bounds connecting, and the wait for a head or a body.

        ``takes_gzip`` asks for compressed answers. It is not for watches: a compressed stream
        arrives in blocks, not in events.
        """
        self._access = access
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._accept = accept
        self._takes_gzip = takes_gzip
        self._socket: Any = None
        self._pending = b""
        self._body: Optional[BodyDecoder] = None
        self._is_refused = False

    def fetch(self, method: str, path: str, body: Optional[bytes] = None) -> Answer:
        """Send one request and read the whole answer, within the timeout.

        A request that fails on a reused connection is sent once more on a new one.

        Raises:
            UnreachableError: There was no complete answer in time.
        """
        reused = self._socket is not None
        deadline = self._clock.monotonic() + self._timeout_seconds
        try:
            return self._fetch_once(method, path, body, deadline)
        except UnreachableError:
            if not reused or self._clock.monotonic() >= deadline:
                raise
        return self._fetch_once(method, path, body, deadline)

    def _fetch_once(self, method: str, path: str, body: Optional[bytes], deadline: float) -> Answer:
        head = self.start(method, path, body)
        received = self.read_rest(deadline)
        if head.headers.get("content-encoding", "").lower() == "gzip":
            received = _gunzip(received)
        if head.headers.get("connection", "").lower() == "close":
            self.close()
        return Answer(head, received)

    def start(self, method: str, path: str, body: Optional[bytes] = None) -> Head:
        """Send one request and read the head of the answer, not its body.

        Raises:
            UnreachableError: There was no head in time. The connection is closed.
        """
        deadline = self._clock.monotonic() + self._timeout_seconds
        try:
            if self._socket is None:
                self._connect()
            self._socket.settimeout(self._clock.to_machine(self._timeout_seconds))
            self._socket.sendall(self._render_request(method, path, body))
            head = self._read_head(deadline)
            while head.status // 100 == 1:
                head = self._read_head(deadline)
            self._body = BodyDecoder(head)
            self._is_refused = head.status not in _SUCCESSES
        except (OSError, ValueError) as e:  # ValueError: the host is not a valid name
            self.close()
            raise UnreachableError(f"{self._access.address}: {e}") from e
        except UnreachableError:
            self.close()
            raise
        return head

    def read_some(self, timeout_seconds: float) -> Optional[bytes]:
        """Read the next part of the body: None after the timeout, b"" at the end of the body.

        Raises:
            UnreachableError: The body is incomplete. The connection is closed.
        """
        body = self._body
        if body is None or body.is_finished:
            return b""
        deadline = self._clock.monotonic() + timeout_seconds
        while True:
            received = self._pending or self._receive(deadline)
            self._pending = b""
            if received is None:
                return None
            if not received:
                self.close()
                if body.is_delimited:
                    raise UnreachableError(f"{self._access.address}: closed during the answer")
                return b""
            try:
                decoded = body.feed(received)
            except UnreachableError:
                self.close()
                raise
            if decoded or body.is_finished:
                return decoded

    def read_rest(self, deadline: float) -> bytes:
        """Read the rest of the body.

        Raises:
            UnreachableError: The body did not end in time, or is too long. The connection closes.
        """
        received = bytearray()
        while True:
            part = self.read_some(max(0.0, deadline - self._clock.monotonic()))
            if part is None or len(received) > _MAX_BODY_BYTES:
                self.close()
                why = "timed out during the answer" if part is None else "answer too long"
                raise UnreachableError(f"{self._access.address}: {why}")
            if not part:
                whole = bytes(received)
                return self._access.hide_secrets(whole) if self._is_refused else whole
            received += part

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._pending = b""
        self._body = None

    def open(self) -> None:
        """Connect now, so that the next request is faster. Replaces a closed connection.

        Raises:
            UnreachableError: The server is unreachable. The next request connects again.
        """
        if self._socket is not None and _is_closed_by_peer(self._socket):
            self.close()
        if self._socket is None:
            try:
                self._connect()
            except (OSError, ValueError) as e:
                raise UnreachableError(f"{self._access.address}: {e}") from e

    def get_descriptor(self) -> int:
        """Return the file descriptor for ``select``; -1 without a connection."""
        return -1 if self._socket is None else int(self._socket.fileno())

    def has_pending(self) -> bool:
        """Return whether received bytes are buffered, where ``select`` does not see them."""
        if self._socket is None:
            return False
        return bool(self._pending) or (self._access.tls and self._socket.pending() > 0)

    def _connect(self) -> None:
        access = self._access
        timeout = self._clock.to_machine(self._timeout_seconds)
        address = (_encode_host(access.host), access.port)
        plain = socket.create_connection(address, timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Set after the TLS handshake only: requests contain the token.
            self._socket = self._secure(plain) if access.tls else plain
        except BaseException:
            plain.close()
            raise

    def _secure(self, plain: socket.socket) -> Any:
        try:
            # The CA and the client certificate may have been rotated.
            context = self._access.build_tls_context()
        except AccessError as e:
            raise UnreachableError(str(e)) from e
        name = _encode_host(self._access.server_name or self._access.host)
        return context.wrap_socket(plain, server_hostname=name)

    def _render_request(self, method: str, path: str, body: Optional[bytes]) -> bytes:
        lines = [
            f"{method} {self._access.path_prefix}{path} HTTP/1.1",
            "Host: " + self._access.authority,
            "Accept: " + self._accept,
            "User-Agent: frameworkbarrier-agent",
        ]
        if self._takes_gzip:
            lines.append("Accept-Encoding: gzip")
        token = self._access.read_token()
        if token:
            lines.append("Authorization: Bearer " + token)
        if body is not None:
            kind = "merge-patch+json" if method == "PATCH" else "json"
            lines.append("Content-Type: application/" + kind)
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + (body or b"")

    def _read_head(self, deadline: float) -> Head:
        received = self._pending
        while b"\r\n\r\n" not in received:
            part = self._receive(deadline)
            if part is None:
                raise UnreachableError(f"{self._access.address}: no answer in time")
            if not part or len(received) > _MAX_HEAD_BYTES:
                raise UnreachableError(f"{self._access.address}: no HTTP answer")
            received += part
        text, self._pending = received.split(b"\r\n\r\n", 1)
        # The error for an invalid head contains its text, which may repeat the request path.
        return _parse_head(self._access.hide_secrets(text).decode("latin-1"))

    def _receive(self, deadline: float) -> Optional[bytes]:
        # A timeout of 0 would select non-blocking mode, which raises another error.
        seconds = self._clock.to_machine(deadline - self._clock.monotonic())
        self._socket.settimeout(max(0.001, seconds))
        try:
            received = self._socket.recv(_RECEIVE_BYTES)
        except socket.timeout:
            return None
        except OSError as e:
            self.close()
            raise UnreachableError(f"{self._access.address}: {e}") from e
        return bytes(received)


def _encode_host(host: str) -> Any:
    """Encode a host name. With bytes, resolver and TLS do not load the slow IDNA codec."""
    return host.encode("ascii" if host.isascii() else "idna")


def _is_closed_by_peer(opened: Any) -> bool:
    """Return whether the server closed the connection, without reading from it.

    A read would also take an unread TLS session ticket from the buffer.
    """
    poller = select.poll()
    # POLLRDHUP is of Linux only. Without it, the next request detects a closed connection.
    poller.register(opened, getattr(select, "POLLRDHUP", 0))
    return bool(poller.poll(0))


def _gunzip(blob: bytes) -> bytes:
    decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        raw = decompressor.decompress(blob, _MAX_BODY_BYTES)
    except zlib.error as e:
        raise UnreachableError(f"broken compressed answer: {e}") from e
    if not decompressor.eof:
        raise UnreachableError("compressed answer is incomplete or too long")
    return raw


def is_number(text: str) -> bool:
    """Return whether a header's text is a plain decimal number that fits 64 bits."""
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


def _parse_head(text: str) -> Head:
    status_line, *lines = text.split("\r\n")
    parts = status_line.split(" ", 2)
    has_status = len(parts) > 1 and is_number(parts[1])
    if not has_status or not parts[0].startswith("HTTP/1."):
        raise UnreachableError(f"no HTTP/1.1 answer: {status_line[:60]!r}")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return Head(int(parts[1]), headers)
