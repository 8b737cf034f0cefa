"""deploy/admission on a real API server: what an agent that may patch Pods may change of them.

The policies hold in the whole cluster, so they are there only as long as these tests run.
"""

from pathlib import Path

import pytest

from framework.api import constants
from framework.kube.client import KubeClient
from framework.kube.resources import Object
from tests.kube.test_rbac import CONFIG, open_world, run_to_retention
from tests.support.fakes.kubelet import run_for
from tests.support.servers.controlplane import Access
from tests.support.servers.deployed import Deployed, apply_role
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.policed import (
    ACCOUNT,
    ACKNOWLEDGED,
    FC,
    OTHER,
    OWN,
    Policed,
    acknowledge,
    allow,
    annotate,
    build_pod,
    create,
)
from tests.support.waiting import wait_until


def test_agent_acknowledges_on_its_own_pod_again_and_again(policed: Policed) -> None:
    for pod in (OWN, OTHER):
        agent = policed.open_agent(pod)
        uid = policed.read(pod)["metadata"]["uid"]
        for generation in ("2", "3"):
            body = acknowledge(generation)
            body["metadata"]["uid"] = uid
            status, answer = policed.patch(agent, pod, body)
            assert status == 200, answer
        assert policed.read(pod)["metadata"]["annotations"][ACKNOWLEDGED] == "3"


FORBIDDEN_CHANGES: list[tuple[Object, str]] = [
    (annotate(note="b"), "no annotation but"),
    (annotate(new="b"), "no annotation but"),
    (annotate(note=None), "no annotation but"),
    (annotate(**{FC: "other"}), " change"),
    (annotate(**{FC: None}), " change"),
    (annotate(**{constants.TASK_INDEX: "9"}), " change"),
    (annotate(**{constants.WRAPPER_ANNOTATION: "true"}), "no annotation but"),
    (annotate(**{ACKNOWLEDGED: None}), "generation's number"),
    (acknowledge("soon"), "generation's number"),
    (acknowledge("0"), "generation's number"),
    (acknowledge("-1"), "generation's number"),
    ({"metadata": {"labels": {"app": "b"}}}, "may not change labels"),
    ({"metadata": {"labels": {"app": None}}}, "may not change labels"),
    ({"metadata": {"labels": {FC: "other"}}}, " change"),
    ({"metadata": {"finalizers": ["a.example/b"]}}, "may not change labels"),
    (
        {
            "metadata": {
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": OTHER, "uid": "a"}]
            }
        },
        "owner",
    ),
    ({"spec": {"activeDeadlineSeconds": 1}}, "Pod's spec"),
    ({"spec": {"containers": [{"name": "main", "image": "evil/none:1"}]}}, "Pod's spec"),
]


def test_agent_may_change_nothing_else(policed: Policed) -> None:
    agent = policed.open_agent()
    before = policed.read(OWN)
    for change, said in FORBIDDEN_CHANGES:
        body = {**change, "metadata": {**change.get("metadata", {})}}
        body["metadata"]["annotations"] = {
            ACKNOWLEDGED: "8",
            **body["metadata"].get("annotations", {}),
        }
        status, answer = policed.patch(agent, OWN, body)
        assert (status in {403, 422}, said in answer["message"]) == (True, True), (change, answer)
    assert policed.read(OWN) == before


def test_agent_may_patch_no_other_pod(policed: Policed) -> None:
    agent = policed.open_agent()
    status, answer = policed.patch(agent, OTHER, acknowledge())
    assert (status, "its own Pod only" in answer["message"]) == (403, True), answer


def test_token_that_is_bound_to_no_pod_may_patch_none(policed: Policed) -> None:
    status, answer = policed.patch(policed.open_agent(is_bound=False), OWN, acknowledge())
    assert (status, "bound" in answer["message"]) == (403, True), answer


def test_token_of_a_pod_that_is_gone_may_patch_not_its_successor(policed: Policed) -> None:
    agent = policed.open_agent()
    status, _ = policed.admin.request(
        "DELETE", f"{policed.path}/pods/{OWN}", {"gracePeriodSeconds": 0}
    )
    assert status == 200
    create(policed.admin, f"{policed.path}/pods", build_pod(OWN))
    # The server no longer knows the token, or the policy sees another UID.
    wait_until(lambda: policed.patch(agent, OWN, acknowledge())[0] in {401, 403})
    assert ACKNOWLEDGED not in policed.read(OWN)["metadata"]["annotations"]


def test_agent_of_a_gang_that_does_not_drain_may_patch_nothing(policed: Policed) -> None:
    policed.admin.request(
        "DELETE",
        policed.path.replace("/api/v1", "/apis/rbac.authorization.k8s.io/v1")
        + f"/rolebindings/{ACCOUNT}:acknowledge",
    )
    agent = policed.open_agent()
    wait_until(lambda: policed.patch(agent, OWN, acknowledge())[0] == 403)


@pytest.fixture
def editor(policed: Policed) -> JsonHttp:
    """Another program of the namespace, which may edit Pods and ConfigMaps."""
    client = policed.open_tenant("editor", allow("patch,update", "pods,pods/status,configmaps"))
    wait_until(lambda: policed.patch(client, OTHER, annotate(note="c"))[0] == 200)
    return client


def test_agent_of_another_name_may_do_no_more(policed: Policed) -> None:
    """A gang whose Pods run as a service account of the user's."""
    client = policed.open_tenant("trainer", allow("patch", "pods,pods/status,configmaps"))

    def is_granted() -> bool:
        return policed.patch(client, "gang-attempt", annotate(note="a"), "configmaps")[0] == 200

    wait_until(is_granted)
    status, answer = policed.patch(client, OTHER, annotate(note="c"))
    assert (status, "its own Pod only" in answer["message"]) == (403, True), answer
    pod = build_pod("gang-worker-2")
    pod["spec"]["serviceAccountName"] = "trainer"
    create(policed.admin, f"{policed.path}/pods", pod)
    own = policed.open_agent("gang-worker-2", account="trainer")
    status, answer = policed.patch(own, "gang-worker-2", acknowledge())
    assert status == 200, answer
    status, answer = policed.patch(own, "gang-worker-2", annotate(note="c"))
    assert status in {403, 422}, answer


def test_others_may_change_all_but_the_identity(policed: Policed, editor: JsonHttp) -> None:
    for name, plural, field, value in (
        (OWN, "pods", "labels", "other"),
        (OWN, "pods", "labels", None),
        (OWN, "pods", "annotations", "other"),
        (OWN, "pods", "annotations", None),
        (f"{OWN}/status", "pods", "labels", "other"),
        (f"{OWN}/status", "pods", "annotations", "other"),
        ("gang-attempt", "configmaps", "labels", "other"),
        ("gang-attempt", "configmaps", "labels", None),
        ("gang-attempt", "configmaps", "annotations", "new"),
    ):
        status, answer = policed.patch(editor, name, {"metadata": {field: {FC: value}}}, plural)
        assert (status, "do not change" in answer["message"]) == (403, True), answer
        status, answer = policed.patch(editor, name, {"metadata": {field: {"own": "b"}}}, plural)
        assert status == 200, answer


def test_others_may_acknowledge_and_edit_pods_as_ever(policed: Policed, editor: JsonHttp) -> None:
    status, answer = policed.patch(editor, OWN, {"spec": {"activeDeadlineSeconds": 100}})
    assert status == 200, answer


async def test_controller_of_its_shipped_role_is_not_touched(
    policies: None,
    framework_crd: None,
    control_plane: Access,
    kube: KubeClient,
    namespace: str,
    tmp_path: Path,
) -> None:
    """Not as an administrator, who is exempt: with the token of its service account."""
    objects = apply_role(control_plane, "namespaced", namespace, tmp_path)
    deployed = Deployed(control_plane, objects, tmp_path, CONFIG)
    child = deployed.launch()
    try:
        async with open_world(kube, namespace, deployed.audit, run_for(0.1)) as world:
            await run_to_retention(world)
    finally:
        child.kill()
    assert deployed.audit.read_refused() == set()
