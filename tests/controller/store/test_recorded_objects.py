"""Somebody takes label and owner from what the status names by UID: it is still the attempt's."""

import asyncio
from typing import Any

import pytest

from controller.core.actions import ObjectKind
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Resource
from tests.support.builders import FRAMEWORK, NAMESPACE
from tests.support.fakes.storageclient import Fate
from tests.support.simulator.shell import Shell

pytestmark = pytest.mark.looptime

MERGE = "application/merge-patch+json"
POD, ATTEMPT = f"{FRAMEWORK}-worker-0", f"{FRAMEWORK}-attempt"
BARE = {"labels": {"FC_FRAMEWORK_NAME": None}, "ownerReferences": None}
# A live GET each five seconds, in half a minute.
MOST_READS = 8


def patch_pod(shell: Shell, **status: Any) -> None:
    body = {"status": status}
    shell.storage.patch(shell.type(PODS), NAMESPACE, POD, body, MERGE, subresource="status")


def read_task(shell: Shell) -> Any:
    attempt = shell.get(FRAMEWORKS, FRAMEWORK)["status"]["attemptStatus"]
    return attempt["taskRoleStatuses"][0]["taskStatuses"][0]


async def start_bare(resource: Resource, name: str) -> Shell:
    """A gang of one that runs, one of whose objects was made nobody's; its watch ends there."""
    shell = Shell()
    shell.create_framework()
    await shell.run(1.0)
    shell.show()
    patch_pod(shell, phase="Running", podIP="10.0.0.1", podIPs=[{"ip": "10.0.0.1"}])
    shell.show()
    await shell.run(1.0)
    bare = shell.storage.patch(shell.type(resource), NAMESPACE, name, {"metadata": BARE}, MERGE)
    kind = ObjectKind.POD if resource == PODS else ObjectKind.CONFIGMAP
    shell.store.remove(kind, bare)
    shell.client.sent.clear()
    return shell


@pytest.mark.parametrize(("resource", "name"), [(PODS, POD), (CONFIGMAPS, ATTEMPT)])
async def test_bare_object_is_read_now_and_then_and_changes_nothing(
    resource: Resource, name: str
) -> None:
    shell = await start_bare(resource, name)
    await shell.run(30.0)
    reads = shell.sent("get").count(f"get {resource.plural} {name}")
    assert 1 <= reads <= MOST_READS
    assert shell.sent("create", "delete", "replace", "patch") == []
    assert read_task(shell)["state"] == "AttemptRunning"


async def test_end_of_a_bare_pod_is_its_tasks_end() -> None:
    shell = await start_bare(PODS, POD)
    await shell.run(1.0)
    patch_pod(shell, phase="Succeeded")
    await shell.run(20.0)
    assert read_task(shell)["attemptStatus"]["completionStatus"]["code"] == 0
    assert shell.names(PODS) == []


async def test_pod_that_lost_its_label_while_its_deletion_was_lost_is_deleted() -> None:
    shell = Shell()
    shell.create_framework(number=2)
    await shell.run(1.0)
    shell.show()
    await shell.run(1.0)
    name = f"{FRAMEWORK}-worker-1"
    body = shell.get(FRAMEWORKS, FRAMEWORK)
    body["spec"]["taskRoles"][0]["taskNumber"] = 1
    shell.network.expect("delete", PODS, Fate(uplink_seconds=3.0, is_lost=True))
    shell.store.apply(
        ObjectKind.FRAMEWORK,
        shell.storage.update(shell.type(FRAMEWORKS), NAMESPACE, FRAMEWORK, body),
    )

    def strip() -> None:
        change = {"metadata": {"labels": BARE["labels"]}}
        bare = shell.storage.patch(shell.type(PODS), NAMESPACE, name, change, MERGE)
        shell.store.remove(ObjectKind.POD, bare)

    asyncio.get_running_loop().call_later(1.0, strip)
    await shell.run(20.0)
    assert shell.sent("delete").count(f"delete pods {name}") >= 2
    assert shell.names(PODS) == [POD]
