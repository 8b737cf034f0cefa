"""Who may say that an object belongs to a gang: on a real API server, the controller only."""

import base64
import itertools
from typing import Any

import pytest

from framework.api import constants
from framework.kube.resources import Object
from tests.support.builders import build_submission
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.policed import (
    FC,
    OWN,
    WORKLOADS,
    Policed,
    acknowledge,
    allow,
    annotate,
    build_pod,
    create_as,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kube

ROSTER = base64.b64encode(b"forged").decode()
ANNOTATIONS = (
    FC,
    constants.TASK_INDEX,
    constants.ROSTER_VERSION_ANNOTATION,
    constants.GENERATION_ANNOTATION,
    constants.PROGRESS_ANNOTATION,
    constants.WRAPPER_ANNOTATION,
    f"{constants.ANNOTATION_PREFIX}on-change",
)
LABELS = (FC, constants.TASKROLE_NAME, constants.TASK_INDEX)
CONTROL = allow("control", "gangs", "frameworkbarrier.io")


@pytest.fixture
def tenant(policed: Policed) -> JsonHttp:
    """An account that may write Pods and ConfigMaps, and Frameworks with their status."""
    client = policed.open_tenant(
        "tenant",
        allow("get,create,update,patch,delete", "pods,pods/status,pods/binding,bindings"),
        allow("get,create,update,patch,delete", "configmaps,secrets"),
        allow("get,create,update,patch", "frameworks,frameworks/status", constants.GROUP),
    )
    wait_until(lambda: policed.patch(client, OWN, annotate(note="b"))[0] == 200)
    return client


def is_denied(answer: tuple[int, Any]) -> bool:
    """Return whether a policy of ours denied the request."""
    status, body = answer
    return status == 403 and "ValidatingAdmissionPolicy 'frameworkbarrier-" in body["message"]


def list_claims() -> list[Object]:
    """List metadata by which an object claims to belong to a gang."""
    return [
        *({"labels": {key: "gang"}} for key in LABELS),
        *({"annotations": {key: "gang"}} for key in ANNOTATIONS),
        {"labels": {f"{constants.ANNOTATION_PREFIX}gang": "a"}},
        {"labels": {"FC_ANYTHING": "a"}},
    ]


def test_tenant_creates_no_object_with_the_identity_of_a_gang(
    policed: Policed, tenant: JsonHttp
) -> None:
    pod = build_pod("", account="default", framework=None)
    for claim in list_claims():
        for name in ({"name": "intruder"}, {"generateName": "intruder-"}):
            for plural, plain in (("pods", pod), ("configmaps", {}), ("secrets", {})):
                body = {**plain, "metadata": {**name, **claim}}
                answer = tenant.request("POST", f"{policed.path}/{plural}", body)
                assert is_denied(answer), (plural, claim, answer)


def test_tenant_creates_pods_and_configmaps_without_it(policed: Policed, tenant: JsonHttp) -> None:
    pod = build_pod("own", account="default", framework=None)
    assert tenant.request("POST", f"{policed.path}/pods", pod)[0] == 201
    configmap = {"metadata": {"name": "own"}, "binaryData": {"key": ROSTER}, "immutable": True}
    assert tenant.request("POST", f"{policed.path}/configmaps", configmap)[0] == 201
    assert tenant.request("DELETE", f"{policed.path}/pods/{OWN}")[0] == 200


def test_tenant_replaces_its_own_objects_without_naming_their_uid(
    policed: Policed, tenant: JsonHttp
) -> None:
    for plural, body in (
        ("configmaps", {"metadata": {"name": "own"}}),
        ("secrets", {"metadata": {"name": "own"}}),
        ("pods", build_pod("own", account="default", framework=None)),
    ):
        stored = policed.create(plural, body)
        stored["metadata"] = {"name": "own", "labels": {"app": "web"}}
        status, answer = tenant.request("PUT", f"{policed.path}/{plural}/own", stored)
        assert status == 200, answer


def test_tenant_gives_no_object_the_identity_later(policed: Policed, tenant: JsonHttp) -> None:
    policed.create("pods", build_pod("own", account="default", framework=None))
    policed.create("configmaps", {"metadata": {"name": "own"}})
    policed.create("secrets", {"metadata": {"name": "own"}})
    for claim in list_claims():
        for plural, name in (
            ("pods", "own"),
            ("pods", "own/status"),
            ("configmaps", "own"),
            ("secrets", "own"),
        ):
            answer = policed.patch(tenant, name, {"metadata": claim}, plural)
            assert is_denied(answer), (plural, name, claim, answer)


def test_tenant_gives_a_pod_no_identity_by_binding_it(policed: Policed, tenant: JsonHttp) -> None:
    """A Binding's annotations, and in newer releases labels, become the Pod's."""
    policed.create("pods", build_pod("own", account="default", framework=None))
    target = {"apiVersion": "v1", "kind": "Node", "name": "node"}
    metadata = {"name": "own", "annotations": {FC: "gang"}}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    for path in ("pods/own/binding", "bindings"):
        answer = tenant.request("POST", f"{policed.path}/{path}", binding)
        assert is_denied(answer), (path, answer)
    assert FC not in policed.read("own")["metadata"].get("annotations", {})


def test_workload_with_the_identity_in_its_template_gets_no_pod(policed: Policed) -> None:
    """kube-controller-manager creates Pods as this account, in the name of whoever wrote it."""
    for labels, is_created in (({"app": "web"}, True), ({"app": "web", FC: "gang"}, False)):
        body = build_pod("", account="default", framework=None)
        body |= {"apiVersion": "v1", "kind": "Pod"}
        body["metadata"] = {"generateName": "web-", "labels": labels}
        said = create_as(policed.access, policed.namespace, body, WORKLOADS)
        assert ("created" in said, "frameworkbarrier-identity" in said) == (
            is_created,
            not is_created,
        ), said


def test_tenant_changes_no_roster(policed: Policed, tenant: JsonHttp) -> None:
    name = "gang-attempt"
    published = {"binaryData": {constants.ROSTER_KEY: base64.b64encode(b"roster").decode()}}
    published |= annotate(**{constants.GENERATION_ANNOTATION: "1"})
    assert policed.patch(policed.admin, name, published, "configmaps")[0] == 200
    before = policed.read(name, "configmaps")
    for change in (
        {"binaryData": {constants.ROSTER_KEY: ROSTER}},
        {"binaryData": {constants.ROSTER_KEY: None}},
        {"binaryData": None},
        {"binaryData": {"other": ROSTER}},
        {"immutable": True},
        annotate(**{constants.GENERATION_ANNOTATION: "2"}),
        annotate(**{constants.GENERATION_ANNOTATION: None}),
        annotate(**{constants.PROGRESS_ANNOTATION: "{}"}),
        annotate(**{constants.ROSTER_VERSION_ANNOTATION: "9"}),
    ):
        answer = policed.patch(tenant, name, change, "configmaps")
        assert is_denied(answer), (change, answer)
        replaced = {**before, **change, "metadata": {**before["metadata"]}}
        if "metadata" in change:
            replaced["metadata"] |= change["metadata"]
        answer = tenant.request("PUT", f"{policed.path}/configmaps/{name}", replaced)
        assert is_denied(answer), (change, answer)
    assert policed.read(name, "configmaps") == before
    assert policed.patch(tenant, name, {"data": {"note": "a"}}, "configmaps")[0] == 200


def test_tenant_takes_the_name_of_an_attempt_with_no_roster(
    policed: Policed, tenant: JsonHttp
) -> None:
    """Agents watch their ConfigMap by name, which exists a moment before the controller's."""
    body: Object = {"metadata": {"name": "next-attempt"}}
    body["binaryData"] = {constants.ROSTER_KEY: ROSTER}
    answer = tenant.request("POST", f"{policed.path}/configmaps", body)
    assert is_denied(answer), answer
    del body["binaryData"]
    assert tenant.request("POST", f"{policed.path}/configmaps", body)[0] == 201
    change = {"binaryData": {constants.ROSTER_KEY: ROSTER}}
    assert is_denied(policed.patch(tenant, "next-attempt", change, "configmaps"))


def test_tenant_creates_no_gang_key(policed: Policed, tenant: JsonHttp) -> None:
    """A controller that has started anew would take it for its own; its author knows the key."""
    path = f"{policed.path}/secrets"
    body = {"metadata": {"name": "next-gang-key"}, "data": {constants.GANG_KEY: ROSTER}}
    answer = tenant.request("POST", path, body)
    assert is_denied(answer), answer
    for metadata in ({"name": "gang-key"}, {"generateName": "next-gang-key"}):
        assert tenant.request("POST", path, {"metadata": metadata})[0] == 201


def test_tenant_replaces_no_gang_key(policed: Policed, tenant: JsonHttp) -> None:
    """Nor one that is not immutable; it may label and delete the Secret, but not create another."""
    name = "gang-gang-key"
    secret = {"metadata": {"name": name}, "data": {constants.GANG_KEY: ROSTER}}
    policed.create("secrets", secret)
    other = base64.b64encode(b"known").decode()
    for change in (
        {"data": {constants.GANG_KEY: other}},
        {"stringData": {constants.GANG_KEY: "known"}},
        {"data": {"other": other}},
        {"data": None},
    ):
        answer = policed.patch(tenant, name, change, "secrets")
        assert is_denied(answer), (change, answer)
    replaced = {**policed.read(name, "secrets"), "data": {constants.GANG_KEY: other}}
    assert is_denied(tenant.request("PUT", f"{policed.path}/secrets/{name}", replaced))
    assert policed.patch(tenant, name, {"metadata": {"labels": {"a": "b"}}}, "secrets")[0] == 200
    assert tenant.request("DELETE", f"{policed.path}/secrets/{name}")[0] == 200
    assert is_denied(tenant.request("POST", f"{policed.path}/secrets", secret))


def test_controller_creates_a_gang_key(policed: Policed) -> None:
    controller = policed.open_tenant("my-controller", allow("create", "secrets"), CONTROL)
    number = itertools.count()

    def create() -> bool:
        body = {"metadata": {"name": f"gang{next(number)}-gang-key", "labels": {FC: "gang"}}}
        return controller.request("POST", f"{policed.path}/secrets", body)[0] == 201

    wait_until(create)


def test_tenant_writes_no_status_of_a_framework(policed: Policed, tenant: JsonHttp) -> None:
    frameworks = f"/apis/{constants.API_VERSION}/namespaces/{policed.namespace}/frameworks"
    body = build_submission("gang", executionType="Create")
    status, created = tenant.request("POST", frameworks, body)
    assert status == 201, created
    content = "application/merge-patch+json"
    change = {"status": {"state": "Completed"}}
    path = f"{frameworks}/gang/status"
    assert is_denied(tenant.request("PATCH", path, change, content_type=content))
    assert is_denied(tenant.request("PUT", path, {**created, **change}))
    labels = {"metadata": {"labels": {"own": "a"}}}
    assert tenant.request("PATCH", f"{frameworks}/gang", labels, content_type=content)[0] == 200


def test_acknowledgement_is_written_with_a_token_of_the_pod_only(
    policed: Policed, tenant: JsonHttp
) -> None:
    assert is_denied(policed.patch(tenant, OWN, acknowledge("3")))
    assert policed.patch(policed.open_agent(), OWN, acknowledge("3"))[0] == 200


def test_controller_is_known_by_its_right_under_any_name(policed: Policed) -> None:
    controller = policed.open_tenant(
        "my-controller", allow("create,patch", "pods,configmaps"), CONTROL
    )
    wait_until(lambda: policed.patch(controller, "gang-attempt", {}, "configmaps")[0] == 200)
    pod = build_pod("gang-worker-2", account="default")
    assert controller.request("POST", f"{policed.path}/pods", pod)[0] == 201
    change = {"binaryData": {constants.ROSTER_KEY: ROSTER}}
    assert policed.patch(controller, "gang-attempt", change, "configmaps")[0] == 200
