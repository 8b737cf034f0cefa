"""The policies of deploy/ on the node, where agents have the tokens that the kubelet asks for."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.node.cluster import SYSTEM_NAMESPACE, Cluster
from tests.node.gangs import apply_gang, build_gang, end_gang, wait_until_training
from tests.support.servers.frameworkcrd import ROOT

pytestmark = pytest.mark.node

TOKEN_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/token"
READ_TOKEN = f"print(open('{TOKEN_FILE}').read())"


def test_token_of_an_agent_changes_nothing_but_its_own_acknowledgement(
    cluster: Cluster, namespace: str
) -> None:
    apply_gang(cluster, namespace, build_gang("agents", 2, drain={"timeoutSec": 60}))
    wait_until_training(cluster, namespace, 2)
    read = ("agents-worker-0", "rendezvous", "python3", "-c", READ_TOKEN)
    token = cluster.run_in(namespace, *read).strip()

    # Not with kubectl, which reads a Pod before it patches it: an agent may not.
    http = replace(cluster.access, token=token).open_http()

    def patch(pod: str, change: Any) -> tuple[int, str]:
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}"
        content = "application/strategic-merge-patch+json"
        status, answer = http.request("PATCH", path, change, content_type=content)
        return status, answer.get("message", "")

    key = "frameworkbarrier.io/acknowledged-generation"
    acknowledge = {"metadata": {"annotations": {key: "7"}}}
    image = {"spec": {"containers": [{"name": "train", "image": "other:1"}]}}
    assert patch("agents-worker-0", acknowledge) == (200, "")
    for pod, change, message in (
        ("agents-worker-1", acknowledge, "an agent may patch its own Pod only"),
        ("agents-worker-0", image, "an agent may not change a Pod's spec"),
    ):
        status, answer = patch(pod, change)
        assert status == 403
        assert message in answer
    end_gang(cluster, namespace, "agents", 0, 1)


def test_training_container_holds_no_token(cluster: Cluster, namespace: str) -> None:
    apply_gang(cluster, namespace, build_gang("bare", 1))
    wait_until_training(cluster, namespace, 1)
    ask = ("exec", "--namespace", namespace, "bare-worker-0", "-c", "train", "--")
    found = cluster.try_kubectl(*ask, "ls", str(Path(TOKEN_FILE).parent))
    assert "No such file" in found.stderr
    end_gang(cluster, namespace, "bare", 0)


def test_network_policies_are_accepted(cluster: Cluster, namespace: str) -> None:
    """Accepted only: the plugin of this node, bridge, enforces none."""
    folder = str(ROOT / "deploy" / "agents" / "network")
    policy = cluster.kubectl("kustomize", folder).replace("GANG_NAME", "gang")
    cluster.kubectl("apply", "--namespace", namespace, "-f", "-", text=policy)
    own = cluster.get("networkpolicies", "--namespace", namespace)["items"]
    system = cluster.get("networkpolicies", "--namespace", SYSTEM_NAMESPACE)["items"]
    assert [item["metadata"]["name"] for item in own] == ["frameworkbarrier-gang"]
    selector = own[0]["spec"]["podSelector"]["matchLabels"]
    assert selector == {"FC_FRAMEWORK_NAME": "gang"}
    assert [item["metadata"]["name"] for item in system] == ["framework-controller"]
