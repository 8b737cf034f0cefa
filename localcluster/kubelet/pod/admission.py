"""Decides which Pods this node takes. Pure.

cpu and memory are not counted, because the machine is the user's and a gang that fits tightly
should start; extended resources (``nvidia.com/gpu``) are.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from framework.api.constants import GPU_RESOURCE
from framework.kube.resources import Object
from localcluster.apiserver.model.quantities import parse_quantity
from localcluster.kubelet.fields import list_containers

_DEFAULT_SCHEDULER = "default-scheduler"
_UNCOUNTED = ("cpu", "memory", "ephemeral-storage")
_TERMINAL = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Run:
    """The Pod is this node's: run it."""


@dataclass(frozen=True, slots=True)
class Bind:
    """The Pod is bound to no node, and fits."""


@dataclass(frozen=True, slots=True)
class Leave:
    """The Pod is for another node or scheduler."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """The Pod is for this scheduler, but does not fit."""

    message: str


Admission: TypeAlias = Run | Bind | Leave | Refuse


@dataclass(frozen=True, slots=True)
class Capacity:
    """The capacity of the node."""

    extended: Mapping[str, int]
    """Extended resources, for example ``nvidia.com/gpu``."""


def decide_admission(
    pod: Object, node_name: str, capacity: Capacity, running: Iterable[Object]
) -> Admission:
    """Decide what to do with a Pod that is not running here yet.

    ``running`` are the Pods that already run here or are being bound.
    """
    spec, status = pod["spec"], pod.get("status") or {}
    node = spec.get("nodeName")
    if status.get("phase") in _TERMINAL or (node and node != node_name):
        return Leave()
    if node:
        return Run()
    if pod["metadata"].get("deletionTimestamp") or spec.get("schedulingGates"):
        return Leave()
    if (spec.get("schedulerName") or _DEFAULT_SCHEDULER) != _DEFAULT_SCHEDULER:
        return Leave()
    shortage = _find_shortage(pod, capacity, list(running))
    return Bind() if shortage is None else Refuse(f"0/1 nodes are available: {shortage}.")


def _find_shortage(pod: Object, capacity: Capacity, running: list[Object]) -> str | None:
    for resource, wanted in sorted(count_extended(pod).items()):
        used = sum(count_extended(other).get(resource, 0) for other in running)
        offered = capacity.extended.get(resource, 0)
        if resource == GPU_RESOURCE and wanted > offered:
            remedy = (
                f"this local cluster offers {offered}: start it with --gpus N, where N is what all "
                f"Pods need together, at least {wanted}"
            )
            return f"1 Insufficient {resource}; {remedy}"
        if wanted > offered - used:
            return f"1 Insufficient {resource}"
    return None


def count_extended(pod: Object) -> dict[str, int]:
    """Sum up the extended resources that a Pod requests; init containers run one by one."""
    mains: dict[str, int] = {}
    inits: dict[str, int] = {}
    init_names = {c["name"] for c in pod["spec"].get("initContainers") or ()}
    for container in list_containers(pod):
        for resource, count in _read_requests(container).items():
            if container["name"] not in init_names or container.get("restartPolicy") == "Always":
                mains[resource] = mains.get(resource, 0) + count
            else:
                inits[resource] = max(inits.get(resource, 0), count)
    return {name: max(mains.get(name, 0), inits.get(name, 0)) for name in {*mains, *inits}}


def _read_requests(container: Object) -> dict[str, int]:
    resources = container.get("resources") or {}
    stated = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    counts = {}
    for name, quantity in stated.items():
        if name in _UNCOUNTED or name.startswith("hugepages-"):
            continue
        try:
            counts[name] = math.ceil(parse_quantity(str(quantity)))
        except ValueError:
            continue
    return {name: count for name, count in counts.items() if count > 0}
