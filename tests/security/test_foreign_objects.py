"""Many foreign Pods and large foreign ConfigMaps: the controller keeps little of them."""

import tracemalloc

import pytest

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.store.store import Store
from framework.api import constants, pods
from framework.api.roster import decode_stored_roster
from framework.kube.resources import CONFIGMAPS, PODS, Object
from tests.support.builders import (
    FRAMEWORK,
    FRAMEWORK_UID,
    NAMESPACE,
    build_framework,
    build_status,
)
from tests.support.simulator.shell import Shell, refuse

MERGE = "application/merge-patch+json"
MIB = 2**20
MANY = 1000
CONFIGMAP = f"{FRAMEWORK}-attempt"


def build_foreign(number: int) -> Object:
    owner = {"kind": "Framework", "name": f"f{number}", "uid": FRAMEWORK_UID, "controller": True}
    return {
        "metadata": {
            "name": f"f{number}-attempt",
            "namespace": NAMESPACE,
            "uid": f"uid-{number}",
            "resourceVersion": str(number + 1),
            "labels": {constants.FRAMEWORK_NAME: f"f{number}"},
            "annotations": {constants.CREATION_PROOF_ANNOTATION: "x" * 100_000},
            "ownerReferences": [owner],
        },
        # A text of its own for each.
        "binaryData": {constants.ROSTER_KEY: f"{number:08}" * (MIB // 8)},
    }


@pytest.mark.parametrize("is_listed", [False, True], ids=["watched", "listed"])
def test_rosters_of_foreign_configmaps_are_not_kept(*, is_listed: bool) -> None:
    store = Store(lambda _key: None)
    tracemalloc.start()
    try:
        if is_listed:
            listed = [pods.trim_configmap(build_foreign(number)) for number in range(MANY)]
            store.replace(ObjectKind.CONFIGMAP, listed, "5000")
            del listed
        else:
            for number in range(MANY):
                store.apply(ObjectKind.CONFIGMAP, build_foreign(number))
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(list(store.walk())) == MANY
    assert kept < 20 * MIB
    assert peak < (30 if is_listed else 25) * MIB


def read_generation(shell: Shell) -> int:
    stored = shell.get(CONFIGMAPS, CONFIGMAP)["binaryData"][constants.ROSTER_KEY]
    return decode_stored_roster(stored).generation


def give_address(shell: Shell, name: str, address: str) -> None:
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    rt = shell.type(PODS)
    shell.storage.patch(rt, NAMESPACE, name, {"status": status}, MERGE, subresource="status")


async def run_gang(monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Run a gang of two until its roster is published; the roster counts as a long one."""
    monkeypatch.setattr(pods, "UNPROVEN_ROSTER_CHARS", 10)
    shell = Shell()
    shell.create_framework(number=2)
    await shell.run(1)
    for index in range(2):
        give_address(shell, f"{FRAMEWORK}-worker-{index}", f"10.0.0.{index + 1}")
    shell.show()
    await shell.run(5)
    assert read_generation(shell) == 1
    return shell


@pytest.mark.looptime
async def test_long_roster_is_read_by_the_next_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    before = await run_gang(monkeypatch)
    shell = Shell(after=before)
    shell.show()
    assert shell.entry.observed.configmap is not None
    assert shell.entry.observed.configmap.roster is None
    shell.network.expect("get", CONFIGMAPS, refuse(500))
    await shell.run(30)
    assert shell.sent("get").count(f"get configmaps {CONFIGMAP}") == 2
    assert shell.sent("patch") == []
    assert read_generation(shell) == 1

    shell.storage.delete(shell.type(PODS), NAMESPACE, f"{FRAMEWORK}-worker-1")
    shell.show()
    await shell.run(30)
    assert read_generation(shell) > 1


@pytest.mark.looptime
async def test_own_roster_is_not_read_again_when_a_watch_shows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell = await run_gang(monkeypatch)
    shell.show()
    shell.store.apply(ObjectKind.CONFIGMAP, shell.get(CONFIGMAPS, CONFIGMAP))
    await shell.run(30)
    assert shell.sent("get") == []
    assert shell.entry.observed.published.roster is not None


@pytest.mark.looptime
async def test_nothing_is_decided_while_the_roster_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = await run_gang(monkeypatch)
    shell = Shell(after=before)
    shell.show()
    shell.network.expect("get", CONFIGMAPS, *[refuse(500)] * 1000)
    shell.storage.delete(shell.type(PODS), NAMESPACE, f"{FRAMEWORK}-worker-1")
    shell.show()
    await shell.run(60)
    await shell.worker.stop()
    await shell.worker.write_rest()
    assert shell.sent("patch", "create", "replace", "delete") == []


# --- Pods with ever new names --------------------------------------------------------------------

REMEMBERED = 3 * constants.MAX_TASK_NUMBER
MANY_PODS = REMEMBERED + 1000


def build_pod(name: str, version: int, **metadata: str) -> Object:
    metadata |= {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}
    labels = {constants.FRAMEWORK_NAME: FRAMEWORK}
    return {"metadata": {**metadata, "resourceVersion": str(version), "labels": labels}}


def create_and_delete(store: Store, name: str, version: int) -> None:
    """Let the store see a Pod, and its end."""
    store.apply(ObjectKind.POD, build_pod(name, version))
    ending = build_pod(name, version + 1, deletionTimestamp="2026-01-01T00:00:00Z")
    store.remove(ObjectKind.POD, ending)


def test_store_forgets_names_of_short_lived_pods_and_keeps_those_of_the_gang() -> None:
    store = Store(lambda _key: None)
    store.apply(ObjectKind.POD, build_pod("first", 1))
    entry = store.find(f"{NAMESPACE}/{FRAMEWORK}")
    assert entry is not None
    status = build_status()
    entry.observed.framework = build_framework(status=status)
    (_, task), *_ = status.attempt_status.walk_tasks()
    name = task.attempt_status.pod_name
    create_and_delete(store, name, 2)
    entry.observed.live[ObjectKind.CONFIGMAP, f"{FRAMEWORK}-attempt"] = "uid"
    entry.outcomes.in_flight.add(ActionKey(Verb.CREATE, ObjectKind.POD, name, "0"))
    revision = entry.observed.name_revisions[ObjectKind.POD, name]
    for number in range(MANY_PODS):
        create_and_delete(store, f"short-lived-{number}", 2 * number + 4)
    assert len(entry.observed.live) <= REMEMBERED
    assert len(entry.observed.name_revisions) <= REMEMBERED
    assert entry.observed.live[ObjectKind.POD, name] == ""
    assert entry.observed.live[ObjectKind.CONFIGMAP, f"{FRAMEWORK}-attempt"] == "uid"
    assert entry.observed.name_revisions[ObjectKind.POD, name] == revision
