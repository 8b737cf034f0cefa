"""In a Pod whose containers share processes, the training cannot read the agent's token."""

import json
from typing import Any

import pytest

from tests.node.cluster import TEST_SECONDS, Cluster
from tests.node.gangs import apply_gang, build_gang, end_task, wait_until_training

pytestmark = [pytest.mark.node, pytest.mark.timeout(TEST_SECONDS)]

# Prints, for each process of an agent that it sees, what came of reading the token through /proc.
READ_TOKENS = """\
import json, os
outcomes = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        command = open(f"/proc/{pid}/cmdline", "rb").read()
    except OSError:
        continue
    if b"/opt/frameworkbarrier" not in command or pid == str(os.getpid()):
        continue
    try:
        open(f"/proc/{pid}/root/var/run/secrets/kubernetes.io/serviceaccount/token").read()
        outcomes.append("read")
    except OSError as e:
        outcomes.append(e.strerror)
print(json.dumps(outcomes))
"""


def build_shared(name: str) -> dict[str, Any]:
    gang = build_gang(name, 1)
    gang["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["shareProcessNamespace"] = True
    return gang


def test_training_in_a_shared_process_namespace_cannot_read_the_agents_token(
    cluster: Cluster, namespace: str
) -> None:
    apply_gang(cluster, namespace, build_shared("shared"))
    wait_until_training(cluster, namespace, 1)

    ask = ("exec", "--namespace", namespace, "shared-worker-0", "-c", "train", "--")
    outcomes = json.loads(cluster.kubectl(*ask, "python3", "-c", READ_TOKENS))

    assert outcomes == ["Permission denied"]
    end_task(cluster, namespace, "shared-worker-0")
    cluster.wait_for_state(namespace, "shared", "Completed")
