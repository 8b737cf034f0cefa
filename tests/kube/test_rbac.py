"""The controller's shipped roles are enough, and not more: read from the API server's audit log.

The controller runs as deploy/ says, with the arguments of its Deployment and the token of its
service account, in all situations in which it sends requests. The policies of deploy/admission are
installed. No request may be refused; each right that is granted and not used is listed here with
its reason. The same for agents: test_gang.py.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from framework.api import constants
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.errors import ConflictError, NotFoundError
from framework.kube.resources import CONFIGMAPS, EVENTS, FRAMEWORKS, LEASES, PODS, Object, Resource
from tests.support.builders import FAIL_FAST, build_role_wire, build_submission, build_template_wire
from tests.support.fakes.kubelet import FakeKubelet, Script, run_for, run_until_deleted
from tests.support.servers.controlplane import Access
from tests.support.servers.deployed import ACCOUNT, ROLES, Deployed, apply_role
from tests.support.servers.rights import Right
from tests.support.servers.watching import watch_until
from tests.support.waiting import HANG_SECONDS, wait_until_async

CONFIG = {"frameworkCompletedRetainSec": 1}
# Granted, and not in the audit log: the reason for the grant.
FINALIZERS = "an admission plugin asks for it, on behalf of a create: no request shows it"
MARK = "the policies of deploy/admission ask the authorizer for it: no request shows it"
UNUSED = {
    Right("frameworkbarrier.io", "gangs", "control"): MARK,
    Right(constants.GROUP, "frameworks/finalizers", "update"): FINALIZERS,
    Right("", "configmaps/finalizers", "update"): FINALIZERS,
}
GANG_KEY = "{{FC_FRAMEWORK_NAME}}-gang-key"
UNREADABLE = "UnreadableFramework"
_names = (f"fw{number}" for number in itertools.count(1))


class World:
    """One namespace with Frameworks, a fake kubelet and the controller's audit log."""

    def __init__(self, kube: KubeClient, namespace: str, deployed: Deployed) -> None:
        self.kube = kube
        self.namespace = namespace
        self.audit = deployed.audit
        self._versions: dict[str, str] = {}

    async def create(
        self, state: str = "", *, number: int = 1, execution: str = "Start", is_keyed: bool = False
    ) -> str:
        """Create a Framework and wait until it is in a state; return its name."""
        name = next(_names)
        volumes = [{"name": "key", "secret": {"secretName": GANG_KEY}}] if is_keyed else []
        task = {
            "podGracefulDeletionTimeoutSec": 600,
            "pod": build_template_wire(volumes=volumes),
        }
        role = build_role_wire(number=number, task=task, frameworkAttemptCompletionPolicy=FAIL_FAST)
        body = build_submission(name, role, executionType=execution)
        created = await self.kube.create(FRAMEWORKS, self.namespace, body)
        self._versions[name] = created["metadata"]["resourceVersion"]
        if state:
            await self.watch(
                FRAMEWORKS, name, lambda _, body: (body.get("status") or {}).get("state") == state
            )
        return name

    async def watch_until_deleted(self, name: str) -> None:
        """Watch a Framework from its creation on, because it may be gone already."""
        version = self._versions[name]
        await self.watch(FRAMEWORKS, name, lambda event, _: event == "DELETED", version)

    async def watch(
        self,
        resource: Resource,
        name: str,
        is_met: Callable[[str, Object], bool],
        version: str | None = None,
    ) -> None:
        """Watch objects, of one name if it is not empty, until an event meets a condition."""
        await watch_until(
            self.kube,
            resource,
            self.namespace,
            lambda event, body: is_met(event, body) or None,
            resource_version=version,
            field_selector=f"metadata.name={name}" if name else "",
        )

    def is_requested(self, resource: str, group: str = "") -> bool:
        """Return whether the controller sent a GET, as the audit log says."""
        sent = self.audit.read_used() | self.audit.read_refused()
        return Right(group, resource, "get") in sent


@contextlib.asynccontextmanager
async def open_world(
    kube: KubeClient, namespace: str, deployed: Deployed, script: Script
) -> AsyncIterator[World]:
    async with FakeKubelet(kube, SystemClock(), namespace, choose_script=lambda _: script):
        yield World(kube, namespace, deployed)


async def run_until_deleted_by_retention(world: World) -> None:
    name = await world.create("Completed", number=2, is_keyed=True)
    await world.watch_until_deleted(name)


async def edit_until_conflict(world: World) -> None:
    """Edit Frameworks while their statuses are written, until a status write is refused."""
    async with asyncio.timeout(HANG_SECONDS):
        while not world.is_requested("frameworks", constants.GROUP):
            name = await world.create()
            for number in range(60):
                edit = {"metadata": {"annotations": {"test/edit": str(number)}}}
                with contextlib.suppress(ConflictError, NotFoundError):
                    await world.kube.patch(FRAMEWORKS, world.namespace, name, edit)


async def remove_labels(world: World) -> None:
    """Hide a Pod and a ConfigMap from the controller's watches."""
    name = await world.create("AttemptRunning")
    labels = {"metadata": {"labels": {constants.FRAMEWORK_NAME: None}}}
    for resource, target in ((PODS, f"{name}-worker-0"), (CONFIGMAPS, f"{name}-attempt")):
        await world.kube.patch(resource, world.namespace, target, labels)
        await wait_until_async(partial(world.is_requested, resource.plural))


async def corrupt_status(world: World, name: str) -> None:
    """Store a status that cannot be read: an Event reports it, the same after each start."""
    attempt = {"taskRoleStatuses": None, "taskRoleStatusesCompressed": "AAAA"}
    body = {"status": {"attemptStatus": attempt}}
    await world.kube.patch(FRAMEWORKS, world.namespace, name, body, subresource="status")


async def run_until_reported(world: World, deployed: Deployed) -> None:
    """Run the controller until the Event of an unreadable Framework was reported once more."""
    listed = await world.kube.list(EVENTS, world.namespace)
    count = sum(body["count"] for body in listed["items"] if body.get("reason") == UNREADABLE)
    child = deployed.launch()
    try:
        await world.watch(
            EVENTS,
            "",
            lambda _, body: body.get("reason") == UNREADABLE and body["count"] > count,
        )
    finally:
        assert child.terminate() == 0


@pytest.mark.parametrize("role", ROLES)
async def test_controller_with_its_shipped_role_is_refused_nothing_and_uses_all(
    policies: None,
    audited_plane: Access,
    kube: KubeClient,
    namespace: str,
    tmp_path: Path,
    role: str,
) -> None:
    objects = apply_role(audited_plane, role, namespace, tmp_path)
    deployed = Deployed(audited_plane, objects, tmp_path, CONFIG)
    # It creates the Lease only if there is none.
    with contextlib.suppress(NotFoundError):
        await kube.delete(LEASES, deployed.namespace, ACCOUNT)
    child = deployed.launch()
    try:
        async with open_world(kube, namespace, deployed, run_for(0.1)) as world:
            await run_until_deleted_by_retention(world)
            await edit_until_conflict(world)
        async with open_world(kube, namespace, deployed, run_until_deleted) as world:
            await remove_labels(world)
            name = await world.create("AttemptCreationPending", execution="Create")
            assert child.terminate() == 0
            await corrupt_status(world, name)
            for _ in range(2):
                await run_until_reported(world, deployed)
    finally:
        child.kill()
    assert deployed.audit.read_refused() == set()
    assert deployed.granted - deployed.audit.read_used() == set(UNUSED)
