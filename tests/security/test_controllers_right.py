"""The controller's token on a real API server writes objects of gangs, and no others."""

from pathlib import Path
from typing import Any

import pytest

from framework.api import constants
from framework.kube.resources import Object
from tests.support.servers.controlplane import Access
from tests.support.servers.deployed import ACCOUNT, apply_role
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.policed import (
    FC,
    MERGE,
    Policed,
    allow,
    build_pod,
    create,
)
from tests.support.servers.rights import create_account_access
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kube

SYSTEM = "/api/v1/namespaces/kube-system"


@pytest.fixture
def policed(control_plane: Access, http: JsonHttp, namespace: str) -> Policed:
    return Policed(http, control_plane, f"/api/v1/namespaces/{namespace}")


@pytest.fixture
def controller(policies: None, policed: Policed, tmp_path: Path) -> JsonHttp:
    """The token of the account of deploy/base, which may write in all namespaces."""
    objects = apply_role(policed.access, "cluster", policed.namespace, tmp_path)
    place = next(body for body in objects if body["kind"] == "Deployment")["metadata"]["namespace"]
    client = create_account_access(policed.access, tmp_path, place, ACCOUNT).open_http()
    gang: Object = {"metadata": {"name": "probe-attempt", "labels": {FC: "probe"}}}
    wait_until(lambda: try_create(client, policed, "configmaps", gang) == 201)
    other: Object = {"metadata": {"name": "probe"}}
    wait_until(lambda: try_create(client, policed, "configmaps", other) == 403)
    return client


def try_create(client: JsonHttp, policed: Policed, plural: str, body: Object) -> int:
    return client.request("POST", f"{policed.path}/{plural}?dryRun=All", body)[0]


def check_denied(answer: tuple[int, Any], message: str = "objects of gangs only") -> None:
    assert (answer[0], message in answer[1]["message"]) == (403, True), answer


def test_controller_changes_and_deletes_no_configmap_of_others(
    controller: JsonHttp, policed: Policed
) -> None:
    """Nor those of kube-system, by which an attacker could control the whole cluster."""
    forged: Object = {"data": {"key": "forged"}}
    claim = {"metadata": {"labels": {FC: "gang"}}, **forged}
    for folder in (policed.path, SYSTEM):
        for name in ("settings", "settings-attempt"):
            path = f"{folder}/configmaps/{name}"
            create(policed.admin, f"{folder}/configmaps", {"metadata": {"name": name}})
            try:
                for change in (forged, claim):
                    check_denied(controller.request("PATCH", path, change, content_type=MERGE))
                check_denied(controller.request("DELETE", path))
            finally:
                policed.admin.request("DELETE", path)


def test_controller_creates_and_deletes_no_pod_of_others(
    controller: JsonHttp, policed: Policed
) -> None:
    pod = build_pod("database", account="default", framework=None)
    assert try_create(controller, policed, "pods", pod) == 403
    policed.create("pods", pod)
    assert controller.request("DELETE", f"{policed.path}/pods/database")[0] == 403


def test_controller_deletes_a_pod_whose_label_was_removed(
    controller: JsonHttp, policed: Policed
) -> None:
    pod = build_pod("gang-worker-0", account="default")
    del pod["metadata"]["labels"]
    policed.create("pods", pod)
    assert controller.request("DELETE", f"{policed.path}/pods/gang-worker-0")[0] == 200


def test_controller_makes_no_secret_that_holds_the_token_of_an_account(
    controller: JsonHttp, policed: Policed
) -> None:
    metadata = {"name": "gang-gang-key", "labels": {FC: "gang"}}
    secret: Object = {"metadata": metadata, "data": {constants.GANG_KEY: "YQ=="}}
    assert try_create(controller, policed, "secrets", secret) == 201
    ssh_key: Object = {**secret, "metadata": {**metadata, "name": "gang-ssh"}}
    assert try_create(controller, policed, "secrets", ssh_key) == 201
    of_account = {"kubernetes.io/service-account.name": "default"}
    token = {**metadata, "annotations": of_account}
    for body in (
        {"metadata": token, "type": "kubernetes.io/service-account-token"},
        {**secret, "metadata": {**metadata, "name": "other"}},
        {**secret, "metadata": {"name": "gang-gang-key"}},
        {**secret, "metadata": {"name": "gang-ssh"}},
    ):
        assert try_create(controller, policed, "secrets", body) == 403, body


def test_object_without_a_name_is_checked_by_its_generated_name(
    controller: JsonHttp, policed: Policed
) -> None:
    metadata = {"generateName": "gang-attempt", "labels": {FC: "gang"}}
    for plural in ("configmaps", "secrets"):
        path = f"{policed.path}/{plural}?dryRun=All"
        answer = controller.request("POST", path, {"metadata": metadata})
        check_denied(answer, "the controller")


def test_administrator_is_not_limited(policies: None, policed: Policed) -> None:
    root = policed.open_tenant("root", allow("*", "*", "*"))
    wait_until(lambda: try_create(root, policed, "configmaps", {"metadata": {"name": "a"}}) == 201)
