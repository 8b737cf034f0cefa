"""A Framework gives its author no Pod that Pod Security of the namespace denies."""

from pathlib import Path
from typing import Any

import pytest

from framework.api import constants
from tests.support.builders import build_role_wire, build_submission, build_template_wire
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkserver import start_controller
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.policed import MERGE, create
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kube


def build_framework(name: str, **container: Any) -> dict[str, Any]:
    main = {"name": "train", "image": "your/training:1", **container}
    pod = build_template_wire(containers=[main])
    return build_submission(name, build_role_wire(task={"pod": pod}))


def test_pod_of_a_framework_that_asks_for_too_much_is_denied_as_any_pod_is(
    control_plane: Access, framework_crd: None, http: JsonHttp, namespace: str, tmp_path: Path
) -> None:
    path = f"/api/v1/namespaces/{namespace}"
    frameworks = f"/apis/{constants.API_VERSION}/namespaces/{namespace}/frameworks"
    patch = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    assert http.request("PATCH", path, patch, content_type=MERGE)[0] == 200

    def find_refusal() -> str:
        events = http.request("GET", f"{path}/events")[1]["items"]
        return next((e["message"] for e in events if e["reason"] == "FailedCreate"), "")

    def list_pods() -> list[str]:
        return [pod["metadata"]["name"] for pod in http.request("GET", f"{path}/pods")[1]["items"]]

    with start_controller(control_plane, tmp_path):
        greedy = build_framework("greedy", securityContext={"capabilities": {"add": ["SYS_ADMIN"]}})
        create(http, frameworks, greedy)
        refusal = wait_until(find_refusal)
        create(http, frameworks, build_framework("ordinary"))
        pods = wait_until(list_pods)

    assert 'violates PodSecurity "baseline' in refusal
    assert pods == ["ordinary-worker-0"]
