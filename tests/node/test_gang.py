"""A gang on a real node, from our three images, in a namespace that enforces `restricted`."""

import signal
import time

import pytest

from tests.node.cluster import NODE_SECONDS, SYSTEM_NAMESPACE, Cluster
from tests.node.examples import EXAMPLES, inject_example, run_example
from tests.node.gangs import (
    apply_gang,
    build_gang,
    end_gang,
    list_pods,
    scale,
    wait_until_training,
)
from tests.support.servers.gang import list_tasks

pytestmark = pytest.mark.node

KUBELET_STOP_SECONDS = 60.0


def test_gang_with_barrier_and_native_sidecar_injected_succeeds(
    cluster: Cluster, namespace: str
) -> None:
    injected = inject_example(cluster, EXAMPLES / "gang.yaml")
    done = run_example(cluster, namespace, injected)
    assert (injected.linted.returncode, injected.linted.stdout) == (0, "nothing found\n")
    assert done.returncode == 0, done.stdout + done.stderr + cluster.describe(namespace)
    status = cluster.get("framework", "gang", "--namespace", namespace)["status"]
    assert status["attemptStatus"]["completionStatus"]["code"] == 0
    assert status["retryPolicyStatus"]["totalRetriedCount"] == 0


def test_barrier_log_names_the_missing_member_and_its_reason(
    cluster: Cluster, namespace: str
) -> None:
    gang = build_gang("held", 2)
    lone = build_gang("held", 1)["spec"]["taskRoles"][0]
    spec = lone["task"]["pod"]["spec"]
    gang["spec"]["taskRoles"].append({**lone, "name": "nowhere"})
    spec["nodeSelector"] = {"example.com/none": "here"}
    apply_gang(cluster, namespace, gang, "--rendezvous", "none")

    def look() -> str | None:
        read = ("logs", "--namespace", namespace, "held-worker-0", "-c", "barrier")
        lines = cluster.try_kubectl(*read).stdout.splitlines()
        # The scheduler may say why a moment later.
        is_told = lines and "2/3 ready" in lines[-1] and "(Unschedulable: " in lines[-1]
        return lines[-1] if is_told else None

    line = cluster.wait(look, "the barrier says why it lacks one member", namespace)

    assert "waiting for nowhere/0 (Unschedulable: " in line
    assert "didn't match Pod's node affinity/selector" in line


def test_pod_deleted_by_hand_is_retried_and_passes_its_barrier(
    cluster: Cluster, namespace: str
) -> None:
    apply_gang(cluster, namespace, build_gang("monkey", 2))
    before = wait_until_training(cluster, namespace, 2)
    cluster.kubectl("delete", "pod", "monkey-worker-1", "--namespace", namespace)
    after = wait_until_training(cluster, namespace, 2)
    done = end_gang(cluster, namespace, "monkey", 0, 1)
    kept, replaced = "monkey-worker-0", "monkey-worker-1"
    assert after[kept]["metadata"]["uid"] == before[kept]["metadata"]["uid"]
    assert after[replaced]["metadata"]["uid"] != before[replaced]["metadata"]["uid"]
    task = list_tasks(done)[replaced]
    assert task["retryPolicyStatus"]["totalRetriedCount"] == 1
    assert task["attemptStatus"]["completionStatus"]["code"] == 0


def test_scale_in_with_drain_deletes_the_pod_after_its_acknowledgement(
    cluster: Cluster, namespace: str
) -> None:
    # Its deadline is far later than that of every wait here: only acknowledgements end the drain.
    gang = build_gang("drained", 3, drain={"timeoutSec": 3600})
    apply_gang(cluster, namespace, gang)
    wait_until_training(cluster, namespace, 3)
    scale(cluster, namespace, "drained", 2)
    after = wait_until_training(cluster, namespace, 2)
    assert sorted(after) == ["drained-worker-0", "drained-worker-1"]
    acknowledged = [
        int(pod["metadata"]["annotations"]["frameworkbarrier.io/acknowledged-generation"])
        for pod in after.values()
    ]
    assert min(acknowledged) >= 2
    end_gang(cluster, namespace, "drained", 0, 1)


def test_controller_killed_goes_on_with_the_same_pods(cluster: Cluster, namespace: str) -> None:
    apply_gang(cluster, namespace, build_gang("survivor", 2))
    before = wait_until_training(cluster, namespace, 2)
    delete = ("delete", "pod", "--selector", "app.kubernetes.io/name=framework-controller")
    cluster.kubectl(*delete, f"--namespace={SYSTEM_NAMESPACE}", "--grace-period=0", "--force")
    done = end_gang(cluster, namespace, "survivor", 0, 1)
    recorded = {name: task["attemptStatus"]["podUID"] for name, task in list_tasks(done).items()}
    assert recorded == {name: pod["metadata"]["uid"] for name, pod in before.items()}
    assert done["status"]["attemptStatus"]["completionStatus"]["code"] == 0


def test_kubelet_stopped_for_a_minute_costs_no_pod(cluster: Cluster, namespace: str) -> None:
    apply_gang(cluster, namespace, build_gang("patient", 2))
    before = wait_until_training(cluster, namespace, 2)

    cluster.signal_kubelet(signal.SIGSTOP)
    try:
        time.sleep(KUBELET_STOP_SECONDS)
    finally:
        cluster.signal_kubelet(signal.SIGCONT)
    ready = ("wait", "--for=condition=Ready", "node/node1", f"--timeout={NODE_SECONDS}s")
    cluster.kubectl(*ready)
    during = list_pods(cluster, namespace)
    status = end_gang(cluster, namespace, "patient", 0, 1)["status"]

    assert {name: pod["metadata"]["uid"] for name, pod in during.items()} == {
        name: pod["metadata"]["uid"] for name, pod in before.items()
    }
    assert status["attemptStatus"]["completionStatus"]["code"] == 0
    assert status["retryPolicyStatus"]["totalRetriedCount"] == 0
