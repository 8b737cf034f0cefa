"""A Framework that a watch shows is decoded later, with the same result."""

import gc
import random
import tracemalloc
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from controller.core.actions import ObjectKind
from controller.store.entry import Entry
from controller.store.frameworks import decode_framework
from controller.store.store import Store
from framework.api.types import Framework
from framework.kube.deferred import DeferredObject, defer_object
from framework.kube.resources import Object
from tests.support.builders import AT, build_framework_wire, build_pod_wire, build_status_wire

KEY = "default/gang"


class CountedObject(DeferredObject):
    """Counts how often it is decoded."""

    count = 0

    def decode(self) -> Object:
        type(self).count += 1
        return super().decode()


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CountedObject, "count", 0)


def framework(version: int, uid: str | None = None, **parts: Any) -> Object:
    wire = build_framework_wire() | parts
    wire["metadata"] |= {"resourceVersion": str(version), "generation": version}
    wire["metadata"] |= {"uid": uid} if uid else {}
    wire["metadata"]["managedFields"] = [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]
    return wire


def defer(wire: Object) -> CountedObject:
    deferred = defer_object(wire)
    assert isinstance(deferred, DeferredObject)
    line = msgspec.json.encode({"type": "ADDED", "object": deferred.decode()})
    return CountedObject(deferred["metadata"], line, deferred.unread_bytes)


class SetClock:
    """A clock that a test sets."""

    seconds = 0.0

    def now(self) -> datetime:
        return AT + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


def apply(store: Store, *wires: Object) -> Entry:
    for wire in wires:
        store.apply(ObjectKind.FRAMEWORK, wire)
    entry = store.find(KEY)
    assert entry is not None
    return entry


def decode(entry: Entry) -> Framework:
    decode_framework(entry)
    assert entry.observed.fault is None
    assert entry.observed.framework is not None
    return entry.observed.framework


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("number", [1, 2, 10])
def test_several_versions_cost_one_decode(number: int, *, is_known: bool) -> None:
    keys: list[str] = []
    store = Store(keys.append)
    if is_known:
        apply(store, framework(1))
    keys.clear()
    entry = apply(store, *(defer(framework(2 + n)) for n in range(number)))
    assert (CountedObject.count, keys) == (0, [KEY] * number)
    assert decode(entry).metadata.generation == decode(entry).metadata.generation == 1 + number
    assert CountedObject.count == 1


def test_older_version_costs_no_decode() -> None:
    entry = apply(Store(lambda _: None), defer(framework(5)), defer(framework(4)), framework(3))
    assert CountedObject.count == 0
    assert decode(entry).metadata.resource_version == "5"


def test_framework_that_ends_before_its_decode_costs_none() -> None:
    store = Store(lambda _: None)
    entry = apply(store, defer(framework(5)))
    assert (len(store), entry.is_empty) == (1, False)
    store.remove(ObjectKind.FRAMEWORK, defer(framework(6)))
    assert (len(store), entry.is_empty, CountedObject.count) == (0, True, 0)
    apply(store, defer(framework(7)))
    assert entry.observed.version is None


def test_another_framework_of_the_name_is_a_new_incarnation_before_its_decode() -> None:
    store = Store(lambda _: None)
    entry = apply(store, framework(5))
    before = entry.observed.incarnation
    apply(store, defer(framework(6, uid="another")))
    assert (entry.observed.incarnation, entry.observed.framework) == (before + 1, None)
    store.remove(ObjectKind.FRAMEWORK, framework(5))
    assert decode(entry).metadata.uid == "another"


def test_unreadable_version_is_a_fault_once_decoded_until_a_readable_one() -> None:
    store = Store(lambda _: None)
    entry = apply(store, framework(5), defer(framework(6, spec={"taskRoles": 1})))
    assert entry.observed.fault is None
    decode_framework(entry)
    assert "spec.taskRoles" in str(entry.observed.fault)
    assert entry.observed.framework is None
    apply(store, defer(framework(7)))
    decode(entry)


def test_fault_does_not_keep_the_object() -> None:
    wire = framework(6, spec={"taskRoles": [[] for _ in range(100_000)]})
    entry = apply(Store(lambda _: None), framework(5), defer(wire))
    del wire
    gc.collect()
    tracemalloc.start()
    try:
        decode_framework(entry)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert "spec.taskRoles" in str(entry.observed.fault)
    assert kept < 1_000_000


@pytest.mark.parametrize("is_readable", [True, False])
def test_trusted_status_is_decoded_before_the_next_version(*, is_readable: bool) -> None:
    clock = SetClock()
    store = Store(lambda _: None, clock)
    entry = apply(store, framework(1))
    store.trust.expect_late_writes()
    good: Object = build_status_wire()
    apply(store, defer(framework(2, status=good if is_readable else {"state": 1})))
    clock.seconds = 3600.0
    edit: Object = {"spec": {"taskRoles": [], "description": "new"}}
    apply(store, defer(framework(3, **(edit if is_readable else {"status": good}))))
    decoded = decode(entry)
    assert decoded.status is not None
    assert entry.observed.is_diverged is is_readable
    assert decoded.spec.description == ("new" if is_readable else "")


def test_take_over_reads_live_the_frameworks_that_its_list_does_not_show() -> None:
    store = Store(lambda _: None)
    entry = apply(store, defer(framework(5)))
    store.take_over.finish(store.take_over.confirm([]))
    assert entry.observed.needs_refresh


def test_status_is_decoded_before_an_object_of_its_framework_ends() -> None:
    store = Store(lambda _: None)
    pod = build_pod_wire(metadata={"deletionTimestamp": "2026-01-01T00:00:30Z"})
    store.apply(ObjectKind.POD, pod)
    entry = apply(store, defer(framework(5)))
    assert CountedObject.count == 0
    store.remove(ObjectKind.POD, pod)
    assert CountedObject.count == 1
    assert entry.observed.framework is not None


@pytest.mark.parametrize("seed", range(50))
def test_outcome_is_that_of_a_store_that_decodes_at_once(seed: int) -> None:
    draw = random.Random(seed)
    stores = Store(lambda _: None), Store(lambda _: None)
    for version in range(1, 20):
        readable = {"spec": {"taskRoles": [], "description": str(version)}}
        parts: Object = draw.choice([{}, readable, {"spec": {"taskRoles": 1}}])
        uid = draw.choice(["a", "a", "a", "b"])
        wire = framework(draw.randint(max(1, version - 2), version), uid, **parts)
        is_end = draw.random() < 0.1
        for store, obj in zip(stores, (wire, defer(wire)), strict=True):
            (store.remove if is_end else store.apply)(ObjectKind.FRAMEWORK, obj)
        entries = [store.find(KEY) for store in stores]
        if entries[0] is None or entries[1] is None:
            continue
        # A fault is known after the decode only, and lets older versions pass.
        decode_framework(entries[1])
        first, second = entries[0].observed, entries[1].observed
        assert first.framework == second.framework
        assert str(first.fault) == str(second.fault)
        assert first.object_bytes == second.object_bytes
        assert first.incarnation == second.incarnation
