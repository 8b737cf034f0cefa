"""The shipped roles are enough, and not more: read from a real API server's audit log.

The controller runs as deploy/ says, with the arguments of its Deployment and the token of its
service account, through all that makes it ask for something. Nothing may be refused, and what was
granted and never used is listed here with its reason.
"""

import asyncio
import contextlib
import itertools
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import yaml

from framework.api import constants
from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.errors import ConflictError, NotFoundError
from framework.kube.resources import CONFIGMAPS, EVENTS, FRAMEWORKS, PODS, Object
from tests.support.childprocess import ChildProcess
from tests.support.controlplane import Access
from tests.support.fakekubelet import FakeKubelet, Script, run_for, run_until_deleted
from tests.support.frameworkcrd import ROOT
from tests.support.frameworkserver import build_env
from tests.support.rights import (
    AuditLog,
    Right,
    apply_kustomization,
    create_account_access,
    expand_rules,
    write_overlay,
)

BASE = ROOT / "deploy" / "base"
NAMESPACED = ROOT / "deploy" / "overlays" / "namespaced"
ACCOUNT = "framework-controller"
END_SECONDS = 30.0
CONFIG = {"frameworkCompletedRetainSec": 1}
# Granted, and not in the audit log: why it is granted all the same.
FINALIZERS = "asked for by an admission plugin, on behalf of a create: there is no such request"
UNUSED = {
    Right(constants.GROUP, "frameworks/finalizers", "update"): FINALIZERS,
    Right("", "configmaps/finalizers", "update"): FINALIZERS,
}
_names = (f"fw{number}" for number in itertools.count(1))


class Deployed:
    """The controller of a kustomization, started as its Deployment says."""

    def __init__(self, access: Access, objects: list[Object], folder: Path) -> None:
        self.granted = expand_rules(objects)
        deployment = next(body for body in objects if body["kind"] == "Deployment")
        self._namespace = deployment["metadata"]["namespace"]
        self._container = deployment["spec"]["template"]["spec"]["containers"][0]
        self._access = create_account_access(access, folder, self._namespace, ACCOUNT)
        self._folder = folder
        self.audit = AuditLog.open(access, self._namespace, ACCOUNT)
        (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG))

    def launch(self) -> ChildProcess:
        arguments = [
            text.replace("$(POD_NAMESPACE)", self._namespace) for text in self._container["args"]
        ]
        command = [sys.executable, "-m", "controller", *arguments, "--health-port=0"]
        command += ["--kubeconfig", self._access.kubeconfig]
        command += ["--config", str(self._folder / "config.yaml")]
        log = self._folder / "controller.log"
        return ChildProcess("controller", command, log=log, env=build_env())


@pytest.fixture(params=["cluster", "namespaced"])
def deployed(
    request: pytest.FixtureRequest,
    framework_crd: None,
    control_plane: Access,
    namespace: str,
    tmp_path: Path,
) -> Deployed:
    if control_plane.kubectl is None or control_plane.audit_log is None:
        pytest.skip("needs kubectl and an audit log: let make test-kube start the control plane")
    folder = BASE
    if request.param == "namespaced":
        folder = write_overlay(tmp_path / "overlay", NAMESPACED, namespace)
    return Deployed(control_plane, apply_kustomization(control_plane, folder), tmp_path)


def build_framework(namespace: str, *, task_number: int = 1) -> Object:
    return {
        "apiVersion": constants.API_VERSION,
        "kind": constants.FRAMEWORK_KIND,
        "metadata": {"name": next(_names), "namespace": namespace},
        "spec": {
            "executionType": "Start",
            "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0},
            "taskRoles": [
                {
                    "name": "worker",
                    "taskNumber": task_number,
                    "frameworkAttemptCompletionPolicy": {
                        "minFailedTaskCount": 1,
                        "minSucceededTaskCount": -1,
                    },
                    "task": {
                        "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0},
                        "podGracefulDeletionTimeoutSec": 600,
                        "pod": {
                            "spec": {
                                "restartPolicy": "Never",
                                "containers": [{"name": "main", "image": "local/none:1"}],
                            }
                        },
                    },
                }
            ],
        },
    }


class World:
    """One namespace with Frameworks and a fake kubelet."""

    def __init__(self, kube: KubeClient, namespace: str, audit: AuditLog) -> None:
        self.kube = kube
        self.namespace = namespace
        self.audit = audit

    async def create(self, *, task_number: int = 1) -> str:
        body = build_framework(self.namespace, task_number=task_number)
        await self.kube.create(FRAMEWORKS, self.namespace, body)
        return str(body["metadata"]["name"])

    async def wait_for(self, name: str, is_met: Callable[[Object | None], bool]) -> None:
        """Watch a Framework until something holds; None means it is gone."""
        events = self.kube.watch(
            FRAMEWORKS,
            self.namespace,
            field_selector=f"metadata.name={name}",
            timeout_seconds=int(END_SECONDS),
            read_deadline_seconds=2 * END_SECONDS,
        )
        async with contextlib.aclosing(events):
            async for event, body in events:
                if is_met(None if event == "DELETED" else body):
                    return
        raise AssertionError(f"{name} did not come so far in {END_SECONDS:g} s")

    async def wait_for_state(self, name: str, state: str) -> None:
        await self.wait_for(
            name, lambda body: body is not None and (body.get("status") or {}).get("state") == state
        )

    async def wait_until_used(self, *rights: Right) -> None:
        """Wait until the audit log shows that the controller asked for these."""
        async with asyncio.timeout(END_SECONDS):
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
    name = await world.create(task_number=2)
    await world.wait_for_state(name, "Completed")
    await world.wait_for(name, lambda body: body is None)


async def edit_until_conflict(world: World) -> None:
    """Edit Frameworks while their statuses are written, until a write was refused."""
    wanted = Right(constants.GROUP, "frameworks", "get")
    async with asyncio.timeout(END_SECONDS):
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
    body = build_framework(world.namespace)
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


async def wait_for_event(world: World, reason: str, count: int) -> None:
    """Watch until an Event was told so often."""
    events = world.kube.watch(
        EVENTS,
        world.namespace,
        timeout_seconds=int(END_SECONDS),
        read_deadline_seconds=2 * END_SECONDS,
    )
    async with contextlib.aclosing(events):
        async for _, body in events:
            if body.get("reason") == reason and body["count"] >= count:
                return
    raise AssertionError(f"no Event {reason} with count {count}")


async def test_controller_with_its_shipped_role_is_refused_nothing_and_uses_all(
    deployed: Deployed, kube: KubeClient, namespace: str
) -> None:
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
            for count in (1, 2):
                child = deployed.launch()
                await wait_for_event(world, "UnreadableFramework", count)
                assert child.terminate() == 0
    finally:
        child.kill()
    assert deployed.audit.read_refused() == set()
    assert deployed.granted - deployed.audit.read_used() == set(UNUSED)
