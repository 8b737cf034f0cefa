"""Frames of remote commands: what is encoded is decoded, and everything else is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rendezvous.rsh.frames import (
    FROM_CLIENT,
    FROM_ENDPOINT,
    MAX_COMMAND_BYTES,
    MAX_CONTENT_BYTES,
    Decoder,
    Frame,
    FrameError,
    Kind,
    Request,
    encode_frame,
    encode_refusal,
    encode_request,
    encode_stream,
    encode_taken,
    parse_request,
    parse_signal,
    parse_taken,
)

REQUEST = Request("0_uid", "worker", 3, b"echo \xff $HOME")
LINE = {"version": 1, "attempt": "0_uid", "role": "worker", "index": 3}


def decode(data: bytes) -> list[Frame]:
    return list(Decoder(FROM_CLIENT | FROM_ENDPOINT).feed(data))


@given(st.lists(st.binary(min_size=1, max_size=100), max_size=8), st.integers(1, 50))
def test_frames_are_the_same_however_they_are_cut(contents: list[bytes], size: int) -> None:
    data = b"".join(encode_frame(Kind.INPUT, content) for content in contents)
    decoder = Decoder(FROM_CLIENT)
    frames: list[Frame] = []
    for start in range(0, len(data), size):
        frames += decoder.feed(data[start : start + size])
    assert frames == [Frame(Kind.INPUT, content) for content in contents]


def test_stream_is_cut_into_frames_of_bounded_size() -> None:
    content = bytes(range(256)) * 300
    frames = decode(encode_stream(Kind.OUTPUT, content))
    assert [len(frame.content) for frame in frames] == [MAX_CONTENT_BYTES, MAX_CONTENT_BYTES, 11264]
    assert b"".join(frame.content for frame in frames) == content


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x00\x00\x00\x00", "kind 0 is not expected"),
        (b"\xff\x00\x00\x00", "kind 255 is not expected"),
        (b"\x01\xff\xff\xff", "REQUEST has 16777215 bytes"),
        (b"\x04\x00\x80\x01", "INPUT has 32769 bytes"),
        (b"\x04\x00\x00\x00", "INPUT has 0 bytes"),
        (b"\x05\x00\x00\x01", "INPUT_END has 1 bytes"),
        (b"\x06\x00\x00\x02", "SIGNAL has 2 bytes"),
        (b"\x07\x00\x00\x01x", "kind 7 is not expected"),
    ],
)
def test_header_is_refused_before_its_content_has_come(data: bytes, text: str) -> None:
    with pytest.raises(FrameError, match=text):
        list(Decoder(FROM_CLIENT).feed(data))


def test_frames_before_a_bad_one_are_returned() -> None:
    decoder = Decoder(FROM_CLIENT)
    frames = decoder.feed(encode_frame(Kind.INPUT_END) + b"\x00\x00\x00\x00")
    assert next(frames).kind is Kind.INPUT_END
    with pytest.raises(FrameError):
        next(frames)


def test_request_is_decoded_as_it_was_encoded() -> None:
    (frame,) = decode(encode_request(REQUEST))
    assert frame.kind is Kind.REQUEST
    assert parse_request(frame.content) == REQUEST
    longest = REQUEST._replace(command=b"x" * MAX_COMMAND_BYTES)
    assert parse_request(decode(encode_request(longest))[0].content) == longest
    with pytest.raises(FrameError, match="more than 131071 bytes"):
        encode_request(REQUEST._replace(command=b"x" * (MAX_COMMAND_BYTES + 1)))


@pytest.mark.parametrize(
    ("line", "command", "text"),
    [
        ({**LINE, "version": 2}, b"true", "another version"),
        ({**LINE, "attempt": ""}, b"true", "attempt of the request is not a text"),
        ({**LINE, "role": ["worker"]}, b"true", "role of the request is not a text"),
        ({**LINE, "role": "x" * 513}, b"true", "role of the request is not a text"),
        ({**LINE, "index": True}, b"true", "index of the request is not a number"),
        ({**LINE, "index": -1}, b"true", "index of the request is not a number"),
        ({**LINE, "index": "1"}, b"true", "index of the request is not a number"),
        (LINE, b"", "the command is empty"),
        (LINE, b"a\0b", "contains a zero byte"),
        ([LINE], b"true", "another version"),
    ],
)
def test_bad_request_is_refused_with_the_reason(line: object, command: bytes, text: str) -> None:
    with pytest.raises(FrameError, match=text):
        parse_request(json.dumps(line).encode() + b"\n" + command)


@pytest.mark.parametrize("content", [b"{}", b"\xff\n", b"[" * 3000 + b"\n", b"[" * 2000 + b"\nx"])
def test_text_that_is_no_request_is_refused(content: bytes) -> None:
    with pytest.raises(FrameError):
        parse_request(content)


def test_small_contents_are_decoded_as_they_were_encoded() -> None:
    assert parse_taken(decode(encode_taken(70_000))[0].content) == 70_000
    assert parse_signal(b"\x0f") == 15
    for number in (0, 65, 255):
        with pytest.raises(FrameError, match=f"no signal {number}"):
            parse_signal(bytes((number,)))
    (refusal,) = decode(encode_refusal("é" * 5000))
    assert len(refusal.content) == 2048
