"""LIST and WATCH: selectors, pages, history, transitions."""

import pytest

from localcluster.apiserver.engine.selectors import Selector
from localcluster.apiserver.storage import StatusError
from tests.localcluster.storage.worlds import NAMESPACE, World, config_map, pod

LABELS = {
    "a": {"app": "web", "tier": "1"},
    "b": {"app": "db", "tier": "2"},
    "c": {"app": "web"},
    "d": {},
}


def labelled(world: World) -> None:
    for name, labels in LABELS.items():
        world.create("configmaps", config_map(name, metadata={"labels": labels}))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("app=web", "ac"),
        ("app==web", "ac"),
        ("app!=web", "bd"),
        ("app in (web,db)", "abc"),
        ("app notin (web)", "bd"),
        ("app", "abc"),
        ("!app", "d"),
        ("app=web,tier", "a"),
        ("tier>1", "b"),
        ("tier<2", "a"),
        (" app in ( web , db ) , ! tier ", "c"),
        ("app=", ""),
        ("", "abcd"),
    ],
)
def test_label_selector_selects(world: World, text: str, names: str) -> None:
    labelled(world)
    assert world.names("configmaps", label=text) == list(names)


@pytest.mark.parametrize(
    "text", ["a in (b", "a=b c", "!", "a in b", "=b", "a,,b", "a>x", "a,", "x/y/z=a", "a=b=c"]
)
def test_label_selector_malformed_is_bad_request(world: World, text: str) -> None:
    with pytest.raises(StatusError) as caught:
        world.names("configmaps", label=text)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("metadata.name=a", ["a"]),
        ("metadata.name!=a", ["b"]),
        ("spec.nodeName=local", ["a"]),
        ("spec.nodeName=", ["b"]),
        ("status.phase==Running", ["a"]),
        ("status.phase=Pending,metadata.name=b", ["b"]),
        ("spec.restartPolicy=Always", ["a", "b"]),
        ("metadata.namespace=other", []),
    ],
)
def test_field_selector_selects_pods(world: World, text: str, names: list[str]) -> None:
    world.create("pods", pod("a"))
    world.create("pods", pod("b"))
    world.bind("a")
    world.merge("pods", "a", {"status": {"phase": "Running"}}, "status")
    assert world.names("pods", field=text) == names


@pytest.mark.parametrize("text", ["foo=bar", "metadata.name", "metadata.name=a=b"])
def test_field_selector_unknown_or_malformed_is_bad_request(world: World, text: str) -> None:
    with pytest.raises(StatusError) as caught:
        world.names("pods", field=text)
    assert caught.value.code == 400


def test_pages_show_the_state_of_the_first(world: World) -> None:
    rt = world.type("configmaps")
    for name in "abcde":
        world.create("configmaps", config_map(name))
    first = world.storage.list(rt, NAMESPACE, limit=2)
    assert first.remaining == 3
    world.storage.delete(rt, NAMESPACE, "c")
    world.create("configmaps", config_map("bb"))
    world.merge("configmaps", "d", {"data": {"k": "new"}})
    second = world.storage.list(rt, NAMESPACE, limit=2, continue_token=first.continue_token)
    last = world.storage.list(rt, NAMESPACE, limit=2, continue_token=second.continue_token)
    pages = [first, second, last]
    names = [item["metadata"]["name"] for page in pages for item in page.items]
    assert names == list("abcde")
    assert "data" not in second.items[1]
    assert {page.resource_version for page in pages} == {first.resource_version}
    assert last.continue_token is None


def test_page_of_a_forgotten_state_is_expired() -> None:
    world = World(history_limit=3)
    rt = world.type("configmaps")
    for name in "abcde":
        world.create("configmaps", config_map(name))
    first = world.storage.list(rt, NAMESPACE, limit=2)
    for number in range(4):
        world.merge("configmaps", "a", {"data": {"k": str(number)}})
    with pytest.raises(StatusError) as caught:
        world.storage.list(rt, NAMESPACE, limit=2, continue_token=first.continue_token)
    assert caught.value.code == 410


def test_broken_continue_token_is_bad_request(world: World) -> None:
    with pytest.raises(StatusError) as caught:
        world.storage.list(world.type("pods"), NAMESPACE, continue_token="?!")
    assert caught.value.code == 400


def test_list_at_an_exact_version_shows_the_past(world: World) -> None:
    rt = world.type("configmaps")
    world.create("configmaps", config_map("a"))
    then = world.storage.resource_version
    world.create("configmaps", config_map("b"))
    past = world.storage.list(rt, NAMESPACE, resource_version=then, exact=True)
    assert [item["metadata"]["name"] for item in past.items] == ["a"]
    assert past.resource_version == str(then)
    with pytest.raises(StatusError, match="Too large resource version") as caught:
        world.storage.list(rt, NAMESPACE, resource_version=then + 100)
    assert caught.value.code == 504


def test_watch_tells_every_change_in_order(world: World) -> None:
    watch = world.watch("configmaps")
    world.create("configmaps", config_map("a"))
    world.merge("configmaps", "a", {"data": {"k": "v"}})
    world.storage.delete(world.type("configmaps"), NAMESPACE, "a")
    events = watch.pop()
    assert [event.type for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [event.resource_version for event in events]
    assert versions == sorted(set(versions))
    assert [int(e.object["metadata"]["resourceVersion"]) for e in events] == versions
    assert events[-1].object["data"] == {"k": "v"}
    assert watch.pop() == []


@pytest.mark.parametrize("version", [None, 0])
def test_watch_without_version_begins_with_the_state(world: World, version: int | None) -> None:
    world.create("configmaps", config_map("b"))
    world.create("configmaps", config_map("a"))
    rt = world.type("configmaps")
    watch = world.storage.watch_from(rt, NAMESPACE, Selector(), version)
    events = watch.pop()
    assert watch.initial_count == 2
    assert [(e.type, e.object["metadata"]["name"]) for e in events] == [
        ("ADDED", "a"),
        ("ADDED", "b"),
    ]


def test_watch_sees_selection_changes_as_added_and_deleted(world: World) -> None:
    watch = world.watch("configmaps", label="on=yes")
    world.create("configmaps", config_map("a"))
    world.merge("configmaps", "a", {"metadata": {"labels": {"on": "yes"}}})
    world.merge("configmaps", "a", {"data": {"k": "v"}})
    world.merge("configmaps", "a", {"metadata": {"labels": {"on": "no"}}})
    world.merge("configmaps", "a", {"data": {"k": "w"}})
    events = watch.pop()
    assert [event.type for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    left = events[-1].object
    assert left["metadata"]["labels"] == {"on": "yes"}
    assert int(left["metadata"]["resourceVersion"]) == events[-1].resource_version


def test_watch_of_one_name_sees_no_other(world: World) -> None:
    watch = world.watch("configmaps", field="metadata.name=a")
    for name in "ab":
        world.create("configmaps", config_map(name))
    assert [event.object["metadata"]["name"] for event in watch.pop()] == ["a"]


def test_watch_resumes_from_its_last_version(world: World) -> None:
    world.create("configmaps", config_map("a"))
    seen = world.storage.resource_version
    world.create("configmaps", config_map("b"))
    assert [e.object["metadata"]["name"] for e in world.watch("configmaps", seen).pop()] == ["b"]


def test_watch_from_forgotten_history_is_expired() -> None:
    world = World(history_limit=3)
    old = world.storage.resource_version
    for name in "abcd":
        world.create("configmaps", config_map(name))
    with pytest.raises(StatusError, match="too old resource version") as caught:
        world.watch("configmaps", old)
    assert (caught.value.code, caught.value.reason) == (410, "Expired")
    assert len(world.watch("configmaps", old + 1).pop()) == 3


def test_watch_of_a_reader_that_never_takes_expires() -> None:
    world = World(history_limit=3)
    watch = world.watch("configmaps")
    for name in "abcd":
        world.create("configmaps", config_map(name))
    with pytest.raises(StatusError) as caught:
        watch.pop()
    assert caught.value.code == 410


def test_watch_calls_on_ready_only_for_its_own_events(world: World) -> None:
    watch = world.watch("configmaps", label="on=yes")
    calls: list[int] = []
    watch.on_ready = lambda: calls.append(len(watch.pop()))
    world.create("configmaps", config_map("a"))
    world.create("pods", pod("p"))
    assert calls == []
    world.create("configmaps", config_map("b", metadata={"labels": {"on": "yes"}}))
    assert calls == [1]
    watch.close()
    world.create("configmaps", config_map("c", metadata={"labels": {"on": "yes"}}))
    assert calls == [1]
