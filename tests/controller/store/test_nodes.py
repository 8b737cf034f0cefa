"""controller.store.nodes: which nodes are to be left, and since when."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from controller.store.nodes import NodeStore
from framework.api.nodes import (
    UNSCHEDULABLE_TAINT,
    NodeNotice,
    NodeNotices,
    NodeView,
    Taint,
    encode_node,
)
from framework.clock import ManualClock
from framework.kube.resources import Object
from tests.support.builders import AT, at
from tests.support.builders.cases import cases

SPOT = Taint("spot", "NoSchedule")
CORDON = Taint(UNSCHEDULABLE_TAINT, "NoSchedule")


class Nodes:
    """Notices of the taints ``spot`` and ``maintenance:NoExecute``."""

    def __init__(self, *, leaves_on_cordon: bool = True) -> None:
        self.clock = ManualClock(AT)
        self.changes: list[set[str]] = []
        rules = (Taint("spot"), Taint("maintenance", "NoExecute"))
        self.known = NodeStore(
            rules,
            self.clock,
            lambda names: self.changes.append(set(names)),
            leaves_on_cordon=leaves_on_cordon,
        )

    def apply(self, node: Object, event_type: str = "MODIFIED") -> None:
        self.known.apply(event_type, node)
        self.clock.advance(1)

    @property
    def notices(self) -> dict[str, NodeNotices]:
        return dict(self.known.notices)

    def list_times(self, name: str = "n1") -> list[datetime]:
        return [notice.since for notice in self.notices[name]]


def node(name: str = "n1", *taints: Taint, **spec: Any) -> Object:
    is_cordoned = bool(spec.get("unschedulable"))
    return encode_node(NodeView(name, is_cordoned=is_cordoned, taints=taints))


def test_only_nodes_that_are_to_be_left_are_kept() -> None:
    nodes = Nodes()
    items = [node("ok"), node("cordoned", unschedulable=True), node("spot", SPOT, Taint("gpu"))]
    nodes.known.replace(items, "5")
    assert nodes.notices == {
        "cordoned": (NodeNotice(CORDON, AT, is_dated=False),),
        "spot": (NodeNotice(SPOT, AT, is_dated=False),),
    }
    assert nodes.changes == [{"cordoned", "spot"}]
    assert nodes.known.is_listed


@cases(
    "taint expected",
    key_alone=(Taint("spot", "NoExecute"), True),
    effect=(Taint("maintenance", "NoExecute"), True),
    other_effect=(Taint("maintenance", "NoSchedule"), False),
    other_key=(Taint("node.kubernetes.io/unreachable", "NoExecute"), False),
)
def test_taint_counts_if_a_rule_names_it(taint: Taint, *, expected: bool) -> None:
    nodes = Nodes()
    nodes.apply(node("n1", taint))
    assert bool(nodes.notices) is expected


def test_cordon_may_be_switched_off() -> None:
    nodes = Nodes(leaves_on_cordon=False)
    nodes.apply(node(unschedulable=True))
    assert nodes.notices == {}


def test_each_notice_has_the_time_at_which_it_was_seen_first() -> None:
    nodes = Nodes()
    nodes.known.replace([], "1")
    nodes.apply(node(unschedulable=True))
    # Kubernetes adds the taint of a cordon later.
    nodes.apply(node("n1", replace(CORDON, added_at=at(5)), unschedulable=True))
    assert nodes.list_times() == [AT]
    nodes.apply(node("n1", SPOT, unschedulable=True))
    assert nodes.list_times() == [at(2), AT]
    nodes.apply(node("n1", SPOT))
    assert nodes.list_times() == [at(2)]
    assert nodes.changes == [{"n1"}, {"n1"}]
    assert nodes.notices["n1"][0].is_dated


@pytest.mark.parametrize("event_type", ["MODIFIED", "DELETED"])
def test_node_that_is_well_again_or_gone_has_no_notice(event_type: str) -> None:
    nodes = Nodes()
    nodes.apply(node(unschedulable=True))
    is_deleted = event_type == "DELETED"
    nodes.apply(node(unschedulable=is_deleted), event_type)
    assert nodes.notices == {}
    assert nodes.changes == [{"n1"}]


def test_next_list_keeps_times_and_drops_nodes_that_are_gone() -> None:
    nodes = Nodes()
    nodes.known.replace([node("a", unschedulable=True), node("b", unschedulable=True)], "5")
    nodes.clock.advance(1)
    nodes.known.replace([node("a", unschedulable=True), node("c", SPOT)], "9")
    times = {name: nodes.list_times(name) for name in nodes.notices}
    assert times == {"a": [AT], "c": [at(1)]}
    assert nodes.changes[1:] == [{"c"}]


def test_node_that_was_cordoned_again_while_the_watch_was_lost_has_a_new_time() -> None:
    nodes = Nodes()
    nodes.known.replace([node("n1", replace(CORDON, added_at=AT), unschedulable=True)], "5")
    nodes.clock.advance(100)
    nodes.known.replace([node("n1", replace(CORDON, added_at=at(50)), unschedulable=True)], "9")
    assert nodes.list_times() == [at(100)]
    assert nodes.changes == [{"n1"}, {"n1"}]


def test_first_list_takes_the_times_of_the_taints() -> None:
    nodes = Nodes()
    nodes.clock.advance(100)
    spot, cordon = replace(SPOT, added_at=at(7)), replace(CORDON, added_at=at(5))
    later = replace(SPOT, added_at=at(10**6))
    items = [
        node("cordon", cordon, unschedulable=True),
        node("both", spot, cordon, unschedulable=True),
        node("undated", SPOT, cordon, unschedulable=True),
        node("later", later),
        {"metadata": {"name": "bad"}, "spec": {"taints": [{"key": "spot", "timeAdded": "soon"}]}},
    ]
    nodes.known.replace(items, "5")
    assert {name: nodes.list_times(name) for name in nodes.notices} == {
        "cordon": [at(5)],
        "both": [at(7), at(5)],
        "undated": [at(100), at(5)],
        "later": [at(100)],
        "bad": [at(100)],
    }
    assert [notice.is_dated for notice in nodes.notices["undated"]] == [False, True]
