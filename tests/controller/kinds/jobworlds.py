"""A controller that runs TfJobs and TrainingJobs, in virtual time. Tests play user and kubelet."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from controller.config.config_file import ControllerConfig
from framework.kinds.crd import build_crds
from framework.kube.resources import (
    EVENTS,
    FRAMEWORKS,
    PODS,
    TFJOBS,
    TRAININGJOBS,
    Object,
    Resource,
)
from localcluster.apiserver.engine.selectors import Selector
from localcluster.apiserver.model.builtins import CUSTOM_RESOURCE_DEFINITIONS
from tests.framework.kinds.jobs import build_tfjob, build_trainingjob
from tests.support.builders import NAMESPACE
from tests.support.fakes.storageclient import find_type
from tests.support.simulator.controllers import World, open_world

NAMES = {"TfJob": "job", "TrainingJob": "elastic"}
ENDING_PODS = {"TfJob": "job-master-0", "TrainingJob": "elastic-launcher-0"}
RESOURCES = {"TfJob": TFJOBS, "TrainingJob": TRAININGJOBS}
KINDS = tuple(NAMES)
ENDS = {"TfJob": "Done", "TrainingJob": "Succeeded"}
SERVICE_NAMES = {
    "TfJob": ["master-76no-0", "ps-76no-0", "ps-76no-1", "worker-76no-0", "worker-76no-1"],
    "TrainingJob": ["elastic-worker-0", "elastic-worker-1"],
}
REST_SECONDS = 5


class Jobs:
    """The jobs of a world, and what belongs to them."""

    def __init__(self, world: World, kind: str) -> None:
        self.world = world
        self.kind = kind
        self.name = NAMES[kind]
        self.resource = RESOURCES[kind]
        self.is_ending = False
        """Whether the Pod that decides the end succeeds."""
        self.seen_pods: defaultdict[str, set[str]] = defaultdict(set)
        """UIDs of all Pods that the kubelet has seen, by name."""

    def build(self, **spec: Any) -> Object:
        build = build_tfjob if self.kind == "TfJob" else build_trainingjob
        body = build(**spec)
        body["metadata"]["namespace"] = NAMESPACE
        return body

    async def create(self, **spec: Any) -> Object:
        return await self.world.user.create(self.resource, NAMESPACE, self.build(**spec))

    def find(self, resource: Resource, name: str) -> Object | None:
        """Find an object in any namespace, without a copy of all others."""
        storage, named = self.world.storage, Selector(field=f"metadata.name={name}")
        found = storage.list(find_type(storage, resource), None, named).items
        return next(iter(found), None)

    def read(self) -> Object:
        job = self.find(self.resource, self.name)
        assert job is not None
        return job

    def read_status(self) -> Object:
        return self.read().get("status") or {}

    def read_conditions(self) -> list[str]:
        return [condition["type"] for condition in self.read_status().get("conditions", [])]

    def read_framework(self) -> Object:
        framework = self.find(FRAMEWORKS, self.name)
        assert framework is not None
        return framework

    async def wait_for_phase(self, phase: str, **limit: float) -> None:
        def is_met() -> bool:
            return bool(self.read_status().get("phase") == phase)

        await self.world.wait_for(f"phase {phase}", is_met, **limit)

    def list_owned(self) -> Iterator[tuple[str, str]]:
        """List what the job owns, directly or through its Framework."""
        for rt in self.world.storage.registry.all():
            if rt.kind in {"Event", "Lease"}:
                continue
            for body in self.world.storage.list(rt, None).items:
                if body["metadata"].get("ownerReferences"):
                    yield rt.kind, body["metadata"]["name"]

    async def play_kubelet(self) -> None:
        """Run each Pod until it is deleted, or until its end is told."""
        # After a pass that requests nothing, wait for a change: a list copies all Pods.
        unchanged = None
        while True:
            current = (self.world.storage.resource_version, self.is_ending)
            if current != unchanged:
                pods = enumerate(self.world.list_objects(PODS))
                played = [await self._play(number, pod) for number, pod in pods]
                unchanged = None if any(played) else current
            await asyncio.sleep(0.2)

    async def _play(self, number: int, pod: Object) -> bool:
        """Request the next step of a Pod; return whether there is one."""
        name, phase = pod["metadata"]["name"], (pod.get("status") or {}).get("phase")
        self.seen_pods[name].add(pod["metadata"]["uid"])
        if pod["metadata"].get("deletionTimestamp"):
            await self.world.user.delete(PODS, NAMESPACE, name, grace_seconds=0)
        elif phase in {None, "Pending"}:
            await self.world.set_pod(name, "Running", number)
        elif phase == "Running" and self.is_ending and name == ENDING_PODS[self.kind]:
            await self.world.set_pod(name, "Succeeded", number)
        else:
            return False
        return True


@asynccontextmanager
async def open_jobs(kind: str) -> AsyncGenerator[Jobs]:
    """A world that knows the kinds, with a kubelet; no controller runs yet."""
    async with open_world() as world:
        world.config = ControllerConfig(kinds=("tfjob", "trainingjob"))
        for definition in build_crds().values():
            world.storage.create(CUSTOM_RESOURCE_DEFINITIONS, None, definition)
        jobs = Jobs(world, kind)
        kubelet = asyncio.create_task(jobs.play_kubelet(), name="kubelet")
        try:
            yield jobs
        finally:
            kubelet.cancel()
            await asyncio.gather(kubelet, return_exceptions=True)


def list_names(jobs: Jobs, resource: Resource) -> list[str]:
    return sorted(body["metadata"]["name"] for body in jobs.world.list_objects(resource))


def list_events(jobs: Jobs) -> list[Object]:
    found = jobs.world.list_objects(EVENTS)
    return [event for event in found if event["involvedObject"]["kind"] == jobs.kind]


async def run(jobs: Jobs) -> None:
    jobs.world.start()
    await jobs.create()
    await jobs.wait_for_phase("Running")


async def end(jobs: Jobs) -> None:
    jobs.is_ending = True
    await jobs.wait_for_phase(ENDS[jobs.kind])
    await asyncio.sleep(REST_SECONDS)


async def edit(jobs: Jobs, resource: Resource, change: Callable[[Object], None]) -> None:
    body = jobs.find(resource, jobs.name)
    assert body is not None
    change(body)
    await jobs.world.user.replace(resource, NAMESPACE, jobs.name, body)


def find_role(body: Object, name: str) -> Object:
    (role,) = [role for role in body["spec"]["taskRoles"] if role["name"] == name]
    return role  # type: ignore[no-any-return]  # JSON
