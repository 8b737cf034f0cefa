"""Watch streams in virtual time: bookmarks, ends, slow readers."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from framework.clock import ManualClock, SequentialUids
from localcluster.apiserver.front.watches import WatchOptions, WatchStream
from localcluster.apiserver.model import builtins
from localcluster.apiserver.storage import Selector, Storage
from localcluster.apiserver.views.forms import Renderer

pytestmark = pytest.mark.looptime

CLOCK = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))


class Client:
    """The reader of a stream; ``pause`` runs after each event that it has received."""

    def __init__(self, pause: Callable[[], Awaitable[object]] | None = None) -> None:
        self.received: list[tuple[float, str, dict[str, Any]]] = []
        self.arrived = asyncio.Event()
        self._pause = pause

    async def write(self, data: bytes) -> None:
        now = asyncio.get_running_loop().time()
        for line in data.splitlines():
            event = json.loads(line)
            self.received.append((now, event["type"], event["object"]))
        self.arrived.set()
        if self._pause is not None:
            await self._pause()

    @property
    def kinds(self) -> list[tuple[float, str]]:
        return [(round(moment, 3), kind) for moment, kind, _ in self.received]


@pytest.fixture
def storage() -> Storage:
    return Storage(CLOCK, SequentialUids(1), history_limit=5)


def open_stream(storage: Storage, seconds: int, *, bookmarks: bool = False) -> WatchStream:
    rt = builtins.CONFIG_MAPS
    watch = storage.watch_from(rt, None, Selector(), storage.resource_version)
    options = WatchOptions(timeout_seconds=seconds, bookmarks=bookmarks)
    return WatchStream(watch, Renderer(rt, CLOCK), storage, options)


@asynccontextmanager
async def sending(stream: WatchStream, client: Client) -> AsyncIterator[None]:
    """Send to a client while the block runs, and to the stream's end."""
    async with asyncio.TaskGroup() as group:
        group.create_task(stream.send(client.write), name="stream")
        yield


def write(storage: Storage, name: str) -> dict[str, Any]:
    return storage.create(builtins.CONFIG_MAPS, "default", {"metadata": {"name": name}})


@pytest.mark.parametrize(
    ("seconds", "bookmarks"),
    [(90, None), (150, [60, 120, 148]), (1, [0.5])],
    ids=["without", "every minute and before the end", "short"],
)
async def test_stream_sends_bookmarks_until_its_timeout(
    storage: Storage, seconds: int, bookmarks: list[float] | None
) -> None:
    client = Client()
    await open_stream(storage, seconds, bookmarks=bookmarks is not None).send(client.write)
    assert asyncio.get_running_loop().time() == seconds
    assert client.kinds == [(moment, "BOOKMARK") for moment in bookmarks or ()]
    for _, _, mark in client.received:
        assert mark["metadata"] == {"resourceVersion": str(storage.resource_version)}


async def test_event_is_sent_at_the_moment_of_the_write(storage: Storage) -> None:
    client = Client()
    stream = open_stream(storage, 100)
    async with sending(stream, client):
        await asyncio.sleep(10)
        created = write(storage, "one")
        await client.arrived.wait()
        stream.stop()
    assert client.received == [(10, "ADDED", created)]


async def test_stream_that_is_stopped_sends_what_was_written_before(storage: Storage) -> None:
    client = Client()
    stream = open_stream(storage, 100)
    async with sending(stream, client):
        await asyncio.sleep(10)
        created = write(storage, "one")
        stream.stop()
    assert client.received == [(10, "ADDED", created)]


async def test_bookmark_is_never_behind_the_events_before_it(storage: Storage) -> None:
    client = Client()
    async with sending(open_stream(storage, 100, bookmarks=True), client):
        await asyncio.sleep(59.999)
        created = write(storage, "one")
    assert [kind for _, kind in client.kinds[:2]] == ["ADDED", "BOOKMARK"]
    mark = client.received[1][2]["metadata"]["resourceVersion"]
    assert int(mark) >= int(created["metadata"]["resourceVersion"])


async def test_client_that_is_too_far_behind_must_list_again(storage: Storage) -> None:
    client = Client(lambda: asyncio.sleep(20))
    async with sending(open_stream(storage, 100), client):
        await asyncio.sleep(1)
        write(storage, "first")
        await client.arrived.wait()
        for number in range(10):
            write(storage, f"n{number}")
    assert client.kinds == [(1, "ADDED"), (21, "ERROR")]
    assert client.received[-1][2]["code"] == 410


async def test_client_that_never_reads_loses_its_watch(storage: Storage) -> None:
    stream = open_stream(storage, 100)
    write(storage, "one")
    with pytest.raises(TimeoutError):
        await stream.send(Client(asyncio.Event().wait).write)
    assert asyncio.get_running_loop().time() == 30
    assert stream._watch.closed


async def test_client_that_has_disconnected_ends_its_watch_without_an_error(
    storage: Storage,
) -> None:
    async def fail() -> None:
        raise ConnectionResetError

    stream = open_stream(storage, 100)
    write(storage, "one")
    await stream.send(Client(fail).write)
    assert asyncio.get_running_loop().time() == 0
    assert stream._watch.closed
