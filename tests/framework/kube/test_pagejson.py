import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.kube.pagejson import cut_page, split_page
from framework.kube.stream import BrokenStreamError, decode_object

DEEP = b"[" * 5000 + b"]" * 5000


def split(raw: bytes) -> tuple[object, list[object]]:
    page = split_page(raw)
    return page.head, [msgspec.json.decode(item) for item in page.items]


@pytest.mark.parametrize("key", ["items", "rows"])
def test_page_is_split_into_its_objects(key: str) -> None:
    head = {"kind": "PodList", "metadata": {"resourceVersion": "9", "continue": "b"}}
    items = [{"metadata": {"name": "a"}}, {"metadata": {"name": "ü\n"}, "spec": [1, {"a": None}]}]
    assert split(msgspec.json.encode({**head, key: items})) == (head, items)


@pytest.mark.parametrize("raw", [b"{}", b'{"metadata":null,"items":null}', b'{"items":[]}'])
def test_page_without_objects_is_empty(raw: bytes) -> None:
    assert split(raw) == ({"metadata": {}}, [])


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"null", b"{", b'{"items":{}}', b'{"items":1}', b'{"metadata":[1]}', b"{}{"]
)
def test_other_answers_are_no_pages(raw: bytes) -> None:
    with pytest.raises(BrokenStreamError):
        split_page(raw)


@given(st.binary() | st.binary().map(lambda noise: b'{"items":' + noise))
def test_noise_is_no_page(noise: bytes) -> None:
    with pytest.raises(BrokenStreamError):
        split_page(b"[" + noise)


def test_deep_object_is_cut_as_it_is_alone_and_the_others_are_whole() -> None:
    deep = b'{"metadata":{"name":"a"},"spec":%b}' % DEEP
    raw = b'{"metadata":{},"items":[{"spec":[[1]]},%b,{"spec":"[["}]}' % deep
    with pytest.raises(RecursionError):
        split_page(raw)
    items = split_page(cut_page(raw)).items
    assert msgspec.json.decode(items[0]) == {"spec": [[1]]}
    assert decode_object(bytes(items[1])) == decode_object(deep)
    assert msgspec.json.decode(items[2]) == {"spec": "[["}


@pytest.mark.parametrize("first", [b"{}", b'{"spec":%b}' % DEEP], ids=["plain", "deep"])
def test_page_never_takes_many_times_the_memory_of_its_json(first: bytes) -> None:
    item = b'{"spec":[%b]}' % b",".join([b"[]"] * 10_000)
    raw = b'{"metadata":{},"items":[%b]}' % b",".join([first, *[item] * 10])
    tracemalloc.start()
    try:
        page = split_page(cut_page(raw) if DEEP in raw else raw)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(page.items) == 11
    assert peak < 3 * len(raw)
