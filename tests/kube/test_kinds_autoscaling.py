"""The real HorizontalPodAutoscaler controller and the subresource scale of a TrainingJob.

It needs no metrics here: it first raises a number below ``minReplicas``, and lowers one above
``maxReplicas``.
"""

import pytest

from framework.kube.client import KubeClient
from framework.kube.resources import TRAININGJOBS, Object, Resource
from tests.framework.kinds.jobs import build_trainingjob
from tests.kube.kindstage import Stage, wait_for_workers
from tests.support.fakes.jobscripts import Ends
from tests.support.servers.controlplane import Access
from tests.support.servers.deployed import Deployed

pytestmark = pytest.mark.kube

AUTOSCALERS = Resource(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", namespaced=True
)


def build_autoscaler(least: int, most: int) -> Object:
    """The HorizontalPodAutoscaler of docs/trainingjob.md."""
    target = {"apiVersion": TRAININGJOBS.api_version, "kind": "TrainingJob", "name": "elastic"}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    return {
        "apiVersion": AUTOSCALERS.api_version,
        "kind": AUTOSCALERS.kind,
        "metadata": {"name": "elastic"},
        "spec": {
            "scaleTargetRef": target,
            "minReplicas": least,
            "maxReplicas": most,
            "metrics": [{"type": "Resource", "resource": cpu}],
        },
    }


async def read_replicas(stage: Stage) -> int:
    job = await stage.kube.get(TRAININGJOBS, stage.namespace, "elastic")
    replicas: int = job["spec"]["etReplicaSpecs"]["worker"]["replicas"]
    return replicas


async def test_autoscaler_raises_the_workers_to_its_least_and_lowers_them_to_its_most(
    deployed: Deployed, kube: KubeClient, namespace: str, ends: Ends, audited_plane: Access
) -> None:
    stage = Stage(kube, namespace, audited_plane)
    job = build_trainingjob()
    job["spec"]["etReplicaSpecs"]["worker"]["replicas"] = 1
    await stage.create(TRAININGJOBS, job)
    await wait_for_workers(kube, namespace, 1)

    await stage.create(AUTOSCALERS, build_autoscaler(2, 9))
    await wait_for_workers(kube, namespace, 2)
    assert await read_replicas(stage) == 2

    await stage.kubectl("scale", "trainingjobs/elastic", "--replicas=4")
    await wait_for_workers(kube, namespace, 4)
    limits = {"spec": build_autoscaler(1, 3)["spec"]}
    await kube.patch(AUTOSCALERS, namespace, "elastic", limits)
    await wait_for_workers(kube, namespace, 3)
    assert await read_replicas(stage) == 3
