import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from controller.core.decision import EventType
from controller.report.events import EventRecorder
from controller.serve.metrics import Metrics
from framework.clock import ManualClock, SequentialUids
from framework.kube.client import KubeClient
from framework.kube.errors import UnreachableError, build_api_error
from framework.kube.resources import EVENTS, Object, Resource
from localcluster.apiserver.model.errors import StatusError
from localcluster.apiserver.storage import Storage

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
GANG: Object = {
    "apiVersion": "frameworkcontroller.microsoft.com/v1",
    "kind": "Framework",
    "namespace": "default",
    "name": "gang",
    "uid": "u-1",
}


class StorageClient(KubeClient):
    """The three verbs the recorder needs, on the real storage engine."""

    def __init__(self, clock: ManualClock) -> None:
        self.storage = Storage(clock, SequentialUids(1))
        found = self.storage.registry.find("", "v1", "events")
        assert found is not None
        self._events = found
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_down = False

    async def get(self, resource: Resource, namespace: str | None, name: str, **_: Any) -> Object:
        assert resource is EVENTS
        return await self._call(self.storage.get, namespace, name)

    async def create(
        self, resource: Resource, namespace: str | None, body: Object, **_: Any
    ) -> Object:
        assert resource is EVENTS
        return await self._call(self.storage.create, namespace, body)

    async def patch(
        self, resource: Resource, namespace: str | None, name: str, body: Any, **_: Any
    ) -> Object:
        assert resource is EVENTS
        return await self._call(
            self.storage.patch, namespace, name, body, "application/merge-patch+json"
        )

    async def _call(self, verb: Any, *arguments: Any) -> Object:
        await self.gate.wait()
        if self.is_down:
            raise UnreachableError("refused", method="POST", path=EVENTS.path("default"))
        try:
            answer = verb(self._events, *arguments)
        except StatusError as e:
            raise build_api_error(
                e.code, b"", method="POST", path="/", fallback_reason=e.reason
            ) from e
        obj: Object = answer[0] if isinstance(answer, tuple) else answer
        return obj

    def list_events(self) -> list[Object]:
        return self.storage.list(self._events, "default").items


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def client(clock: ManualClock) -> StorageClient:
    return StorageClient(clock)


@pytest.fixture
async def recorder(clock: ManualClock, client: StorageClient) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(client, clock, "frameworkcontroller")
    task = asyncio.create_task(recorder.run())
    yield recorder
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_emit_writes_one_event(recorder: EventRecorder, client: StorageClient) -> None:
    recorder.emit(GANG, EventType.WARNING, "TaskFailed", "worker/0 failed")
    await recorder.flush()
    (event,) = client.list_events()
    assert event["involvedObject"] == GANG
    assert event["metadata"]["name"].startswith("gang.")
    assert event["source"] == {"component": "frameworkcontroller"}
    stated = ("type", "reason", "message", "count", "firstTimestamp", "lastTimestamp")
    assert [event[key] for key in stated] == [
        "Warning",
        "TaskFailed",
        "worker/0 failed",
        1,
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05Z",
    ]


async def test_emit_again_counts_instead_of_adding(
    recorder: EventRecorder, client: StorageClient, clock: ManualClock
) -> None:
    recorder.emit(GANG, EventType.NORMAL, "Created", "x")
    await recorder.flush()
    clock.advance(60)
    recorder.emit(GANG, EventType.NORMAL, "Created", "x")
    recorder.emit(GANG, EventType.NORMAL, "Created", "x")
    recorder.emit(GANG, EventType.NORMAL, "Created", "another")
    await recorder.flush()
    counts = {event["message"]: event for event in client.list_events()}
    assert {message: event["count"] for message, event in counts.items()} == {"x": 3, "another": 1}
    assert counts["x"]["firstTimestamp"] == "2026-01-02T03:04:05Z"
    assert counts["x"]["lastTimestamp"] == "2026-01-02T03:05:05Z"


async def test_emit_after_a_restart_goes_on_counting(
    recorder: EventRecorder, client: StorageClient, clock: ManualClock
) -> None:
    recorder.emit(GANG, EventType.NORMAL, "Created", "x")
    await recorder.flush()
    restarted = EventRecorder(client, clock, "frameworkcontroller")
    task = asyncio.create_task(restarted.run())
    restarted.emit(GANG, EventType.NORMAL, "Created", "x")
    await restarted.flush()
    task.cancel()
    assert [event["count"] for event in client.list_events()] == [2]


async def test_emit_while_the_server_hangs_returns_and_drops_the_rest(
    client: StorageClient, clock: ManualClock
) -> None:
    metrics = Metrics()
    recorder = EventRecorder(client, clock, "c", metrics)
    for number in range(1002):
        recorder.emit(GANG, EventType.NORMAL, "Created", str(number))
    assert b"frameworkcontroller_dropped_events_total 2.0" in metrics.render()


async def test_emit_while_the_server_is_away_is_forgotten_and_later_ones_written(
    recorder: EventRecorder, client: StorageClient
) -> None:
    client.is_down = True
    recorder.emit(GANG, EventType.NORMAL, "Created", "lost")
    await recorder.flush()
    client.is_down = False
    recorder.emit(GANG, EventType.NORMAL, "Created", "kept")
    await recorder.flush()
    assert [event["message"] for event in client.list_events()] == ["kept"]


async def test_emit_of_an_event_the_server_forgot_creates_it_anew(
    recorder: EventRecorder, client: StorageClient
) -> None:
    recorder.emit(GANG, EventType.NORMAL, "Created", "x")
    await recorder.flush()
    (event,) = client.list_events()
    client.storage.delete(client._events, "default", event["metadata"]["name"])
    recorder.emit(GANG, EventType.NORMAL, "Created", "x")
    await recorder.flush()
    assert [event["count"] for event in client.list_events()] == [1]


async def test_emit_with_a_long_message_cuts_it(
    recorder: EventRecorder, client: StorageClient
) -> None:
    recorder.emit(GANG, EventType.NORMAL, "Created", "m" * 5000)
    await recorder.flush()
    assert len(client.list_events()[0]["message"]) == 1024


def read_version(event: Object) -> str:
    return str(event["metadata"]["resourceVersion"])


def about(namespace: str) -> Object:
    return {**GANG, "namespace": namespace}


async def test_events_of_one_namespace_neither_displace_nor_hold_up_those_of_another(
    client: StorageClient, clock: ManualClock
) -> None:
    metrics = Metrics()
    namespaces = client.storage.registry.find("", "v1", "namespaces")
    assert namespaces is not None
    client.storage.create(namespaces, None, {"metadata": {"name": "hot"}})
    recorder = EventRecorder(client, clock, "c", metrics)
    for number in range(5000):
        recorder.emit(about("hot"), EventType.NORMAL, "Created", str(number))
    recorder.emit(about("default"), EventType.NORMAL, "Created", "calm")
    task = asyncio.create_task(recorder.run())
    await recorder.flush()
    task.cancel()
    (calm,) = client.list_events()
    hot = client.storage.list(client._events, "hot").items
    before = [e for e in hot if int(read_version(e)) < int(read_version(calm))]
    assert (len(hot), len(before) <= 2) == (1000, True)
    assert b"frameworkcontroller_dropped_events_total 4000.0" in metrics.render()


async def test_an_event_that_hangs_in_one_namespace_holds_up_no_other(
    client: StorageClient, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = client.create

    async def hang(resource: Resource, namespace: str | None, body: Object, **more: Any) -> Object:
        if namespace == "hot":
            await asyncio.Event().wait()
        return await create(resource, namespace, body, **more)

    monkeypatch.setattr(client, "create", hang)
    recorder = EventRecorder(client, clock, "c")
    for number in range(100):
        recorder.emit(about("hot"), EventType.NORMAL, "Created", str(number))
    recorder.emit(about("default"), EventType.NORMAL, "Created", "calm")
    task = asyncio.create_task(recorder.run())
    for _ in range(100):
        await asyncio.sleep(0)
    task.cancel()
    assert [event["message"] for event in client.list_events()] == ["calm"]
