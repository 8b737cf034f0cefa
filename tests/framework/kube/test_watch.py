"""framework.kube.client.watch: whole events or none, and an end that is told from a break."""

from contextlib import aclosing

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


async def collect(client: KubeClient, *, deadline: float = 5.0) -> list[tuple[str, str]]:
    """Read a watch to its end; on an error, hang what came before on it."""
    got: list[tuple[str, str]] = []
    events = client.watch(PODS, "a", resource_version="3", read_deadline_seconds=deadline)
    try:
        async with aclosing(events):
            async for event_type, obj in events:
                got.append((event_type, obj["metadata"]["name"]))
    except errors.KubeError as e:
        e.args = (got, *e.args)
        raise
    return got


async def test_watch_asks_for_what_follows_the_version(bench: Bench) -> None:
    server, client = await bench.start(stream())
    events = client.watch(
        PODS, "a", resource_version="3", label_selector="x=y", field_selector="f=g"
    )
    assert [event async for event in events] == []
    assert server.seen[0].path == "/api/v1/namespaces/a/pods"
    assert server.seen[0].query == {
        "watch": "true",
        "resourceVersion": "3",
        "labelSelector": "x=y",
        "fieldSelector": "f=g",
        "timeoutSeconds": "10",
        "allowWatchBookmarks": "true",
    }


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


@pytest.mark.parametrize("ending", ["cut", "reset"])
@pytest.mark.parametrize("kept_bytes", [1, 40, -1])
async def test_watch_broken_inside_an_event_gives_the_whole_ones_only(
    ending: str, kept_bytes: int, bench: Bench
) -> None:
    second = event_line("MODIFIED", pod("second", 5))
    reply = stream(event_line("ADDED", pod("first", 4)), second[:kept_bytes], ending=ending)
    _, client = await bench.start(reply)
    with pytest.raises(UnreachableError) as caught:
        await collect(client)
    assert caught.value.args[0] == [("ADDED", "first")]


async def test_watch_that_ends_well_inside_an_event_is_a_break(bench: Bench) -> None:
    second = event_line("MODIFIED", pod("second", 5))
    _, client = await bench.start(stream(event_line("ADDED", pod("first", 4)), second[:-1]))
    with pytest.raises(UnreachableError, match="cut off") as caught:
        await collect(client)
    assert caught.value.args[0] == [("ADDED", "first")]


@pytest.mark.parametrize("line", [b"noise\n", b"{}\n", b"\xff\n", b'{"type":"ADDED"}\n', b"[]\n"])
async def test_watch_with_a_line_that_is_no_event_is_a_break(line: bytes, bench: Bench) -> None:
    _, client = await bench.start(stream(line))
    with pytest.raises(UnreachableError):
        await collect(client)


@pytest.mark.parametrize("ending", ["silent", "none"])
async def test_watch_without_a_byte_ends_at_the_read_deadline(ending: str, bench: Bench) -> None:
    replies = (stream(ending="silent"),) if ending == "silent" else ()
    _, client = await bench.start(*replies)
    with pytest.raises(UnreachableError, match=r"(?i)time"):
        await collect(client, deadline=0.05)


async def test_watch_silent_after_an_event_ends_at_the_read_deadline(bench: Bench) -> None:
    reply = stream(event_line("ADDED", pod("first", 4)), ending="silent")
    _, client = await bench.start(reply)
    with pytest.raises(UnreachableError) as caught:
        # Long enough for the event to arrive on a busy machine.
        await collect(client, deadline=1.0)
    assert caught.value.args[0] == [("ADDED", "first")]


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (410, "Expired", errors.GoneError),
        (403, "Forbidden", errors.ForbiddenError),
        (500, "InternalError", errors.ServerError),
    ],
)
async def test_watch_error_event_raises_its_status(
    code: int, reason: str, expected: type[errors.ApiError], bench: Bench
) -> None:
    error_line = event_line("ERROR", status_object(code, reason))
    _, client = await bench.start(stream(event_line("ADDED", pod("first", 4)), error_line))
    with pytest.raises(expected) as caught:
        await collect(client)
    assert caught.value.args[0] == [("ADDED", "first")]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (refusal(410, "Expired"), errors.GoneError),
        (refusal(404, "NotFound"), errors.NotFoundError),
        (refusal(429, "TooManyRequests", Retry_After="2"), errors.TooManyRequestsError),
    ],
)
async def test_watch_refused_raises_the_answer(
    reply: Reply, expected: type[errors.ApiError], bench: Bench
) -> None:
    server, client = await bench.start(reply)
    with pytest.raises(expected):
        await collect(client)
    assert len(server.seen) == 1


async def test_watch_left_early_closes_its_connection(bench: Bench) -> None:
    server, client = await bench.start(
        stream(event_line("ADDED", pod("first", 4)), ending="silent"), refusal(404, "NotFound")
    )
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


async def test_deferred_watch_that_is_expired_asks_for_a_new_list(bench: Bench) -> None:
    expired = event_line("ERROR", status_object(410, "Expired"))
    _, client = await bench.start(stream(expired))
    with pytest.raises(errors.GoneError):
        async for _ in client.watch(PODS, "a", resource_version="3", is_deferred=True):
            pass
