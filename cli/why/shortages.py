"""What the scheduler says of a Pod that no node takes. Pure.

The texts are those of kube-scheduler 1.27 to 1.34 and of the local cluster, for example
``0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient nvidia.com/gpu.
preemption: ...``.
"""

import re
from dataclasses import dataclass
from enum import StrEnum


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
    """What the scheduler says."""


_HEAD = re.compile(r"^\d+/(?P<total>\d+) nodes are available: (?P<rest>.*)$")
_REST_END = re.compile(r"[.;] ")
_COUNTED = re.compile(r"^(?P<count>\d+) (?P<text>.+)$")
_PATTERNS: tuple[tuple[Lack, re.Pattern[str]], ...] = (
    (Lack.RESOURCE, re.compile(r"^Insufficient (?P<name>\S+)$")),
    (Lack.PODS, re.compile(r"^Too many pods(?P<name>)")),
    (Lack.CORDONED, re.compile(r"^node\(s\) were unschedulable(?P<name>)")),
    (Lack.SELECTOR, re.compile(r"didn't match (?:Pod's )?node (?:affinity|selector)(?P<name>)")),
    (Lack.SELECTOR, re.compile(r"didn't match Pod's node affinity/selector(?P<name>)")),
    (Lack.TAINT, re.compile(r"(?:untolerated taint|had taint) \{(?P<name>[^{}]*)\}")),
    (Lack.PORT, re.compile(r"didn't have free ports(?P<name>)")),
    (Lack.ANTI_AFFINITY, re.compile(r"pod (?:anti-)?affinity(?P<name>)")),
    (Lack.SPREAD, re.compile(r"topology spread constraints(?P<name>)")),
    (Lack.CLAIM_MISSING, re.compile(r'persistentvolumeclaim "(?P<name>[^"]+)" not found')),
    (Lack.CLAIM_UNBOUND, re.compile(r"unbound immediate PersistentVolumeClaims(?P<name>)")),
    (Lack.CLAIM_UNBOUND, re.compile(r"find available persistent volumes to bind(?P<name>)")),
    (Lack.VOLUME_NODE, re.compile(r"volume node affinity conflict(?P<name>)")),
    (Lack.NO_NODES, re.compile(r"no nodes available to schedule pods(?P<name>)")),
)


def parse_shortages(message: str) -> tuple[Shortage, ...]:
    """Read the reasons of a message of the scheduler; those of most nodes first."""
    line = " ".join(message.split())
    head = _HEAD.match(line)
    # What follows is about resource claims and preemption, or the advice of a local cluster.
    rest = _REST_END.split(head.group("rest") if head else line, maxsplit=1)[0].rstrip(".")
    found = [_parse_part(part) for part in re.split(r", (?=\d+ )", rest) if part]
    # What is about the Pod holds it on every node.
    return tuple(sorted(found, key=lambda s: -s.nodes if s.nodes else -(10**9)))


def _parse_part(part: str) -> Shortage:
    counted = _COUNTED.match(part)
    count, text = (int(counted.group("count")), counted.group("text")) if counted else (0, part)
    for lack, pattern in _PATTERNS:
        found = pattern.search(text)
        if found is not None:
            return Shortage(lack, count, found.group("name"), text)
    return Shortage(Lack.OTHER, count, text=text)
