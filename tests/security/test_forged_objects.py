"""Pods and ConfigMaps that are forged from all that can be read are never taken for our own.

The tenant may create and delete Pods and ConfigMaps and read everything in its namespace. Issue 10,
rows 6 and 7; the controller's shell on a storage, in virtual time.
"""

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

import pytest

from framework.api import constants
from framework.api.roster import encode_roster
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object, Resource
from localcluster.apiserver.model.errors import StatusError
from localcluster.apiserver.model.options import DeleteOptions
from tests.support.builders import (
    FRAMEWORK,
    NAMESPACE,
    build_role_roster,
    build_roster,
    build_submission,
)
from tests.support.builders.forger import forge_configmap, forge_pod
from tests.support.fakes.storageclient import Fate
from tests.support.simulator.shell import Shell, refuse

pytestmark = pytest.mark.looptime

POD, CONFIGMAP = "gang-worker-0", "gang-attempt"
ATTACKER = "10.66.66.66"
MERGE = "application/merge-patch+json"


def read(shell: Shell) -> Object:
    return shell.get(FRAMEWORKS, FRAMEWORK)


def make(shell: Shell, resource: Resource, body: Object) -> str:
    """Create a forged object, which has an address at once; return its UID."""
    created = shell.storage.create(shell.type(resource), NAMESPACE, body)
    if resource is PODS:
        address = {"phase": "Running", "podIP": ATTACKER, "podIPs": [{"ip": ATTACKER}]}
        shell.storage.patch(
            shell.type(PODS), NAMESPACE, POD, {"status": address}, MERGE, subresource="status"
        )
    return str(created["metadata"]["uid"])


def remove(shell: Shell, resource: Resource, name: str) -> None:
    if resource is CONFIGMAPS:
        unheld = {"metadata": {"finalizers": None}}
        shell.storage.patch(shell.type(resource), NAMESPACE, name, unheld, MERGE)
    shell.storage.delete(shell.type(resource), NAMESPACE, name, DeleteOptions(grace_seconds=0))


async def run(shell: Shell, seconds: float, *, is_watched: bool = True) -> None:
    """Let the controller work for so long; it sees every second what the server has."""
    recording = asyncio.create_task(shell.recorder.run())
    for _ in range(round(seconds)):
        await shell.run(1.0)
        if is_watched:
            shell.show()
    recording.cancel()


def find_blocked(shell: Shell) -> Mapping[str, Any]:
    conditions = read(shell)["status"]["conditions"]
    return next(c for c in conditions if c["type"] == "Blocked")


def check_untouched(shell: Shell, resource: Resource, name: str, uid: str) -> None:
    """Assert that a forged object is told, and neither adopted, deleted nor told to agents."""
    blocked = find_blocked(shell)
    assert (blocked["status"], blocked["reason"]) == ("True", "NameTaken")
    assert uid in blocked["message"]
    assert shell.get(resource, name)["metadata"]["uid"] == uid
    status = str(read(shell)["status"] | {"conditions": []})
    assert uid not in status
    assert ATTACKER not in status
    assert shell.sent("delete") == []
    if CONFIGMAP in shell.names(CONFIGMAPS):
        published = shell.get(CONFIGMAPS, CONFIGMAP)
        assert constants.ROSTER_KEY not in (published.get("binaryData") or {})


async def check_freed(shell: Shell, resource: Resource, name: str, uid: str) -> None:
    """Assert that the Task gets its own Pod when the forged object has gone."""
    remove(shell, resource, name)
    shell.show()
    await run(shell, 40)
    own = shell.get(PODS, POD)["metadata"]
    assert own["uid"] != uid
    task = read(shell)["status"]["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][0]
    assert task["attemptStatus"]["podUID"] == own["uid"]
    assert find_blocked(shell)["status"] == "False"


async def open_before_pod(fate: Fate) -> Shell:
    """A gang whose ConfigMap is there and whose first Pod's create has this fate."""
    shell = Shell()
    shell.create_framework()
    shell.network.expect("create", PODS, fate)
    await shell.run(0.1)
    return shell


# --- Pods ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fate", "seconds"),
    [(refuse(503), 30), (Fate(uplink_seconds=5.0), 30), (Fate(is_lost=True), 60)],
    ids=["before", "while_in_flight", "after_it_was_lost"],
)
async def test_pod_forged_beside_our_create_is_not_adopted(fate: Fate, seconds: float) -> None:
    shell = await open_before_pod(fate)
    uid = make(shell, PODS, forge_pod(read(shell)))
    shell.show()
    await run(shell, seconds)
    check_untouched(shell, PODS, POD, uid)
    await check_freed(shell, PODS, POD, uid)


async def test_pod_forged_without_labels_is_not_adopted_by_a_live_get() -> None:
    shell = await open_before_pod(refuse(503))
    body = forge_pod(read(shell))
    del body["metadata"]["labels"]
    uid = make(shell, PODS, body)
    await run(shell, 30, is_watched=False)
    check_untouched(shell, PODS, POD, uid)


async def test_pod_forged_before_a_restart_of_the_controller_is_not_adopted() -> None:
    shell = await open_before_pod(Fate(is_lost=True))
    uid = make(shell, PODS, forge_pod(read(shell)))
    successor = Shell(after=shell)
    successor.show()
    await run(successor, 30)
    check_untouched(successor, PODS, POD, uid)
    await check_freed(successor, PODS, POD, uid)


async def test_own_pod_whose_answer_was_lost_is_adopted_by_the_next_controller() -> None:
    shell = await open_before_pod(Fate(is_answer_lost=True))
    uid = shell.get(PODS, POD)["metadata"]["uid"]
    successor = Shell(after=shell)
    successor.show()
    await run(successor, 5)
    assert uid in str(read(successor)["status"])
    assert successor.sent("create") == []


@pytest.mark.parametrize("is_restarted", [False, True], ids=["same_controller", "next_controller"])
async def test_proof_of_a_deleted_pod_is_not_for_a_copy_of_it(*, is_restarted: bool) -> None:
    shell = await open_before_pod(Fate(is_answer_lost=True))
    if is_restarted:
        shell = Shell(after=shell)
    own = shell.get(PODS, POD)
    shell.show()
    remove(shell, PODS, POD)
    uid = make(shell, PODS, forge_pod(read(shell), proof_of=own))
    shell.show()
    await run(shell, 60)
    check_untouched(shell, PODS, POD, uid)


async def test_proof_of_a_pod_whose_create_is_unanswered_is_not_for_a_copy_of_it() -> None:
    shell = Shell()
    shell.create_framework()
    shell.network.expect("create", PODS, Fate(downlink_seconds=5.0))

    async def replace_pod() -> str:
        await asyncio.sleep(1.0)
        own = shell.get(PODS, POD)
        remove(shell, PODS, POD)
        uid = make(shell, PODS, forge_pod(read(shell), proof_of=own))
        shell.show()  # The controller sees its own Pod in the answer to the create only.
        return uid

    task = asyncio.create_task(replace_pod())
    await shell.run(10.0)
    await run(shell, 60)
    check_untouched(shell, PODS, POD, await task)


async def test_proof_of_another_tasks_pod_proves_nothing() -> None:
    shell = Shell()
    shell.create_framework(number=2)
    shell.network.expect("create", PODS, refuse(503))
    await shell.run(0.1)
    shell.show()
    uid = make(shell, PODS, forge_pod(read(shell), proof_of=shell.get(PODS, "gang-worker-1")))
    shell.show()
    await run(shell, 30)
    blocked = find_blocked(shell)
    assert (blocked["reason"], uid in blocked["message"]) == ("NameTaken", True)
    assert ATTACKER not in str(read(shell)["status"])


@pytest.mark.parametrize(
    "proof", ["", "x", "A" * 108, "A" * 107 + "=", "é" * 108, "A" * 100_000], ids=len
)
async def test_proof_that_is_none_proves_nothing(proof: str) -> None:
    shell = await open_before_pod(refuse(503))
    body = forge_pod(read(shell))
    body["metadata"]["annotations"][constants.CREATION_PROOF_ANNOTATION] = proof
    uid = make(shell, PODS, body)
    shell.show()
    await run(shell, 30)
    check_untouched(shell, PODS, POD, uid)


async def test_pod_forged_into_a_gang_that_does_not_want_it_is_left_alone() -> None:
    shell = Shell()
    shell.create_framework()
    await run(shell, 2)
    body = forge_pod(read(shell))
    body["metadata"]["name"] = "gang-worker-7"
    uid = shell.storage.create(shell.type(PODS), NAMESPACE, body)["metadata"]["uid"]
    shell.show()
    await run(shell, 10)
    assert shell.get(PODS, "gang-worker-7")["metadata"]["uid"] == uid
    assert shell.sent("delete") == []


# --- ConfigMaps ----------------------------------------------------------------------------------

FORGED_ROSTER = base64.b64encode(encode_roster(build_roster(build_role_roster()))).decode()


async def test_configmap_forged_before_the_framework_is_seen_is_not_adopted() -> None:
    shell = Shell()
    body = build_submission(FRAMEWORK)
    framework = shell.storage.create(shell.type(FRAMEWORKS), NAMESPACE, body)
    uid = make(shell, CONFIGMAPS, forge_configmap(framework, roster=FORGED_ROSTER))
    shell.show()
    await run(shell, 30)
    check_forged_configmap(shell, uid)
    await check_freed(shell, CONFIGMAPS, CONFIGMAP, uid)


@pytest.mark.parametrize(
    "fate", [Fate(uplink_seconds=5.0), Fate(is_lost=True)], ids=["in_flight", "lost"]
)
@pytest.mark.parametrize("is_restarted", [False, True], ids=["same_controller", "next_controller"])
async def test_configmap_forged_beside_our_create_is_not_adopted(
    fate: Fate, *, is_restarted: bool
) -> None:
    shell = Shell()
    shell.create_framework()
    shell.network.expect("create", CONFIGMAPS, fate)
    await shell.run(0.1)
    uid = make(shell, CONFIGMAPS, forge_configmap(read(shell), roster=FORGED_ROSTER))
    if is_restarted:
        shell = Shell(after=shell)
    shell.show()
    await run(shell, 60)
    check_forged_configmap(shell, uid)
    await check_freed(shell, CONFIGMAPS, CONFIGMAP, uid)


def check_forged_configmap(shell: Shell, uid: str) -> None:
    blocked = find_blocked(shell)
    assert (blocked["status"], blocked["reason"]) == ("True", "NameTaken")
    assert uid in blocked["message"]
    assert shell.get(CONFIGMAPS, CONFIGMAP)["metadata"]["uid"] == uid
    assert read(shell)["status"]["attemptStatus"]["configMapUID"] is None
    assert shell.sent("delete") == []
    assert shell.names(PODS) == []
    assert shell.entry.observed.published.roster is None


async def test_own_configmap_whose_answer_was_lost_is_adopted_by_the_next_controller() -> None:
    shell = Shell()
    shell.create_framework()
    shell.network.expect("create", CONFIGMAPS, Fate(is_answer_lost=True))
    await shell.run(0.1)
    uid = shell.get(CONFIGMAPS, CONFIGMAP)["metadata"]["uid"]
    successor = Shell(after=shell)
    successor.show()
    await run(successor, 5)
    assert read(successor)["status"]["attemptStatus"]["configMapUID"] == uid
    assert successor.sent("create") == ["create pods gang-worker-0"]


async def test_key_is_private_to_the_process() -> None:
    shell = Shell()
    shell.create_framework()
    await run(shell, 2)
    (key,) = read(shell)["status"]["attemptStatus"]["creatorKeys"]
    assert key == shell.signer.public_key
    proof = shell.get(PODS, POD)["metadata"]["annotations"][constants.CREATION_PROOF_ANNOTATION]
    assert len(base64.b64decode(proof)) == 16 + 64
    with pytest.raises(StatusError):
        shell.get(PODS, "gang-worker-1")
