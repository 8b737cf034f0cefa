"""Frames of SPDY: any split of the bytes gives the same frames, and nothing grows without bound."""

import hashlib
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.apiserver.front.spdy import (
    DICTIONARY,
    Decoder,
    Encoder,
    Frame,
    Opened,
    Ping,
    ProtocolError,
    Received,
    Reset,
    build_data,
    build_ping,
    build_reset,
)

# Of the dictionary in SPDY, draft 3.1.
DICTIONARY_SHA256 = "51d27341373f923f3cd88e1eb7162aeaa3723d7585ff2399201dc06498407f02"


def decode(raw: bytes, size: int) -> list[Frame]:
    """Decode in pieces of this size; join the pieces of content."""
    decoder, frames = Decoder(), list[Frame]()
    for start in range(0, len(raw), size):
        for frame in decoder.feed(raw[start : start + size]):
            match frame, frames[-1:]:
                case Received(stream, content, is_last), [Received(before, head, False)] if (
                    stream == before
                ):
                    frames[-1] = Received(stream, head + content, is_last)
                case _:
                    frames.append(frame)
    return frames


def test_the_dictionary_is_that_of_the_protocol() -> None:
    assert hashlib.sha256(DICTIONARY).hexdigest() == DICTIONARY_SHA256


@given(size=st.integers(1, 300))
def test_any_split_of_the_bytes_gives_the_same_frames(size: int) -> None:
    encoder = Encoder()
    headers = [{"streamtype": kind, "port": "80", "requestid": "0"} for kind in ("error", "data")]
    raw = encoder.open(1, headers[0]) + encoder.open(3, headers[1])
    raw += build_data(3, b"hello" * 30) + build_data(1, b"", is_last=True)
    raw += build_data(3, b"end", is_last=True) + build_ping(7) + build_reset(3, 5)
    assert decode(raw, size) == [
        Opened(1, headers[0]),
        Opened(3, headers[1]),
        Received(3, b"hello" * 30, is_last=False),
        Received(1, b"", is_last=True),
        Received(3, b"end", is_last=True),
        Ping(7),
        Reset(3),
    ]


def build_headers(plain: bytes) -> bytes:
    deflater = zlib.compressobj(zdict=DICTIONARY)
    block = deflater.compress(plain) + deflater.flush(zlib.Z_SYNC_FLUSH)
    payload = struct.pack(">IIBB", 1, 0, 0, 0) + block
    return struct.pack(">HHI", 0x8003, 1, len(payload)) + payload


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"\x80\x02\x00\x01\x00\x00\x00\x00", "it is not SPDY/3"),
        (b"\x80\x03\x00\x06\x00\x00\x00\x00", "a frame is broken"),
        (b"\x80\x03\x00\x01\x00\xff\xff\xff", "a control frame has more than"),
        (b"\x80\x03\x00\x01\x00\x00\x00\x0c" + b"\1" * 12, "a frame is broken"),
        (build_headers(b"\0" * 1_000_000), "headers have more than"),
        (build_headers(struct.pack(">I", 17) + bytes(8 * 17)), "more than 16 headers"),
        (build_headers(b"\xff\xff\xff\xff"), "more than 16 headers"),
        (build_headers(struct.pack(">II", 1, 0xFFFF_FFFF)), "a frame is broken"),
    ],
    ids=["version", "short", "long", "compression", "headers", "many", "count", "text"],
)
def test_bytes_that_are_not_of_the_protocol_are_refused(raw: bytes, fault: str) -> None:
    with pytest.raises(ProtocolError, match=fault):
        list(Decoder().feed(raw))
