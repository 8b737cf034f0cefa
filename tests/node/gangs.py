"""Gangs for the node's tests whose Tasks end when a test says so, with the agents injected."""

from typing import Any

import yaml

from tests.node.cluster import Cluster
from tests.support.builders import FAIL_FAST, build_submission

# Exit code of a command that was killed.
KILLED = 137
# Ends when a file says so, with the code that stands in it.
SCRIPT = """\
trap 'exit 143' TERM
. /mnt/frameworkbarrier/injector.sh
echo "workers ${FB_WORKER_IPS}"
while [ ! -e /tmp/end ]; do sleep 0.2; done
exit "$(cat /tmp/end)"
"""


def build_gang(name: str, workers: int, **role_fields: Any) -> dict[str, Any]:
    """Build a Framework of one role whose failures are retried when they are transient."""
    retry = {"fancyRetryPolicy": True, "maxRetryCount": 0}
    train = {"name": "train", "image": "python:3.12-slim", "command": ["sh", "-c", SCRIPT]}
    pod = {"spec": {"terminationGracePeriodSeconds": 5, "containers": [train]}}
    task = {"retryPolicy": retry, "podGracefulDeletionTimeoutSec": 600, "pod": pod}
    fields = {"frameworkAttemptCompletionPolicy": FAIL_FAST, "task": task, **role_fields}
    role = {"name": "worker", "taskNumber": workers, **fields}
    return build_submission(name, role, retryPolicy=retry)


def get_pod_spec(gang: dict[str, Any]) -> dict[str, Any]:
    """Return the Pod spec of the gang's role, to be changed."""
    spec: dict[str, Any] = gang["spec"]["taskRoles"][0]["task"]["pod"]["spec"]
    return spec


def apply_gang(cluster: Cluster, namespace: str, framework: dict[str, Any], *options: str) -> None:
    """Add the agents as `framework inject` does, and apply everything."""
    done = cluster.framework(
        "inject", "--restricted", *options, "-", text=yaml.safe_dump(framework)
    )
    assert done.returncode == 0, done.stderr
    cluster.kubectl("apply", "--namespace", namespace, "-f", "-", text=done.stdout)


def list_pods(cluster: Cluster, namespace: str) -> dict[str, dict[str, Any]]:
    """Map the name of each Pod to the Pod."""
    pods = cluster.get("pods", "--namespace", namespace)["items"]
    return {pod["metadata"]["name"]: pod for pod in pods}


def wait_until_training(cluster: Cluster, namespace: str, count: int) -> dict[str, dict[str, Any]]:
    """Wait until this many Pods run their training container; give all Pods."""

    def look() -> dict[str, dict[str, Any]] | None:
        pods = list_pods(cluster, namespace)
        running = [pod for pod in pods.values() if _is_training(pod)]
        return pods if len(running) == count == len(pods) else None

    return cluster.wait(look, f"{count} Pods train", namespace)


def _is_training(pod: dict[str, Any]) -> bool:
    statuses = pod["status"].get("containerStatuses", [])
    return pod["metadata"].get("deletionTimestamp") is None and any(
        "running" in status["state"] for status in statuses if status["name"] == "train"
    )


def end_gang(cluster: Cluster, namespace: str, name: str, *indexes: int) -> dict[str, Any]:
    """Let the containers of these Tasks end with 0, and give the completed Framework.

    The end of a container kills what else runs in it, so this command too when it is slower.
    """
    for index in indexes:
        command = ["exec", "--namespace", namespace, f"{name}-worker-{index}", "-c", "train", "--"]
        move = "echo 0 >/tmp/end.new && mv /tmp/end.new /tmp/end"
        done = cluster.try_kubectl(*command, "sh", "-c", move)
        assert done.returncode in {0, KILLED}, done.stderr
    return cluster.wait_for_state(namespace, name, "Completed")


def scale(cluster: Cluster, namespace: str, name: str, count: int) -> None:
    path = "/spec/taskRoles/0/taskNumber"
    change = {"op": "replace", "path": path, "value": count}
    cluster.patch_framework(namespace, name, change)
