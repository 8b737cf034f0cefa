"""The room for JSON: how much each namespace may keep, and how it is given back."""

import msgspec

from framework.kube.deferred import defer_item
from framework.kube.keptjson import UNBOUNDED, Kept, KeptJson


def fill(budget: KeptJson, namespace: str, count: int = 1) -> list[Kept]:
    """Keep objects for a namespace until it gets no more room."""
    found: list[Kept] = []
    while (kept := budget.keep(namespace, count)) is not None:
        found.append(kept)
    return found


def test_each_namespace_leaves_half_to_the_next_one() -> None:
    budget = KeptJson(1000)
    kept = [fill(budget, namespace) for namespace in "abcd"]
    assert [len(objects) for objects in kept] == [500, 250, 125, 62]
    assert budget.total_bytes == 937
    assert budget.keep("e", 31) is not None


def test_room_is_given_back_when_the_object_is_dropped() -> None:
    budget = KeptJson(1000)
    kept = fill(budget, "a", 100)
    assert budget.keep("a", 100) is None
    kept.pop()
    assert budget.find_room("a") == 100
    kept.clear()
    assert (budget.total_bytes, budget.find_room("a")) == (0, 500)


def test_without_a_limit_all_is_kept() -> None:
    kept = UNBOUNDED.keep("a", 2**40)
    assert kept is not None


def test_object_without_room_has_its_identity_only() -> None:
    metadata = {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7"}
    raw = msgspec.json.encode({"metadata": metadata, "spec": "x" * 400})
    budget = KeptJson(1200)
    first, second = defer_item(raw), defer_item(raw)
    first.keep_in(budget)
    second.keep_in(budget)
    assert (first.is_stripped, second.is_stripped) == (False, True)
    assert second["metadata"] == metadata
    assert second.length == first.length > 400
    del first
    # Its bytes are the next one's.
    third = defer_item(raw)
    third.keep_in(budget)
    assert third.decode()["spec"] == "x" * 400
