"""The shipped roles are enough, and not more: read from a real API server's audit log.

The controller runs as deploy/ says, with the arguments of its Deployment and the token of its
service account, through all that makes it ask for something. Nothing may be refused, and what was
granted and never used is listed here with its reason.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import yaml

from framework.api import constants
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.errors import ConflictError, NotFoundError
from framework.kube.resources import CONFIGMAPS, EVENTS, FRAMEWORKS, LEASES, PODS, Object
from tests.kube.test_deploy import write_account_folder
from tests.kube.test_gang import Barriers, pass_barrier_and_succeed
from tests.support.builders import FAIL_FAST, build_role_wire, build_submission, build_template_wire
from tests.support.fakes.kubelet import FakeKubelet, FakePod, Script, run_for, run_until_deleted
from tests.support.machine.prerequisites import skip_test
from tests.support.servers.controlplane import Access
from tests.support.servers.deployed import ACCOUNT, ROLES, Deployed, apply_role
from tests.support.servers.frameworkcrd import ROOT
from tests.support.servers.rights import AuditLog, Right, apply_kustomization, write_overlay
from tests.support.waiting import HANG_SECONDS

AGENTS = ROOT / "deploy" / "agents" / "namespace"
GANG_FILE = ROOT / "examples" / "gang.yaml"
CONFIG = {"frameworkCompletedRetainSec": 1}
# Granted, and not in the audit log: why it is granted all the same.
FINALIZERS = "asked for by an admission plugin, on behalf of a create: there is no such request"
MARK = (
    "asked for by the policies of deploy/admission, with the authorizer: there is no such request"
)
UNUSED = {
    Right("frameworkbarrier.io", "gangs", "control"): MARK,
    Right(constants.GROUP, "frameworks/finalizers", "update"): FINALIZERS,
    Right("", "configmaps/finalizers", "update"): FINALIZERS,
}
GANG_KEY = "{{FC_FRAMEWORK_NAME}}-gang-key"
_names = (f"fw{number}" for number in itertools.count(1))


@pytest.fixture(params=ROLES)
def deployed(
    request: pytest.FixtureRequest,
    framework_crd: None,
    control_plane: Access,
    namespace: str,
    tmp_path: Path,
) -> Deployed:
    if control_plane.kubectl is None or control_plane.audit_log is None:
        skip_test("needs kubectl and an audit log: let make test-kube start the control plane")
    objects = apply_role(control_plane, request.param, namespace, tmp_path)
    return Deployed(control_plane, objects, tmp_path, CONFIG)


def build_framework(task_number: int = 1) -> Object:
    task = {"podGracefulDeletionTimeoutSec": 600, "pod": build_template_wire()}
    role = build_role_wire(
        number=task_number, task=task, frameworkAttemptCompletionPolicy=FAIL_FAST
    )
    return build_submission(next(_names), role)


class World:
    """One namespace with Frameworks and a fake kubelet."""

    def __init__(self, kube: KubeClient, namespace: str, audit: AuditLog) -> None:
        self.kube = kube
        self.namespace = namespace
        self.audit = audit

    async def create(self, *, task_number: int = 1, is_keyed: bool = False) -> str:
        body = build_framework(task_number)
        if is_keyed:
            spec = body["spec"]["taskRoles"][0]["task"]["pod"]["spec"]
            spec["volumes"] = [{"name": "key", "secret": {"secretName": GANG_KEY}}]
        await self.kube.create(FRAMEWORKS, self.namespace, body)
        return str(body["metadata"]["name"])

    async def wait_for(self, name: str, is_met: Callable[[Object | None], bool]) -> None:
        """Watch a Framework until something holds; None means it is gone."""
        events = self.kube.watch(
            FRAMEWORKS,
            self.namespace,
            field_selector=f"metadata.name={name}",
            timeout_seconds=int(HANG_SECONDS),
            read_deadline_seconds=2 * HANG_SECONDS,
        )
        async with contextlib.aclosing(events):
            async for event, body in events:
                if is_met(None if event == "DELETED" else body):
                    return
        raise AssertionError(f"{name} did not come so far in {HANG_SECONDS:g} s")

    async def wait_for_state(self, name: str, state: str) -> None:
        await self.wait_for(
            name, lambda body: body is not None and (body.get("status") or {}).get("state") == state
        )

    async def wait_until_used(self, *rights: Right) -> None:
        """Wait until the audit log shows that the controller asked for these."""
        async with asyncio.timeout(HANG_SECONDS):
            while not self.is_asked(*rights):  # noqa: ASYNC110 another process's file
                await asyncio.sleep(0.05)

    def is_asked(self, *rights: Right) -> bool:
        return set(rights) <= self.audit.read_used() | self.audit.read_refused()


@contextlib.asynccontextmanager
async def open_world(
    kube: KubeClient, namespace: str, audit: AuditLog, script: Script
) -> AsyncIterator[World]:
    def choose(_body: Object) -> Script:
        return script

    async with FakeKubelet(kube, SystemClock(), namespace, choose_script=choose):
        yield World(kube, namespace, audit)


async def run_to_retention(world: World) -> None:
    """A whole life: created, completed, deleted by the controller."""
    name = await world.create(task_number=2, is_keyed=True)
    await world.wait_for_state(name, "Completed")
    await world.wait_for(name, lambda body: body is None)


async def edit_until_conflict(world: World) -> None:
    """Edit Frameworks while their statuses are written, until a write was refused."""
    wanted = Right(constants.GROUP, "frameworks", "get")
    async with asyncio.timeout(HANG_SECONDS):
        while not world.is_asked(wanted):
            name = await world.create()
            for number in range(60):
                annotations = {"test/edit": str(number)}
                with contextlib.suppress(ConflictError, NotFoundError):
                    await world.kube.patch(
                        FRAMEWORKS,
                        world.namespace,
                        name,
                        {"metadata": {"annotations": annotations}},
                    )


async def take_labels_away(world: World) -> None:
    """Hide a Pod and a ConfigMap from the controller's watches."""
    name = await world.create()
    await world.wait_for_state(name, "AttemptRunning")
    for resource, target, plural in (
        (PODS, f"{name}-worker-0", "pods"),
        (CONFIGMAPS, f"{name}-attempt", "configmaps"),
    ):
        labels = {"metadata": {"labels": {constants.FRAMEWORK_NAME: None}}}
        await world.kube.patch(resource, world.namespace, target, labels)
        await world.wait_until_used(Right("", plural, "get"))


async def create_waiting(world: World) -> str:
    """Create a Framework that rests, with a status."""
    body = build_framework()
    body["spec"]["executionType"] = "Create"
    await world.kube.create(FRAMEWORKS, world.namespace, body)
    name = str(body["metadata"]["name"])
    await world.wait_for_state(name, "AttemptCreationPending")
    return name


async def spoil_status(world: World, name: str) -> None:
    """Store what nobody can read: an Event tells of it, the same after each start."""
    attempt = {"taskRoleStatuses": None, "taskRoleStatusesCompressed": "AAAA"}
    body = {"status": {"attemptStatus": attempt}}
    await world.kube.patch(FRAMEWORKS, world.namespace, name, body, subresource="status")


async def count_events(world: World, reason: str) -> int:
    """Tell how often an Event was told."""
    listed = await world.kube.list(EVENTS, world.namespace)
    return sum(body["count"] for body in listed["items"] if body.get("reason") == reason)


async def wait_for_event(world: World, reason: str, count: int) -> None:
    """Watch until an Event was told at least so often."""
    events = world.kube.watch(
        EVENTS,
        world.namespace,
        timeout_seconds=int(HANG_SECONDS),
        read_deadline_seconds=2 * HANG_SECONDS,
    )
    async with contextlib.aclosing(events):
        async for _, body in events:
            if body.get("reason") == reason and body["count"] >= count:
                return
    raise AssertionError(f"no Event {reason} with count {count}")


async def test_controller_with_its_shipped_role_is_refused_nothing_and_uses_all(
    deployed: Deployed, kube: KubeClient, namespace: str
) -> None:
    # It creates the Lease only if there is none.
    with contextlib.suppress(NotFoundError):
        await kube.delete(LEASES, deployed.namespace, ACCOUNT)
    child = deployed.launch()
    try:
        async with open_world(kube, namespace, deployed.audit, run_for(0.1)) as world:
            await run_to_retention(world)
            await edit_until_conflict(world)
        async with open_world(kube, namespace, deployed.audit, run_until_deleted) as world:
            await take_labels_away(world)
            name = await create_waiting(world)
            assert child.terminate() == 0
            await spoil_status(world, name)
            for _ in range(2):
                told = await count_events(world, "UnreadableFramework")
                child = deployed.launch()
                await wait_for_event(world, "UnreadableFramework", told + 1)
                assert child.terminate() == 0
    finally:
        child.kill()
    assert deployed.audit.read_refused() == set()
    assert deployed.granted - deployed.audit.read_used() == set(UNUSED)


async def test_gang_completes_when_all_have_their_shipped_roles_only(
    deployed: Deployed, control_plane: Access, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    """Controller and barriers; nobody is refused anything."""
    agents = apply_kustomization(
        control_plane, write_overlay(tmp_path / "agents", AGENTS, namespace)
    )
    account = next(body for body in agents if body["kind"] == "ServiceAccount")["metadata"]["name"]
    folder = write_account_folder(control_plane, tmp_path, namespace, account)
    asked_by_agents = AuditLog.open(control_plane, namespace, account)
    barriers = Barriers(control_plane, tmp_path, folder)

    async def script(pod: FakePod) -> None:
        await pass_barrier_and_succeed(barriers, pod)

    documents = yaml.safe_load_all(GANG_FILE.read_text(encoding="utf-8"))
    gang: Object = next(body for body in documents if body["kind"] == constants.FRAMEWORK_KIND)
    child = deployed.launch()
    try:
        async with open_world(kube, namespace, deployed.audit, script) as world:
            await kube.create(FRAMEWORKS, namespace, gang)
            await world.wait_for_state("gang", "Completed")
    finally:
        assert child.terminate() == 0
    assert set(barriers.exit_codes.values()) == {0}
    assert deployed.audit.read_refused() == set()
    assert asked_by_agents.read_refused() == set()
    assert asked_by_agents.read_used() != set()
