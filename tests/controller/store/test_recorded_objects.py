"""An object that the status names by UID is the attempt's, also without label and owner."""

import asyncio

import pytest

from controller.core.actions import ObjectKind
from framework.kube.resources import CONFIGMAPS, PODS, Resource
from tests.support.builders import FRAMEWORK
from tests.support.fakes.storageclient import Fate
from tests.support.simulator.shell import Shell

pytestmark = pytest.mark.looptime

POD, ATTEMPT = f"{FRAMEWORK}-worker-0", f"{FRAMEWORK}-attempt"
UNLABELLED = {"labels": {"FC_FRAMEWORK_NAME": None}}
# A live GET each five seconds, in half a minute.
MOST_READS = 8


async def strip(resource: Resource, name: str) -> Shell:
    """A gang of one that runs, and an object of it that lost label and owner: its watch ends."""
    shell = Shell()
    shell.create_framework()
    await shell.run(1.0)
    shell.patch_pod(phase="Running", podIP="10.0.0.1")
    await shell.run(1.0)
    bare = shell.patch(resource, name, {"metadata": {**UNLABELLED, "ownerReferences": None}})
    kind = ObjectKind.POD if resource == PODS else ObjectKind.CONFIGMAP
    shell.store.remove(kind, bare)
    shell.client.sent.clear()
    return shell


@pytest.mark.parametrize(("resource", "name"), [(PODS, POD), (CONFIGMAPS, ATTEMPT)])
async def test_object_without_label_and_owner_is_read_now_and_then_and_changes_nothing(
    resource: Resource, name: str
) -> None:
    shell = await strip(resource, name)
    await shell.run(30.0)
    assert 1 <= shell.sent("get").count(f"get {resource.plural} {name}") <= MOST_READS
    assert shell.sent("create", "delete", "replace", "patch") == []
    assert shell.tasks[0]["state"] == "AttemptRunning"


async def test_end_of_a_pod_without_label_and_owner_is_the_end_of_its_task() -> None:
    shell = await strip(PODS, POD)
    await shell.run(1.0)
    shell.patch(PODS, POD, {"status": {"phase": "Succeeded"}}, "status")
    await shell.run(20.0)
    assert shell.tasks[0]["attemptStatus"]["completionStatus"]["code"] == 0
    assert shell.names(PODS) == []


async def test_pod_that_lost_its_label_while_its_deletion_was_lost_is_deleted() -> None:
    shell = Shell()
    wire = shell.create_framework(number=2)
    await shell.run(1.0)
    shell.show()
    await shell.run(1.0)
    name = f"{FRAMEWORK}-worker-1"
    shell.network.expect("delete", PODS, Fate(uplink_seconds=3.0, is_lost=True))
    wire["spec"]["taskRoles"][0]["taskNumber"] = 1
    shell.edit(**wire["spec"])

    def unlabel() -> None:
        bare = shell.patch(PODS, name, {"metadata": UNLABELLED})
        shell.store.remove(ObjectKind.POD, bare)

    asyncio.get_running_loop().call_later(1.0, unlabel)
    await shell.run(20.0)
    assert shell.sent("delete").count(f"delete pods {name}") >= 2
    assert shell.names(PODS) == [POD]
