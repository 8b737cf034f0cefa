"""Large ConfigMaps with the names of gangs' ones: the controller keeps little of them."""

import tracemalloc

import pytest

from controller.core.actions import ObjectKind
from controller.store.store import Store
from framework.api import constants, pods
from framework.api.roster import decode_stored_roster
from framework.kube.resources import CONFIGMAPS, PODS, Object
from tests.support.builders import FRAMEWORK, FRAMEWORK_UID, NAMESPACE
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


def test_rosters_of_foreign_configmaps_are_not_kept() -> None:
    store = Store(lambda _key: None)
    tracemalloc.start()
    try:
        for number in range(MANY):
            store.apply(ObjectKind.CONFIGMAP, build_foreign(number))
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(list(store.walk())) == MANY
    assert kept < 20 * MIB
    assert peak < 25 * MIB


def test_rosters_of_foreign_configmaps_are_not_kept_by_their_list() -> None:
    store = Store(lambda _key: None)
    tracemalloc.start()
    try:
        listed = [pods.trim_configmap(build_foreign(number)) for number in range(MANY)]
        store.replace(ObjectKind.CONFIGMAP, listed, "5000")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(list(store.walk())) == MANY
    assert peak < 30 * MIB


def read_generation(shell: Shell) -> int:
    stored = shell.get(CONFIGMAPS, CONFIGMAP)["binaryData"][constants.ROSTER_KEY]
    return decode_stored_roster(stored).generation


def give_address(shell: Shell, name: str, address: str) -> None:
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    rt = shell.type(PODS)
    shell.storage.patch(rt, NAMESPACE, name, {"status": status}, MERGE, subresource="status")


async def run_gang(monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Run a gang of two up to its roster, which counts as a long one."""
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
async def test_long_roster_is_taken_over_by_the_next_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
