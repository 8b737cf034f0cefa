import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.kube.deferred import (
    DeferredObject,
    decode_deferred_event,
    decode_deferred_page,
    defer_object,
)
from framework.kube.stream import BrokenStreamError, decode_event, decode_object

IDENTITY = {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "generation": 2}
OBJECT = {
    "kind": "Framework",
    "metadata": IDENTITY | {"managedFields": [{"manager": "kubectl"}]},
    "spec": {"taskRoles": [1.5, 2**63, None, "ä"]},
    "status": None,
}
DEEP = b"[" * 5000 + b"]" * 5000


@pytest.mark.parametrize("event_type", ["ADDED", "MODIFIED", "DELETED"])
def test_object_of_an_event_or_list_has_its_identity_at_once(event_type: str) -> None:
    line = msgspec.json.encode({"type": event_type, "object": OBJECT})
    found, obj = decode_deferred_event(line)
    assert found == event_type
    for deferred in obj, defer_object(OBJECT):
        assert deferred == {"metadata": IDENTITY}
        assert isinstance(deferred, DeferredObject)
        assert deferred.decode() == OBJECT | {"metadata": IDENTITY}


def test_managed_fields_are_not_kept() -> None:
    fields = [{"manager": f"m{number}" * 100} for number in range(1000)]
    wire = OBJECT | {"metadata": IDENTITY | {"managedFields": fields}}
    line = msgspec.json.encode({"type": "ADDED", "object": wire})
    tracemalloc.start()
    kept = [decode_deferred_event(line)[1], defer_object(wire)]
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(kept) == 2
    assert held < len(line) / 10


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"ERROR","object":{"kind":"Status","code":410}}',
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"},"kind":"Framework"}}',
        b'{"type":"ADDED","object":{"spec":{}}}',
        b'{"type":"ADDED","object":{"metadata":null,"spec":{}}}',
        b'{"type":"ADDED","object":{"metadata":{"managedFields":%b},"spec":%b}}' % (DEEP, DEEP),
    ],
)
def test_other_events_are_decoded_at_once(line: bytes) -> None:
    assert decode_deferred_event(line) == decode_event(line)


@given(st.binary() | st.binary().map(lambda noise: b'{"type":"ADDED","object":' + noise))
def test_noise_raises_only_its_own_error(noise: bytes) -> None:
    with pytest.raises(BrokenStreamError):
        decode_deferred_event(noise)


def decode_whole(line: bytes) -> None:
    _, obj = decode_deferred_event(line)
    assert isinstance(obj, DeferredObject)
    obj.decode()


@pytest.mark.parametrize("spec", [b"\xff", b'"\\ud800"', b'"\xff"'])
def test_object_that_is_no_json_raises_its_own_error(spec: bytes) -> None:
    with pytest.raises(BrokenStreamError):
        decode_whole(b'{"type":"ADDED","object":{"metadata":{"uid":"u"},"spec":%b}}' % spec)


def build_page(*items: object) -> bytes:
    return msgspec.json.encode({"metadata": {"resourceVersion": "9"}, "items": items})


def test_page_has_deferred_objects() -> None:
    page = decode_deferred_page(build_page(OBJECT, {"spec": {}}))
    first, second = page["items"]
    assert page["metadata"] == {"resourceVersion": "9"}
    assert first == {"metadata": IDENTITY}
    assert first.decode() == OBJECT | {"metadata": IDENTITY}
    assert (second, second.decode()) == ({"metadata": {}}, {"spec": {}})


@pytest.mark.parametrize(
    "raw",
    [b'{"metadata":{},"items":null}', b'{"metadata":null}', b"{}", build_page(1), build_page([])],
)
def test_other_pages_are_decoded_as_ever(raw: bytes) -> None:
    assert decode_deferred_page(raw) == decode_object(raw)


def test_object_of_a_page_that_is_nested_too_deep_is_cut() -> None:
    raw = b'{"metadata":{},"items":[{"metadata":{"name":"a"},"spec":%b}]}' % DEEP
    (deferred,) = decode_deferred_page(raw)["items"]
    assert deferred == {"metadata": {"name": "a"}}
    assert deferred.decode()["metadata"] == {"name": "a"}


def test_page_never_takes_many_times_the_memory_of_its_json() -> None:
    item = {"metadata": IDENTITY, "spec": {"x": [[] for _ in range(100_000)]}}
    raw = build_page(*[item] * 10)
    tracemalloc.start()
    page = decode_deferred_page(raw)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(page["items"]) == 10
    assert peak < 4 * len(raw)


@given(st.binary() | st.binary().map(lambda noise: b'{"items":' + noise))
def test_noise_is_no_page(noise: bytes) -> None:
    with pytest.raises(BrokenStreamError):
        decode_deferred_page(b"[" + noise)
