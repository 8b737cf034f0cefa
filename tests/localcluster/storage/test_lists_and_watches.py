"""LIST and WATCH: selectors, pages, history, transitions."""

import pytest

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
        (" app in ( web , db ) , ! tier ", "c"),
        ("app=", ""),
        ("", "abcd"),
    ],
)
def test_label_selector_selects(world: World, text: str, names: str) -> None:
    labelled(world)
    assert world.names("configmaps", label=text) == list(names)


@pytest.mark.parametrize(
    "text",
    ["a in (b", "a=b c", "!", "a in b", "=b", "a,,b", "a>1", "a<1", "a,", "x/y/z=a", "a=b=c"],
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
