"""One Framework that nobody can work with among a thousand harms no other, and says what it is."""

import asyncio
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

import pytest

from controller.config.config_file import ControllerConfig
from controller.controller import Controller, Options
from framework.api.constants import FRAMEWORK_CRD_NAME
from framework.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, FRAMEWORKS, PODS, Object
from localcluster.apiserver.model.options import DeleteOptions
from tests.support.builders import build_framework_wire, build_role_wire
from tests.support.fakes.storageclient import (
    Fate,
    LoopClock,
    Network,
    Request,
    StorageClient,
    find_type,
    open_storage,
)
from tests.support.simulator.shell import refuse

pytestmark = pytest.mark.looptime

NAMESPACE = "default"
HEALTHY = 999
LIMIT_SECONDS = 300.0
KEPT = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
PAST = "2026-01-01T00:00:00Z"


def build_status(state: str = "AttemptPreparing", **attempt: Any) -> Object:
    """A status with everything a status must have."""
    return {
        "startTime": PAST,
        "state": state,
        "transitionTime": PAST,
        "attemptStatus": {"id": 0, "startTime": PAST, "configMapName": "x-attempt", **attempt},
    }


def build_roles(**task: Any) -> list[Object]:
    attempt = {"id": 0, "startTime": PAST, "podName": "x-worker-0"}
    body = {"index": 0, "instanceUID": "t", "startTime": PAST, "transitionTime": PAST}
    return [
        {
            "name": "worker",
            "instanceUID": "r",
            "taskStatuses": [body | {"state": "AttemptPreparing", "attemptStatus": attempt} | task],
        }
    ]


SPEC = build_framework_wire(build_role_wire())["spec"]
# name -> (spec, status, reason of the condition and of the event)
POISONED: dict[str, tuple[Any, Any, str]] = {
    "text-for-a-number": (
        {"taskRoles": [{"name": "worker", "taskNumber": "many"}]},
        None,
        "UnreadableFramework",
    ),
    "object-for-an-array": ({"taskRoles": {"worker": 1}}, None, "UnreadableFramework"),
    "number-beyond-64-bits": (
        {"taskRoles": [{"name": "worker", "taskNumber": 10**30}]},
        None,
        "UnreadableFramework",
    ),
    "corrupt-compression": (
        SPEC,
        build_status(taskRoleStatuses=None, taskRoleStatusesCompressed="H4sIAAAA"),
        "UnreadableFramework",
    ),
    "unknown-state": (SPEC, build_status("Exploded"), "UnreadableFramework"),
    "index-out-of-place": (
        SPEC,
        build_status(taskRoleStatuses=build_roles(index=7)),
        "UnreadableFramework",
    ),
    "no-time-at-all": (SPEC, build_status() | {"startTime": "soon"}, "UnreadableFramework"),
    "conditions-that-are-none": (
        SPEC,
        build_status("Exploded") | {"conditions": ["a", {"type": 5}, {}]},
        "UnreadableFramework",
    ),
    "ended-without-a-reason": (SPEC, build_status("AttemptCompleted"), "UndecidableFramework"),
    "refused": (SPEC, None, "StatusRefused"),
}


class Refusing(Network):
    """Takes no status of one Framework."""

    def draw_fate(self, request: Request) -> Fate:
        is_status = request.verb == "replace" and request.name == "refused"
        return refuse(413) if is_status and "state" in request.body["status"] else Fate()


class World:
    """A server that takes any Framework, a controller, and kubelets that end every Pod well."""

    def __init__(self) -> None:
        self.storage = open_storage(LoopClock())
        crds = find_type(self.storage, CUSTOM_RESOURCE_DEFINITIONS)
        crd = self.storage.get(crds, None, FRAMEWORK_CRD_NAME)
        (version,) = crd["spec"]["versions"]
        properties = version["schema"]["openAPIV3Schema"]["properties"]
        properties["spec"] = properties["status"] = KEPT
        self.storage.update(crds, None, FRAMEWORK_CRD_NAME, crd)
        self.frameworks = find_type(self.storage, FRAMEWORKS)
        self.pods = find_type(self.storage, PODS)
        self.client = StorageClient(self.storage, Refusing())

    def create(self, name: str, spec: Object, status: Object | None = None) -> None:
        api = "frameworkcontroller.microsoft.com/v1"
        body = {"apiVersion": api, "kind": "Framework", "metadata": {"name": name}, "spec": spec}
        created = self.storage.create(self.frameworks, NAMESPACE, body)
        if status is not None:
            body = {**created, "status": status}
            self.storage.update(self.frameworks, NAMESPACE, name, body, subresource="status")

    def poison(self, names: Iterable[str]) -> None:
        for name in names:
            spec, status, _ = POISONED[name]
            self.create(name, spec, status)

    def list_frameworks(self) -> list[Object]:
        return list(self.storage.list(self.frameworks, None).items)

    async def play_kubelets(self) -> None:
        while True:
            for pod in self.storage.list(self.pods, None).items:
                name = pod["metadata"]["name"]
                if "deletionTimestamp" in pod["metadata"]:
                    options = DeleteOptions(grace_seconds=0)
                    self.storage.delete(self.pods, NAMESPACE, name, options)
                elif pod["status"].get("phase") != "Succeeded":
                    ended = {**pod, "status": {"phase": "Succeeded", "podIP": "10.0.0.1"}}
                    self.storage.update(self.pods, NAMESPACE, name, ended, subresource="status")
            self.storage.collect_garbage()
            await asyncio.sleep(2.0)


@contextmanager
def open_world() -> Generator[World]:
    world = World()
    yield world
    world.client.is_dead = True


async def run(world: World) -> None:
    controller = Controller(
        world.client,
        ControllerConfig(),
        Options(None, "127.0.0.1", 0),
        clock=LoopClock(),
        random=HalfRandom(),
    )
    tasks = [
        asyncio.create_task(controller.run(asyncio.Event()), name="controller"),
        asyncio.create_task(world.play_kubelets(), name="kubelets"),
    ]
    try:
        await asyncio.sleep(5.0)
        # A status that comes late is no poison: our own is written over it.
        world.poison(name for name in POISONED if POISONED[name][1] is None)
        async with asyncio.timeout(LIMIT_SECONDS):
            while not is_settled(world):
                ended, _ = await asyncio.wait(tasks, timeout=5.0)
                assert [task.exception() for task in ended] == []
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class HalfRandom:
    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2


def is_settled(world: World) -> bool:
    states = [(f.get("status") or {}).get("state") for f in world.list_frameworks()]
    events = {e["involvedObject"]["name"] for e in list_events(world)}
    return states.count("Completed") >= HEALTHY and set(POISONED) <= events


def list_events(world: World) -> list[Object]:
    return list(world.storage.list(find_type(world.storage, EVENTS), None).items)


@pytest.mark.slow
async def test_poisoned_frameworks_among_a_thousand_harm_no_other() -> None:
    with open_world() as world:
        world.poison(name for name in POISONED if POISONED[name][1] is not None)
        for number in range(HEALTHY):
            world.create(f"healthy-{number}", SPEC)
        await run(world)
        found = {f["metadata"]["name"]: f["status"] for f in world.list_frameworks()}
        told = {(e["involvedObject"]["name"], e["reason"]) for e in list_events(world)}

    poisoned = {name: found.pop(name) for name in POISONED}
    assert len(found) == HEALTHY
    assert {s["attemptStatus"]["completionStatus"]["code"] for s in found.values()} == {0}
    for name, (_, stored, reason) in POISONED.items():
        status = poisoned[name]
        (blocked,) = (c for c in status.pop("conditions") if c["type"] == "Blocked")
        assert (blocked["status"], blocked["reason"]) == ("True", reason), name
        assert (name, reason) in told
        assert status == {k: v for k, v in (stored or {}).items() if k != "conditions"}
