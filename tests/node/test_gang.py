"""A gang on a real node, from our three images, in a namespace that enforces `restricted`."""

import pytest

from tests.node.cluster import Cluster
from tests.support.frameworkcrd import ROOT

pytestmark = [pytest.mark.node, pytest.mark.timeout(300)]

EXAMPLES = ROOT / "examples"


def inject(cluster: Cluster, file: str, *options: str) -> str:
    done = cluster.framework("inject", "--restricted", *options, str(EXAMPLES / file))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_gang_with_barrier_and_native_sidecar_injected_succeeds(
    cluster: Cluster, namespace: str
) -> None:
    manifest = inject(cluster, "gang.yaml", "--rendezvous", "sidecar")

    linted = cluster.framework("lint", "-", text=manifest)
    assert (linted.returncode, linted.stdout) == (0, "nothing found\n")
    done = cluster.framework(
        "run", "--namespace", namespace, "--timeout", "120s", "-", text=manifest
    )

    assert done.returncode == 0, done.stdout + done.stderr + cluster.describe(namespace)
    found = cluster.get("framework", "gang", "--namespace", namespace)
    assert found["status"]["attemptStatus"]["completionStatus"]["code"] == 0
    assert found["status"]["retryPolicyStatus"]["totalRetriedCount"] == 0
