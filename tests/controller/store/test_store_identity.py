"""An event about one instance says nothing of another that has its name now."""

from controller.core.actions import ObjectKind
from controller.store.store import Store
from tests.support.builders import build_configmap_wire, build_framework_wire, build_pod_wire

KEY = "default/gang"


def open_store() -> Store:
    store = Store(lambda _: None)
    store.apply(ObjectKind.FRAMEWORK, build_framework_wire())
    return store


def test_end_of_the_last_pod_leaves_the_next_of_its_name() -> None:
    store = open_store()
    last = build_pod_wire(metadata={"uid": "last", "resourceVersion": "5"})
    store.apply(ObjectKind.POD, build_pod_wire(metadata={"uid": "next", "resourceVersion": "9"}))
    going = {
        **last["metadata"],
        "resourceVersion": "8",
        "deletionTimestamp": "2026-01-01T00:00:09Z",
    }
    store.remove(ObjectKind.POD, {**last, "metadata": going})
    entry = store.find(KEY)
    assert entry is not None
    assert entry.observed.pods["gang-worker-0"].uid == "next"
    assert entry.observed.live == {}
    assert entry.observed.unconfirmed == {}


def test_end_of_the_last_configmap_leaves_the_next_of_its_name() -> None:
    store = open_store()
    store.apply(ObjectKind.CONFIGMAP, build_configmap_wire(uid="next", resourceVersion="9"))
    store.remove(ObjectKind.CONFIGMAP, build_configmap_wire(uid="last", resourceVersion="8"))
    entry = store.find(KEY)
    assert entry is not None
    assert entry.observed.configmap is not None
    assert entry.observed.configmap.uid == "next"
    assert entry.observed.unconfirmed == {}


def test_framework_that_was_seen_deleted_is_not_brought_back_by_an_older_event() -> None:
    store = open_store()
    store.remove(ObjectKind.FRAMEWORK, build_framework_wire())
    store.apply(ObjectKind.FRAMEWORK, build_framework_wire())
    entry = store.find(KEY)
    assert entry is not None
    assert entry.observed.framework is None


def test_framework_that_a_live_get_missed_is_not_brought_back_by_a_late_watch() -> None:
    store = open_store()
    entry = store.find(KEY)
    assert entry is not None
    store.drop_framework(entry)
    store.apply(ObjectKind.FRAMEWORK, build_framework_wire())
    assert entry.observed.framework is None


def test_framework_of_a_storage_that_was_restored_is_taken_though_it_was_deleted() -> None:
    store = open_store()
    store.remove(ObjectKind.FRAMEWORK, build_framework_wire())
    store.replace(ObjectKind.FRAMEWORK, [build_framework_wire()], "1", is_reset=True)
    entry = store.find(KEY)
    assert entry is not None
    assert entry.observed.framework is not None
