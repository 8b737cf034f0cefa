"""Frames of SPDY/3.1, as ``kubectl port-forward`` sends them in a WebSocket. Pure.

Only what port forwarding needs: its clients open streams and have no flow control. The header block
of a stream is compressed; the dictionary of the compression is part of the protocol.

    ProtocolError    the bytes are not of this protocol, or a frame is too large
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

_CONTROL = 0x8000
_VERSION = 3
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY, _HEADERS = 1, 2, 3, 6, 7, 8
_FIN = 1
REFUSED_STREAM = 3
"""Status of a reset: the server takes no more streams, or not this one."""
INTERNAL_ERROR = 6
"""Status of a reset: the content of the stream is not complete."""
_HEAD_BYTES = 8
_MAX_CONTROL_BYTES = 16 * 1024
_MAX_HEADER_BYTES = 16 * 1024
"""Limit of the headers of a stream, uncompressed."""
_MAX_HEADERS = 16
"""Limit for a stream: a short compressed block can have thousands, which take a millisecond."""
_STREAM_MASK = 0x7FFF_FFFF

_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language "
    "accept-ranges age allow authorization cache-control connection content-base content-encoding "
    "content-language content-length content-location content-md5 content-range content-type date "
    "etag expect expires from host if-match if-modified-since if-none-match if-range "
    "if-unmodified-since last-modified location max-forwards pragma proxy-authenticate "
    "proxy-authorization range referer retry-after server "
    "te "  # codespell:ignore te
    "trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
)
_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, "
    "Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch"
    "charset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _build_dictionary() -> bytes:
    words = [*_WORDS.split(), "200 OK", "version", "HTTP/1.1"]
    words += ["url", "public", "set-cookie", "keep-alive", "origin"]
    return b"".join(_build_text(word) for word in words) + _TAIL.encode()


def _build_text(text: str) -> bytes:
    return struct.pack(">I", len(text)) + text.encode("latin-1")


DICTIONARY = _build_dictionary()


class ProtocolError(Exception):
    """The peer violates the protocol."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The peer opens a stream."""

    stream: int
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Received:
    """Content of a stream: a frame, or a part of it."""

    stream: int
    content: bytes
    is_last: bool
    """Whether the peer sends no more in this stream."""


@dataclass(frozen=True, slots=True)
class Reset:
    """The peer gives a stream up, in both directions."""

    stream: int


@dataclass(frozen=True, slots=True)
class Ping:
    """The peer requests the same frame as the answer."""

    number: int


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The peer ends the session."""


Frame: TypeAlias = Opened | Received | Reset | Ping | Goodbye


class Decoder:
    """Reads frames from pieces of any size; it keeps at most one control frame."""

    def __init__(self) -> None:
        """Start at the beginning of a session."""
        self._buffer = bytearray()
        self._inflater = zlib.decompressobj(zdict=DICTIONARY)
        self._stream = 0
        self._missing = 0
        """Missing bytes of the current data frame."""
        self._ends_stream = False

    def feed(self, piece: bytes) -> Iterator[Frame]:
        """Add bytes; yield the frames that they complete."""
        self._buffer += piece
        while True:
            if self._missing:
                if not self._buffer:
                    return
                yield self._take_content()
                continue
            frame = self._take_frame()
            if frame is None:
                return
            yield from frame

    def _take_content(self) -> Received:
        content = bytes(self._buffer[: self._missing])
        del self._buffer[: len(content)]
        self._missing -= len(content)
        return Received(self._stream, content, self._ends_stream and not self._missing)

    def _take_frame(self) -> tuple[Frame, ...] | None:
        """Take a control frame, or the head of a data frame; None if it is not complete."""
        if len(self._buffer) < _HEAD_BYTES:
            return None
        first, rest = struct.unpack_from(">II", self._buffer)
        flags, length = rest >> 24, rest & 0xFF_FFFF
        if not first >> 16 & _CONTROL:
            del self._buffer[:_HEAD_BYTES]
            self._stream, self._missing, self._ends_stream = first, length, bool(flags & _FIN)
            return () if length else (Received(first, b"", self._ends_stream),)
        if first >> 16 != _CONTROL | _VERSION:
            raise ProtocolError("it is not SPDY/3")
        if length > _MAX_CONTROL_BYTES:
            raise ProtocolError(f"a control frame has more than {_MAX_CONTROL_BYTES} bytes")
        if len(self._buffer) < _HEAD_BYTES + length:
            return None
        payload = bytes(self._buffer[_HEAD_BYTES : _HEAD_BYTES + length])
        del self._buffer[: _HEAD_BYTES + length]
        try:
            return tuple(self._read_control(first & 0xFFFF, flags, payload))
        except (struct.error, zlib.error, UnicodeDecodeError) as e:
            raise ProtocolError(f"a frame is broken: {e}") from e

    def _read_control(self, kind: int, flags: int, payload: bytes) -> Iterator[Frame]:
        if kind == _SYN_STREAM:
            (stream,) = struct.unpack_from(">I", payload)
            yield Opened(stream & _STREAM_MASK, self._inflate(payload[10:]))
            if flags & _FIN:
                yield Received(stream & _STREAM_MASK, b"", is_last=True)
        elif kind in (_SYN_REPLY, _HEADERS):
            # The headers are not used, but they are part of the state of the decompression.
            self._inflate(payload[4:])
        elif kind == _RST_STREAM:
            yield Reset(struct.unpack_from(">I", payload)[0] & _STREAM_MASK)
        elif kind == _PING:
            yield Ping(struct.unpack_from(">I", payload)[0])
        elif kind == _GOAWAY:
            yield Goodbye()

    def _inflate(self, block: bytes) -> Mapping[str, str]:
        plain = self._inflater.decompress(block, _MAX_HEADER_BYTES)
        if self._inflater.unconsumed_tail:
            raise ProtocolError(f"headers have more than {_MAX_HEADER_BYTES} bytes")
        (count,) = struct.unpack_from(">I", plain)
        if count > _MAX_HEADERS:
            raise ProtocolError(f"a stream has more than {_MAX_HEADERS} headers")
        texts, offset = [], 4
        for _ in range(2 * count):
            (length,) = struct.unpack_from(">I", plain, offset)
            (text,) = struct.unpack_from(f">{length}s", plain, offset + 4)
            texts.append(text.decode())
            offset += 4 + length
        return dict(zip(texts[::2], texts[1::2], strict=True))


class Encoder:
    """Builds frames; those with headers must be sent in the order in which they were built."""

    def __init__(self) -> None:
        """Start at the beginning of a session."""
        self._deflater = zlib.compressobj(zdict=DICTIONARY)

    def open(self, stream: int, headers: Mapping[str, str]) -> bytes:
        """Build the frame that opens a stream."""
        return _build_control(
            _SYN_STREAM, struct.pack(">IIBB", stream, 0, 0, 0) + self._deflate(headers)
        )

    def accept(self, stream: int) -> bytes:
        """Build the answer to a stream that the peer opened."""
        return _build_control(_SYN_REPLY, struct.pack(">I", stream) + self._deflate({}))

    def _deflate(self, headers: Mapping[str, str]) -> bytes:
        plain = struct.pack(">I", len(headers))
        plain += b"".join(_build_text(text) for item in headers.items() for text in item)
        return self._deflater.compress(plain) + self._deflater.flush(zlib.Z_SYNC_FLUSH)


def build_data(stream: int, content: bytes, *, is_last: bool = False) -> bytes:
    """Build a frame with content of a stream."""
    return struct.pack(">II", stream, (_FIN if is_last else 0) << 24 | len(content)) + content


def build_reset(stream: int, status: int) -> bytes:
    """Build the frame that ends a stream in both directions."""
    return _build_control(_RST_STREAM, struct.pack(">II", stream, status))


def build_ping(number: int) -> bytes:
    """Build a ping, which is also the answer to one."""
    return _build_control(_PING, struct.pack(">I", number))


def _build_control(kind: int, payload: bytes) -> bytes:
    return struct.pack(">HHI", _CONTROL | _VERSION, kind, len(payload)) + payload
