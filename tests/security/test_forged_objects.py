"""Forged Pods and ConfigMaps are never taken for the controller's own.

The tenant may create and delete Pods and ConfigMaps and read everything in its namespace. First
single forgeries against the controller's shell on a storage, then simulations with faults and a
tenant that forges all the time; ``SEEDS=17-17`` runs one of them again. All in virtual time.

Only the memory of the controller distinguishes two copies of an object with its proof
(docs/security.md). A copy of a Pod that was recorded may be deleted as a late one; it is never
recorded. The simulations make no copies of a Pod that was deleted before its UID was recorded.
"""

import asyncio
import base64
import random
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from framework.api import constants
from framework.api.roster import decode_roster, encode_roster
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object, Resource
from localcluster.apiserver.model.options import DeleteOptions
from tests.simulation.test_simulation import STEPS, list_seeds
from tests.support.builders import (
    FRAMEWORK,
    NAMESPACE,
    build_role_roster,
    build_roster,
    build_submission,
)
from tests.support.builders.forger import forge_configmap, forge_pod, is_forged
from tests.support.fakes.storageclient import Fate, Request
from tests.support.simulator.shell import Shell, refuse
from tests.support.simulator.simulation import Simulation

pytestmark = pytest.mark.looptime

POD = "gang-worker-0"
NAMES = {PODS: POD, CONFIGMAPS: "gang-attempt"}
ATTACKER = "10.66.66.66"
MERGE = "application/merge-patch+json"
FORGED_ROSTER = base64.b64encode(encode_roster(build_roster(build_role_roster()))).decode()


def read(shell: Shell) -> Object:
    return shell.get(FRAMEWORKS, FRAMEWORK)


def make(shell: Shell, resource: Resource, body: Object) -> str:
    """Create a forged object, a Pod with an address; return its UID."""
    rt = shell.type(resource)
    created = shell.storage.create(rt, NAMESPACE, body)
    if resource is PODS:
        status = {"phase": "Running", "podIP": ATTACKER, "podIPs": [{"ip": ATTACKER}]}
        name = created["metadata"]["name"]
        shell.storage.patch(rt, NAMESPACE, name, {"status": status}, MERGE, subresource="status")
    return str(created["metadata"]["uid"])


def remove(shell: Shell, resource: Resource, name: str) -> None:
    rt = shell.type(resource)
    if resource is CONFIGMAPS:
        shell.storage.patch(rt, NAMESPACE, name, {"metadata": {"finalizers": None}}, MERGE)
    shell.storage.delete(rt, NAMESPACE, name, DeleteOptions(grace_seconds=0))


async def run(shell: Shell, seconds: int, *, is_watched: bool = True) -> None:
    """Run the controller; its watches show every second the objects of the server."""
    recording = asyncio.create_task(shell.recorder.run())
    for _ in range(seconds):
        await shell.run(1.0)
        if is_watched:
            shell.show()
    recording.cancel()


def find_blocked(shell: Shell) -> Mapping[str, Any]:
    conditions = read(shell)["status"]["conditions"]
    return next(c for c in conditions if c["type"] == "Blocked")


def check_not_adopted(shell: Shell, resource: Resource, uid: str) -> None:
    """Assert that a forged object is reported, and not adopted, deleted or published."""
    blocked = find_blocked(shell)
    assert (blocked["status"], blocked["reason"]) == ("True", "NameTaken")
    assert uid in blocked["message"]
    assert shell.get(resource, NAMES[resource])["metadata"]["uid"] == uid
    status = str(read(shell)["status"] | {"conditions": []})
    assert uid not in status
    assert ATTACKER not in status
    assert shell.sent("delete") == []
    assert shell.entry.observed.published.roster is None
    if resource is PODS:
        published = shell.get(CONFIGMAPS, NAMES[CONFIGMAPS])
        assert constants.ROSTER_KEY not in (published.get("binaryData") or {})
    else:
        assert read(shell)["status"]["attemptStatus"]["configMapUID"] is None
        assert shell.names(PODS) == []


async def check_replaced(shell: Shell, resource: Resource, uid: str) -> None:
    """Assert that the Task gets its own Pod when the forged object is deleted."""
    remove(shell, resource, NAMES[resource])
    shell.show()
    await run(shell, 40)
    own = shell.get(PODS, POD)["metadata"]
    assert own["uid"] != uid
    task = read(shell)["status"]["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][0]
    assert task["attemptStatus"]["podUID"] == own["uid"]
    assert find_blocked(shell)["status"] == "False"


async def open_with(fate: Fate, resource: Resource = PODS, number: int = 1) -> Shell:
    """Open a gang of which the first create of this resource has a fate."""
    shell = Shell()
    shell.create_framework(number=number)
    shell.network.expect("create", resource, fate)
    await shell.run(0.1)
    return shell


def forge(shell: Shell, resource: Resource, **options: Any) -> str:
    """Create a Pod or ConfigMap forged from the Framework's status; return its UID."""
    if resource is PODS:
        return make(shell, PODS, forge_pod(read(shell), **options))
    return make(shell, CONFIGMAPS, forge_configmap(read(shell), roster=FORGED_ROSTER))


# --- Objects forged while the controller creates its own -----------------------------------------

IN_FLIGHT, LOST = Fate(uplink_seconds=5.0), Fate(is_lost=True)


@pytest.mark.parametrize(
    ("resource", "fate", "seconds", "is_restarted"),
    [
        pytest.param(PODS, refuse(503), 30, False, id="pod-before"),
        pytest.param(PODS, IN_FLIGHT, 30, False, id="pod-in_flight"),
        pytest.param(PODS, LOST, 60, False, id="pod-lost"),
        pytest.param(PODS, LOST, 30, True, id="pod-lost-next_controller"),
        pytest.param(CONFIGMAPS, IN_FLIGHT, 60, False, id="configmap-in_flight"),
        pytest.param(CONFIGMAPS, IN_FLIGHT, 60, True, id="configmap-in_flight-next_controller"),
        pytest.param(CONFIGMAPS, LOST, 60, False, id="configmap-lost"),
        pytest.param(CONFIGMAPS, LOST, 60, True, id="configmap-lost-next_controller"),
    ],
)
async def test_object_forged_beside_our_create_is_not_adopted(
    resource: Resource, fate: Fate, seconds: int, *, is_restarted: bool
) -> None:
    shell = await open_with(fate, resource)
    uid = forge(shell, resource)
    if is_restarted:
        shell = Shell(after=shell)
    shell.show()
    await run(shell, seconds)
    check_not_adopted(shell, resource, uid)
    await check_replaced(shell, resource, uid)


async def test_configmap_forged_before_the_framework_is_seen_is_not_adopted() -> None:
    shell = Shell()
    body = build_submission(FRAMEWORK)
    framework = shell.storage.create(shell.type(FRAMEWORKS), NAMESPACE, body)
    uid = make(shell, CONFIGMAPS, forge_configmap(framework, roster=FORGED_ROSTER))
    shell.show()
    await run(shell, 30)
    check_not_adopted(shell, CONFIGMAPS, uid)
    await check_replaced(shell, CONFIGMAPS, uid)


async def test_pod_forged_without_labels_is_not_adopted_by_a_live_get() -> None:
    shell = await open_with(refuse(503))
    body = forge_pod(read(shell))
    del body["metadata"]["labels"]
    uid = make(shell, PODS, body)
    await run(shell, 30, is_watched=False)
    check_not_adopted(shell, PODS, uid)


@pytest.mark.parametrize("resource", [PODS, CONFIGMAPS], ids=["pod", "configmap"])
async def test_own_object_whose_answer_was_lost_is_adopted_by_the_next_controller(
    resource: Resource,
) -> None:
    shell = await open_with(Fate(is_answer_lost=True), resource)
    uid = shell.get(resource, NAMES[resource])["metadata"]["uid"]
    successor = Shell(after=shell)
    successor.show()
    await run(successor, 5)
    assert uid in str(read(successor)["status"])
    created = [] if resource is PODS else [f"create pods {POD}"]
    assert successor.sent("create") == created


# --- Proofs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_restarted", [False, True], ids=["same_controller", "next_controller"])
async def test_proof_of_a_deleted_pod_is_invalid_for_a_copy(*, is_restarted: bool) -> None:
    shell = await open_with(Fate(is_answer_lost=True))
    if is_restarted:
        shell = Shell(after=shell)
    own = shell.get(PODS, POD)
    shell.show()
    remove(shell, PODS, POD)
    uid = forge(shell, PODS, proof_of=own)
    shell.show()
    await run(shell, 60)
    check_not_adopted(shell, PODS, uid)


async def test_proof_of_a_pod_whose_create_is_unanswered_is_invalid_for_a_copy() -> None:
    shell = Shell()
    shell.create_framework()
    shell.network.expect("create", PODS, Fate(downlink_seconds=5.0))

    async def replace_pod() -> str:
        await asyncio.sleep(1.0)
        own = shell.get(PODS, POD)
        remove(shell, PODS, POD)
        uid = forge(shell, PODS, proof_of=own)
        shell.show()  # The controller sees its own Pod in the answer to the create only.
        return uid

    task = asyncio.create_task(replace_pod())
    await shell.run(10.0)
    await run(shell, 60)
    check_not_adopted(shell, PODS, await task)


async def test_proof_of_the_pod_of_another_task_is_invalid() -> None:
    shell = await open_with(refuse(503), number=2)
    shell.show()
    uid = forge(shell, PODS, proof_of=shell.get(PODS, "gang-worker-1"))
    shell.show()
    await run(shell, 30)
    blocked = find_blocked(shell)
    assert (blocked["reason"], uid in blocked["message"]) == ("NameTaken", True)
    assert ATTACKER not in str(read(shell)["status"])


@pytest.mark.parametrize(
    "proof", ["", "x", "A" * 108, "A" * 107 + "=", "é" * 108, "A" * 100_000], ids=len
)
async def test_text_that_is_no_proof_is_invalid(proof: str) -> None:
    shell = await open_with(refuse(503))
    body = forge_pod(read(shell))
    body["metadata"]["annotations"][constants.CREATION_PROOF_ANNOTATION] = proof
    uid = make(shell, PODS, body)
    shell.show()
    await run(shell, 30)
    check_not_adopted(shell, PODS, uid)


async def test_forged_pod_that_no_task_wants_is_not_deleted() -> None:
    shell = Shell()
    shell.create_framework()
    await run(shell, 2)
    body = forge_pod(read(shell))
    body["metadata"]["name"] = "gang-worker-7"
    uid = make(shell, PODS, body)
    shell.show()
    await run(shell, 10)
    assert shell.get(PODS, "gang-worker-7")["metadata"]["uid"] == uid
    assert shell.sent("delete") == []


async def test_signing_key_is_private_to_the_process() -> None:
    shell = Shell()
    shell.create_framework()
    await run(shell, 2)
    (key,) = read(shell)["status"]["attemptStatus"]["creatorKeys"]
    assert key == shell.signer.public_key
    proof = shell.get(PODS, POD)["metadata"]["annotations"][constants.CREATION_PROOF_ANNOTATION]
    assert len(base64.b64decode(proof)) == 16 + 64


# --- Simulations ----------------------------------------------------------------------------------

FORGE_SHARE, CLEAR_SHARE = 0.6, 0.25


class AttackedSimulation(Simulation):
    """A simulation whose tenant forges between any two steps."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.forger = random.Random(seed)
        self.forged = 0
        self.proofs: dict[str, Object] = {}
        """By Pod UID: the Pods that were seen, with their proofs."""
        self.network.on_send = self._attack_a_create

    def check(self) -> None:
        super().check()
        self._check_roster()
        for pod in self._list_pods():
            self.proofs[pod["metadata"]["uid"]] = pod
        if self.network.rate or self.programs:
            self._attack()

    def _attack_a_create(self, request: Request) -> None:
        """Forge while a create is on its way, now and then."""
        self._check_request(request)
        if request.verb == "create" and request.resource in (PODS, CONFIGMAPS):
            self._attack()

    def _attack(self) -> None:
        framework = self._find(FRAMEWORKS, FRAMEWORK)
        if self._is_over or framework is None or not framework.get("status"):
            return
        if self.forger.random() < CLEAR_SHARE:
            self._clear_forged()
        elif self.forger.random() < FORGE_SHARE:
            self._attempt(partial(self._forge, framework), quiet=True)

    def _forge(self, framework: Object) -> None:
        attempt = framework["status"]["attemptStatus"]
        if self.forger.random() < 0.2:
            number = attempt["id"] + self.forger.randrange(2)
            self._make(CONFIGMAPS, forge_configmap(framework, number, proof_of=self._steal()), None)
            return
        roles = [role for role in attempt["taskRoleStatuses"] if role["taskStatuses"]]
        if not roles:
            return
        role = self.forger.choice(roles)
        index = self.forger.randrange(len(role["taskStatuses"]))
        stolen = self._steal()
        body = forge_pod(framework, role["name"], index, proof_of=stolen)
        if self.forger.random() < 0.5:
            recorded = role["taskStatuses"][index]["attemptStatus"]["podUID"]
            self._displace(body["metadata"]["name"], recorded)
        self._make(PODS, body, stolen)

    def _steal(self) -> Object | None:
        """Take the proof of a Pod that is recorded."""
        recorded = [pod for uid, pod in self.proofs.items() if uid in self.auditor.recorded]
        return self.forger.choice(recorded) if recorded and self.forger.random() < 0.7 else None

    def _displace(self, name: str, recorded: str | None) -> None:
        """Delete a Pod that is recorded, so that a copy can have its name."""
        if recorded is not None:
            options = DeleteOptions(uid=recorded, grace_seconds=0)
            self._attempt(partial(self._delete, PODS, name, options), quiet=True)

    def _make(self, resource: Resource, body: Object, stolen: Object | None) -> None:
        created = self.storage.create(self._type(resource), NAMESPACE, body)
        self.forged += 1
        name = created["metadata"]["name"]
        self.note(f"tenant forges {name}")
        if stolen is not None and stolen["metadata"]["name"] == name:
            self.auditor.owned.add(created["metadata"]["uid"])
        if resource is PODS:
            ips = {"podIP": ATTACKER, "podIPs": [{"ip": ATTACKER}], "phase": "Running"}
            self._patch_status(name, ips)

    def _restore_names(self) -> None:
        self._is_over = True
        self._clear_forged()
        super()._restore_names()

    _is_over = False

    def _clear_forged(self) -> None:
        for resource in (PODS, CONFIGMAPS):
            for found in self.storage.list(self._type(resource), NAMESPACE).items:
                if not is_forged(found):
                    continue
                meta = found["metadata"]
                options = DeleteOptions(uid=meta["uid"], grace_seconds=0)
                self._attempt(partial(self._delete, resource, meta["name"], options), quiet=True)

    def _check_roster(self) -> None:
        configmap = self._find(CONFIGMAPS, f"{FRAMEWORK}-attempt") or {}
        stored = (configmap.get("binaryData") or {}).get(constants.ROSTER_KEY)
        if not stored or is_forged(configmap):
            return
        for role in decode_roster(base64.b64decode(stored)).roles:
            if any(ATTACKER in member.addresses for member in role.members):
                self._fail("I18: the roster lists a forged Pod's address")


@pytest.mark.parametrize("seed", list_seeds(12, 4))
async def test_no_forged_object_is_taken_for_the_controllers_own(seed: int) -> None:
    await AttackedSimulation(seed).run(STEPS)


async def test_tenant_forges_many_objects() -> None:
    simulation = AttackedSimulation(0)
    await simulation.run(STEPS)
    assert simulation.forged >= 5
