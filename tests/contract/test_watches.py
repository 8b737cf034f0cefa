"""Watches: where they start, what they select, bookmarks, and their end."""

import asyncio

import pytest

from tests.contract.apiclient import (
    METADATA,
    TABLE,
    Api,
    Object,
    config_map,
    pod,
)
from tests.support.waiting import HANG_SECONDS


def _name(event: tuple[str, Object]) -> tuple[str, str]:
    return event[0], event[1]["metadata"]["name"]


async def test_watch_from_a_version_brings_what_came_after_it(api: Api) -> None:
    (await api.create("configmaps", config_map("before"))).ok()
    version = await api.version("configmaps")
    (await api.create("configmaps", config_map("one", {"a": "1"}))).ok()
    (await api.patch("configmaps", "one", {"data": {"a": "2"}})).ok()
    (await api.delete("configmaps", "one")).ok()

    async with api.watch("configmaps", resourceVersion=version) as watch:
        events = [await watch.next() for _ in range(3)]

    assert [_name(event) for event in events] == [
        ("ADDED", "one"),
        ("MODIFIED", "one"),
        ("DELETED", "one"),
    ]
    assert [event[1]["data"] for event in events] == [{"a": "1"}, {"a": "2"}, {"a": "2"}]
    assert events[0][1]["kind"] == "ConfigMap"
    versions = [int(item["metadata"]["resourceVersion"]) for _, item in events]
    assert versions == sorted(set(versions))


async def test_watch_resumed_from_an_event_brings_the_next_one(api: Api) -> None:
    first = (await api.create("configmaps", config_map("one"))).ok()
    second = (await api.create("configmaps", config_map("two"))).ok()
    (await api.create("configmaps", config_map("three"))).ok()
    version = first["metadata"]["resourceVersion"]
    async with api.watch("configmaps", resourceVersion=version) as watch:
        event = await watch.next()
    version = second["metadata"]["resourceVersion"]
    async with api.watch("configmaps", resourceVersion=version) as watch:
        resumed = await watch.next()
    assert (_name(event), _name(resumed)) == (("ADDED", "two"), ("ADDED", "three"))


async def test_watch_from_a_version_to_come_is_silent_until_its_end(api: Api) -> None:
    version = int(await api.version("configmaps")) + 1_000_000
    params: dict[str, str | int] = {"resourceVersion": version, "timeoutSeconds": 1}
    params["allowWatchBookmarks"] = "true"
    async with api.watch("configmaps", accept="application/json", **params) as watch:
        (await api.create("configmaps", config_map("one"))).ok()
        events = await watch.rest()
    assert (watch.status, events) == (200, [])


@pytest.mark.parametrize("params", [{}, {"resourceVersion": "0"}], ids=["unset", "zero"])
async def test_watch_from_no_version_begins_with_what_there_is(
    api: Api, params: dict[str, str]
) -> None:
    names = {"kube-root-ca.crt", "one", "two"}
    (await api.create("configmaps", config_map("one"))).ok()
    (await api.create("configmaps", config_map("two"))).ok()

    seen: list[tuple[str, str]] = []
    async with api.watch("configmaps", labelSelector="!later", **params) as watch:
        while {"one", "two"} - {name for _, name in seen}:
            seen.append(_name(await watch.next()))
        (await api.create("configmaps", config_map("after"))).ok()
        later = _name(await watch.next())

    assert {kind for kind, _ in seen} == {"ADDED"}
    assert {name for _, name in seen} <= names
    assert later == ("ADDED", "after")


async def test_watch_sees_a_write_that_comes_while_it_is_open(api: Api) -> None:
    version = await api.version("configmaps")
    async with api.watch("configmaps", resourceVersion=version) as watch:
        created = (await api.create("configmaps", config_map("one"))).ok()
        event = await watch.next()
    assert event == ("ADDED", created)


async def test_write_that_changes_nothing_makes_no_event(api: Api) -> None:
    created = (await api.create("configmaps", config_map("one", {"a": "1"}))).ok()
    version = created["metadata"]["resourceVersion"]
    (await api.replace("configmaps", created)).ok()
    (await api.patch("configmaps", "one", {"data": {"a": "1"}})).ok()
    (await api.patch("configmaps", "one", {"metadata": {"labels": {"x": "y"}}})).ok()
    async with api.watch("configmaps", resourceVersion=version) as watch:
        kind, item = await watch.next()
    assert (kind, item["metadata"]["labels"]) == ("MODIFIED", {"x": "y"})


async def test_watch_by_label_turns_transitions_into_added_and_deleted(api: Api) -> None:
    version = await api.version("configmaps")
    (await api.create("configmaps", config_map("one", labels={"in": "no"}))).ok()
    (await api.patch("configmaps", "one", {"metadata": {"labels": {"in": "yes"}}})).ok()
    (await api.patch("configmaps", "one", {"data": {"a": "1"}})).ok()
    last = (await api.patch("configmaps", "one", {"metadata": {"labels": {"in": "no"}}})).ok()
    (await api.delete("configmaps", "one")).ok()
    (await api.create("configmaps", config_map("two", labels={"in": "yes"}))).ok()

    async with api.watch("configmaps", resourceVersion=version, labelSelector="in=yes") as watch:
        events = [await watch.next() for _ in range(4)]

    assert [_name(event) for event in events] == [
        ("ADDED", "one"),
        ("MODIFIED", "one"),
        ("DELETED", "one"),
        ("ADDED", "two"),
    ]
    gone = events[2][1]
    assert gone["metadata"]["labels"] == {"in": "yes"}
    assert gone["metadata"]["resourceVersion"] == last["metadata"]["resourceVersion"]


async def test_watch_by_field_turns_transitions_into_added_and_deleted(api: Api) -> None:
    version = await api.version("pods")
    (await api.create("pods", pod("one", node="n1"))).ok()
    selector = "status.phase=Running"
    async with api.watch("pods", resourceVersion=version, fieldSelector=selector) as watch:
        for phase in ("Running", "Succeeded"):
            body = {"status": {"phase": phase}}
            (await api.patch("pods", "one", body, subresource="status")).ok()
        events = [await watch.next() for _ in range(2)]
    assert [_name(event) for event in events] == [("ADDED", "one"), ("DELETED", "one")]


async def test_watch_by_name_sees_only_that_object(api: Api) -> None:
    version = await api.version("configmaps")
    (await api.create("configmaps", config_map("other"))).ok()
    (await api.create("configmaps", config_map("mine"))).ok()
    selector = "metadata.name=mine"
    async with api.watch("configmaps", resourceVersion=version, fieldSelector=selector) as watch:
        assert _name(await watch.next()) == ("ADDED", "mine")


async def test_watch_ends_after_its_timeout(api: Api) -> None:
    version = await api.version("configmaps")
    async with api.watch("configmaps", resourceVersion=version, timeoutSeconds=1) as watch:
        assert await watch.rest() == []


async def test_watch_with_initial_events_marks_their_end(api: Api) -> None:
    (await api.create("configmaps", config_map("one"))).ok()

    async with api.watch(
        "configmaps",
        sendInitialEvents="true",
        allowWatchBookmarks="true",
        resourceVersionMatch="NotOlderThan",
    ) as watch:
        events = [await watch.next()]
        while events[-1][0] != "BOOKMARK":
            events.append(await watch.next())
        created = (await api.create("configmaps", config_map("two"))).ok()
        later = await watch.next_change()

    assert ("ADDED", "one") in [_name(event) for event in events[:-1]]
    mark = events[-1][1]
    assert mark["kind"] == "ConfigMap"
    assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(mark["metadata"]["resourceVersion"]) < int(created["metadata"]["resourceVersion"])
    assert later == ("ADDED", created)


async def test_watch_with_bookmarks_gets_one_before_its_end(api: Api) -> None:
    version = await api.version("configmaps")
    created = (await api.create("configmaps", config_map("one"))).ok()

    events: list[tuple[str, Object]] = []
    async with asyncio.timeout(HANG_SECONDS):
        while len(events) < 2:
            async with api.watch(
                "configmaps", resourceVersion=version, allowWatchBookmarks="true", timeoutSeconds=4
            ) as watch:
                events = await watch.rest()
            # A real server looks each second whether a watch is about to end; it may be too busy.
            assert len(events) > 1 or api.url.startswith("https:")

    assert events[0] == ("ADDED", created)
    assert [kind for kind, _ in events[1:]] == ["BOOKMARK"] * (len(events) - 1)
    mark = events[-1][1]
    assert (events[-1][0], mark["kind"], mark["apiVersion"]) == ("BOOKMARK", "ConfigMap", "v1")
    assert int(mark["metadata"]["resourceVersion"]) >= int(created["metadata"]["resourceVersion"])


async def test_watch_from_a_forgotten_version_ends_with_gone(api: Api) -> None:
    # More writes than the local server remembers; a real one has forgotten version 1 of a kind
    # that was defined after its start.
    for number in range(60):
        (await api.create("configmaps", config_map(f"n{number}"))).ok()
        (await api.delete("configmaps", f"n{number}")).ok()
    async with api.watch("widgets", resourceVersion="1") as watch:
        assert watch.status == 200
        events = await watch.rest()
    assert [kind for kind, _ in events] == ["ERROR"]
    status = events[0][1]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")


async def test_watch_with_a_bad_version_is_refused(api: Api) -> None:
    answer = await api.list("configmaps", watch="true", resourceVersion="abc")
    assert answer.status >= 400
    assert answer.body["kind"] == "Status"


async def test_watch_of_metadata_sends_metadata_only(api: Api) -> None:
    version = await api.version("configmaps")
    created = (await api.create("configmaps", config_map("one", {"a": "1"}))).ok()
    async with api.watch("configmaps", resourceVersion=version, accept=METADATA) as watch:
        kind, item = await watch.next()
    assert kind == "ADDED"
    assert (item["kind"], item["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert item["metadata"]["uid"] == created["metadata"]["uid"]
    assert "data" not in item


async def test_watch_as_a_table_sends_rows(api: Api) -> None:
    version = await api.version("configmaps")
    (await api.create("configmaps", config_map("one", {"a": "1"}))).ok()
    async with api.watch("configmaps", resourceVersion=version, accept=TABLE) as watch:
        kind, table = await watch.next()
    assert (kind, table["kind"]) == ("ADDED", "Table")
    assert table["rows"][0]["cells"][0] == "one"
    assert table["rows"][0]["object"]["metadata"]["name"] == "one"


async def test_two_watches_get_the_same_event(api: Api) -> None:
    version = await api.version("configmaps")
    async with (
        api.watch("configmaps", resourceVersion=version) as first,
        api.watch("configmaps", resourceVersion=version, labelSelector="x=y") as second,
    ):
        created = (await api.create("configmaps", config_map("one", labels={"x": "y"}))).ok()
        assert await first.next() == ("ADDED", created)
        assert await second.next() == ("ADDED", created)
