"""Notices of nodes that Tasks must leave."""

from datetime import datetime

from framework.api.nodes import UNSCHEDULABLE_TAINT, NodeNotice, NodeNotices, Taint


def build_cordon(since: datetime) -> NodeNotice:
    return NodeNotice(Taint(UNSCHEDULABLE_TAINT, "NoSchedule"), since)


def build_notices(since: datetime, *taints: Taint) -> NodeNotices:
    """The notices of a node with these taints; without taints, of a cordoned node."""
    return tuple(NodeNotice(taint, since) for taint in taints) or (build_cordon(since),)
