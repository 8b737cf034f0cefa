"""The nodes that Tasks leave: cordoned nodes, and nodes with one of the configured taints.

Other nodes are not kept. Each notice has a time: Pods of attempts that started after this time do
not leave because of the notice. The time is

1. the time of the former notice, if it is about the same taint;
2. now, if this controller sees that the taint is new;
3. otherwise (in the first list) the time of the taint: Kubernetes adds a taint with a time to a
   cordoned node. For a taint without a time, it is now. Then the notice is not dated, and Pods that
   tolerate the taint stay.

Example: node n1 is cordoned at 10:00:00 and gets a spot taint at 10:05:00. It has two notices, with
these times. When the cordon and the taint are removed, the notices are, too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from framework.api.nodes import UNSCHEDULABLE_TAINT, NodeNotice, NodeNotices, NodeView, Taint
from framework.clock import Clock
from framework.kube.nodes import read_node
from framework.kube.resources import Object

ChangeCallback = Callable[[frozenset[str]], None]
_CORDON = Taint(UNSCHEDULABLE_TAINT, "NoSchedule")


class NodeStore:
    """The notices by the names of nodes; a ``Sink`` of a ``ListWatch``."""

    def __init__(
        self,
        taints: Iterable[Taint],
        clock: Clock,
        on_change: ChangeCallback,
        *,
        leaves_on_cordon: bool,
    ) -> None:
        """Start without a list.

        Args:
            taints: the taints at which Tasks leave.
            clock: for the times of notices.
            on_change: called with the names of nodes that have a new notice.
            leaves_on_cordon: whether Tasks leave nodes that are cordoned.
        """
        self._rules: dict[str, list[Taint]] = {}
        for taint in taints:
            self._rules.setdefault(taint.key, []).append(taint)
        self._clock = clock
        self._on_change = on_change
        self._leaves_on_cordon = leaves_on_cordon
        self._notices: dict[str, NodeNotices] = {}
        self.is_listed = False
        self.is_missing = False
        """Whether the first list is late, for example because the right to list them is missing."""

    @property
    def notices(self) -> Mapping[str, NodeNotices]:
        """The notices by the names of nodes. The mapping changes with the nodes."""
        return self._notices

    def replace(self, items: list[Object], resource_version: str) -> None:
        """Take a whole list."""
        del resource_version
        before, self._notices = self._notices, {}
        now = self._clock.now()
        nodes = [read_node(item) for item in items]
        changed = {node.name for node in nodes if self._take(node, before.get(node.name, ()), now)}
        self.is_listed, self.is_missing = True, False
        self._report(changed)

    def apply(self, event_type: str, obj: Object) -> None:
        """Take one event."""
        node = read_node(obj)
        before = self._notices.pop(node.name, ())
        if event_type != "DELETED" and self._take(node, before, self._clock.now()):
            self._report({node.name})

    def bookmark(self, resource_version: str) -> None:
        """Do nothing: a version without a node is not kept."""

    def _take(self, node: NodeView, before: NodeNotices, now: datetime) -> bool:
        """Keep the notices of a node; return whether one of them is new."""
        is_new, notices = False, []
        for taint in self._list_taints(node):
            known = _find_known(before, taint)
            is_new = is_new or known is None
            notices.append(replace(known, taint=taint) if known else self._date(taint, now))
        if notices:
            self._notices[node.name] = tuple(notices)
        return is_new

    def _list_taints(self, node: NodeView) -> Iterator[Taint]:
        """List the taints at which Tasks leave, then that of a cordon."""
        cordon = _CORDON
        for taint in node.taints:
            if taint.key == UNSCHEDULABLE_TAINT:
                cordon = replace(_CORDON, added_at=taint.added_at)
            elif any(taint.matches(rule) for rule in self._rules.get(taint.key, ())):
                yield taint
        if node.is_cordoned and self._leaves_on_cordon:
            yield cordon

    def _date(self, taint: Taint, now: datetime) -> NodeNotice:
        if self.is_listed:
            return NodeNotice(taint, now)
        if taint.added_at is None:
            return NodeNotice(taint, now, is_dated=False)
        return NodeNotice(taint, min(now, taint.added_at))

    def _report(self, names: set[str]) -> None:
        if names:
            self._on_change(frozenset(names))


def _find_known(before: NodeNotices, taint: Taint) -> NodeNotice | None:
    """Find the notice about the same taint; after a removal, an equal taint is a new one."""
    for notice in before:
        known = notice.taint
        is_same = replace(known, added_at=taint.added_at) == taint
        if is_same and (None in (known.added_at, taint.added_at) or known == taint):
            return notice
    return None
