"""Reads the messages of the scheduler about a Pod that it cannot place. Pure.

The texts are those of kube-scheduler 1.27 to 1.34 and of the local cluster, for example
``0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient nvidia.com/gpu.
preemption: ...``.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from cli.why.names import HiddenNames, hide_names, unquote


class Lack(StrEnum):
    """Why nodes do not take a Pod."""

    RESOURCE = "resource"
    PODS = "number of Pods"
    CORDONED = "cordoned"
    SELECTOR = "selector"
    TAINT = "taint"
    PORT = "port"
    ANTI_AFFINITY = "anti-affinity"
    SPREAD = "topology spread"
    CLAIM_MISSING = "missing claim"
    CLAIM_UNBOUND = "unbound claim"
    VOLUME_NODE = "volume on another node"
    NO_NODES = "no nodes"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why some nodes do not take a Pod."""

    lack: Lack
    nodes: int = 0
    """How many nodes; 0 if it is about the Pod and not about nodes."""
    name: str = ""
    """The resource, taint or claim."""
    text: str = ""
    """The words of the scheduler."""


_HEAD = re.compile(r"^\d{1,9}/\d{1,9} nodes are available: (?P<rest>.*)$")
_REST_END = re.compile(r"[.;] ")
_COUNTED = re.compile(r"^(?P<count>\d{1,9}) (?P<text>.+)$")
_PATTERNS: tuple[tuple[Lack, re.Pattern[str]], ...] = (
    (Lack.RESOURCE, re.compile(r"Insufficient (?P<name>\S+)$")),
    (Lack.PODS, re.compile(r"Too many pods(?P<name>)")),
    (Lack.CORDONED, re.compile(r"node\(s\) were unschedulable(?P<name>)")),
    (
        Lack.SELECTOR,
        re.compile(r"node\(s\) didn't match (?:Pod's )?node (?:affinity|selector)(?P<name>)"),
    ),
    (Lack.TAINT, re.compile(r"node\(s\) had (?:untolerated )?taint \{(?P<name>[^{}]*)\}")),
    # From Kubernetes 1.34 on, the scheduler does not name the taint.
    (Lack.TAINT, re.compile(r"node\(s\) had untolerated taint\(s\)(?P<name>)")),
    (Lack.PORT, re.compile(r"node\(s\) didn't have free ports(?P<name>)")),
    (
        Lack.ANTI_AFFINITY,
        re.compile(
            r"node\(s\) didn't (?:match|satisfy) (?:existing )?pods? (?:anti-)?affinity(?P<name>)"
        ),
    ),
    (Lack.SPREAD, re.compile(r"node\(s\) didn't match pod topology spread constraints(?P<name>)")),
    (Lack.CLAIM_MISSING, re.compile(r'persistentvolumeclaim (?P<name>"\d+") not found')),
    (Lack.CLAIM_UNBOUND, re.compile(r"pod has unbound immediate PersistentVolumeClaims(?P<name>)")),
    (
        Lack.CLAIM_UNBOUND,
        re.compile(r"node\(s\) didn't find available persistent volumes to bind(?P<name>)"),
    ),
    (
        Lack.VOLUME_NODE,
        re.compile(
            r"node\(s\) (?:had volume node affinity conflict|had no available volume zone"
            r"|didn't match PersistentVolume's node affinity)(?P<name>)"
        ),
    ),
    (Lack.NO_NODES, re.compile(r"no nodes available to schedule pods(?P<name>)")),
)


def parse_shortages(message: str) -> tuple[Shortage, ...]:
    """Read the reasons of a message of the scheduler; those of most nodes first."""
    hidden = hide_names(" ".join(message.split()))
    head = _HEAD.match(hidden.text)
    # The rest is about resource claims and preemption, or the advice of a local cluster.
    rest = head.group("rest") if head else hidden.text
    rest = _REST_END.split(rest, maxsplit=1)[0].rstrip(".")
    found = [_parse_part(part, hidden) for part in re.split(r", (?=\d+ )", rest) if part]
    # A reason about the Pod itself holds it on every node.
    return tuple(sorted(found, key=lambda s: -s.nodes if s.nodes else -(10**9)))


def _parse_part(part: str, hidden: HiddenNames) -> Shortage:
    counted = _COUNTED.match(part)
    count, text = (int(counted.group("count")), counted.group("text")) if counted else (0, part)
    shown = hidden.restore(text)
    for lack, pattern in _PATTERNS:
        found = pattern.match(text)
        if found is not None:
            return Shortage(lack, count, unquote(hidden.restore(found.group("name"))), shown)
    return Shortage(Lack.OTHER, count, text=shown)
