"""Requests and results of scalers: encoded values are decoded again, all others are refused."""

import base64
import json
from typing import Any

import pytest

from framework.api.scalerequest import (
    MAX_RESULT_CHARS,
    ScaleRequest,
    ScaleRequestError,
    ScaleResult,
    decode_request,
    decode_result,
    encode_request,
    encode_result,
)

REQUEST = ScaleRequest(
    uid="u-1",
    is_scale_in=True,
    role="worker",
    indexes=(1, 3),
    hosts=("10.0.0.3", "fd00::3"),
    slots=2,
    script="/app/leave.sh",
    env=(("A", "x y"), ("B", "")),
    timeout_seconds=60,
)


def pack(wire: Any) -> str:
    return base64.b64encode(json.dumps(wire).encode()).decode()


def build_wire(**fields: Any) -> Any:
    return {**json.loads(base64.b64decode(encode_request(REQUEST))), **fields}


def test_request_is_read_as_it_was_written() -> None:
    assert decode_request(encode_request(REQUEST)) == REQUEST


def test_request_of_the_greatest_size_is_read() -> None:
    request = REQUEST._replace(
        indexes=tuple(range(1000)),
        hosts=tuple(f"2001:db8::{number:x}" for number in range(2000)),
        env=tuple((f"V{number:02}", "x" * 4096) for number in range(64)),
        script="x" * 1024,
        timeout_seconds=24 * 3600,
    )
    assert decode_request(encode_request(request)) == request


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"uid": ""}, "uid is not valid"),
        ({"uid": "a/b"}, "uid is not valid"),
        ({"uid": 1}, "uid is not of type str"),
        ({"is_scale_in": 1}, "is_scale_in is not of type bool"),
        ({"role": "a-b"}, "role is not valid"),
        ({"indexes": []}, "indexes is not valid"),
        ({"indexes": [-1]}, "indexes is not valid"),
        ({"indexes": [True]}, "indexes is not valid"),
        ({"indexes": [0] * 1001}, "indexes is not valid"),
        ({"hosts": [""]}, "hosts is not valid"),
        ({"hosts": [1]}, "hosts is not valid"),
        ({"slots": 0}, "slots is not valid"),
        ({"script": "a\0b"}, "script is not valid"),
        ({"script": "x" * 1025}, "script is not valid"),
        ({"env": {"A-B": "x"}}, "env is not valid"),
        ({"env": {"A": 1}}, "env is not valid"),
        ({"env": {"A": "\0"}}, "env is not valid"),
        ({"env": []}, "env is not of type dict"),
        ({"timeout_seconds": 0}, "timeout_seconds is not valid"),
        ({"timeout_seconds": 86401}, "timeout_seconds is not valid"),
        ({"timeout_seconds": True}, "timeout_seconds is not of type int"),
        ({"timeout_seconds": None}, "timeout_seconds is not of type int"),
    ],
)
def test_invalid_request_is_refused(fields: Any, reason: str) -> None:
    with pytest.raises(ScaleRequestError, match=reason):
        decode_request(pack(build_wire(**fields)))


@pytest.mark.parametrize(
    "stored", [None, 1, "x", "@@@@", pack("x"), pack([]), "A" * 4 * 10**6, pack({"a": [1] * 10**4})]
)
def test_text_that_is_no_request_is_refused(stored: Any) -> None:
    with pytest.raises(ScaleRequestError):
        decode_request(stored)


def test_result_is_read_as_it_was_written() -> None:
    result = ScaleResult("u-1", 124, "the script did not end in 60 s")
    assert decode_result(encode_result(result)) == result


@pytest.mark.parametrize("text", ["x" * 10**6, "\x1b" * 2000, '"' * 2000, "é\n" * 1000])
def test_long_message_of_a_result_is_cut(text: str) -> None:
    encoded = encode_result(ScaleResult("u" * 128, 1, text))
    assert len(encoded) <= MAX_RESULT_CHARS
    assert decode_result(encoded).code == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"uid":"u","code":"0","message":""}',
        '{"uid":"u","code":true,"message":""}',
        '{"uid":"/","code":0,"message":""}',
        '{"uid":"u","code":0,"message":""}' + " " * 2000,
    ],
)
def test_text_that_is_no_result_is_refused(text: str) -> None:
    with pytest.raises(ScaleRequestError):
        decode_result(text)
