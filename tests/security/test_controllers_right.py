"""The controller's own token on a real API server: it writes objects of gangs, and no others."""

from pathlib import Path

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


def test_controller_changes_and_deletes_no_configmap_of_others(
    controller: JsonHttp, policed: Policed
) -> None:
    """Not those of kube-system either, by which a whole cluster could be taken."""
    claim: Object = {"metadata": {"labels": {FC: "gang"}}, "data": {"key": "forged"}}
    for folder in (policed.path, SYSTEM):
        for name in ("settings", "settings-attempt"):
            path = f"{folder}/configmaps/{name}"
            create(policed.admin, f"{folder}/configmaps", {"metadata": {"name": name}})
            try:
                for change in ({"data": {"key": "forged"}}, claim):
                    status, answer = controller.request("PATCH", path, change, content_type=MERGE)
                    assert (status, "objects of gangs only" in answer["message"]) == (403, True)
                status, answer = controller.request("DELETE", path)
                assert (status, "objects of gangs only" in answer["message"]) == (403, True)
            finally:
                policed.admin.request("DELETE", path)


def test_controller_creates_and_deletes_no_pod_of_others(
    controller: JsonHttp, policed: Policed
) -> None:
    pod = build_pod("database", account="default", framework=None)
    assert try_create(controller, policed, "pods", pod) == 403
    policed.create("pods", pod)
    assert controller.request("DELETE", f"{policed.path}/pods/database")[0] == 403


def test_controller_deletes_a_pod_whose_label_was_taken_away(
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
    of_account = {"kubernetes.io/service-account.name": "default"}
    token = {**metadata, "annotations": of_account}
    for body in (
        {"metadata": token, "type": "kubernetes.io/service-account-token"},
        {**secret, "metadata": {**metadata, "name": "other"}},
        {**secret, "metadata": {"name": "gang-gang-key"}},
    ):
        assert try_create(controller, policed, "secrets", body) == 403, body


def test_object_without_a_name_is_judged_by_the_name_that_it_gets(
    controller: JsonHttp, policed: Policed
) -> None:
    metadata = {"generateName": "gang-attempt", "labels": {FC: "gang"}}
    for plural in ("configmaps", "secrets"):
        path = f"{policed.path}/{plural}?dryRun=All"
        status, answer = controller.request("POST", path, {"metadata": metadata})
        assert (status, "the controller" in answer["message"]) == (403, True), answer


def test_administrator_is_not_limited(policies: None, policed: Policed) -> None:
    root = policed.open_tenant("root", allow("*", "*", "*"))
    wait_until(lambda: try_create(root, policed, "configmaps", {"metadata": {"name": "a"}}) == 201)
