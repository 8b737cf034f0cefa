"""Frameworks whose JSON has no room: kept by their identity only, and read live in their turn."""

from typing import Any

import msgspec
import pytest

from controller.core.actions import ObjectKind
from controller.core.settings import MEMORY_WAIT_SECONDS
from controller.reconcile.memory import MemoryLedger
from framework.kube.deferred import defer_object
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object
from tests.support.builders import NAMESPACE, build_role_wire, build_submission
from tests.support.simulator.shell import Shell, refuse

pytestmark = pytest.mark.looptime
MIB = 2**20
# A sixth of this is 5 MiB, of which one namespace may use 2.5 MiB.
LIMIT_BYTES = 30 * MIB
LARGE_BYTES = 1_000_000


def open_shell(after: Shell | None = None) -> Shell:
    return Shell(memory=MemoryLedger(LIMIT_BYTES, 80, lambda: 0), after=after)


def build_large(name: str, size: int = LARGE_BYTES, namespace: str = NAMESPACE) -> Object:
    role = build_role_wire("worker", 1)
    role["task"]["pod"]["spec"]["containers"][0]["args"] = ["x" * size]
    body = build_submission(name, role)
    body["metadata"]["namespace"] = namespace
    return body


def create(shell: Shell, name: str, **options: Any) -> None:
    """Create a Framework, and let the store see it as a watch would."""
    body = build_large(name, **options)
    created = shell.storage.create(shell.type(FRAMEWORKS), body["metadata"]["namespace"], body)
    shell.store.apply(ObjectKind.FRAMEWORK, defer_object(created))


def show_stripped(shell: Shell, name: str) -> None:
    """Let the store see a Framework as a watch would while there is no room at all."""
    deferred = defer_object(shell.get(FRAMEWORKS, name))
    deferred.keep_in(MemoryLedger(1, 80, lambda: 0).other_json)
    assert deferred.is_stripped
    shell.store.apply(ObjectKind.FRAMEWORK, deferred)


def count_kept_bytes(shell: Shell) -> int:
    """Count the JSON that the store keeps."""
    frameworks = [entry.observed.framework for entry in shell.store.walk()]
    roles = [role for found in frameworks if found for role in found.spec.task_roles]
    return sum(len(msgspec.json.encode(dict(role.task.pod.items()))) for role in roles)


def count_reads(shell: Shell) -> int:
    return sum(sent.startswith("get frameworks") for sent in shell.sent("get"))


def find_reasons(shell: Shell, names: list[str]) -> dict[str, str]:
    return {name: shell.find_condition(name).get("reason", "") for name in names}


def list_owners(shell: Shell) -> set[str]:
    return {name.partition("-")[0] for name in shell.names(PODS)}


async def test_frameworks_without_room_wait_and_start_when_others_are_gone() -> None:
    shell = open_shell()
    names = [f"large{number}" for number in range(12)]
    for name in names:
        create(shell, name)
    await shell.run(5)
    assert list(find_reasons(shell, names).values()) == ["NotBlocked"] * 2 + ["MemoryBudget"] * 10
    assert count_kept_bytes(shell) < 3 * LARGE_BYTES
    condition = shell.find_condition("large5")
    assert f"the object has {LARGE_BYTES}"[:-3] in condition["message"]
    assert condition["message"].endswith("give the controller more memory")

    # While they wait, they are not even read.
    reads = count_reads(shell)
    await shell.run(2 * MEMORY_WAIT_SECONDS)
    assert count_reads(shell) == reads

    for name in ("large0", "large1"):
        shell.delete(FRAMEWORKS, name)
    shell.show()
    await shell.run(MEMORY_WAIT_SECONDS + 5)
    assert list(find_reasons(shell, names[2:]).values()).count("NotBlocked") == 2
    assert count_kept_bytes(shell) < 3 * LARGE_BYTES


async def test_statuses_of_frameworks_without_room_do_not_wait_for_other_changes() -> None:
    """Until its status is written, a Framework is kept as a whole."""
    shell = open_shell()
    for number in range(12):
        create(shell, f"large{number}")
    most = 0
    for _ in range(100):
        await shell.run(0.02)
        most = max(most, count_kept_bytes(shell))
    assert shell.find_condition("large11")["reason"] == "MemoryBudget"
    assert most < 4 * LARGE_BYTES


async def test_framework_of_another_namespace_starts() -> None:
    shell = open_shell()
    for number in range(6):
        create(shell, f"large{number}")
    await shell.run(5)
    create(shell, "other", namespace="kube-system", size=MIB // 2)
    await shell.run(5)
    found = shell.storage.get(shell.type(FRAMEWORKS), "kube-system", "other")["status"]
    assert found["state"] == "AttemptPreparing"


async def test_framework_that_is_made_smaller_starts_at_once() -> None:
    shell = open_shell()
    for number in range(3):
        create(shell, f"large{number}")
    await shell.run(5)
    assert shell.find_condition("large2")["reason"] == "MemoryBudget"
    small = build_large("large2", size=10)["spec"]
    shell.patch(FRAMEWORKS, "large2", {"spec": small})
    show_stripped(shell, "large2")
    await shell.run(5)
    assert shell.find_condition("large2")["reason"] == "NotBlocked"
    assert "large2" in list_owners(shell)


async def test_small_gangs_that_are_made_large_go_on_without_their_json() -> None:
    """Ten run, and each is edited to 1 MB: an edit is not admitted, and not refused."""
    shell = open_shell()
    names = [f"gang{number}" for number in range(10)]
    for name in names:
        create(shell, name, size=10)
    await shell.run(5)
    for name in names:
        shell.patch(FRAMEWORKS, name, {"spec": build_large(name)["spec"]})
        show_stripped(shell, name)
    await shell.run(5)
    assert count_kept_bytes(shell) < 4 * LARGE_BYTES
    for name in names:
        shell.patch(PODS, f"{name}-worker-0", {"status": {"phase": "Succeeded"}}, "status")
    for _ in range(4):
        shell.show()
        await shell.run(30)
    states = {shell.get(FRAMEWORKS, name)["status"]["state"] for name in names}
    assert states <= {"AttemptDeleting", "AttemptDeletionRequested", "Completed"}
    assert count_kept_bytes(shell) < 4 * LARGE_BYTES


@pytest.mark.slow
async def test_unsent_actions_keep_no_json_that_has_no_room() -> None:
    """All Pods are refused, and the gangs become large: their actions wait without the object."""
    shell = open_shell()
    shell.network.expect("create", PODS, *[refuse(500)] * 10_000)
    names = [f"gang{number}" for number in range(10)]
    for name in names:
        create(shell, name, size=10)
    await shell.run(2)
    for name in names:
        shell.patch(FRAMEWORKS, name, {"spec": build_large(name)["spec"]})
        show_stripped(shell, name)
    await shell.run(60)
    assert count_kept_bytes(shell) < 4 * LARGE_BYTES
    shell.network.script.clear()
    await shell.run(400)
    assert list_owners(shell) == set(names)


async def test_controller_that_starts_reads_what_had_no_room() -> None:
    before = open_shell()
    for number in range(3):
        create(before, f"large{number}")
    await before.run(5)
    shell = open_shell(after=before)
    for kind, resource in ((ObjectKind.POD, PODS), (ObjectKind.CONFIGMAP, CONFIGMAPS)):
        listed = shell.storage.list(shell.type(resource), NAMESPACE)
        shell.store.replace(kind, listed.items, listed.resource_version)
    for number in range(3):
        show_stripped(shell, f"large{number}")
    # A Pod ends before its Framework was read: the status must say whose it was.
    shell.delete(PODS, "large0-worker-0", grace_seconds=0)
    listed = shell.storage.list(shell.type(PODS), NAMESPACE)
    shell.store.replace(ObjectKind.POD, listed.items, listed.resource_version)
    await shell.run(5)
    status = shell.get(FRAMEWORKS, "large0")["status"]
    assert status["state"] != "AttemptPreparing"
    reasons = find_reasons(shell, ["large0", "large1", "large2"])
    assert reasons["large1"] == "NotBlocked"
    assert shell.names(PODS).count("large1-worker-0") == 1
