"""Tasks avoid nodes on which they failed, on a real API server.

The controller has its shipped rights only. The fake scheduler prefers the node ``broken``, where
each Pod fails, and obeys the node affinity of a Pod as the one of Kubernetes does.
"""

from pathlib import Path

import pytest

from framework.clock import SystemClock
from framework.kube.client import KubeClient
from framework.kube.errors import ApiError
from framework.kube.resources import FRAMEWORKS, PODS, Object
from tests.support.builders import build_role_wire, build_submission, build_template_wire
from tests.support.fakes.kubelet import FakeKubelet, Script, run_for
from tests.support.servers.controlplane import Access
from tests.support.servers.deployed import Deployed, apply_role
from tests.support.servers.watching import wait_for_event, wait_until_completed

pytestmark = pytest.mark.kube

NAME, BROKEN, SPARE = "avoider", "broken", "spare"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def list_excluded(pod: Object) -> list[str]:
    """List the nodes that each term of the affinity of a Pod excludes by name."""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED)
    if affinity is None:
        return []
    (term,) = affinity["nodeSelectorTerms"]
    return [field["values"][0] for field in term["matchFields"]]


def choose_node(pod: Object) -> str:
    return SPARE if BROKEN in list_excluded(pod) else BROKEN


async def test_task_that_fails_on_a_node_runs_on_another_one(
    framework_crd: None, audited_plane: Access, kube: KubeClient, namespace: str, tmp_path: Path
) -> None:
    bound: list[tuple[str, list[str]]] = []

    def choose_script(pod: Object) -> Script:
        node = choose_node(pod)
        bound.append((node, list_excluded(pod)))
        return run_for(0.1, 1 if node == BROKEN else 0)

    objects = apply_role(audited_plane, "namespaced", namespace, tmp_path)
    deployed = Deployed(audited_plane, objects, tmp_path)
    child = deployed.launch()
    pod = build_template_wire(terminationGracePeriodSeconds=1)
    retries = {"fancyRetryPolicy": False, "maxRetryCount": 5}
    role = build_role_wire(
        task={"pod": pod, "retryPolicy": retries}, recovery={"avoidNodes": {"maxNodes": 1}}
    )
    try:
        async with FakeKubelet(
            kube, SystemClock(), namespace, choose_script=choose_script, choose_node=choose_node
        ):
            created = await kube.create(FRAMEWORKS, namespace, build_submission(NAME, role))
            ended = await wait_until_completed(kube, namespace, NAME)
            event = await wait_for_event(kube, namespace, "NodeAvoided")
    finally:
        assert child.terminate() == 0
    # The API server adds no defaults: what is left out stays absent in its answer.
    assert created["spec"]["taskRoles"][0]["recovery"] == {"avoidNodes": {"maxNodes": 1}}
    assert bound == [(BROKEN, []), (BROKEN, []), (SPARE, [BROKEN])]
    assert event["message"] == f"worker/0 avoids node {BROKEN}, on which it failed"
    (task,) = ended["status"]["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"]
    assert [failure["node"] for failure in task["nodeFailures"]] == [BROKEN, BROKEN]
    attempt = task["attemptStatus"]
    assert (attempt["id"], attempt["podNodeName"], attempt["avoidedNodes"]) == (2, SPARE, [BROKEN])
    assert attempt["completionStatus"]["code"] == 0
    assert deployed.audit.read_refused() == set()


async def test_api_server_takes_one_node_in_a_requirement(kube: KubeClient, namespace: str) -> None:
    """So each node has a requirement of its own."""
    field = {"key": "metadata.name", "operator": "NotIn", "values": ["n1", "n2"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    template = build_template_wire(affinity={"nodeAffinity": {REQUIRED: terms}})
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "two"}, **template}
    with pytest.raises(ApiError) as refused:
        await kube.create(PODS, namespace, body)
    assert refused.value.status == 422
    assert "must be only one value" in str(refused.value)


@pytest.mark.parametrize(
    ("field", "value"), [("failures", 0), ("failures", 11), ("maxNodes", 17), ("withinSeconds", 0)]
)
async def test_api_server_refuses_values_beyond_the_limits(
    framework_crd: None, kube: KubeClient, namespace: str, field: str, value: int
) -> None:
    role = build_role_wire(recovery={"avoidNodes": {field: value}})
    with pytest.raises(ApiError) as refused:
        await kube.create(FRAMEWORKS, namespace, build_submission(NAME, role))
    assert refused.value.status == 422
    assert f"recovery.avoidNodes.{field}" in str(refused.value)
