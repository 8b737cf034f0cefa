"""framework.kube.listwatch: whatever the server does, the sink ends up equal to it."""

import asyncio
import random

import pytest

from framework.kube import errors
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

# --- a server in good health ---------------------------------------------------------------------


async def test_listwatch_lists_then_watches_from_there(bench: Bench) -> None:
    replies = (
        pod_list(5, pod("a", 1), pod("b", 2)),
        stream(change("a", 6), change("b", 7, "DELETED"), change("c", 8, "ADDED"), ending="silent"),
    )
    async with running(bench, *replies, namespace="n", label_selector="x=y") as run:
        await run.mirror.wait_for("replace@5", "MODIFIED a@6", "DELETED b@7", "ADDED c@8")
        assert run.mirror.objects == {"a": "6", "c": "8"}
        listing, watching = run.server.seen
        assert listing.path == watching.path == "/api/v1/namespaces/n/pods"
        assert listing.query == {"labelSelector": "x=y", "limit": "50"}
        assert watching.query == {
            "watch": "true",
            "resourceVersion": "5",
            "labelSelector": "x=y",
            "timeoutSeconds": "10",
            "allowWatchBookmarks": "true",
        }


async def test_listwatch_is_synced_only_after_the_first_list(bench: Bench) -> None:
    hold = asyncio.Event()

    async def wait(_: Seen) -> None:
        await hold.wait()

    held = pod_list(5)
    held = Reply(held.status, held.body, before=wait)
    async with running(bench, held) as run:
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


async def test_list_is_never_taken_from_the_servers_cache(bench: Bench) -> None:
    async with running(bench, pod_list(5)) as run:
        await run.server.wait_for_requests(2)
        assert "resourceVersion" not in run.server.seen[0].query


# --- a server that forgets -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(refusal(410, "Expired"), id="refused"),
        pytest.param(stream(event_line("ERROR", status_object(410, "Expired"))), id="event"),
    ],
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
    replies = (
        pod_list(5, pod("stale", 1), more="t"),
        refusal(410, "Expired"),
        pod_list(9, pod("a", 8)),
    )
    async with running(bench, *replies) as run:
        await run.mirror.wait_for("replace@9")
        assert run.mirror.objects == {"a": "8"}


async def test_storage_restored_while_the_server_was_away_is_listed_anew(
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


# --- a server in trouble -------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["cut", "reset"])
async def test_watch_broken_inside_an_event_resumes_after_the_last_whole_one(
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


async def test_silent_watch_is_given_up_and_resumed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("framework.kube.listwatch.READ_DEADLINE_SECONDS", 0.05)
    replies = (
        pod_list(5),
        stream(ending="silent"),
        pod_list(5),
        stream(change("a", 6), ending="silent"),
    )
    async with running(bench, *replies) as run:
        await run.mirror.wait_for("replace@5", "MODIFIED a@6")
        assert run.requests()[:4] == ["list", "watch@5", "probe", "watch@5"]


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(refusal(503, "ServiceUnavailable"), id="503"),
        pytest.param(refusal(429, "TooManyRequests"), id="429"),
        pytest.param(Reply(body=b'{"items": [{"metad', ending="cut"), id="cut"),
        pytest.param(Reply(body=b"<html>"), id="html"),
        pytest.param(refusal(404, "NotFound"), id="crd-away"),
        pytest.param(refusal(401, "Unauthorized"), id="token-expired"),
        pytest.param(refusal(403, "Forbidden"), id="right-missing"),
    ],
)
async def test_first_list_that_fails_is_tried_until_it_works(trouble: Reply, bench: Bench) -> None:
    async with running(bench, trouble, trouble, trouble, pod_list(5, pod("a", 1))) as run:
        await run.listwatch.synced.wait()
        assert run.mirror.calls == ["replace@5"]
        assert run.listwatch.last_error is None


async def test_resource_away_for_a_while_empties_nothing_and_is_listed_anew(bench: Bench) -> None:
    away = refusal(404, "NotFound")
    replies = (pod_list(5, pod("a", 1)), away, away, away, pod_list(9, pod("a", 8)))
    async with running(bench, *replies) as run:
        await run.mirror.wait_for("replace@5", "replace@9")
        assert run.requests()[:5] == ["list", "watch@5", "list", "list", "list"]
        assert run.mirror.objects == {"a": "8"}


async def test_error_state_shows_while_the_server_is_in_trouble(bench: Bench) -> None:
    replies = (pod_list(5), refusal(503, "ServiceUnavailable"))
    async with running(bench, *replies) as run:
        await run.server.wait_for_requests(3)
        assert not run.listwatch.is_connected
        assert isinstance(run.listwatch.last_error, errors.ServerError)
        assert run.listwatch.synced.is_set()


@pytest.mark.parametrize(
    "broken",
    [
        event_line("ADDED", {"metadata": {"name": "a"}}),
        event_line("ADDED", {"metadata": 5}),
        event_line("ADDED", {}),
        b"\x00\xff\n",
        b"[" * 100_000 + b"\n",
    ],
)
async def test_event_that_makes_no_sense_never_reaches_the_sink(
    broken: bytes, bench: Bench
) -> None:
    replies = (pod_list(5), stream(broken), pod_list(5), stream(change("a", 6), ending="silent"))
    async with running(bench, *replies) as run:
        await run.mirror.wait_for("replace@5", "MODIFIED a@6")


async def test_unknown_event_type_is_skipped(bench: Bench) -> None:
    replies = (
        pod_list(5),
        stream(change("a", 6, "SURPRISE"), change("a", 7), ending="silent"),
    )
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
