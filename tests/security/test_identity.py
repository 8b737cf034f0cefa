"""Who may say that an object belongs to a gang: on a real API server, the controller only."""

import base64
from typing import Any

import pytest

from framework.api import constants
from framework.kube.resources import Object
from tests.support.builders import build_submission
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.policed import (
    FC,
    MERGE,
    OWN,
    WORKLOADS,
    Policed,
    acknowledge,
    allow,
    annotate,
    build_pod,
    create,
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
    constants.READINESS_ANNOTATION,
    constants.WRAPPER_ANNOTATION,
    f"{constants.ANNOTATION_PREFIX}on-change",
)
LABELS = (FC, constants.TASKROLE_NAME, constants.TASK_INDEX)
CONTROL = allow("control", "gangs", "frameworkbarrier.io")


PLAIN_POD = build_pod("own", account="default", framework=None)
WRITE = "get,create,update,patch,delete"


@pytest.fixture
def tenant(policed: Policed) -> JsonHttp:
    """An account that may write Pods, ConfigMaps, Secrets, and Frameworks with their status."""
    client = policed.open_tenant(
        "tenant",
        allow(WRITE, "pods,pods/status,pods/binding,bindings,configmaps,secrets"),
        allow("get,create,update,patch", "frameworks,frameworks/status", constants.GROUP),
    )
    wait_until(lambda: policed.patch(client, OWN, annotate(note="b"))[0] == 200)
    return client


def check_denied(answer: tuple[int, Any], *context: object) -> None:
    """Assert that one of our policies denied the request."""
    status, body = answer
    is_denied = "ValidatingAdmissionPolicy 'frameworkbarrier-" in body["message"]
    assert (status, is_denied) == (403, True), (*context, answer)


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
    for claim in list_claims():
        for name in ({"name": "intruder"}, {"generateName": "intruder-"}):
            for plural, plain in (("pods", PLAIN_POD), ("configmaps", {}), ("secrets", {})):
                body = {**plain, "metadata": {**name, **claim}}
                check_denied(
                    tenant.request("POST", f"{policed.path}/{plural}", body), plural, claim
                )


def test_tenant_writes_its_own_objects_and_may_edit_and_delete_pods_of_a_gang(
    policed: Policed, tenant: JsonHttp
) -> None:
    """A replacement that does not name the UID is allowed too."""
    content = {"binaryData": {"key": ROSTER}, "immutable": True}
    for plural, body in (
        ("configmaps", {"metadata": {"name": "own"}, **content}),
        ("secrets", {"metadata": {"name": "own"}}),
        ("pods", PLAIN_POD),
    ):
        stored = create(tenant, f"{policed.path}/{plural}", body)
        stored["metadata"] = {"name": "own", "labels": {"app": "web"}}
        status, answer = tenant.request("PUT", f"{policed.path}/{plural}/own", stored)
        assert status == 200, answer
    assert policed.patch(tenant, OWN, {"spec": {"activeDeadlineSeconds": 100}})[0] == 200
    assert tenant.request("DELETE", f"{policed.path}/pods/{OWN}")[0] == 200


def test_tenant_gives_no_object_the_identity_later(policed: Policed, tenant: JsonHttp) -> None:
    for plural, body in (
        ("pods", PLAIN_POD),
        ("configmaps", {"metadata": {"name": "own"}}),
        ("secrets", {"metadata": {"name": "own"}}),
    ):
        policed.create(plural, body)
        for claim in list_claims():
            for name in ("own", "own/status") if plural == "pods" else ("own",):
                answer = policed.patch(tenant, name, {"metadata": claim}, plural)
                check_denied(answer, plural, name, claim)


def test_tenant_changes_no_identity_and_all_other_metadata(
    policed: Policed, tenant: JsonHttp
) -> None:
    for name, plural, field, values in (
        (OWN, "pods", "labels", ("other", None)),
        (OWN, "pods", "annotations", ("other", None)),
        (f"{OWN}/status", "pods", "labels", ("other",)),
        (f"{OWN}/status", "pods", "annotations", ("other",)),
        ("gang-attempt", "configmaps", "labels", ("other", None)),
        ("gang-attempt", "configmaps", "annotations", ("new",)),
    ):
        for value in values:
            answer = policed.patch(tenant, name, {"metadata": {field: {FC: value}}}, plural)
            check_denied(answer, name, field)
            assert "do not change" in answer[1]["message"]
        status, body = policed.patch(tenant, name, {"metadata": {field: {"own": "b"}}}, plural)
        assert status == 200, body


def test_tenant_gives_a_pod_no_identity_by_binding_it(policed: Policed, tenant: JsonHttp) -> None:
    """A Binding's annotations, and in newer releases labels, become the Pod's."""
    policed.create("pods", PLAIN_POD)
    target = {"apiVersion": "v1", "kind": "Node", "name": "node"}
    metadata = {"name": "own", "annotations": {FC: "gang"}}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    for path in ("pods/own/binding", "bindings"):
        check_denied(tenant.request("POST", f"{policed.path}/{path}", binding), path)
    assert FC not in policed.read("own")["metadata"].get("annotations", {})


def test_workload_with_the_identity_in_its_template_gets_no_pod(policed: Policed) -> None:
    """kube-controller-manager creates Pods as this account, for the author of the workload."""
    for labels, is_created in (({"app": "web"}, True), ({"app": "web", FC: "gang"}, False)):
        body = {**PLAIN_POD, "apiVersion": "v1", "kind": "Pod"}
        body["metadata"] = {"generateName": "web-", "labels": labels}
        printed = create_as(policed.access, policed.namespace, body, WORKLOADS)
        assert ("created" in printed) is is_created, printed
        assert ("frameworkbarrier-identity" in printed) is not is_created, printed


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
        annotate(**{constants.READINESS_ANNOTATION: "{}"}),
        annotate(**{constants.ROSTER_VERSION_ANNOTATION: "9"}),
    ):
        check_denied(policed.patch(tenant, name, change, "configmaps"), change)
        metadata = before["metadata"] | change.get("metadata", {})
        replaced = {**before, **change, "metadata": metadata}
        check_denied(tenant.request("PUT", f"{policed.path}/configmaps/{name}", replaced), change)
    assert policed.read(name, "configmaps") == before
    assert policed.patch(tenant, name, {"data": {"note": "a"}}, "configmaps")[0] == 200


def test_tenant_takes_the_name_of_an_attempt_with_no_roster(
    policed: Policed, tenant: JsonHttp
) -> None:
    """Agents watch their ConfigMap by name, which may exist before the controller's."""
    body = {"metadata": {"name": "next-attempt"}}
    roster = {"binaryData": {constants.ROSTER_KEY: ROSTER}}
    path = f"{policed.path}/configmaps"
    check_denied(tenant.request("POST", path, body | roster))
    create(tenant, path, body)
    check_denied(policed.patch(tenant, "next-attempt", roster, "configmaps"))


def test_tenant_creates_no_gang_key(policed: Policed, tenant: JsonHttp) -> None:
    """A controller that was restarted would take it for its own; its author knows the key."""
    path = f"{policed.path}/secrets"
    body = {"metadata": {"name": "next-gang-key"}, "data": {constants.GANG_KEY: ROSTER}}
    check_denied(tenant.request("POST", path, body))
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
        check_denied(policed.patch(tenant, name, change, "secrets"), change)
    replaced = {**policed.read(name, "secrets"), "data": {constants.GANG_KEY: other}}
    check_denied(tenant.request("PUT", f"{policed.path}/secrets/{name}", replaced))
    assert policed.patch(tenant, name, {"metadata": {"labels": {"a": "b"}}}, "secrets")[0] == 200
    assert tenant.request("DELETE", f"{policed.path}/secrets/{name}")[0] == 200
    check_denied(tenant.request("POST", f"{policed.path}/secrets", secret))


def test_tenant_writes_no_status_of_a_framework(policed: Policed, tenant: JsonHttp) -> None:
    frameworks = f"/apis/{constants.API_VERSION}/namespaces/{policed.namespace}/frameworks"
    body = build_submission("gang", executionType="Create")
    created = create(tenant, frameworks, body)
    change = {"status": {"state": "Completed"}}
    path = f"{frameworks}/gang/status"
    check_denied(tenant.request("PATCH", path, change, content_type=MERGE))
    check_denied(tenant.request("PUT", path, {**created, **change}))
    labels = {"metadata": {"labels": {"own": "a"}}}
    assert tenant.request("PATCH", f"{frameworks}/gang", labels, content_type=MERGE)[0] == 200


def test_acknowledgement_is_written_with_a_token_of_the_pod_only(
    policed: Policed, tenant: JsonHttp
) -> None:
    check_denied(policed.patch(tenant, OWN, acknowledge("3")))
    assert policed.patch(policed.open_agent(), OWN, acknowledge("3"))[0] == 200


def test_account_with_the_right_to_control_gangs_counts_as_controller(policed: Policed) -> None:
    rights = allow("create,patch", "pods,configmaps,secrets")
    controller = policed.open_tenant("my-controller", rights, CONTROL)
    wait_until(lambda: policed.patch(controller, "gang-attempt", {}, "configmaps")[0] == 200)
    create(controller, f"{policed.path}/pods", build_pod("gang-worker-2", account="default"))
    key: Object = {"metadata": {"name": "next-gang-key", "labels": {FC: "gang"}}}
    create(controller, f"{policed.path}/secrets", key)
    change = {"binaryData": {constants.ROSTER_KEY: ROSTER}}
    assert policed.patch(controller, "gang-attempt", change, "configmaps")[0] == 200
