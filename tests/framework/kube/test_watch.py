"""framework.kube.client.watch: complete events only; a stream that breaks is an error."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from framework.kube import errors
from framework.kube.client import KubeClient
from framework.kube.deferred import DeferredObject
from framework.kube.errors import UnreachableError
from framework.kube.resources import PODS
from tests.framework.kube.conftest import Bench
from tests.framework.kube.scripted import (
    Reply,
    event_line,
    pod,
    refusal,
    status_object,
    stream,
)
from tests.support.builders.cases import cases
from tests.support.waiting import HANG_SECONDS, wait_until_async

FIRST = event_line("ADDED", pod("first", 4))


async def collect(
    client: KubeClient, got: list[tuple[str, str]] | None = None, **options: Any
) -> list[tuple[str, str]]:
    """Read a watch to its end; the first argument of an error is the list of earlier events."""
    got = [] if got is None else got
    events = client.watch(PODS, "a", resource_version="3", **options)
    try:
        async with aclosing(events):
            async for event_type, obj in events:
                got.append((event_type, obj["metadata"]["name"]))
    except errors.KubeError as e:
        e.args = (got, *e.args)
        raise
    return got


async def test_watch_cut_at_every_byte_of_the_chunking_gives_the_same_events(bench: Bench) -> None:
    wire = event_line("ADDED", pod("größe-日本", 4)) + event_line("DELETED", pod("🚀", 5))
    chunks = [wire[i : i + 1] for i in range(len(wire))]
    _, client = await bench.start(stream(*chunks))
    assert await collect(client) == [("ADDED", "größe-日本"), ("DELETED", "🚀")]


async def test_watch_line_of_three_megabytes_arrives_whole(bench: Bench) -> None:
    big = pod("big", 4, annotations={"text": "日" * 10**6})
    wire = event_line("MODIFIED", big)
    assert len(wire) > 3 * 10**6
    _, client = await bench.start(stream(wire[:1000], wire[1000:2_000_001], wire[2_000_001:]))
    [event] = [event async for event in client.watch(PODS, "a")]
    assert event == ("MODIFIED", big)


@cases("replies", {"no head": (), "no event": (stream(ending="silent"),)})
async def test_watch_without_a_byte_ends_at_the_read_deadline(
    replies: tuple[Reply, ...], bench: Bench
) -> None:
    _, client = await bench.start(*replies)
    with pytest.raises(UnreachableError, match=r"(?i)time"):
        await collect(client, read_deadline_seconds=0.05)


async def test_watch_silent_after_an_event_ends_at_the_read_deadline(bench: Bench) -> None:
    _, client = await bench.start(stream(FIRST, ending="silent"))
    got: list[tuple[str, str]] = []
    read = collect(client, got, read_deadline_seconds=HANG_SECONDS)
    reading = asyncio.create_task(read, name="watch")
    await wait_until_async(lambda: got)
    bench.let_pass(2 * HANG_SECONDS)
    with pytest.raises(UnreachableError) as caught:
        await reading
    assert caught.value.args[0] == [("ADDED", "first")]


@pytest.mark.parametrize("is_deferred", [False, True])
@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (410, "Expired", errors.GoneError),
        (403, "Forbidden", errors.ForbiddenError),
        (404, "NotFound", errors.NotFoundError),
        (429, "TooManyRequests", errors.TooManyRequestsError),
        (500, "InternalError", errors.ServerError),
    ],
)
async def test_watch_raises_the_status_of_its_answer_or_of_an_event(
    code: int, reason: str, expected: type[errors.ApiError], *, is_deferred: bool, bench: Bench
) -> None:
    error_line = event_line("ERROR", status_object(code, reason))
    server, client = await bench.start(stream(FIRST, error_line), refusal(code, reason))
    for events in [("ADDED", "first")], []:
        with pytest.raises(expected) as caught:
            await collect(client, is_deferred=is_deferred)
        assert caught.value.args[0] == events
    assert len(server.seen) == 2


async def test_watch_left_early_closes_its_connection(bench: Bench) -> None:
    server, client = await bench.start(stream(FIRST, ending="silent"), refusal(404, "NotFound"))
    async with aclosing(client.watch(PODS, "a")) as events:
        await anext(events)
    with pytest.raises(errors.NotFoundError):
        await client.get(PODS, "a", "b")
    assert server.connections == 2


async def test_deferred_watch_gives_the_objects_of_a_watch(bench: Bench) -> None:
    lines = event_line("ADDED", pod("größe", 4)) + event_line("DELETED", pod("b", 5))
    _, client = await bench.start(stream(lines))
    events = client.watch(PODS, "a", resource_version="3", is_deferred=True)
    got = [(event_type, obj) async for event_type, obj in events]
    assert [event_type for event_type, _ in got] == ["ADDED", "DELETED"]
    deferred = [obj for _, obj in got if isinstance(obj, DeferredObject)]
    assert [obj.decode() for obj in deferred] == [pod("größe", 4), pod("b", 5)]
