"""framework.kube.listwatch: after any fault of the server, the sink equals the server."""

import asyncio
import random
from dataclasses import replace

import pytest

from framework.kube import errors
from framework.kube.listwatch import READ_DEADLINE_SECONDS
from framework.kube.resources import Object
from tests.framework.kube.conftest import Bench
from tests.framework.kube.following import bookmark, change, running
from tests.framework.kube.scripted import (
    Reply,
    Seen,
    event_line,
    pod,
    pod_list,
    refusal,
    status_object,
    stream,
)
from tests.support.builders.cases import cases


async def test_listwatch_lists_then_watches_from_there(bench: Bench) -> None:
    changes = (change("a", 6), change("b", 7, "DELETED"), change("c", 8, "ADDED"))
    replies = (pod_list(5, pod("a", 1), pod("b", 2)), stream(*changes, ending="silent"))
    selectors = {"label_selector": "x=y", "field_selector": "f=g"}
    async with running(bench, *replies, namespace="n", **selectors) as run:
        await run.mirror.wait_for("replace@5", "MODIFIED a@6", "DELETED b@7", "ADDED c@8")
        assert run.mirror.objects == {"a": "6", "c": "8"}
        listing, watching = run.server.seen
        assert listing.path == watching.path == "/api/v1/namespaces/n/pods"
        selected = {"labelSelector": "x=y", "fieldSelector": "f=g"}
        assert listing.query == selected | {"limit": "50"}
        assert watching.query == selected | {
            "watch": "true",
            "resourceVersion": "5",
            "timeoutSeconds": "10",
            "allowWatchBookmarks": "true",
        }


async def test_listwatch_is_synced_only_after_the_first_list(bench: Bench) -> None:
    hold = asyncio.Event()

    async def wait(_: Seen) -> None:
        await hold.wait()

    async with running(bench, replace(pod_list(5), before=wait)) as run:
        await run.server.wait_for_requests(1)
        assert not run.listwatch.synced.is_set()
        assert run.states == []
        hold.set()
        await run.listwatch.synced.wait()
        assert run.mirror.calls == ["replace@5"]
        assert run.listwatch.is_connected
        assert run.states == [True]


async def test_watch_that_ends_is_resumed_after_the_last_event_or_bookmark(bench: Bench) -> None:
    replies = (
        pod_list(5),
        stream(change("a", 6)),
        stream(bookmark(9)),
        stream(change("a", 10), ending="silent"),
    )
    async with running(bench, *replies) as run:
        await run.mirror.wait_for("replace@5", "MODIFIED a@6", "bookmark@9", "MODIFIED a@10")
        assert run.requests() == ["list", "watch@5", "watch@6", "watch@9"]
        assert run.states == [True]


async def test_list_of_many_pages_replaces_once_with_trimmed_objects(bench: Bench) -> None:
    def trim(obj: Object) -> Object:
        metadata = obj["metadata"]
        return {"metadata": {k: metadata[k] for k in ("name", "resourceVersion")} | {"cut": True}}

    replies = (
        pod_list(5, pod("a", 1, big="x"), more="t"),
        pod_list(5, pod("b", 2, big="x")),
        stream(event_line("ADDED", pod("c", 6, big="x")), ending="silent"),
    )
    async with running(bench, *replies, trim=trim) as run:
        await run.mirror.wait_for("replace@5", "ADDED c@6")
        # The history log takes a deleted Pod whole.
        expected = [pod("a", 1, cut=True), pod("b", 2, cut=True), pod("c", 6, big="x")]
        assert run.mirror.whole == expected


@cases(
    "gone",
    {
        "refused": refusal(410, "Expired"),
        "event": stream(event_line("ERROR", status_object(410, "Expired"))),
    },
)
async def test_version_too_old_lists_again_and_misses_no_deletion(
    gone: Reply, bench: Bench
) -> None:
    replies = (pod_list(5, pod("a", 1), pod("b", 2)), gone, pod_list(9, pod("b", 8)))
    async with running(bench, *replies) as run:
        await run.mirror.wait_for("replace@5", "replace@9")
        await run.server.wait_for_requests(4)
        assert run.mirror.objects == {"b": "8"}
        assert run.requests() == ["list", "watch@5", "list", "watch@9"]
        assert run.states == [True]


async def test_page_too_old_still_gives_the_whole_list(bench: Bench) -> None:
    first_page = pod_list(5, pod("stale", 1), more="t")
    replies = (first_page, refusal(410, "Expired"), pod_list(9, pod("a", 8)))
    async with running(bench, *replies) as run:
        await run.mirror.wait_for("replace@9")
        assert run.mirror.objects == {"a": "8"}


async def test_storage_restored_while_the_server_was_away_is_listed_again(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    replies = (
        pod_list(50, pod("a", 40), pod("b", 41)),
        stream(change("a", 60), ending="reset"),
        pod_list(30),
        pod_list(30, pod("a", 20)),
    )
    async with running(bench, *replies) as run:
        await run.server.wait_for_requests(5)
        assert run.requests() == ["list", "watch@50", "probe", "list", "watch@30"]
        assert run.mirror.objects == {"a": "20"}
    assert "resourceVersion went back" in caplog.text


@pytest.mark.parametrize("ending", ["cut", "reset", "whole"])
async def test_watch_broken_inside_an_event_resumes_after_the_last_complete_event(
    ending: str, bench: Bench
) -> None:
    replies = (
        pod_list(5),
        stream(change("a", 6), change("a", 7)[:-9], ending=ending),
        pod_list(7),
        stream(change("a", 7), ending="silent"),
    )
    async with running(bench, *replies) as run:
        await run.mirror.wait_for("replace@5", "MODIFIED a@6", "MODIFIED a@7")
        assert run.requests() == ["list", "watch@5", "probe", "watch@6"]
        assert run.states == [True, False, True]


async def test_silent_watch_is_given_up_and_resumed(bench: Bench) -> None:
    silent, later = (stream(each, ending="silent") for each in (bookmark(5), change("a", 6)))
    replies = (pod_list(5), silent, pod_list(5), later)
    async with running(bench, *replies) as run:
        await run.mirror.wait_for("replace@5", "bookmark@5")
        bench.let_pass(2 * READ_DEADLINE_SECONDS)
        await run.mirror.wait_for("replace@5", "bookmark@5", "MODIFIED a@6")
        assert run.requests()[:4] == ["list", "watch@5", "probe", "watch@5"]


@cases(
    "trouble",
    {
        "503": refusal(503, "ServiceUnavailable"),
        "429": refusal(429, "TooManyRequests"),
        "cut": Reply(body=b'{"items": [{"metad', ending="cut"),
        "html": Reply(body=b"<html>"),
        "CRD is away": refusal(404, "NotFound"),
        "token is expired": refusal(401, "Unauthorized"),
        "permission is missing": refusal(403, "Forbidden"),
    },
)
async def test_fault_is_shown_and_retried(trouble: Reply, bench: Bench) -> None:
    replies = (trouble, trouble, trouble, pod_list(5, pod("a", 1)), trouble)
    async with running(bench, *replies) as run:
        await run.listwatch.synced.wait()
        error = run.listwatch.last_error
        assert (run.mirror.calls, error) == (["replace@5"], None)
        # The watch has the same fault; the objects stay.
        await run.server.wait_for_requests(6)
        assert not run.listwatch.is_connected
        assert isinstance(run.listwatch.last_error, errors.KubeError)
        assert run.listwatch.synced.is_set()
        assert run.mirror.objects == {"a": "1"}


async def test_resource_away_for_a_while_keeps_its_objects_and_is_listed_again(
    bench: Bench,
) -> None:
    away = refusal(404, "NotFound")
    replies = (pod_list(5, pod("a", 1)), away, away, away, pod_list(9, pod("a", 8)))
    async with running(bench, *replies) as run:
        await run.mirror.wait_for("replace@5", "replace@9")
        assert run.requests()[:5] == ["list", "watch@5", "list", "list", "list"]
        assert run.mirror.objects == {"a": "8"}


@cases(
    "broken",
    {
        "no version": event_line("ADDED", {"metadata": {"name": "a"}}),
        "metadata of another type": event_line("ADDED", {"metadata": 5}),
        "empty object": event_line("ADDED", {}),
        "no object": b'{"type":"ADDED"}\n',
        "empty": b"{}\n",
        "list": b"[]\n",
        "text": b"noise\n",
        "no UTF-8": b"\x00\xff\n",
        "endless": b"[" * 100_000 + b"\n",
    },
)
async def test_event_that_cannot_be_decoded_never_reaches_the_sink(
    broken: bytes, bench: Bench
) -> None:
    replies = (pod_list(5), stream(broken), pod_list(5), stream(change("a", 6), ending="silent"))
    async with running(bench, *replies) as run:
        await run.mirror.wait_for("replace@5", "MODIFIED a@6")


async def test_error_that_is_kept_holds_no_part_of_the_answer(bench: Bench) -> None:
    hold = asyncio.Event()

    async def wait(_: Seen) -> None:
        await hold.wait()

    noise = Reply(200, b"noise")
    async with running(bench, noise, replace(pod_list(5), before=wait)) as run:
        await run.server.wait_for_requests(2)
        error = run.listwatch.last_error
        assert isinstance(error, errors.KubeError)
        assert (error.__traceback__, error.__cause__, error.__context__) == (None, None, None)
        hold.set()


async def test_unknown_event_type_is_skipped(bench: Bench) -> None:
    changes = stream(change("a", 6, "SURPRISE"), change("a", 7), ending="silent")
    replies = (pod_list(5), changes)
    async with running(bench, *replies) as run:
        await run.mirror.wait_for("replace@5", "MODIFIED a@7")


async def test_any_cuts_of_a_random_history_end_in_the_same_state(bench: Bench, seed: int) -> None:
    """The server dies after any byte of its watches; nothing is lost or half-taken."""
    draw = random.Random(seed + 1)
    names = [f"p{i}" for i in range(4)]
    history = [
        (version, draw.choice(names), draw.choice(["MODIFIED", "MODIFIED", "DELETED"]))
        for version in range(11, 60)
    ]
    lines = {version: change(name, version, kind) for version, name, kind in history}
    expected: dict[str, str] = {}
    for version, name, kind in history:
        expected.pop(name, None)
        if kind != "DELETED":
            expected[name] = str(version)

    replies: list[Reply] = [pod_list(10)]
    seen_version = 10
    while seen_version < 59:
        wire = b"".join(line for version, line in lines.items() if version > seen_version)
        cut = draw.randrange(0, min(len(wire), 900))
        whole = wire[:cut].count(b"\n")
        ending = draw.choice(["cut", "reset"])
        replies += [stream(wire[:cut], ending=ending), pod_list(59)]
        seen_version += whole
        if whole == 0 and draw.random() < 0.5:
            replies += [stream(wire, ending="silent")]
            break
    async with running(bench, *replies) as run:
        await run.server.wait_for_requests(len(replies))
        await run.mirror.wait_until(lambda: run.mirror.objects == expected)
        assert run.mirror.calls.count("replace@10") == 1
