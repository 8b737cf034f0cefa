import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.kube.deferred import (
    DeferredObject,
    decode_deferred_event,
    defer_item,
    defer_object,
)
from framework.kube.stream import BrokenStreamError, decode_event

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


def test_object_of_a_list_is_deferred() -> None:
    assert defer_item(msgspec.json.encode(OBJECT)) == {"metadata": IDENTITY}
    assert defer_item(msgspec.json.encode(OBJECT)).decode() == OBJECT | {"metadata": IDENTITY}
    assert defer_item(b'{"spec":{}}') == {"metadata": {}}
    assert defer_item(b'{"spec":{}}').decode() == {"spec": {}}


def test_object_of_a_list_that_is_nested_too_deep_is_cut() -> None:
    deferred = defer_item(b'{"metadata":{"name":"a"},"spec":%b}' % DEEP)
    assert deferred == {"metadata": {"name": "a"}}
    assert deferred.decode()["metadata"] == {"name": "a"}


@pytest.mark.parametrize("item", [b"1", b"[]", b"null", b"", b"{", b'{},"type":[]', b"{}}"])
def test_other_values_of_a_list_are_no_objects(item: bytes) -> None:
    with pytest.raises(BrokenStreamError):
        defer_item(item)
