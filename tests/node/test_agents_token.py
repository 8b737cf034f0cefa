"""Whether a training container reads the agent's token through /proc, on a real node."""

import json
from typing import Any

import pytest

from tests.node.cluster import Cluster
from tests.node.gangs import (
    apply_gang,
    build_gang,
    end_gang,
    get_pod_spec,
    scale,
    wait_until_training,
)

pytestmark = pytest.mark.node

# What a process can try without a right of its own, at each process of an agent that it sees.
ATTACK = """\
import glob, json, os
# /var/run is a link to /run, and an absolute one would lead into this container's own root.
TOKEN = "run/secrets/kubernetes.io/serviceaccount/token"
seen, read = 0, []
for folder in glob.glob("/proc/[0-9]*"):
    try:
        command = open(folder + "/cmdline", "rb").read()
    except OSError:
        continue
    if b"/opt/frameworkbarrier" not in command or folder.endswith(f"/{os.getpid()}"):
        continue
    seen += 1
    for name in (f"root/{TOKEN}", f"cwd/{TOKEN}", "environ", "maps", "mem"):
        try:
            open(f"{folder}/{name}", "rb").read(0 if name == "mem" else -1)
            read.append(name)
        except OSError:
            pass
print(json.dumps({"seen": seen > 0, "read": sorted(read)}))
"""
# Ends as the script of an ordinary gang does, and says when it was sent a signal.
SIGNALLED = """\
import os, signal, time
signal.signal(signal.SIGHUP, lambda *_: open("/tmp/signalled", "w").close())
signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
open("/tmp/ready", "w").close()
while not os.path.exists("/tmp/end"):
    time.sleep(0.2)
"""


def build_shared(name: str, workers: int = 1) -> tuple[dict[str, Any], dict[str, Any]]:
    """Build a gang whose containers see one another's processes; give its Pod's spec too."""
    gang = build_gang(name, workers)
    spec = get_pod_spec(gang)
    spec["shareProcessNamespace"] = True
    return gang, spec


def build_sidecar(*env: dict[str, str], **fields: Any) -> dict[str, Any]:
    # Left to find out what ends it, it would ask for its Pod, which its account may not read.
    native = {"name": "FB_SIDECAR_END", "value": "native"}
    return {
        "name": "rendezvous",
        "image": "frameworkbarrier/framework-rendezvous",
        "args": ["watch"],
        "restartPolicy": "Always",
        "env": [native, *env],
        **fields,
    }


def attack(cluster: Cluster, namespace: str, pod: str) -> dict[str, Any]:
    printed = cluster.run_in(namespace, pod, "train", "python3", "-c", ATTACK)
    found: dict[str, Any] = json.loads(printed)
    return found


def test_training_container_reads_nothing_of_an_agent_through_proc(
    cluster: Cluster, namespace: str
) -> None:
    gang, _ = build_shared("apart")
    apply_gang(cluster, namespace, gang)
    # It trains, so it has read the files that the agents wrote as another user.
    wait_until_training(cluster, namespace, 1)
    assert attack(cluster, namespace, "apart-worker-0") == {"seen": True, "read": []}
    end_gang(cluster, namespace, "apart", 0)


def test_agent_of_the_same_user_and_group_is_read(cluster: Cluster, namespace: str) -> None:
    """The same attack succeeds where a user gives both one user: lint reports that Pod."""
    gang, spec = build_shared("same")
    same = {"runAsUser": 65532, "runAsGroup": 65532}
    spec["securityContext"] = dict(same)
    spec["initContainers"] = [build_sidecar(securityContext=same)]
    apply_gang(cluster, namespace, gang)
    wait_until_training(cluster, namespace, 1)
    found = attack(cluster, namespace, "same-worker-0")
    assert "root/run/secrets/kubernetes.io/serviceaccount/token" in found["read"]
    end_gang(cluster, namespace, "same", 0)


def test_agent_that_sends_signals_is_not_read(cluster: Cluster, namespace: str) -> None:
    """It has the training container's user, which a signal needs, and another group."""
    gang, spec = build_shared("signal", 2)
    spec["securityContext"] = {"runAsUser": 1000, "runAsGroup": 1000}
    signal = {"name": "FB_NOTIFY_SIGNAL", "value": "HUP"}
    receiver = {"name": "FB_NOTIFY_PROCESS", "value": "python3"}
    spec["initContainers"] = [build_sidecar(signal, receiver)]
    spec["containers"][0]["command"] = ["python3", "-c", SIGNALLED]
    apply_gang(cluster, namespace, gang)
    wait_until_training(cluster, namespace, 2)
    ask = ("exec", "--namespace", namespace, "signal-worker-0", "-c", "train", "--")

    def wait_for_file(path: str, what: str) -> None:
        def is_there() -> bool | None:
            return cluster.try_kubectl(*ask, "test", "-e", path).returncode == 0 or None

        cluster.wait(is_there, what, namespace)

    # Before it has its handler, a signal would end it.
    wait_for_file("/tmp/ready", "the training process can take signals")

    assert attack(cluster, namespace, "signal-worker-0") == {"seen": True, "read": []}

    scale(cluster, namespace, "signal", 1)
    wait_for_file("/tmp/signalled", "the training process got its signal")
    end_gang(cluster, namespace, "signal", 0)
