"""A Framework gives its author no Pod that Pod Security of the namespace denies."""

from pathlib import Path
from typing import Any

import pytest

from framework.api import constants
from tests.support.builders import build_role_wire, build_submission, build_template_wire
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import start_controller
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kube

MERGE_PATCH = "application/merge-patch+json"


def build_framework(name: str, **container: Any) -> dict[str, Any]:
    main = {"name": "train", "image": "your/training:1", **container}
    pod = build_template_wire(containers=[main])
    return build_submission(name, build_role_wire(task={"pod": pod}))


def test_pod_of_a_framework_that_asks_for_too_much_is_denied_as_any_pod_is(
    control_plane: Access, framework_crd: None, http: JsonHttp, namespace: str, tmp_path: Path
) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    path = f"/api/v1/namespaces/{namespace}"
    patch = {"metadata": {"labels": labels}}
    assert http.request("PATCH", path, patch, content_type=MERGE_PATCH)[0] == 200
    frameworks = f"/apis/{constants.API_VERSION}/namespaces/{namespace}/frameworks"

    def find_refusal() -> str:
        _, events = http.request("GET", f"{path}/events")
        refusals = [item for item in events["items"] if item["reason"] == "FailedCreate"]
        return refusals[0]["message"] if refusals else ""

    def find_pod() -> str:
        _, pods = http.request("GET", f"{path}/pods")
        names = [item["metadata"]["name"] for item in pods["items"]]
        return ",".join(names)

    with start_controller(control_plane, tmp_path):
        greedy = build_framework("greedy", securityContext={"capabilities": {"add": ["SYS_ADMIN"]}})
        assert http.request("POST", frameworks, greedy)[0] == 201
        refusal = wait_until(find_refusal)
        assert http.request("POST", frameworks, build_framework("ordinary"))[0] == 201
        pods = wait_until(find_pod)

    assert 'violates PodSecurity "baseline' in refusal
    assert pods == "ordinary-worker-0"
