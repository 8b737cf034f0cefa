"""Simulations with faults and with a tenant that forges Pods and ConfigMaps all the time.

The tenant may create and delete Pods and ConfigMaps and read everything. Besides the invariants of
every simulation, no forged object is ever recorded, listed in a roster or deleted by the
controller. ``SEEDS=17-17`` runs one of them again.

Only the memory of the controller distinguishes two copies of an object with its proof
(docs/security.md). A copy of a Pod that was recorded may be deleted as a late one; it is never
recorded. Copies of a Pod that was deleted before its UID was recorded are left out.
"""

import base64
import random
from functools import partial

import pytest

from framework.api import constants
from framework.api.roster import decode_roster
from framework.kube.resources import CONFIGMAPS, FRAMEWORKS, PODS, Object, Resource
from localcluster.apiserver.model.options import DeleteOptions
from tests.simulation.test_simulation import STEPS, list_seeds
from tests.support.builders import FRAMEWORK, NAMESPACE
from tests.support.builders.forger import forge_configmap, forge_pod, is_forged
from tests.support.fakes.storageclient import Request
from tests.support.simulator.simulation import Simulation

ATTACKER = "10.66.66.66"
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


@pytest.mark.looptime
@pytest.mark.parametrize("seed", list_seeds(12, 4))
async def test_no_forged_object_is_taken_for_the_controllers_own(seed: int) -> None:
    await AttackedSimulation(seed).run(STEPS)


@pytest.mark.looptime
async def test_tenant_forges_many_objects() -> None:
    simulation = AttackedSimulation(0)
    await simulation.run(STEPS)
    assert simulation.forged >= 5
