"""Objects that go in and out: equal seeds, no shared parts, the limit of size; quantities."""

from decimal import Decimal

import pytest

from localcluster.apiserver.model.objects import is_same_json
from localcluster.apiserver.model.quantities import parse_quantity
from localcluster.apiserver.storage import StatusError
from tests.contract.apiclient import config_map, pod
from tests.localcluster.storage.worlds import World


def test_equal_seeds_give_equal_worlds() -> None:
    dumps = []
    for _ in range(2):
        world = World()
        world.create("pods", pod("a"))
        world.create("configmaps", {"metadata": {"generateName": "x-"}})
        dumps.append([world.get("pods", "a"), world.names("configmaps")])
    assert dumps[0] == dumps[1]


def test_caller_may_change_what_it_sent_and_what_it_read(world: World) -> None:
    body = config_map("a", {"k": "v"})
    created = world.create("configmaps", body)
    assert body == config_map("a", {"k": "v"})
    (listed,) = world.objects("configmaps")
    for copy in (body, created, world.get("configmaps", "a"), listed):
        copy["data"]["k"] = "changed"
        copy["metadata"]["labels"] = {"changed": "yes"}
    assert world.get("configmaps", "a")["data"] == {"k": "v"}
    assert "labels" not in world.get("configmaps", "a")["metadata"]


def test_object_over_the_store_limit_is_too_large(world: World) -> None:
    body = pod("a", annotations={f"n{i}": "x" * 60_000 for i in range(4)})
    env = [{"name": f"V{i}", "value": "x" * 10_000} for i in range(150)]
    body["spec"]["containers"][0]["env"] = env
    with pytest.raises(StatusError) as caught:
        world.create("pods", body)
    assert (caught.value.code, caught.value.reason) == (413, "RequestEntityTooLarge")


LARGEST = 2**63 - 1
QUANTITIES = {
    "1": 1, "0.5": 0.5, "500m": 0.5, "1000m": 1, "1024Mi": 2**30, "1.5Gi": 3 * 2**29, "1e3": 1000,
    "2k": 2000, "0Mi": 0, "-1": -1, "1E": 10**18,
    "1e30": LARGEST, "16Ei": LARGEST, "-1e999999999": -LARGEST, "9" * 1_000_001 + "k": LARGEST,
    "1e-999999999": Decimal("1e-9"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "number"), QUANTITIES.items(), ids=range(len(QUANTITIES)))
def test_quantity_is_a_number_within_bounds(text: str, number: Decimal | float) -> None:
    assert parse_quantity(text) == number


@pytest.mark.parametrize(
    "text", ["", "abc", "1 Gi", "1X", "1Gii", "--1", "1e", "e3", ".", "\u0661", "1e\u0661"]
)
def test_malformed_quantity_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("new", "old", "is_same"),
    [
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ({"a": None}, {"b": None}, False),
        ({"a": [1]}, {"a": [1, 1]}, False),
        ({"a": ["x"]}, {"a": ["y"]}, False),
        ([], {}, False),
    ],
)
def test_objects_are_compared_as_json(new: object, old: object, *, is_same: bool) -> None:
    assert is_same_json(new, old) is is_same
    assert is_same_json(old, new) is is_same
