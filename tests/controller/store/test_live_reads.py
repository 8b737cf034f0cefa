"""Objects that a watch does not show as they are: live GETs decide."""

import asyncio

import pytest

from controller.core.actions import ObjectKind
from framework.api import constants, pods
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object, Resource
from tests.support.builders import FRAMEWORK, build_role_wire
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
async def test_object_without_label_is_read_and_changes_nothing(
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


async def test_late_answer_that_a_pod_is_absent_does_not_count_for_the_next_one() -> None:
    shell = Shell()
    role = build_role_wire()
    role["task"]["retryPolicy"] = {"fancyRetryPolicy": True, "maxRetryCount": 0}
    shell.create_framework(taskRoles=[role])
    await shell.run(1.0)
    shell.show()
    await shell.run(1.0)
    shell.network.expect("get", PODS, Fate(downlink_seconds=5.0))
    pod = shell.get(PODS, POD)
    shell.delete(PODS, POD, grace_seconds=0)
    # It left the selector; a live GET is sent, and its answer takes long.
    shell.store.remove(ObjectKind.POD, pod)
    deleted = {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:01Z"}
    terminated = {**pod, "metadata": deleted}
    loop = asyncio.get_running_loop()
    # Meanwhile a watch shows the end of the Pod, and the next one is created.
    loop.call_later(0.5, shell.store.apply, ObjectKind.POD, terminated)
    loop.call_later(0.6, shell.store.remove, ObjectKind.POD, terminated)
    await shell.run(15.0)
    assert shell.sent("get").count(f"get pods {POD}") >= 1
    (task,) = shell.tasks
    assert task["retryPolicyStatus"]["totalRetriedCount"] == 1
    assert task["attemptStatus"]["podUID"] == shell.get(PODS, POD)["metadata"]["uid"]


async def release(shell: Shell) -> Object:
    """Give both Pods an address, and return the ConfigMap with its roster."""
    for index, name in enumerate(shell.names(PODS)):
        shell.patch_pod(name, phase="Running", podIP=f"10.0.0.{index + 1}")
    await shell.run(5)
    configmap = shell.get(CONFIGMAPS, ATTEMPT)
    assert constants.ROSTER_KEY in configmap["binaryData"]
    return configmap


async def begin_next_attempt(shell: Shell) -> None:
    """Let the attempt fail, stand in for the garbage collector, and wait for the next attempt."""
    for name in shell.names(PODS):
        shell.patch_pod(name, phase="Failed")
    await shell.run(10)
    for name in shell.names(PODS):
        shell.delete(PODS, name)
    shell.patch(CONFIGMAPS, ATTEMPT, {"metadata": {"finalizers": None}})
    for _ in range(3):
        shell.show()
        await shell.run(10)
    assert len(shell.names(PODS)) == 2


async def test_long_roster_of_an_attempt_that_no_watch_has_shown_yet_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The watch of the new leader shows the ConfigMap of the attempt before."""
    monkeypatch.setattr(pods, "UNPROVEN_ROSTER_CHARS", 10)
    before = Shell()
    always = {"fancyRetryPolicy": False, "maxRetryCount": -2}
    before.create_framework(number=2, retryPolicy=always)
    await before.run(1)
    old = await release(before)
    await begin_next_attempt(before)
    new = await release(before)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]

    shell = Shell(after=before)
    shell.store.apply(ObjectKind.CONFIGMAP, pods.trim_configmap(old))
    for name in shell.names(PODS):
        shell.store.apply(ObjectKind.POD, shell.get(PODS, name))
    shell.store.apply(ObjectKind.FRAMEWORK, shell.get(FRAMEWORKS, FRAMEWORK))
    await shell.run(5)
    # The watch shows the version that was read already.
    shell.store.apply(ObjectKind.CONFIGMAP, new)
    await shell.run(5)
    assert shell.known.published.roster is not None
