"""How an agent that runs beside the training ends with it: the Pod Succeeded, nothing left over."""

from typing import Any

import pytest

from tests.node.cluster import Cluster
from tests.node.gangs import apply_gang, build_gang, get_pod_spec, list_pods

pytestmark = pytest.mark.node

TRAIN = ". /mnt/frameworkbarrier/current/env.sh; echo rank $RANK of $WORLD_SIZE; sleep 3"


def build_ending(name: str) -> dict[str, Any]:
    """A gang that ends by itself, and whose Pods stay."""
    gang = build_gang(name, 2)
    gang["spec"]["completedPodPolicy"] = "Retain"
    get_pod_spec(gang)["containers"][0]["command"] = ["sh", "-c", TRAIN]
    return gang


def check_ended(cluster: Cluster, namespace: str, name: str) -> dict[str, dict[str, int]]:
    """Wait for the end; give the exit codes of each Pod's containers."""
    framework = cluster.wait_for_state(namespace, name, "Completed")
    pods = list_pods(cluster, namespace)
    assert framework["status"]["attemptStatus"]["completionStatus"]["code"] == 0
    assert {pod["status"]["phase"] for pod in pods.values()} == {"Succeeded"}
    for rank in range(2):
        log = cluster.kubectl("logs", f"{name}-worker-{rank}", "-c", "train", "-n", namespace)
        assert f"rank {rank} of 2\n" in log
    return {
        pod_name: {
            status["name"]: status["state"]["terminated"]["exitCode"]
            for status in pod["status"]["containerStatuses"]
        }
        for pod_name, pod in pods.items()
    }


@pytest.mark.parametrize("user", [None, 1000], ids=["same-user", "other-user"])
def test_sidecar_in_a_shared_process_namespace_ends_with_the_last_process(
    cluster: Cluster, namespace: str, user: int | None
) -> None:
    gang = build_ending("shared")
    spec = get_pod_spec(gang)
    spec["shareProcessNamespace"] = True
    if user is not None:
        spec["containers"][0]["securityContext"] = {"runAsUser": user}
    spec["containers"].append(
        {
            "name": "rendezvous",
            "image": "frameworkbarrier/framework-rendezvous",
            "args": ["watch"],
            "env": [{"name": "FB_SIDECAR_END", "value": "shared"}],
        }
    )
    # The barrier lets the containers start when peers are known; the files are a moment later.
    spec["containers"][0]["command"] = [
        *("sh", "-c"),
        f"while [ ! -e /mnt/frameworkbarrier/current/env.sh ]; do sleep 0.1; done; {TRAIN}",
    ]
    apply_gang(cluster, namespace, gang)

    codes = check_ended(cluster, namespace, "shared")

    assert list(codes.values()) == [{"train": 0, "rendezvous": 0}] * 2


def test_wrapper_ends_with_its_command(cluster: Cluster, namespace: str) -> None:
    apply_gang(cluster, namespace, build_ending("wrapped"), "--rendezvous", "wrapper")
    codes = check_ended(cluster, namespace, "wrapped")
    assert list(codes.values()) == [{"train": 0}] * 2
