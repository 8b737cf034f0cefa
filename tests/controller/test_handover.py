"""Whole controllers on one storage, in virtual time: who leads, and from what the next goes on."""

import asyncio
import copy
from collections.abc import AsyncGenerator, Callable, Iterator

import pytest

from controller.config.config_file import ControllerConfig
from controller.controller import Controller, Election, Options
from framework.clock import SequentialUids
from framework.kube import transport
from framework.kube.errors import UnreachableError, build_api_error
from framework.kube.resources import (
    FRAMEWORKS,
    LEASES,
    PODS,
    Object,
    Resource,
)
from localcluster.apiserver.storage import Storage
from tests.support.builders import build_framework_wire, build_role_wire
from tests.support.fakes.storageclient import (
    Fate,
    LoopClock,
    Network,
    Request,
    StorageClient,
    open_storage,
)

pytestmark = pytest.mark.looptime

NAMESPACE = "default"
TICK_SECONDS = 0.02


class BootLoopClock(LoopClock):
    """A machine whose processes can be stopped: the loop's time stands, the machine's goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped_seconds = 0.0

    def boottime(self) -> float:
        return self.monotonic() + self.stopped_seconds


class HalfRandom:
    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2


class Link(Network):
    """What joins one controller to the server; tests cut it and hold it up."""

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

    def __init__(self, world: "World", name: str, *, is_elected: bool) -> None:
        self.link = Link()
        self.client = StorageClient(world.storage, self.link)
        clock = self.clock = BootLoopClock()
        lease_client = StorageClient(world.storage, self.link)
        self._clients = (self.client, lease_client)
        election = Election(lease_client, clock, NAMESPACE, "frameworkcontroller", name)
        self.controller = Controller(
            self.client,
            ControllerConfig(),
            Options(None, "127.0.0.1", 0),
            clock=clock,
            random=HalfRandom(),
            election=election if is_elected else None,
        )
        self.stop = asyncio.Event()
        self.task = asyncio.create_task(self.controller.run(self.stop), name=name)

    def kill(self) -> None:
        for client in self._clients:
            client.is_dead = True
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
    """One server, the controllers there are, and hands to play user and kubelet."""

    def __init__(self) -> None:
        self.storage = open_storage(LoopClock())
        self.user = StorageClient(self.storage)
        self.programs: list[Program] = []
        self.tasks: list[asyncio.Task[None]] = []

    def start(self, name: str = "a", *, is_elected: bool = True) -> Program:
        program = Program(self, name, is_elected=is_elected)
        self.programs.append(program)
        # Not in the fixture, where the time is not yet virtual.
        if not self.tasks:
            self.tasks.append(asyncio.create_task(self.collect_garbage(), name="garbage"))
        return program

    async def collect_garbage(self) -> None:
        while True:
            self.storage.collect_garbage()
            await asyncio.sleep(0.1)

    async def start_pair(self) -> tuple[Program, Program]:
        first = self.start("a")
        await self.wait_for("leader a", lambda: self.read_holder() == "a")
        second = self.start("b")
        await asyncio.sleep(2)
        return first, second

    def restore(self, storage: Storage) -> None:
        """Let everybody talk to a server with other storage."""
        self.storage = self.user.storage = storage
        for program in self.programs:
            for client in program._clients:
                client.storage = storage

    async def create(self, name: str = "gang", count: int = 2) -> None:
        wire = build_framework_wire(build_role_wire(number=count), name=name)
        for key in ("uid", "resourceVersion", "generation", "creationTimestamp"):
            del wire["metadata"][key]
        await self.user.create(FRAMEWORKS, NAMESPACE, wire)

    def list_objects(self, resource: Resource) -> list[Object]:
        rt = self.storage.registry.find(resource.group, resource.version, resource.plural)
        assert rt is not None
        return list(self.storage.list(rt, None).items)

    def list_pods(self, name: str = "gang") -> list[str]:
        names = (str(p["metadata"]["name"]) for p in self.list_objects(PODS))
        return sorted(n for n in names if n.startswith(name))

    def read_holder(self) -> str:
        return next((str(x["spec"]["holderIdentity"]) for x in self.list_objects(LEASES)), "")

    def read_status(self, name: str = "gang") -> Object:
        found = (f for f in self.list_objects(FRAMEWORKS) if f["metadata"]["name"] == name)
        status: Object = next(found).get("status") or {}
        return status

    def read_states(self, name: str = "gang") -> Iterator[tuple[int, str]]:
        attempt = self.read_status(name).get("attemptStatus") or {}
        for role in attempt.get("taskRoleStatuses") or ():
            for task in role["taskStatuses"]:
                yield task["attemptStatus"]["id"], task["state"]

    def list_addresses(self) -> list[str]:
        (role,) = self.read_status()["attemptStatus"]["taskRoleStatuses"]
        return [task["attemptStatus"]["podIP"] or "" for task in role["taskStatuses"]]

    async def set_pods(self, phase: str, name: str = "gang") -> None:
        for number, pod in enumerate(self.list_pods(name)):
            status = {"phase": phase, "podIP": f"10.0.0.{number + 1}", "hostIP": "10.1.0.1"}
            await self.user.patch(PODS, NAMESPACE, pod, {"status": status}, subresource="status")

    async def wait_for(
        self, what: str, is_there: Callable[[], bool], *, seconds: float = 60.0
    ) -> float:
        """Wait for something; return how long that took."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        while not is_there():
            assert loop.time() - started < seconds, f"no {what} after {seconds} s"
            await asyncio.sleep(TICK_SECONDS)
        return loop.time() - started


@pytest.fixture
async def world() -> AsyncGenerator[World]:
    world = World()
    yield world
    for program in world.programs:
        program.kill()
    tasks = [*world.tasks, *(p.task for p in world.programs)]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# --- who leads -----------------------------------------------------------------------------------


async def test_standby_is_ready_and_writes_nothing(world: World) -> None:
    leader, standby = await world.start_pair()
    await world.create()
    await world.wait_for("two Pods", lambda: len(world.list_pods()) == 2, seconds=1)
    await asyncio.sleep(20)
    assert leader.list_unready() == standby.list_unready() == []
    assert standby.list_writes() == []
    assert (leader.read_metric("leader"), standby.read_metric("leader")) == (1, 0)
    assert leader.read_metric("frameworks") == standby.read_metric("frameworks") == 1


async def test_gang_of_a_killed_leader_goes_on_within_8_seconds(world: World) -> None:
    leader, standby = await world.start_pair()
    await world.create()
    await world.wait_for("two Pods", lambda: len(world.list_pods()) == 2, seconds=1)
    leader.kill()
    await world.set_pods("Running")
    waited = await world.wait_for(
        "state AttemptRunning", lambda: world.read_status()["state"] == "AttemptRunning"
    )
    assert waited <= 8
    assert standby.read_metric("leader") == 1
    assert list(world.read_states()) == [(0, "AttemptRunning")] * 2
    # What it took over needs nothing more.
    writes = len(standby.list_writes())
    await asyncio.sleep(60)
    assert len(standby.list_writes()) == writes


async def test_gang_of_a_stopped_leader_goes_on_within_a_second(world: World) -> None:
    leader, standby = await world.start_pair()
    await world.create()
    await world.wait_for("two Pods", lambda: len(world.list_pods()) == 2, seconds=1)
    await asyncio.sleep(1)
    leader.stop.set()
    await asyncio.wait_for(leader.task, 0.2)
    await world.set_pods("Running")
    waited = await world.wait_for(
        "state AttemptRunning", lambda: world.read_status()["state"] == "AttemptRunning"
    )
    assert waited <= 0.8
    assert standby.read_metric("leader") == 1


async def test_stopped_leader_awaits_its_requests_and_releases_the_lease_last(
    world: World,
) -> None:
    leader, standby = await world.start_pair()
    leader.link.draw = lambda r: Fate(downlink_seconds=2 if r.resource is PODS else 0)
    await world.create()
    await world.wait_for("two Pods", lambda: len(world.list_pods()) == 2, seconds=1)
    await world.set_pods("Pending")
    leader.stop.set()
    await asyncio.sleep(1.5)
    assert world.read_holder() == "a"
    assert standby.list_writes() == []
    await asyncio.wait_for(leader.task, 2)
    # The answers came and were written down: the next one finds every Pod recorded.
    assert list(world.read_states()) == [(0, "AttemptPreparing")] * 2
    assert await world.wait_for("leader b", lambda: world.read_holder() == "b") <= 0.5


async def test_stopped_leader_writes_what_it_had_put_off(world: World) -> None:
    leader = world.start()
    await world.create(count=3)
    await world.wait_for("three Pods", lambda: len(world.list_pods()) == 3, seconds=1)
    await asyncio.sleep(1)
    # The gang is not complete, so an address waits 0.1 s for others to be written with it.
    for number, pod in enumerate(world.list_pods()[:2]):
        status = {"status": {"phase": "Pending", "podIP": f"10.0.0.{number + 1}"}}
        await world.user.patch(PODS, NAMESPACE, pod, status, subresource="status")
        await asyncio.sleep(0.01)
    assert world.list_addresses() == ["", "", ""]
    leader.stop.set()
    await asyncio.wait_for(leader.task, 0.05)
    assert world.list_addresses() == ["10.0.0.1", "10.0.0.2", ""]


async def test_leader_whose_time_is_over_decides_nothing_until_it_is_renewed(world: World) -> None:
    leader, _ = await world.start_pair()
    # Stopped between two lines; then its renewals take two seconds, with nobody in between.
    leader.clock.stopped_seconds = 40
    leader.link.draw = lambda r: Fate(downlink_seconds=2 if r.resource is LEASES else 0)
    writes = len(leader.list_writes())
    decisions = leader.read_metric("decision_seconds_count")
    await world.create()
    await asyncio.sleep(1)
    assert len(leader.list_writes()) == writes
    assert leader.read_metric("decision_seconds_count") == decisions
    leader.link.draw = lambda _: Fate()
    await world.wait_for("two Pods", lambda: len(world.list_pods()) == 2, seconds=4)


async def test_leader_that_lost_its_lease_sends_nothing_more_and_fails(world: World) -> None:
    leader, standby = await world.start_pair()
    await world.create()
    await world.wait_for("two Pods", lambda: len(world.list_pods()) == 2, seconds=1)
    leader.link.is_cut = True
    await world.wait_for("leader b", lambda: world.read_holder() == "b", seconds=8)
    leader.link.is_cut = False
    before = len(leader.list_writes())
    await world.create("other")
    with pytest.raises(BaseExceptionGroup, match="unhandled errors") as caught:
        await leader.task
    assert "was not renewed" in str(caught.value.exceptions[0])
    await world.wait_for("Pods of other", lambda: len(world.list_pods("other")) == 2, seconds=5)
    assert len(leader.list_writes()) == before
    assert standby.read_metric("leader") == 1


async def test_new_leader_with_an_old_cache_never_goes_back(world: World) -> None:
    """Its watches stood still when the Pods were to be made: a whole attempt has passed since."""
    leader, standby = await world.start_pair()
    leader.link.draw = lambda r: Fate(uplink_seconds=1 if r.resource is PODS else 0)
    await world.create()
    await asyncio.sleep(0.5)
    assert list(world.read_states()) == [(0, "AttemptCreationPending")] * 2
    standby.link.held_seconds = {"frameworks": 30.0, "pods": 30.0, "configmaps": 30.0}
    await world.wait_for("two Pods", lambda: len(world.list_pods()) == 2, seconds=2)
    await world.set_pods("Running")
    await asyncio.sleep(1)
    await world.set_pods("Failed")
    await world.wait_for("end", lambda: world.read_status()["state"] == "Completed", seconds=8)
    ended = world.read_status()
    leader.stop.set()
    await leader.task
    await asyncio.sleep(60)
    assert world.read_holder() == "b"
    assert not standby.task.done()
    assert world.read_status() == ended
    assert [r for r in standby.list_writes() if r.resource is PODS and r.verb == "create"] == []


async def test_status_write_of_the_last_leader_that_arrives_late_is_kept(world: World) -> None:
    leader, standby = await world.start_pair()
    await world.create()
    await world.wait_for("two Pods", lambda: len(world.list_pods()) == 2, seconds=1)
    await asyncio.sleep(1)
    leader.link.draw = lambda r: Fate(uplink_seconds=12 if r.subresource == "status" else 0)
    await world.set_pods("Running")
    await asyncio.sleep(0.2)
    standby.link.held_seconds = {"pods": 12.0}
    leader.kill()
    await world.wait_for("leader b", lambda: world.read_holder() == "b", seconds=8)
    await world.wait_for(
        "the late write", lambda: world.read_status()["state"] == "AttemptRunning", seconds=10
    )
    for _ in range(500):
        await asyncio.sleep(TICK_SECONDS)
        assert world.read_status()["state"] == "AttemptRunning"


# --- the API server goes and comes ----------------------------------------------------------------


@pytest.mark.slow
async def test_200_frameworks_reconverge_within_10_seconds_after_300_without_a_server(
    world: World,
) -> None:
    program = world.start(is_elected=False)
    names = [f"f{number:03}" for number in range(200)]
    for name in names:
        await world.create(name, count=1)
    await world.wait_for("Pods", lambda: len(world.list_objects(PODS)) == 200, seconds=30)
    program.link.is_cut = True
    await world.set_pods("Succeeded", "f")
    await asyncio.sleep(300)
    assert {f["status"]["state"] for f in world.list_objects(FRAMEWORKS)} == {"AttemptPreparing"}
    program.link.is_cut = False
    await asyncio.sleep(10)
    assert {f["status"]["state"] for f in world.list_objects(FRAMEWORKS)} == {"Completed"}
    assert program.read_metric('relists_total{resource="pods"}') == 0


async def test_actions_that_failed_by_the_outage_are_tried_at_once_after_it(world: World) -> None:
    program = world.start(is_elected=False)
    await asyncio.sleep(1)
    # Only creates fail: the watches go on, so the Framework is known and its back-off grows.
    program.link.draw = lambda r: Fate(is_lost=r.verb == "create" and r.resource is PODS)
    await world.create()
    await asyncio.sleep(120)
    program.link.is_cut = True
    await asyncio.sleep(20)
    program.link.is_cut = False
    program.link.draw = lambda _: Fate()
    assert await world.wait_for("two Pods", lambda: len(world.list_pods()) == 2) <= 6


def copy_storage(storage: Storage) -> Storage:
    """Copy what etcd would restore: the objects and their versions, without the log of writes."""
    copied = Storage(LoopClock(), SequentialUids(7))
    kept, restored = storage._state, copied._state
    for name in ("_objects", "_dependents", "_written", "collection_queue", "absent_owners"):
        setattr(restored, name, copy.deepcopy(getattr(kept, name)))
    restored.resource_version = restored.history._floor = kept.resource_version
    for rt in kept.registry.all():
        if rt.is_custom:
            restored.registry.replace_custom(rt.key, rt)
    return copied


async def test_storage_restored_from_a_backup_is_taken_as_it_is(world: World) -> None:
    program = world.start(is_elected=False)
    await world.create("kept")
    await world.wait_for("two Pods", lambda: len(world.list_pods("kept")) == 2, seconds=1)
    await asyncio.sleep(1)
    backup = copy_storage(world.storage)
    before = world.read_status("kept")
    await world.create("lost")
    await world.set_pods("Succeeded", "kept")
    await world.wait_for("end", lambda: world.read_status("kept")["state"] == "Completed")
    program.link.is_cut = True
    await asyncio.sleep(15)
    world.restore(backup)
    assert world.read_status("kept") == before
    program.link.is_cut = False
    await asyncio.sleep(20)
    # Pods that had ended run again; the Framework that was never made is forgotten.
    assert world.read_status("kept")["state"] == before["state"]
    assert program.read_metric("frameworks") == 1
    await world.set_pods("Succeeded", "kept")
    await world.wait_for(
        "end", lambda: world.read_status("kept")["state"] == "Completed", seconds=10
    )


# --- the CRD -------------------------------------------------------------------------------------


async def test_paths_that_are_not_found_for_a_while_are_no_deletion(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = world.start(is_elected=False)
    await world.create()
    await world.wait_for("two Pods", lambda: len(world.list_pods()) == 2, seconds=1)

    original = program.client._transport.send

    async def refuse(request: transport.Request) -> bytes:
        if request.path.startswith(f"/apis/{FRAMEWORKS.api_version}/"):
            # What a server answers whose CRD is being established: no Status object.
            raise build_api_error(404, b"404 page not found", method="GET", path=request.path)
        return await original(request)

    with monkeypatch.context() as patch:
        patch.setattr(program.client._transport, "send", refuse)
        await world.set_pods("Succeeded")
        await asyncio.sleep(5)
    await world.wait_for("end", lambda: world.read_status()["state"] == "Completed", seconds=15)
