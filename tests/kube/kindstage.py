"""The controller of deploy/overlays/kinds on a real API server, and users' requests to it."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from framework.kube.client import KubeClient
from framework.kube.resources import (
    FRAMEWORKS,
    TFJOBS,
    TRAININGJOBS,
    Object,
    Resource,
)
from tests.support.servers.controlplane import Access
from tests.support.servers.deployed import Deployed
from tests.support.servers.frameworkcrd import ROOT, wait_until_kinds_are_served
from tests.support.servers.rights import apply_kustomization, run_kubectl
from tests.support.servers.watching import watch_until
from tests.support.waiting import HANG_SECONDS

COMPONENT = ROOT / "deploy" / "kinds"
OVERLAY = ROOT / "deploy" / "overlays" / "kinds"
BOARD = {"logDir": "/logs"}


@pytest.fixture
def deployed(
    framework_crd: None, policies: None, audited_plane: Access, tmp_path: Path
) -> Iterator[Deployed]:
    """The controller of the overlay; it runs, and has its additional rights, in the block."""
    objects = apply_kustomization(audited_plane, OVERLAY)
    wait_until_kinds_are_served(audited_plane.open_http())
    found = Deployed(audited_plane, objects, tmp_path)
    child = found.launch()
    try:
        yield found
        child.raise_if_ended()
    finally:
        child.terminate()
        name = "framework-controller-kinds"
        run_kubectl(audited_plane, "delete", "clusterrole,clusterrolebinding", name)


def find_phase(phase: str, name: str) -> Callable[[str, Object], Object | None]:
    def check(_: str, body: Object) -> Object | None:
        is_met = (body.get("status") or {}).get("phase") == phase
        return body if is_met and body["metadata"]["name"] == name else None

    return check


def find_condition(type_: str, name: str) -> Callable[[str, Object], Object | None]:
    def check(_: str, body: Object) -> Object | None:
        found = (body.get("status") or {}).get("conditions") or ()
        is_met = any(condition["type"] == type_ for condition in found)
        return body if is_met and body["metadata"]["name"] == name else None

    return check


def find_end(_: str, scaler: Object) -> Object | None:
    phase = (scaler.get("status") or {}).get("phase")
    return scaler if phase in {"ScaleSucceeded", "ScaleFailed"} else None


async def wait_for_workers(kube: KubeClient, namespace: str, number: int) -> None:
    def check(_: str, body: Object) -> Object | None:
        running = (body.get("status") or {}).get("currentWorkers") or ()
        return body if len(running) == number else None

    await watch_until(kube, TRAININGJOBS, namespace, check)


async def list_names(kube: KubeClient, resource: Resource, namespace: str) -> list[str]:
    found = await kube.list(resource, namespace)
    return sorted(body["metadata"]["name"] for body in found["items"])


async def delete_in_the_foreground(
    kube: KubeClient, resource: Resource, namespace: str, name: str
) -> None:
    """Delete a job; return when it is gone. Its Framework is gone then."""
    await kube.delete(resource, namespace, name, propagation="Foreground")
    async with asyncio.timeout(HANG_SECONDS):
        while name in await list_names(kube, resource, namespace):  # noqa: ASYNC110 on a server
            await asyncio.sleep(0.05)
    assert name not in await list_names(kube, FRAMEWORKS, namespace)


class Stage:
    """One namespace, with requests of its users."""

    def __init__(self, kube: KubeClient, namespace: str, access: Access) -> None:
        self.kube = kube
        self.namespace = namespace
        self.access = access

    async def kubectl(self, *arguments: str) -> str:
        command = ("-n", self.namespace, *arguments)
        return await asyncio.to_thread(run_kubectl, self.access, *command)

    async def create(self, resource: Resource, body: Object) -> None:
        body["metadata"]["namespace"] = self.namespace
        await self.kube.create(resource, self.namespace, body)

    async def wait_for_phases(self, tfjob: str, trainingjob: str) -> None:
        for name in ("job", "old"):
            found = find_phase(tfjob, name)
            await watch_until(self.kube, TFJOBS, self.namespace, found)
        await watch_until(
            self.kube, TRAININGJOBS, self.namespace, find_phase(trainingjob, "elastic")
        )
