"""A real training stack on the node: JAX, injected, under `restricted`."""

import json
import os
import re

import pytest

from tests.node.cluster import Cluster
from tests.node.examples import EXAMPLES, inject_example, run_example
from tests.support.machine.nodeimages import STACK_IMAGE
from tests.support.machine.realnode import IMAGES_ENV

pytestmark = pytest.mark.node


def test_jax_trains_with_its_gradients_averaged_over_pods(cluster: Cluster, namespace: str) -> None:
    if STACK_IMAGE not in json.loads(os.environ.get(IMAGES_ENV, "{}")):
        pytest.skip("no image of JAX: python -m tests.consumers.install jax (0.6 GB)")
    path = EXAMPLES / "stacks" / "jax-data-parallel.yaml"
    injected = inject_example(cluster, path, images={"your/jax:1": STACK_IMAGE})
    # Ended Pods stay, for their logs.
    text = injected.text.replace(
        "executionType: Start", "executionType: Start\n  completedPodPolicy: Retain"
    )

    done = run_example(cluster, namespace, injected._replace(text=text))

    assert injected.linted.stdout == "nothing found\n"
    assert done.returncode == 0, done.stdout + done.stderr + cluster.describe(namespace)
    logs = [
        cluster.kubectl("logs", f"jax-data-parallel-worker-{rank}", "-c", "train", "-n", namespace)
        for rank in range(3)
    ]
    for rank, log in enumerate(logs):
        assert f"process {rank} of 3, 3 devices" in log
    losses = [re.findall(r"^step .*", log, re.MULTILINE) for log in logs]
    # Points differ, the mean loss does not: it went through the other Pods.
    assert len(losses[0]) == 7
    assert losses[0] == losses[1] == losses[2]
