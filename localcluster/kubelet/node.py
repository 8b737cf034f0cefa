"""The Node object of this machine.

There is no heartbeat: no controller of the local cluster declares a node lost, and the Pods end
with the kubelet.
"""

import os
import platform
from datetime import datetime

from framework.api.wire import format_time
from framework.kube.client import KubeClient
from framework.kube.resources import NODES, Object
from localcluster.kubelet.container.machine import HOST_IP
from localcluster.kubelet.pod.admission import Capacity
from localcluster.kubelet.pod.writes import persist

# Not enforced; enough for the largest gang.
_MAX_PODS = 10000
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


def build_node(name: str, capacity: Capacity, now: datetime) -> Object:
    """Build the Node with the resources of this machine."""
    resources = {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') // 1024}Ki",
        "pods": str(_MAX_PODS),
        **{resource: str(count) for resource, count in capacity.extended.items()},
    }
    stamp = format_time(now)
    times = {"lastHeartbeatTime": stamp, "lastTransitionTime": stamp}
    conditions = [{"type": kind, "status": "False", **times} for kind in _PRESSURES]
    ready = {"reason": "KubeletReady", "message": "the local cluster's kubelet is ready"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": {"x86_64": "amd64", "aarch64": "arm64"}.get(
                    platform.machine(), platform.machine()
                ),
            },
        },
        "spec": {},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [
                {"type": "InternalIP", "address": HOST_IP},
                {"type": "Hostname", "address": name},
            ],
            "conditions": [*conditions, {"type": "Ready", "status": "True", **ready, **times}],
        },
    }


async def register_node(client: KubeClient, node: Object) -> None:
    """Create the Node, then write its status."""
    name = node["metadata"]["name"]

    async def create() -> None:
        await client.create(NODES, None, node)

    async def report() -> None:
        await client.patch(NODES, None, name, {"status": node["status"]}, subresource="status")

    await persist(create, node=name, write="node")
    await persist(report, node=name, write="node status")
