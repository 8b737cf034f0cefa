"""Pods of ever new names with the label of a gang: the controller does not remember them all."""

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.store.entry import Entry
from controller.store.store import Store
from framework.api import constants
from framework.kube.resources import Object
from tests.support.builders import FRAMEWORK, NAMESPACE, build_framework, build_status

MANY = 5 * constants.MAX_TASK_NUMBER
REMEMBERED = 3 * constants.MAX_TASK_NUMBER


def build_pod(name: str, version: int, **metadata: str) -> Object:
    metadata |= {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}
    labels = {constants.FRAMEWORK_NAME: FRAMEWORK}
    return {"metadata": {**metadata, "resourceVersion": str(version), "labels": labels}}


def let_pass(store: Store, name: str, version: int) -> None:
    """Show a Pod, and its end."""
    store.apply(ObjectKind.POD, build_pod(name, version))
    ending = build_pod(name, version + 1, deletionTimestamp="2026-01-01T00:00:00Z")
    store.remove(ObjectKind.POD, ending)


def open_store() -> tuple[Store, Entry]:
    store = Store(lambda _key: None)
    store.apply(ObjectKind.POD, build_pod("first", 1))
    entry = store.find(f"{NAMESPACE}/{FRAMEWORK}")
    assert entry is not None
    entry.observed.framework = build_framework(status=build_status())
    return store, entry


def test_names_of_passing_pods_are_forgotten() -> None:
    store, entry = open_store()
    for number in range(MANY):
        let_pass(store, f"passing-{number}", 2 * number + 2)
    assert len(entry.observed.live) <= REMEMBERED
    assert len(entry.observed.name_revisions) <= REMEMBERED


def test_names_that_matter_are_remembered() -> None:
    store, entry = open_store()
    framework = entry.observed.framework
    assert framework is not None
    assert framework.status is not None
    (_, task), *_ = framework.status.attempt_status.walk_tasks()
    name = task.attempt_status.pod_name
    let_pass(store, name, 2)
    entry.observed.live[ObjectKind.CONFIGMAP, f"{FRAMEWORK}-attempt"] = "uid"
    entry.outcomes.in_flight.add(ActionKey(Verb.CREATE, ObjectKind.POD, name, "0"))
    revision = entry.observed.name_revisions[ObjectKind.POD, name]
    for number in range(MANY):
        let_pass(store, f"passing-{number}", 2 * number + 4)
    assert entry.observed.live[ObjectKind.POD, name] == ""
    assert entry.observed.live[ObjectKind.CONFIGMAP, f"{FRAMEWORK}-attempt"] == "uid"
    assert entry.observed.name_revisions[ObjectKind.POD, name] == revision
