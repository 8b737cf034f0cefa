"""A Framework that cannot be decoded, decided or written, among a thousand: no other is harmed."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from framework.api.constants import API_VERSION, FRAMEWORK_CRD_NAME
from framework.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, FRAMEWORKS, PODS, Object
from localcluster.apiserver.model.options import DeleteOptions
from tests.support.builders import NAMESPACE, build_framework_wire
from tests.support.fakes.storageclient import Fate, Request, find_type
from tests.support.simulator.controllers import World, open_world
from tests.support.simulator.shell import refuse

pytestmark = pytest.mark.looptime

HEALTHY = 999
LIMIT_SECONDS = 300.0
ANY_OBJECT = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
PAST = "2026-01-01T00:00:00Z"
UNREADABLE, UNDECIDABLE = "UnreadableFramework", "UndecidableFramework"


def build_status(state: str = "AttemptPreparing", **attempt: Any) -> Object:
    """A status with all that is required."""
    identity = {"id": 0, "startTime": PAST, "configMapName": "x-attempt"}
    times = {"startTime": PAST, "transitionTime": PAST}
    return {"state": state, **times, "attemptStatus": {**identity, **attempt}}


def build_roles(**task: Any) -> list[Object]:
    attempt = {"id": 0, "startTime": PAST, "podName": "x-worker-0"}
    body = {"index": 0, "instanceUID": "t", "startTime": PAST, "transitionTime": PAST}
    tasks = [body | {"state": "AttemptPreparing", "attemptStatus": attempt} | task]
    return [{"name": "worker", "instanceUID": "r", "taskStatuses": tasks}]


def build_spec(number: Any) -> Object:
    return {"taskRoles": [{"name": "worker", "taskNumber": number}]}


SPEC = build_framework_wire()["spec"]
NO_OBJECTS = {"conditions": ["a", {"type": 5}, {}]}
COMPRESSED: Object = {"taskRoleStatuses": None, "taskRoleStatusesCompressed": "H4sIAAAA"}
# name -> (spec, status, reason of the condition and of the event)
POISONED: dict[str, tuple[Any, Any, str]] = {
    "text-for-a-number": (build_spec("many"), None, UNREADABLE),
    "object-for-an-array": ({"taskRoles": {"worker": 1}}, None, UNREADABLE),
    "number-beyond-64-bits": (build_spec(10**30), None, UNREADABLE),
    "corrupt-compression": (SPEC, build_status(**COMPRESSED), UNREADABLE),
    "unknown-state": (SPEC, build_status("Exploded"), UNREADABLE),
    "index-out-of-place": (SPEC, build_status(taskRoleStatuses=build_roles(index=7)), UNREADABLE),
    "text-for-a-time": (SPEC, build_status() | {"startTime": "soon"}, UNREADABLE),
    "conditions-that-are-none": (SPEC, build_status("Exploded") | NO_OBJECTS, UNREADABLE),
    "ended-without-a-reason": (SPEC, build_status("AttemptCompleted"), UNDECIDABLE),
    "refused": (SPEC, None, "StatusRefused"),
}


def draw_fate(request: Request) -> Fate:
    """Refuse each status of one Framework that has a state."""
    is_status = request.verb == "replace" and request.name == "refused"
    return refuse(413) if is_status and "state" in request.body["status"] else Fate()


def accept_any_framework(world: World) -> None:
    crds = find_type(world.storage, CUSTOM_RESOURCE_DEFINITIONS)
    crd = world.storage.get(crds, None, FRAMEWORK_CRD_NAME)
    (version,) = crd["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"] = properties["status"] = ANY_OBJECT
    world.storage.update(crds, None, FRAMEWORK_CRD_NAME, crd)


def create(world: World, name: str, spec: Object, status: Object | None = None) -> None:
    rt = find_type(world.storage, FRAMEWORKS)
    body = {"apiVersion": API_VERSION, "kind": "Framework", "metadata": {"name": name}}
    created = world.storage.create(rt, NAMESPACE, {**body, "spec": spec})
    if status is not None:
        body = {**created, "status": status}
        world.storage.update(rt, NAMESPACE, name, body, subresource="status")


def poison(world: World, names: Iterable[str]) -> None:
    for name in names:
        spec, status, _ = POISONED[name]
        create(world, name, spec, status)


async def end_pods(world: World) -> None:
    """Act as kubelets whose Pods all succeed."""
    rt = find_type(world.storage, PODS)
    while True:
        for pod in world.list_objects(PODS):
            name = pod["metadata"]["name"]
            if "deletionTimestamp" in pod["metadata"]:
                world.storage.delete(rt, NAMESPACE, name, DeleteOptions(grace_seconds=0))
            elif pod["status"].get("phase") != "Succeeded":
                ended = {**pod, "status": {"phase": "Succeeded", "podIP": "10.0.0.1"}}
                world.storage.update(rt, NAMESPACE, name, ended, subresource="status")
        await asyncio.sleep(2.0)


def list_reasons(world: World) -> set[tuple[str, str]]:
    return {(e["involvedObject"]["name"], e["reason"]) for e in world.list_objects(EVENTS)}


def has_settled(world: World) -> bool:
    frameworks = world.list_objects(FRAMEWORKS)
    states = [(f.get("status") or {}).get("state") for f in frameworks]
    reported = {name for name, _ in list_reasons(world)}
    return states.count("Completed") >= HEALTHY and set(POISONED) <= reported


@pytest.mark.slow
async def test_poisoned_frameworks_among_a_thousand_harm_no_other() -> None:
    async with open_world() as world:
        accept_any_framework(world)
        poison(world, (name for name in POISONED if POISONED[name][1] is not None))
        for number in range(HEALTHY):
            create(world, f"healthy-{number}", SPEC)
        program = world.start()
        program.link.draw = draw_fate
        kubelets = asyncio.create_task(end_pods(world), name="kubelets")
        await asyncio.sleep(5.0)
        # A status that another client writes later is no poison: ours is written over it.
        poison(world, (name for name in POISONED if POISONED[name][1] is None))
        async with asyncio.timeout(LIMIT_SECONDS):
            while not has_settled(world):
                assert not program.task.done()
                await asyncio.sleep(5.0)
        kubelets.cancel()
        found = {f["metadata"]["name"]: f["status"] for f in world.list_objects(FRAMEWORKS)}
        reasons = list_reasons(world)

    poisoned = {name: found.pop(name) for name in POISONED}
    assert len(found) == HEALTHY
    assert {s["attemptStatus"]["completionStatus"]["code"] for s in found.values()} == {0}
    for name, (_, stored, reason) in POISONED.items():
        status = poisoned[name]
        (blocked,) = (c for c in status.pop("conditions") if c["type"] == "Blocked")
        assert (blocked["status"], blocked["reason"]) == ("True", reason), name
        assert (name, reason) in reasons
        assert status == {k: v for k, v in (stored or {}).items() if k != "conditions"}
