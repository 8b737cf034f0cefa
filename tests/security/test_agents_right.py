"""The right of agents on a real API server: five annotations of their own Pod, in any account."""

from typing import Any

import pytest

from framework.api import constants
from framework.api.scalerequest import MAX_RESULT_CHARS
from framework.api.trainingprogress import TrainingProgress, encode_training_progress
from framework.kube.resources import Object
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
from tests.support.servers.rights import Right, is_allowed, run_kubectl
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kube

TRAINER, STRANGER = "trainer-pod", "database"
IMAGE = {"spec": {"containers": [{"name": "main", "image": "evil/none:1"}]}}
JSON, STRATEGIC = "application/json", "application/strategic-merge-patch+json"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def policed(policed: Policed) -> Policed:
    """A gang's Pods, and one that belongs to no Framework."""
    policed.create("pods", build_pod(STRANGER, account="default", framework=None))
    return policed


def bind(policed: Policed, role: str, account: str) -> None:
    """Bind a ClusterRole in the namespace, as a user does."""
    name = f"{account}-{role}".replace(":", "-")
    words = ["create", "rolebinding", name, "-n", policed.namespace, f"--clusterrole={role}"]
    run_kubectl(policed.access, *words, f"--serviceaccount={policed.namespace}:{account}")


def open_trainer(policed: Policed, *rules: Object) -> JsonHttp:
    """Open the agent of a Pod whose account is the user's own and has further rights."""
    policed.open_tenant("trainer", *rules)
    bind(policed, "frameworkbarrier-acknowledge", "trainer")
    policed.create("pods", build_pod(TRAINER, account="trainer"))
    agent = policed.open_agent(TRAINER, account="trainer")
    # The further rights may be in force before that of agents.
    right = Right("frameworkbarrier.io", "gangs", "acknowledge")
    wait_until(lambda: is_allowed(policed.admin, policed.namespace, "trainer", right))
    wait_until(lambda: policed.patch(agent, TRAINER, acknowledge())[0] == 200)
    return agent


def check_denied(answer: tuple[int, Any], message: str = "an agent may") -> None:
    """Assert that the policy of agents denied a request, with this text in its message."""
    assert (answer[0], message in answer[1]["message"]) == (403, True), answer


# --- The account of deploy/agents ----------------------------------------------------------------


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


def test_agent_reports_the_result_of_a_scaler_on_its_own_pod(policed: Policed) -> None:
    agent = policed.open_agent(OWN)
    result = constants.SCALER_RESULT_ANNOTATION
    body = annotate(**{ACKNOWLEDGED: "2", result: "x" * MAX_RESULT_CHARS})
    status, answer = policed.patch(agent, OWN, body)
    assert status == 200, answer
    longer = annotate(**{result: "x" * (MAX_RESULT_CHARS + 1)})
    check_denied(policed.patch(agent, OWN, longer), "at most 1024 characters")
    check_denied(policed.patch(agent, OTHER, body), "its own Pod only")


def test_agent_reports_its_processes_on_its_own_pod(policed: Policed) -> None:
    agent = policed.open_agent(OWN)
    ended, started = constants.PROCESS_ENDED_ANNOTATION, constants.EPOCH_STARTED_ANNOTATION
    missing = " ".join(["7 4", *["89abcdef"] * 10])
    for report in ({ended: "4 137"}, {started: "7 4"}, {started: missing}):
        status, answer = policed.patch(agent, OWN, annotate(**report))
        assert status == 200, answer
    wrong = {ended: "4 0"}, {ended: "x"}, {started: "7"}, {started: missing + " 89abcdef"}
    for report in wrong:
        check_denied(policed.patch(agent, OWN, annotate(**report)), "no annotation but")
    check_denied(policed.patch(agent, OWN, annotate(**{ended: None})), "no annotation but")


def test_agent_reports_the_progress_on_its_own_pod(policed: Policed) -> None:
    agent = policed.open_agent(OWN)
    key = constants.TRAINING_PROGRESS_ANNOTATION
    stragglers = tuple(f"worker/{index} rank {index}" for index in range(5))
    progress = TrainingProgress(7, 41200, 100000, 3.25, "worker/3", 9, stragglers)
    unknown = TrainingProgress(7, 0, None, None, "", 0, ())
    for text in map(encode_training_progress, (progress, unknown)):
        status, answer = policed.patch(agent, OWN, annotate(**{key: text}))
        assert status == 200, answer
    good = encode_training_progress(progress)
    for wrong in ("", "x", good + " worker/9", good + "\n", "7 1 - 1e9 - 0", "7 1 - - <b>/1 0"):
        check_denied(policed.patch(agent, OWN, annotate(**{key: wrong})), "no annotation but")
    check_denied(policed.patch(agent, OTHER, annotate(**{key: good})), "its own Pod only")


def test_agent_may_not_take_its_acknowledgement_back(policed: Policed) -> None:
    agent = policed.open_agent(OWN)
    assert policed.patch(agent, OWN, acknowledge())[0] == 200
    removal = annotate(**{ACKNOWLEDGED: None})
    check_denied(policed.patch(agent, OWN, removal), "no annotation but")


OWNER = {"apiVersion": "v1", "kind": "Pod", "name": OTHER, "uid": "a"}
FORBIDDEN_CHANGES: list[tuple[str, Object]] = [
    ("no annotation but", annotate(note="b")),
    ("no annotation but", annotate(new="b")),
    ("no annotation but", annotate(note=None)),
    (" change", annotate(**{FC: "other"})),
    (" change", annotate(**{FC: None})),
    (" change", annotate(**{constants.TASK_INDEX: "9"})),
    ("no annotation but", annotate(**{constants.WRAPPER_ANNOTATION: "true"})),
    *(("generation's number", acknowledge(number)) for number in ("soon", "0", "-1")),
    ("may not change labels", {"metadata": {"labels": {"app": "b"}}}),
    ("may not change labels", {"metadata": {"labels": {"app": None}}}),
    (" change", {"metadata": {"labels": {FC: "other"}}}),
    ("may not change labels", {"metadata": {"finalizers": ["a.example/b"]}}),
    ("owner", {"metadata": {"ownerReferences": [OWNER]}}),
    ("Pod's spec", {"spec": {"activeDeadlineSeconds": 1}}),
    ("Pod's spec", IMAGE),
]


def test_agent_may_change_nothing_else_of_its_own_pod(policed: Policed) -> None:
    agent = policed.open_agent()
    before = policed.read(OWN)
    for message, change in FORBIDDEN_CHANGES:
        metadata = change.get("metadata", {})
        annotations = {ACKNOWLEDGED: "8", **metadata.get("annotations", {})}
        body = {**change, "metadata": {**metadata, "annotations": annotations}}
        status, answer = policed.patch(agent, OWN, body)
        assert status in {403, 422}, (change, answer)
        assert message in answer["message"], (change, answer)
    assert policed.read(OWN) == before


def test_token_of_a_deleted_pod_may_not_patch_its_successor(policed: Policed) -> None:
    agent = policed.open_agent()
    path = f"{policed.path}/pods/{OWN}"
    assert policed.admin.request("DELETE", path, {"gracePeriodSeconds": 0})[0] == 200
    policed.create("pods", build_pod(OWN))
    # The server no longer knows the token, or the policy sees another UID.
    wait_until(lambda: policed.patch(agent, OWN, acknowledge())[0] in {401, 403})
    assert ACKNOWLEDGED not in policed.read(OWN)["metadata"]["annotations"]


def test_agent_of_a_gang_that_does_not_drain_may_patch_nothing(policed: Policed) -> None:
    bindings = f"{RBAC}/namespaces/{policed.namespace}/rolebindings"
    policed.admin.request("DELETE", f"{bindings}/{ACCOUNT}:acknowledge")
    agent = policed.open_agent()
    wait_until(lambda: policed.patch(agent, OWN, acknowledge())[0] == 403)


# --- Other accounts ------------------------------------------------------------------------------


def test_account_that_may_patch_pods_is_an_agent_without_the_agents_right(
    policed: Policed,
) -> None:
    """As in Roles of releases that had no such right."""
    client = policed.open_tenant("trainer", allow("patch", "pods,pods/status,configmaps"))
    note = annotate(note="c")
    wait_until(lambda: policed.patch(client, "gang-attempt", note, "configmaps")[0] == 200)
    check_denied(policed.patch(client, OTHER, note), "its own Pod only")
    policed.create("pods", build_pod(TRAINER, account="trainer"))
    own = policed.open_agent(TRAINER, account="trainer")
    status, answer = policed.patch(own, TRAINER, acknowledge())
    assert status == 200, answer
    status, answer = policed.patch(own, TRAINER, note)
    assert status in {403, 422}, answer


def test_account_of_any_name_writes_one_annotation_of_its_own_pod_only(policed: Policed) -> None:
    agent = open_trainer(policed)
    for pod, change in (
        (STRANGER, acknowledge()),
        (OTHER, acknowledge()),
        (TRAINER, annotate(note="b")),
        (STRANGER, annotate(note="b")),
        (STRANGER, {"metadata": {"labels": {"app": "b"}}}),
        *((pod, IMAGE) for pod in (STRANGER, OTHER, TRAINER)),
    ):
        before = policed.read(pod)
        path = f"{policed.path}/pods/{pod}"
        check_denied(agent.request("PATCH", path, change, content_type=STRATEGIC))
        assert policed.read(pod) == before


def test_token_that_is_bound_to_no_pod_is_denied_under_any_name(policed: Policed) -> None:
    open_trainer(policed)
    for account, pods in (("trainer", (TRAINER, STRANGER)), (ACCOUNT, (OWN,))):
        unbound = policed.open_agent(account=account, is_bound=False)
        for pod in pods:
            check_denied(policed.patch(unbound, pod, acknowledge()), "bound to it")


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
    return [
        ("PUT", f"{pods}/{pod}", {**current, "spec": {**current["spec"], **IMAGE["spec"]}}, JSON),
        ("PATCH", f"{pods}/{pod}/status", {"status": {"podIP": "10.6.6.6"}}, STRATEGIC),
        ("PUT", f"{pods}/{pod}/status", current, JSON),
        ("PATCH", f"{pods}/{pod}/ephemeralcontainers", debug, STRATEGIC),
        ("PATCH", f"{pods}/{pod}/resize", {"spec": resources}, STRATEGIC),
        ("POST", f"{pods}/{pod}/binding", binding, JSON),
        ("POST", f"{policed.path}/bindings", binding, JSON),
        ("POST", f"{pods}/{pod}/eviction", eviction, JSON),
        ("POST", pods, build_pod("another", account="default", framework=None), JSON),
        ("DELETE", f"{pods}/{pod}", {"gracePeriodSeconds": 0}, JSON),
    ]


SUBRESOURCES = "pods/status,pods/ephemeralcontainers,pods/resize,pods/binding,pods/eviction"
EDITOR = allow("create,update,patch,delete", f"pods,bindings,{SUBRESOURCES}")


def test_every_other_write_of_pods_is_denied_whatever_else_was_granted(policed: Policed) -> None:
    agent = open_trainer(policed, EDITOR)
    for pod in (TRAINER, STRANGER):
        before = policed.read(pod)
        for verb, path, body, content in list_writes(policed, pod):
            check_denied(agent.request(verb, path, body, content_type=content))
        assert policed.read(pod) == before


def test_the_same_writes_are_allowed_to_an_account_without_the_agents_right(
    policed: Policed,
) -> None:
    """The denials above are those of the policy, not of RBAC or of a malformed request."""
    editor = policed.open_tenant("editor", EDITOR)
    wait_until(lambda: policed.patch(editor, STRANGER, annotate(note="b"))[0] == 200)
    for verb, path, body, content in list_writes(policed, STRANGER):
        _, answer = editor.request(verb, path, body, content_type=content)
        assert "ValidatingAdmissionPolicy" not in str(answer.get("message")), (path, answer)


def test_account_that_may_do_everything_is_no_agent(policed: Policed) -> None:
    root = policed.open_tenant("root", allow("*", "*", "*"))
    wait_until(lambda: policed.patch(root, STRANGER, annotate(note="b"))[0] == 200)


def test_administrator_of_a_namespace_grants_agents_their_right_and_is_no_agent(
    policed: Policed,
) -> None:
    admin = policed.open_tenant("owner")
    # The parts of `admin`, which a controller aggregates that this control plane does not run.
    for part in (
        "system:aggregate-to-edit",
        "system:aggregate-to-admin",
        "frameworkbarrier-bind-acknowledge",
    ):
        bind(policed, part, "owner")
    wait_until(lambda: policed.patch(admin, STRANGER, annotate(note="b"))[0] == 200)
    roles = f"{RBAC}/namespaces/{policed.namespace}"
    reference = {"kind": "ClusterRole", "name": "frameworkbarrier-acknowledge"}
    binding = {
        "metadata": {"name": "frameworkbarrier-job:acknowledge"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", **reference},
        "subjects": [{"kind": "ServiceAccount", "name": "frameworkbarrier-job"}],
    }
    path = f"{roles}/rolebindings"
    wait_until(lambda: admin.request("POST", f"{path}?dryRun=All", binding)[0] == 201)
    create(admin, path, binding)
    rules = [allow("control", "gangs", "frameworkbarrier.io")]
    forged = {"metadata": {"name": "controller"}, "rules": rules}
    check_denied(admin.request("POST", f"{roles}/roles", forged), "attempting to grant")
