"""Create, read, update: identity, versions, and what a write refuses."""

import pytest

from localcluster.apiserver.storage import StatusError
from tests.localcluster.storage.worlds import NAMESPACE, World, config_map, pod


def test_equal_seeds_give_equal_worlds() -> None:
    dumps = []
    for _ in range(2):
        world = World()
        world.create("pods", pod("a"))
        world.create("configmaps", {"metadata": {"generateName": "x-"}})
        dumps.append([world.get("pods", "a"), world.names("configmaps")])
    assert dumps[0] == dumps[1]


def test_read_objects_may_be_changed_by_the_caller(world: World) -> None:
    created = world.create("configmaps", config_map("a", data={"k": "v"}))
    watch = world.watch("configmaps", 0)
    for copy in (
        created,
        world.get("configmaps", "a"),
        world.storage.list(world.type("configmaps"), NAMESPACE).items[0],
        watch.pop()[0].object,
    ):
        copy["data"]["k"] = "changed"
        copy["metadata"]["labels"] = {"changed": "yes"}
    assert world.get("configmaps", "a")["data"] == {"k": "v"}
    assert "labels" not in world.get("configmaps", "a")["metadata"]


def test_bodies_are_not_changed_and_not_shared(world: World) -> None:
    body = config_map("a", data={"k": "v"})
    world.create("configmaps", body)
    assert body == config_map("a", data={"k": "v"})
    body["data"]["k"] = "changed"
    assert world.get("configmaps", "a")["data"] == {"k": "v"}


def test_object_over_the_store_limit_is_too_large(world: World) -> None:
    annotations = {f"n{i}": "x" * 60_000 for i in range(4)}
    big = {"env": [{"name": f"V{i}", "value": "x" * 10_000} for i in range(150)]}
    with pytest.raises(StatusError) as caught:
        world.create("pods", pod("a", metadata={"annotations": annotations}, container=big))
    assert (caught.value.code, caught.value.reason) == (413, "RequestEntityTooLarge")
