"""Whole controllers on one storage, in virtual time. The tests act as user and kubelet."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager

from controller.config.config_file import ControllerConfig
from controller.controller import Controller, Election, Options
from framework.kube.errors import UnreachableError
from framework.kube.resources import FRAMEWORKS, LEASES, PODS, Object, Resource
from localcluster.apiserver.storage import Storage
from tests.support.builders import NAMESPACE, build_role_wire, build_submission
from tests.support.fakes.storageclient import (
    Fate,
    LoopClock,
    Network,
    Request,
    StorageClient,
    find_type,
    open_storage,
)

TICK_SECONDS = 0.02


class HalfRandom:
    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2


class Link(Network):
    """The network between one controller and the server; a test cuts or delays it."""

    def __init__(self) -> None:
        self.is_cut = False
        self.held_seconds: dict[str, float] = {}
        self.draw: Callable[[Request], Fate] = lambda _: Fate()

    def draw_fate(self, request: Request) -> Fate:
        return Fate(is_lost=True) if self.is_cut else self.draw(request)

    def draw_watch_delay(self, resource: Resource) -> float:
        return self.held_seconds.get(resource.plural, 0.0)

    def check_watch(self, resource: Resource) -> None:
        if self.is_cut:
            raise UnreachableError("cut", method="WATCH", path=resource.plural)


class Program:
    """A controller as a process: it can be killed, or asked to stop."""

    def __init__(
        self, storage: Storage, name: str, *, is_elected: bool, config: ControllerConfig
    ) -> None:
        self.link = Link()
        self.client = StorageClient(storage, self.link)
        self.clock = LoopClock()
        self.lease_client = StorageClient(storage, self.link)
        election = Election(self.lease_client, self.clock, NAMESPACE, "frameworkcontroller", name)
        self.controller = Controller(
            self.client,
            config,
            Options(None, "127.0.0.1", 0),
            clock=self.clock,
            random=HalfRandom(),
            election=election if is_elected else None,
        )
        self.stop = asyncio.Event()
        self.task = asyncio.create_task(self.controller.run(self.stop), name=name)

    def kill(self) -> None:
        self.client.is_dead = self.lease_client.is_dead = True
        self.task.cancel()

    def list_unready(self) -> list[str]:
        return self.controller._find_unready()

    def list_writes(self) -> list[Request]:
        return [r for r in self.client.sent if r.verb not in {"get", "list"}]

    def read_metric(self, name: str) -> float:
        lines = self.controller.metrics.render().decode().splitlines()
        return sum(
            float(x.split()[-1]) for x in lines if x.startswith(f"frameworkcontroller_{name}")
        )


class World:
    """One server and its controllers."""

    def __init__(self) -> None:
        self.storage = open_storage(LoopClock())
        self.user = StorageClient(self.storage)
        self.programs: list[Program] = []
        self.config = ControllerConfig()

    def start(self, name: str = "a", *, is_elected: bool = False) -> Program:
        program = Program(self.storage, name, is_elected=is_elected, config=self.config)
        self.programs.append(program)
        return program

    async def collect_garbage(self) -> None:
        while True:
            self.storage.collect_garbage()
            await asyncio.sleep(0.1)

    async def start_pair(self) -> tuple[Program, Program]:
        """Start a leader ``a`` and its standby ``b``."""
        first = self.start("a", is_elected=True)
        await self.wait_for("leader a", lambda: self.read_holder() == "a")
        second = self.start("b", is_elected=True)
        await asyncio.sleep(2)
        return first, second

    def restore(self, storage: Storage) -> None:
        """Connect all clients to a server with other storage."""
        self.storage = self.user.storage = storage
        for program in self.programs:
            program.client.storage = program.lease_client.storage = storage

    async def create(self, name: str = "gang", count: int = 2) -> None:
        body = build_submission(name, build_role_wire(number=count))
        await self.user.create(FRAMEWORKS, NAMESPACE, body)

    async def create_gang(self, name: str = "gang", count: int = 2) -> None:
        await self.create(name, count)
        await self.wait_for_pods(name, count, seconds=1)

    async def wait_for_pods(self, name: str = "gang", count: int = 2, **limit: float) -> float:
        return await self.wait_for("Pods", lambda: len(self.list_pods(name)) == count, **limit)

    async def wait_for_state(self, state: str, name: str = "gang", **limit: float) -> float:
        return await self.wait_for(
            f"state {state}", lambda: self.read_status(name).get("state") == state, **limit
        )

    def list_objects(self, resource: Resource) -> list[Object]:
        return list(self.storage.list(find_type(self.storage, resource), None).items)

    def list_pods(self, name: str = "gang") -> list[str]:
        names = (str(p["metadata"]["name"]) for p in self.list_objects(PODS))
        return sorted(n for n in names if n.startswith(name))

    def read_holder(self) -> str:
        return next((str(x["spec"]["holderIdentity"]) for x in self.list_objects(LEASES)), "")

    def read_status(self, name: str = "gang") -> Object:
        found = (f for f in self.list_objects(FRAMEWORKS) if f["metadata"]["name"] == name)
        status: Object = next(found).get("status") or {}
        return status

    def walk_tasks(self) -> Iterator[Object]:
        attempt = self.read_status().get("attemptStatus") or {}
        for role in attempt.get("taskRoleStatuses") or ():
            yield from role["taskStatuses"]

    def read_states(self) -> list[tuple[int, str]]:
        """The attempt and the state of each Task."""
        return [(task["attemptStatus"]["id"], task["state"]) for task in self.walk_tasks()]

    async def set_pods(self, phase: str, name: str = "gang") -> None:
        for number, pod in enumerate(self.list_pods(name)):
            await self.set_pod(pod, phase, number)

    async def set_pod(self, pod: str, phase: str, number: int = 0) -> None:
        status = {"phase": phase, "podIP": f"10.0.0.{number + 1}", "hostIP": "10.1.0.1"}
        await self.user.patch(PODS, NAMESPACE, pod, {"status": status}, subresource="status")

    async def wait_for(
        self, what: str, is_met: Callable[[], bool], *, seconds: float = 60.0
    ) -> float:
        """Wait until a condition is met; return the duration."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        while not is_met():
            assert loop.time() - started < seconds, f"no {what} after {seconds} s"
            await asyncio.sleep(TICK_SECONDS)
        return loop.time() - started


@asynccontextmanager
async def open_world() -> AsyncGenerator[World]:
    """A world with a garbage collector, for tests in virtual time (fixtures run in real time)."""
    world = World()
    garbage = asyncio.create_task(world.collect_garbage(), name="garbage")
    try:
        yield world
    finally:
        for program in world.programs:
            program.kill()
        tasks = [garbage, *(p.task for p in world.programs)]
        garbage.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
