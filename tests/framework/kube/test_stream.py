import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.api.nesting import MAX_DEPTH, is_deeper
from framework.kube import stream
from framework.kube.stream import (
    BrokenStreamError,
    LineSplitter,
    decode_event,
    decode_object,
)

EVENTS = [
    {"type": "ADDED", "object": {"metadata": {"name": "größe-日本-🚀"}}},
    {"type": "MODIFIED", "object": {"a": "line\nbreak"}},
    {"type": "DELETED", "object": {}},
]
WIRE = b"".join(json.dumps(e, ensure_ascii=False).encode() + b"\n" for e in EVENTS)


def feed(*chunks: bytes) -> tuple[list[bytes], bool]:
    splitter = LineSplitter()
    return [line for chunk in chunks for line in splitter.feed(chunk)], splitter.has_rest


@given(cuts=st.lists(st.integers(0, len(WIRE)), max_size=12))
def test_splitter_with_any_chunks_gives_the_same_lines(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(WIRE)]
    lines, has_rest = feed(*(WIRE[a:b] for a, b in pairwise(edges)))
    assert [json.loads(line) for line in lines] == EVENTS
    assert not has_rest


@given(end=st.integers(0, len(WIRE)))
def test_splitter_of_a_cut_stream_returns_whole_lines_and_has_a_rest(end: int) -> None:
    lines, has_rest = feed(WIRE[:end])
    assert lines == WIRE[:end].split(b"\n")[:-1]
    assert has_rest is (end > 0 and WIRE[end - 1 : end] != b"\n")


def test_splitter_skips_empty_lines_and_refuses_too_long_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert feed(b"\n\r\n{}\n\n") == ([b"{}"], False)
    monkeypatch.setattr(stream, "MAX_LINE_BYTES", 10)
    with pytest.raises(BrokenStreamError, match="10 bytes"):
        feed(b"123456", b"123456")


@pytest.mark.parametrize("raw", [b"", b"[]", b"null", b'"x"', b'{"a":', b"\xff", b'{"a":"\xff"}'])
def test_decode_object_of_anything_else_raises(raw: bytes) -> None:
    with pytest.raises(BrokenStreamError):
        decode_object(raw)


@pytest.mark.parametrize("depth", [90, 150, *range(880, 1000, 3), 9000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_deep_value_becomes_null_and_other_values_are_kept(
    depth: int, opening: str, closing: str
) -> None:
    deep = opening * depth + "0" + closing * depth
    item = f'{{"metadata":{{"name":"a"}},"spec":{deep},"z":1}}'
    event_type, obj = decode_event(f'{{"type":"ADDED","object":{item}}}'.encode())
    whole = decode_object(f'{{"items":[{item},{{"b":1}}]}}'.encode())
    first, second = whole["items"]
    assert (event_type, second) == ("ADDED", {"b": 1})
    for found in obj, first:
        assert (found["metadata"], found["z"]) == ({"name": "a"}, 1)
        assert is_deeper(found["spec"], depth - 1) is (depth == 90)
        # So no other recursive function fails, wherever it stands on the stack.
        assert not is_deeper(found["spec"], MAX_DEPTH)
