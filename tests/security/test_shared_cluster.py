"""deploy/overlays/shared-cluster and deploy/overlays/tenant on a real API server."""

import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from framework.api import constants
from framework.kube.resources import FRAMEWORKS, LEASES, PODS
from tests.support.builders import build_submission
from tests.support.servers.controlplane import Access
from tests.support.servers.deployed import ACCOUNT, BASE
from tests.support.servers.frameworkcrd import ROOT
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.policed import MERGE, create
from tests.support.servers.rights import apply_kustomization, create_account_access, write_overlay
from tests.support.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.kube

OVERLAYS = ROOT / "deploy" / "overlays"
SYSTEM_NAMESPACE = "frameworkbarrier-system"
FLOW_CONTROL = "/apis/flowcontrol.apiserver.k8s.io/v1"
SCHEMA_HEADER = "X-Kubernetes-PF-FlowSchema-UID"
LEVEL_HEADER = "X-Kubernetes-PF-PriorityLevel-UID"
QUOTA = "frameworks"


def read_flow(access: Access, path: str) -> tuple[str, str]:
    """Send a GET; return the UIDs of its FlowSchema and its priority level."""
    context = ssl.create_default_context(cafile=access.ca_file)
    handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)]
    request = urllib.request.Request(
        access.url + path, headers={"Authorization": f"Bearer {access.token}"}
    )
    try:
        answer = urllib.request.build_opener(*handlers).open(request, timeout=HANG_SECONDS)
    except urllib.error.HTTPError as e:
        # Not found, or forbidden: the headers are in the answer too.
        answer = e
    with answer:
        return answer.headers[SCHEMA_HEADER], answer.headers[LEVEL_HEADER]


def read_uid(http: JsonHttp, path: str) -> str:
    status, body = http.request("GET", path)
    assert status == 200, body
    return str(body["metadata"]["uid"])


@pytest.fixture
def shared(control_plane: Access, framework_crd: None) -> None:
    apply_kustomization(control_plane, BASE)
    apply_kustomization(control_plane, OVERLAYS / "shared-cluster")


@pytest.mark.parametrize(
    ("path", "schema", "level"),
    [
        (FRAMEWORKS.path(), ACCOUNT, ACCOUNT),
        (PODS.path("default"), ACCOUNT, ACCOUNT),
        (f"/apis/{constants.API_VERSION}", ACCOUNT, ACCOUNT),
        (LEASES.path(SYSTEM_NAMESPACE, ACCOUNT), f"{ACCOUNT}-leader-election", "leader-election"),
    ],
    ids=[
        "frameworks_of_all_namespaces",
        "pods_of_one_namespace",
        "discovery_for_the_crd_check",
        "its_lease",
    ],
)
def test_requests_of_the_controller_have_their_own_share(
    control_plane: Access,
    http: JsonHttp,
    shared: None,
    tmp_path: Path,
    path: str,
    schema: str,
    level: str,
) -> None:
    controller = create_account_access(control_plane, tmp_path, SYSTEM_NAMESPACE, ACCOUNT)
    wanted = (
        read_uid(http, f"{FLOW_CONTROL}/flowschemas/{schema}"),
        read_uid(http, f"{FLOW_CONTROL}/prioritylevelconfigurations/{level}"),
    )
    # The server takes a new configuration a moment after it is stored.
    wait_until(lambda: read_flow(controller, path) == wanted)


def test_requests_of_other_accounts_do_not_use_the_share(
    control_plane: Access, http: JsonHttp, shared: None, namespace: str, tmp_path: Path
) -> None:
    other = create_account_access(control_plane, tmp_path, namespace, "default")
    share = read_uid(http, f"{FLOW_CONTROL}/prioritylevelconfigurations/{ACCOUNT}")
    _, level = read_flow(other, PODS.path(namespace))
    assert level != share


def test_quota_of_a_tenant_refuses_one_framework_too_many(
    control_plane: Access,
    http: JsonHttp,
    framework_crd: None,
    namespace: str,
    tmp_path: Path,
) -> None:
    overlay = write_overlay(tmp_path / "overlay", OVERLAYS / "tenant", namespace)
    (quota,) = apply_kustomization(control_plane, overlay)
    assert (quota["metadata"]["name"], quota["metadata"]["namespace"]) == (QUOTA, namespace)
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/{QUOTA}"
    counted = f"count/frameworks.{constants.GROUP}"
    lowered = {"spec": {"hard": {counted: "1"}}}
    status, answer = http.request("PATCH", path, lowered, content_type=MERGE)
    assert status == 200, answer

    def is_counted() -> bool:
        stored = http.request("GET", path)[1].get("status", {}).get("hard", {})
        return bool(stored.get(counted) == "1" and stored.keys() == quota["spec"]["hard"].keys())

    # The controller of quotas looks for new kinds of objects every half minute.
    wait_until(is_counted)
    create(http, FRAMEWORKS.path(namespace), build_submission("first", executionType="Create"))
    second = build_submission("second", executionType="Create")
    status, answer = http.request("POST", FRAMEWORKS.path(namespace), second)
    assert status == 403
    assert "exceeded quota: frameworks" in answer["message"]
