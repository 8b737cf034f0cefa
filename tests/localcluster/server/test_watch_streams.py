"""Watch streams in virtual time: bookmarks, ends, slow readers."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from framework.clock import ManualClock, SequentialUids
from localcluster.apiserver.front.watches import WatchOptions, WatchStream
from localcluster.apiserver.model import builtins
from localcluster.apiserver.storage import Selector, Storage
from localcluster.apiserver.views.forms import FormOptions, Renderer

pytestmark = pytest.mark.looptime


class _Client:
    def __init__(self) -> None:
        self.received: list[tuple[float, str, dict[str, Any]]] = []
        self.arrived = asyncio.Event()

    async def write(self, data: bytes) -> None:
        now = asyncio.get_running_loop().time()
        for line in data.splitlines():
            event = json.loads(line)
            self.received.append((now, event["type"], event["object"]))
        self.arrived.set()

    @property
    def kinds(self) -> list[tuple[float, str]]:
        return [(round(moment, 3), kind) for moment, kind, _ in self.received]


@pytest.fixture
def storage() -> Storage:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    return Storage(clock, SequentialUids(1), history_limit=5)


def _stream(storage: Storage, options: WatchOptions) -> WatchStream:
    rt = builtins.CONFIG_MAPS
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    watch = storage.watch_from(rt, None, Selector(), storage.resource_version)
    renderer = Renderer(rt, FormOptions(), clock)
    return WatchStream(watch, renderer, storage, options)


def _write(storage: Storage, name: str) -> dict[str, Any]:
    return storage.create(builtins.CONFIG_MAPS, "default", {"metadata": {"name": name}})


async def test_stream_ends_at_its_timeout(storage: Storage) -> None:
    client = _Client()

    await _stream(storage, WatchOptions(timeout_seconds=90)).send(client)

    assert asyncio.get_running_loop().time() == 90
    assert client.kinds == []


async def test_bookmarks_come_every_minute_and_before_the_end(storage: Storage) -> None:
    client = _Client()

    await _stream(storage, WatchOptions(timeout_seconds=150, bookmarks=True)).send(client)

    assert client.kinds == [(60, "BOOKMARK"), (120, "BOOKMARK"), (148, "BOOKMARK")]
    metadata = client.received[-1][2]["metadata"]
    assert metadata == {"resourceVersion": str(storage.resource_version)}


async def test_short_stream_has_one_bookmark(storage: Storage) -> None:
    client = _Client()

    await _stream(storage, WatchOptions(timeout_seconds=1, bookmarks=True)).send(client)

    assert client.kinds == [(0.5, "BOOKMARK")]


async def test_event_is_sent_at_the_moment_of_the_write(storage: Storage) -> None:
    client = _Client()
    stream = _stream(storage, WatchOptions(timeout_seconds=100))
    async with asyncio.TaskGroup() as group:
        group.create_task(stream.send(client), name="stream")
        await asyncio.sleep(10)
        created = _write(storage, "one")
        await client.arrived.wait()
        stream.stop()

    assert client.received == [(10, "ADDED", created)]


async def test_bookmark_is_never_behind_the_events_before_it(storage: Storage) -> None:
    client = _Client()
    stream = _stream(storage, WatchOptions(timeout_seconds=100, bookmarks=True))
    async with asyncio.TaskGroup() as group:
        group.create_task(stream.send(client), name="stream")
        await asyncio.sleep(59.999)
        created = _write(storage, "one")

    kinds = [kind for _, kind, _ in client.received]
    assert kinds[:2] == ["ADDED", "BOOKMARK"]
    mark = client.received[1][2]["metadata"]["resourceVersion"]
    assert int(mark) >= int(created["metadata"]["resourceVersion"])


async def test_client_that_falls_too_far_behind_is_told_to_list_anew(storage: Storage) -> None:
    class Blocked(_Client):
        async def write(self, data: bytes) -> None:
            await super().write(data)
            await asyncio.sleep(20)

    client = Blocked()
    stream = _stream(storage, WatchOptions(timeout_seconds=100))
    async with asyncio.TaskGroup() as group:
        group.create_task(stream.send(client), name="stream")
        await asyncio.sleep(1)
        _write(storage, "first")
        await client.arrived.wait()
        for number in range(10):
            _write(storage, f"n{number}")

    assert client.kinds == [(1, "ADDED"), (21, "ERROR")]
    assert client.received[-1][2]["code"] == 410


async def test_client_that_never_reads_loses_its_watch(storage: Storage) -> None:
    class Deaf(_Client):
        async def write(self, data: bytes) -> None:
            assert data
            await asyncio.Event().wait()

    stream = _stream(storage, WatchOptions(timeout_seconds=100))
    _write(storage, "one")

    with pytest.raises(TimeoutError):
        await stream.send(Deaf())

    assert asyncio.get_running_loop().time() == 30
    assert stream._watch.closed


async def test_client_that_is_gone_ends_its_watch_quietly(storage: Storage) -> None:
    class Gone(_Client):
        async def write(self, data: bytes) -> None:
            assert data
            raise ConnectionResetError

    stream = _stream(storage, WatchOptions(timeout_seconds=100))
    _write(storage, "one")

    await stream.send(Gone())

    assert asyncio.get_running_loop().time() == 0
    assert stream._watch.closed
