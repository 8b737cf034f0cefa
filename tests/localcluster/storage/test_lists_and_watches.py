"""LIST and WATCH, where tests/contract has no case: rarer selectors, and the end of the history."""

import pytest

from localcluster.apiserver.storage import StatusError
from tests.contract.apiclient import config_map, pod
from tests.localcluster.storage.worlds import NAMESPACE, World

LABELS = {"a": {"app": "web", "tier": "1"}, "b": {"app": "db", "tier": "2"}, "c": {"app": "web"}}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("app=web,tier", "a"),
        (" app in ( web , db ) , ! tier ", "c"),
        ("app=", ""),
        ("", "abcd"),
    ],
)
def test_label_selector_selects(world: World, text: str, names: str) -> None:
    for name in "abcd":
        world.create("configmaps", config_map(name, labels=LABELS.get(name, {})))
    assert world.names("configmaps", label=text) == list(names)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("metadata.name!=a", ["b"]),
        ("status.phase==Running", ["a"]),
        ("status.phase=Pending,metadata.name=b", ["b"]),
        ("spec.restartPolicy=Always", ["a", "b"]),
        ("metadata.namespace=other", []),
    ],
)
def test_field_selector_selects_pods(world: World, text: str, names: list[str]) -> None:
    for name in "ab":
        world.create("pods", pod(name))
    world.merge("pods", "a", {"status": {"phase": "Running"}}, "status")
    assert world.names("pods", field=text) == names


MALFORMED = {
    "label": ["a in (b", "a=b c", "!", "a in b", "=b", "a,,b", "a>1", "a<1", "a,", "x/y/z=a",
              "a=b=c"],
    "field": ["foo=bar", "metadata.name", "metadata.name=a=b"],
}  # fmt: skip


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_selector_is_bad_request(world: World, kind: str) -> None:
    for text in MALFORMED[kind]:
        with pytest.raises(StatusError) as caught:
            world.names("configmaps", **{kind: text})
        assert caught.value.code == 400, text


def create_config_maps(world: World, names: str) -> None:
    for name in names:
        world.create("configmaps", config_map(name))


def test_page_of_a_forgotten_state_is_expired() -> None:
    world = World(history_limit=3)
    rt = world.type("configmaps")
    create_config_maps(world, "abcde")
    first = world.storage.list(rt, NAMESPACE, limit=2)
    for number in range(4):
        world.merge("configmaps", "a", {"data": {"k": str(number)}})
    with pytest.raises(StatusError) as caught:
        world.storage.list(rt, NAMESPACE, limit=2, continue_token=first.continue_token)
    assert caught.value.code == 410


def test_watch_from_forgotten_history_is_expired() -> None:
    world = World(history_limit=3)
    old = world.storage.resource_version
    create_config_maps(world, "abcd")
    with pytest.raises(StatusError, match="too old resource version") as caught:
        world.watch("configmaps", old)
    assert (caught.value.code, caught.value.reason) == (410, "Expired")
    assert len(world.watch("configmaps", old + 1).pop()) == 3


def test_watch_of_a_reader_that_never_takes_expires() -> None:
    world = World(history_limit=3)
    watch = world.watch("configmaps")
    create_config_maps(world, "abcd")
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
    world.create("configmaps", config_map("b", labels={"on": "yes"}))
    assert calls == [1]
    watch.close()
    world.create("configmaps", config_map("c", labels={"on": "yes"}))
    assert calls == [1]
