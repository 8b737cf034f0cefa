"""Creation proofs in the store's entry: what is ours without one."""

from dataclasses import replace

from controller.core.actions import ObjectKind
from controller.reconcile.observer import observe
from controller.store.entry import Entry
from controller.store.objects import put_object
from controller.store.store import Store
from tests.support.builders import (
    CONFIGMAP_UID,
    FRAMEWORK,
    NAMESPACE,
    at,
    build_configmap,
    build_framework,
    build_status,
)


def test_configmap_that_the_status_names_later_is_ours() -> None:
    # At an upgrade: the watch was behind the older controller, and its objects have no proof.
    store = Store(lambda _: None)
    entry = Entry(NAMESPACE, FRAMEWORK)
    recorded = build_status()
    behind = replace(recorded, attempt_status=replace(recorded.attempt_status, configmap_uid=None))
    entry.observed.framework = build_framework(status=behind)
    put_object(entry, ObjectKind.CONFIGMAP, build_configmap(), 0.0)
    store.settle(entry)
    assert CONFIGMAP_UID not in entry.observed.proven

    entry.observed.framework = build_framework(status=recorded)
    store.settle(entry)
    snapshot = observe(entry, at(2))
    assert snapshot is not None
    assert CONFIGMAP_UID in snapshot.proven
    # And so what it carries is read.
    assert snapshot.published.has_version_annotation
