"""``describe``, ``tree``, ``events`` and ``get`` with the rights of a tenant, and with fewer."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from framework.api import constants
from framework.kube.client import KubeClient
from framework.kube.resources import FRAMEWORKS, PODS
from tests.support.builders import (
    build_role_status,
    build_role_wire,
    build_status_wire,
    build_submission,
    build_template_wire,
)
from tests.support.servers.commandline import call_on
from tests.support.servers.controlplane import Access
from tests.support.servers.frameworkcrd import wait_ready
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.rights import create_account_access

pytestmark = pytest.mark.kube

READ = ["get", "list", "watch"]
FRAMEWORK_RULE = {"apiGroups": [constants.GROUP], "resources": ["frameworks"], "verbs": READ}
DETAIL_RULES = [
    {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["configmaps", "serviceaccounts"], "verbs": ["get"]},
]


@pytest.fixture
async def gang(framework_crd: None, kube: KubeClient, namespace: str) -> str:
    """A namespace with a Framework that has a status and a Pod."""
    template = {"pod": {"spec": {**build_template_wire()["spec"], "serviceAccountName": "default"}}}
    body = build_submission("gang", build_role_wire(number=2, task=template))
    await kube.create(FRAMEWORKS, namespace, body)
    status = {"status": build_status_wire(build_role_status(number=2))}
    await kube.patch(FRAMEWORKS, namespace, "gang", status, subresource="status")
    metadata = {"name": "gang-worker-0", "labels": {constants.FRAMEWORK_NAME: "gang"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **build_template_wire()}
    await kube.create(PODS, namespace, pod)
    return namespace


def build_tenant(
    access: Access, http: JsonHttp, namespace: str, folder: Path, rules: Sequence[object]
) -> Access:
    """Create an account with these rules in the namespace."""
    subject = {"kind": "ServiceAccount", "name": "tenant", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"}
    metadata = {"metadata": {"name": "tenant"}}
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    for path, body in (
        (f"/api/v1/namespaces/{namespace}/serviceaccounts", metadata),
        (f"{rbac}/roles", {**metadata, "rules": rules}),
        (f"{rbac}/rolebindings", {**metadata, "roleRef": role, "subjects": [subject]}),
    ):
        status, answer = http.request("POST", path, body)
        assert status == 201, answer
    tenant = create_account_access(access, folder, namespace, "tenant")
    # Roles are in force a moment after they are stored.
    wait_ready(tenant.open_http(), FRAMEWORKS.path(namespace))
    return tenant


def test_user_with_rights_on_frameworks_only_is_told_what_is_left_out(
    control_plane: Access, http: JsonHttp, gang: str, tmp_path: Path
) -> None:
    tenant = build_tenant(control_plane, http, gang, tmp_path, [FRAMEWORK_RULE])
    assert "gang" in call_on(tenant, "get", "-n", gang).out
    for command in ("describe", "tree"):
        done = call_on(tenant, command, "gang", "-n", gang)
        assert done.code == 0, done.err
        assert "worker/0-1" in done.out
        (note,) = done.err.splitlines()
        assert "you lack the rights list pods, get configmaps, list events" in note
    refused = call_on(tenant, "events", "gang", "-n", gang)
    assert (refused.code, refused.out) == (3, "")
    assert 'cannot list resource "events"' in refused.err


def test_user_with_the_documented_rights_sees_all(
    control_plane: Access, http: JsonHttp, gang: str, tmp_path: Path
) -> None:
    rules = [FRAMEWORK_RULE, *DETAIL_RULES]
    tenant = build_tenant(control_plane, http, gang, tmp_path, rules)
    done = call_on(tenant, "tree", "gang", "-n", gang, "-o", "json")
    assert (done.code, done.err) == (0, "")
    tree = json.loads(done.out)
    assert tree["objects"] == ["ServiceAccount/default"]
    assert tree["roles"][0]["tasks"][0]["pod"]["name"] == "gang-worker-0"
    assert call_on(tenant, "describe", "gang", "-n", gang).err == ""
    assert call_on(tenant, "events", "gang", "-n", gang).code == 0
