"""The right of agents on a real API server: one annotation of their own Pod, under any account."""

from typing import Any

import pytest

from framework.kube.resources import Object
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.policed import (
    OTHER,
    Policed,
    acknowledge,
    allow,
    annotate,
    build_pod,
    create,
)
from tests.support.servers.rights import run_kubectl
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kube

TRAINER, STRANGER = "trainer-pod", "database"
IMAGE = {"spec": {"containers": [{"name": "main", "image": "evil/none:1"}]}}
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture
def policed(policed: Policed) -> Policed:
    """A gang's Pods, and one that belongs to no Framework."""
    policed.create("pods", build_pod(STRANGER, account="default", framework=None))
    return policed


def bind_agents_right(policed: Policed, account: str) -> None:
    """Bind the shipped right of agents, as a user may do, to an account of any name."""
    subject = f"--serviceaccount={policed.namespace}:{account}"
    words = ("create", "rolebinding", "-n", policed.namespace, f"{account}-drains", subject)
    run_kubectl(policed.access, *words, "--clusterrole=frameworkbarrier-acknowledge")


def open_trainer(policed: Policed, *rules: Object) -> JsonHttp:
    """Open the agent of a Pod whose account is the user's own and has further rights."""
    policed.open_tenant("trainer", *rules)
    bind_agents_right(policed, "trainer")
    policed.create("pods", build_pod(TRAINER, account="trainer"))
    agent = policed.open_agent(TRAINER, account="trainer")
    wait_until(lambda: policed.patch(agent, TRAINER, acknowledge())[0] == 200)
    return agent


def test_account_of_any_name_changes_no_image_of_any_pod(policed: Policed) -> None:
    """The image of a Pod of no Framework was changed with this token."""
    agent = open_trainer(policed)
    for pod in (STRANGER, OTHER, TRAINER):
        path = f"{policed.path}/pods/{pod}"
        status, answer = agent.request("PATCH", path, IMAGE, content_type=STRATEGIC)
        assert (status, "an agent may" in answer["message"]) == (403, True), (pod, answer)
        assert policed.read(pod)["spec"]["containers"][0]["image"] == "local/none:1"


def test_account_of_any_name_annotates_its_own_pod_only(policed: Policed) -> None:
    agent = open_trainer(policed)
    for pod, change in (
        (STRANGER, acknowledge()),
        (OTHER, acknowledge()),
        (TRAINER, annotate(note="b")),
        (STRANGER, annotate(note="b")),
        (STRANGER, {"metadata": {"labels": {"app": "b"}}}),
    ):
        before = policed.read(pod)
        status, answer = policed.patch(agent, pod, change)
        assert (status, "an agent may" in answer["message"]) == (403, True), (pod, answer)
        assert policed.read(pod) == before


def test_token_that_is_bound_to_no_pod_is_denied_under_any_name(policed: Policed) -> None:
    open_trainer(policed)
    unbound = policed.open_agent(account="trainer", is_bound=False)
    for pod in (TRAINER, STRANGER):
        status, answer = policed.patch(unbound, pod, acknowledge())
        assert (status, "bound to it" in answer["message"]) == (403, True), answer


def list_writes(policed: Policed, pod: str) -> list[tuple[str, str, Any, str]]:
    """List every other write that a Pod, or the folder of Pods, has."""
    pods = f"{policed.path}/pods"
    current = policed.read(pod)
    target = {"apiVersion": "v1", "kind": "Node", "name": "node"}
    metadata = {"name": pod, "namespace": policed.namespace}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    debug = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "evil/none:1"}]}}
    resources: Object = {"containers": [{"name": "main", "resources": {}}]}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    json = "application/json"
    return [
        ("PUT", f"{pods}/{pod}", {**current, "spec": {**current["spec"], **IMAGE["spec"]}}, json),
        ("PATCH", f"{pods}/{pod}/status", {"status": {"podIP": "10.6.6.6"}}, STRATEGIC),
        ("PUT", f"{pods}/{pod}/status", current, json),
        ("PATCH", f"{pods}/{pod}/ephemeralcontainers", debug, STRATEGIC),
        ("PATCH", f"{pods}/{pod}/resize", {"spec": resources}, STRATEGIC),
        ("POST", f"{pods}/{pod}/binding", binding, json),
        ("POST", f"{policed.path}/bindings", binding, json),
        ("POST", f"{pods}/{pod}/eviction", eviction, json),
        ("POST", pods, build_pod("another", account="default", framework=None), json),
        ("DELETE", f"{pods}/{pod}", {"gracePeriodSeconds": 0}, json),
    ]


SUBRESOURCES = "pods/status,pods/ephemeralcontainers,pods/resize,pods/binding,pods/eviction"


def test_every_other_write_of_pods_is_denied_whatever_else_was_granted(policed: Policed) -> None:
    agent = open_trainer(
        policed, allow("create,update,patch,delete", f"pods,bindings,{SUBRESOURCES}")
    )
    for pod in (TRAINER, STRANGER):
        before = policed.read(pod)
        for verb, path, body, content in list_writes(policed, pod):
            status, answer = agent.request(verb, path, body, content_type=content)
            assert (status, "an agent may" in answer["message"]) == (403, True), (path, answer)
        assert policed.read(pod) == before


def test_the_same_writes_are_allowed_to_an_account_without_the_agents_right(
    policed: Policed,
) -> None:
    """The denials above are those of the policy, not of RBAC or of a malformed request."""
    rights = allow("create,update,patch,delete", f"pods,bindings,{SUBRESOURCES}")
    editor = policed.open_tenant("editor", rights)
    wait_until(lambda: policed.patch(editor, STRANGER, annotate(note="b"))[0] == 200)
    for verb, path, body, content in list_writes(policed, STRANGER):
        _, answer = editor.request(verb, path, body, content_type=content)
        assert "ValidatingAdmissionPolicy" not in str(answer.get("message")), (path, answer)


def test_who_may_do_everything_is_no_agent(policed: Policed) -> None:
    root = policed.open_tenant("root", allow("*", "*", "*"))
    wait_until(lambda: policed.patch(root, STRANGER, annotate(note="b"))[0] == 200)


# Put together by a controller that this control plane does not run.
AGGREGATED_TO_ADMIN = (
    "system:aggregate-to-edit",
    "system:aggregate-to-admin",
    "frameworkbarrier-bind-acknowledge",
)


def test_administrator_of_a_namespace_grants_agents_their_right_and_is_none(
    policed: Policed,
) -> None:
    """Without the mark of its own, and so without the limits of an agent."""
    namespace = policed.namespace
    admin = policed.open_tenant("owner")
    for part in AGGREGATED_TO_ADMIN:
        words = ("create", "rolebinding", "-n", namespace, f"owner-{part}".replace(":", "-"))
        account = f"--serviceaccount={namespace}:owner"
        run_kubectl(policed.access, *words, f"--clusterrole={part}", account)
    wait_until(lambda: policed.patch(admin, STRANGER, annotate(note="b"))[0] == 200)
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "frameworkbarrier-job:acknowledge"},
        "roleRef": {
            "apiGroup": group,
            "kind": "ClusterRole",
            "name": "frameworkbarrier-acknowledge",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "frameworkbarrier-job"}],
    }
    create(admin, f"{roles}/rolebindings", binding)
    forged = {
        "metadata": {"name": "controller"},
        "rules": [allow("control", "gangs", "frameworkbarrier.io")],
    }
    status, answer = admin.request("POST", f"{roles}/roles", forged)
    assert (status, "attempting to grant" in answer["message"]) == (403, True), answer
