"""Events are counted, bounded, and never delay a decision: in virtual time on a storage."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from controller.core.decision import EventType
from controller.gate.write_gate import JointWriteGate
from controller.report.events import EventRecorder
from controller.runtime import Runtime
from controller.serve.metrics import Metrics
from framework.clock import SystemRandom
from framework.kube.resources import EVENTS, Object
from localcluster.apiserver.model.builtins import NAMESPACES
from tests.support.fakes.storageclient import (
    Fate,
    LoopClock,
    Network,
    Request,
    StorageClient,
    find_type,
    open_storage,
)

pytestmark = pytest.mark.looptime

COMPONENT = "frameworkcontroller"
GANG: Object = {
    "apiVersion": "frameworkcontroller.microsoft.com/v1",
    "kind": "Framework",
    "namespace": "default",
    "name": "gang",
    "uid": "u-1",
}


class Server(Network):
    """A server that a test stops, or that delays the answers of one namespace."""

    def __init__(self) -> None:
        self.is_down = False
        self.slow_namespace = ""
        self.storage = open_storage(LoopClock())
        self.client = StorageClient(self.storage, self)
        self.metrics = Metrics()
        self.recorder = self.build_recorder()

    def build_recorder(self) -> EventRecorder:
        runtime = Runtime(
            self.client, LoopClock(), SystemRandom(), self.metrics, write_gate=JointWriteGate()
        )
        return EventRecorder(runtime, COMPONENT)

    def draw_fate(self, request: Request) -> Fate:
        namespace = (request.body or {}).get("metadata", {}).get("namespace")
        is_slow = namespace == self.slow_namespace
        return Fate(uplink_seconds=1000 if is_slow else 0, is_lost=self.is_down)

    def list_events(self, namespace: str = "default") -> list[Object]:
        return self.storage.list(find_type(self.storage, EVENTS), namespace).items

    def emit(self, message: str = "x", namespace: str = "default") -> None:
        involved = {**GANG, "namespace": namespace}
        self.recorder.emit(involved, EventType.NORMAL, "Created", message)

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        task = asyncio.create_task(self.recorder.run())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def write(self, *messages: str) -> None:
        """Emit, and wait until all is written."""
        async with self.run():
            for message in messages:
                self.emit(message)
            await self.recorder.flush()


async def test_event_is_written_with_its_object_and_a_message_that_is_cut() -> None:
    server = Server()
    server.recorder.emit(GANG, EventType.WARNING, "TaskFailed", "m" * 5000)
    await server.write()
    (event,) = server.list_events()
    assert event["involvedObject"] == GANG
    assert event["metadata"]["name"].startswith("gang.")
    assert event["source"] == {"component": COMPONENT}
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "TaskFailed", 1)
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-01T00:00:00Z"
    assert len(event["message"]) == 1024


async def test_repeated_event_is_counted_also_after_a_restart() -> None:
    server = Server()
    await server.write("x")
    await asyncio.sleep(60)
    await server.write("x", "x", "another")
    events = {event["message"]: event for event in server.list_events()}
    assert {message: e["count"] for message, e in events.items()} == {"x": 3, "another": 1}
    assert events["x"]["firstTimestamp"] == "2026-01-01T00:00:00Z"
    assert events["x"]["lastTimestamp"] == "2026-01-01T00:01:00Z"
    server.recorder = server.build_recorder()
    await server.write("x")
    assert sorted(event["count"] for event in server.list_events()) == [1, 4]


async def test_events_beyond_the_queue_are_dropped_and_counted() -> None:
    server = Server()
    for number in range(1002):
        server.emit(str(number))
    assert b"frameworkcontroller_dropped_events_total 2.0" in server.metrics.render()


async def test_event_that_is_lost_is_not_tried_again_and_later_ones_are_written() -> None:
    server = Server()
    server.is_down = True
    await server.write("lost")
    server.is_down = False
    await server.write("kept")
    assert [event["message"] for event in server.list_events()] == ["kept"]


async def test_event_that_the_server_has_removed_is_created_anew() -> None:
    server = Server()
    async with server.run():
        server.emit()
        await server.recorder.flush()
        await asyncio.sleep(1)
        (event,) = server.list_events()
        events = find_type(server.storage, EVENTS)
        server.storage.delete(events, "default", event["metadata"]["name"])
        server.emit()
        await server.recorder.flush()
    assert [event["count"] for event in server.list_events()] == [1]


@pytest.mark.parametrize("is_slow", [False, True])
async def test_events_of_one_namespace_do_not_displace_or_delay_others(*, is_slow: bool) -> None:
    server = Server()
    server.storage.create(NAMESPACES, None, {"metadata": {"name": "hot"}})
    server.slow_namespace = "hot" if is_slow else ""
    for number in range(5000):
        server.emit(str(number), "hot")
    server.emit("calm")
    async with server.run():
        if is_slow:
            await asyncio.sleep(1)
        else:
            await server.recorder.flush()
    (calm,) = server.list_events()
    version = int(calm["metadata"]["resourceVersion"])
    hot = server.list_events("hot")
    assert len(hot) == (0 if is_slow else 1000)
    assert sum(int(e["metadata"]["resourceVersion"]) < version for e in hot) <= 2
    assert b"frameworkcontroller_dropped_events_total 4000.0" in server.metrics.render()
