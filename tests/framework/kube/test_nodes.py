"""framework.kube.nodes: the few fields of a Node that are read."""

import tracemalloc
from typing import Any

import msgspec
import pytest

from framework.api.nodes import MAX_KEY_CHARS, MAX_TAINTS, NodeView, Taint
from framework.kube.deferred import decode_deferred_event, defer_item
from framework.kube.nodes import read_node, trim_node
from framework.kube.resources import Object


def build_node(**spec: Any) -> Object:
    images = [{"names": [f"registry.example.com/image-{i}" * 8], "sizeBytes": i} for i in range(50)]
    return {
        "metadata": {"name": "n1", "resourceVersion": "7", "labels": {"a": "b"}},
        "spec": {"podCIDR": "10.0.0.0/24", **spec},
        "status": {"images": images},
    }


def defer(node: Object) -> Object:
    line = msgspec.json.encode({"type": "MODIFIED", "object": node})
    return decode_deferred_event(line)[1]


SPOT = {"key": "spot", "value": "x" * 63, "effect": "NoSchedule", "timeAdded": None}


def test_node_of_a_list_and_of_an_event_are_read_alike() -> None:
    node = build_node(unschedulable=True, taints=[SPOT, {"key": "b"}])
    expected = NodeView(
        "n1", is_cordoned=True, taints=(Taint("spot", "NoSchedule", "x" * 63), Taint("b"))
    )
    for obj in (node, defer(node), trim_node(node), trim_node(defer(node))):
        assert read_node(obj) == expected


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"unschedulable": None, "taints": None},
        {"unschedulable": "true", "taints": "x"},
        {"unschedulable": 1, "taints": {"key": "a"}},
        {"taints": [None, 7, {}, {"key": 7}, {"key": ""}, ["key"]]},
    ],
)
def test_fields_of_wrong_types_count_as_absent(spec: Object) -> None:
    for obj in (build_node(**spec), defer(build_node(**spec))):
        assert read_node(obj) == NodeView("n1")


@pytest.mark.parametrize("obj", [{}, {"metadata": None}, {"metadata": {"name": 7}, "spec": []}])
def test_object_that_is_no_node_has_no_name(obj: Object) -> None:
    assert read_node(obj) == NodeView("")


def test_taints_and_their_texts_are_bounded() -> None:
    taints = [{"key": "k" * 10_000, "effect": "e" * 10_000}] * 1000
    node = read_node(build_node(taints=taints))
    assert len(node.taints) == MAX_TAINTS
    assert len(node.taints[0].key) == MAX_KEY_CHARS
    assert len(node.taints[0].effect) <= 32


def test_list_of_nodes_keeps_little_of_each() -> None:
    item = msgspec.json.encode(build_node(taints=[SPOT]))
    tracemalloc.start()
    kept = [trim_node(defer_item(item)) for _ in range(100)]
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(kept) == 100
    assert held < 100 * len(item) / 5
