"""Taints of nodes that a Pod does not tolerate. Pure.

The scheduler of Kubernetes 1.34 does not name them any more.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from cli.why.observation import get_mapping, list_mappings

# The taints of a node that Kubernetes itself finds unfit, for example not-ready.
_UNFIT = "node.kubernetes.io/"
_CONTROL_PLANE = "node-role.kubernetes.io/"
_KEEPING_OUT = frozenset({"NoSchedule", "NoExecute"})
_MOST_NODES = 500


def find_taint(nodes: Mapping[str, Any], pod_spec: Mapping[str, Any]) -> str:
    """Find the taint that most nodes have and a Pod does not tolerate.

    Returns:
        The taint as older schedulers write it, ``key: value``; "" if no node has one.
    """
    tolerations = list_mappings(pod_spec.get("tolerations"))
    counts = Counter(
        f"{taint.get('key')}: {taint.get('value') or ''}"
        for node in list(nodes.values())[:_MOST_NODES]
        for taint in _walk_taints(node)
        if not any(_is_tolerated(taint, toleration) for toleration in tolerations)
    )
    # The taint of a control plane is meant to keep Pods out.
    ranked = sorted(counts, key=lambda name: (name.startswith(_CONTROL_PLANE), -counts[name], name))
    return ranked[0] if ranked else ""


def is_unfit(taint: str) -> bool:
    """Return whether a taint means that the node is not fit, so that tolerating it is no help."""
    return taint.startswith(_UNFIT)


def _walk_taints(node: Any) -> Iterator[Mapping[str, Any]]:
    for taint in list_mappings(get_mapping(node, "spec").get("taints")):
        if taint.get("effect") in _KEEPING_OUT:
            yield taint


def _is_tolerated(taint: Mapping[str, Any], toleration: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in {None, "", taint.get("effect")}:
        return False
    exists = toleration.get("operator") == "Exists"
    key = toleration.get("key")
    if not key:
        return exists
    is_equal = (toleration.get("value") or "") == (taint.get("value") or "")
    return key == taint.get("key") and (exists or is_equal)
