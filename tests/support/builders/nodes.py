"""Notices of nodes that are to be left."""

from datetime import datetime

from framework.api.nodes import UNSCHEDULABLE_TAINT, NodeNotice, NodeNotices, Taint


def build_cordon(since: datetime) -> NodeNotice:
    return NodeNotice(Taint(UNSCHEDULABLE_TAINT, "NoSchedule"), since)


def build_notices(since: datetime, *taints: Taint) -> NodeNotices:
    """The notices of a node with these taints, or else of one that is cordoned."""
    return tuple(NodeNotice(taint, since) for taint in taints) or (build_cordon(since),)
