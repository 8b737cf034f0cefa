"""The rules of ``framework why`` for Pods that wait: the root cause with its remedy."""

import json
from dataclasses import replace

import pytest

from cli.why.cause import Kind
from cli.why.ranking import count_waiting, find_causes
from cli.why.requests import plan_requests
from framework.api.naming import TaskKey
from framework.api.states import FrameworkState, TaskState
from framework.api.types import FrameworkStatus
from framework.kube.resources import Object
from tests.cli.why.builders import (
    LACKS_GPU,
    Case,
    barrier_pod,
    check_rule,
    event,
    find_root,
    list_commands,
    lose_image,
    observe,
    pending,
    unscheduled,
    wait,
)
from tests.support.builders import (
    build_pod_wire,
    build_role_status,
    build_status,
    build_template_wire,
)

MISSING_IMAGE = 'Failed to pull image "r/x:1": rpc error: code = NotFound desc = r/x:1: not found'
CONTROL = "node-role.kubernetes.io/control-plane"
NOT_READY = (
    "0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }."
)
FANCY = {"retryPolicy": {"fancyRetryPolicy": True, "maxRetryCount": 0}}


NO_NODE_LEFT = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
RETRIED = {**FANCY, "pod": build_template_wire()}


def build_avoiding_status() -> FrameworkStatus:
    """Worker 0 avoids both nodes."""
    role = build_role_status(number=2, state=TaskState.ATTEMPT_PREPARING)
    first = role.tasks[0]
    attempt = replace(first.attempt_status, avoided_nodes=("n1", "n2"))
    tasks = (replace(first, attempt_status=attempt), *role.tasks[1:])
    return build_status(replace(role, tasks=tasks), state=FrameworkState.ATTEMPT_PREPARING)


CASES: dict[str, Case] = {
    "image": (
        lambda: observe([lose_image()], events={0: [event("Failed", MISSING_IMAGE)]}),
        Kind.IMAGE,
        ("cannot pull the image", "the registry has no such image"),
        "kubectl set image pod/gang-worker-0 main=IMAGE",
    ),
    "resource": (
        lambda: observe([unscheduled(0, LACKS_GPU)]),
        Kind.UNSCHEDULABLE,
        ("3 nodes lack free nvidia.com/gpu",),
        "/spec/taskRoles/0/taskNumber",
    ),
    "cordoned": (
        lambda: observe(
            [unscheduled(0, "0/1 nodes are available: 1 node(s) were unschedulable.")],
            nodes={"n1": {"spec": {"unschedulable": True}}},
        ),
        Kind.UNSCHEDULABLE,
        ("1 node: cordoned",),
        "kubectl uncordon n1",
    ),
    "avoided nodes": (
        lambda: observe(
            [unscheduled(0, NO_NODE_LEFT)],
            status=build_avoiding_status(),
            role={"recovery": {"avoidNodes": {}}, "task": RETRIED},
        ),
        Kind.UNSCHEDULABLE,
        ("2 nodes: its node selector or node affinity does not match",),
        '{"op":"remove","path":"/spec/taskRoles/0/recovery/avoidNodes"}',
    ),
    "avoided nodes of a role without the field": (
        lambda: observe([unscheduled(0, NO_NODE_LEFT)], status=build_avoiding_status()),
        Kind.UNSCHEDULABLE,
        ("2 nodes: its node selector or node affinity does not match",),
        "kubectl delete pod gang-worker-0",
    ),
    "taint": (
        lambda: observe(
            [unscheduled(0, "0/1 nodes are available: 1 node(s) had untolerated taint {gpu: a}.")]
        ),
        Kind.UNSCHEDULABLE,
        ("1 node: the taint gpu: a",),
        '"value":[{"key":"gpu","operator":"Exists"}]',
    ),
    "taint that the scheduler does not name": (
        lambda: observe(
            [unscheduled(0, "0/2 nodes are available: 2 node(s) had untolerated taint(s).")],
            nodes={
                "n1": {"spec": {"taints": [{"key": CONTROL, "effect": "NoSchedule"}]}},
                "n2": {"spec": {"taints": [{"key": "gpu", "value": "a", "effect": "NoSchedule"}]}},
            },
        ),
        Kind.UNSCHEDULABLE,
        ("2 nodes: the taint gpu: a",),
        '"value":[{"key":"gpu","operator":"Exists"}]',
    ),
    "taint that the user may not read": (
        lambda: observe(
            [unscheduled(0, "0/2 nodes are available: 2 node(s) had untolerated taint(s).")]
        ),
        Kind.UNSCHEDULABLE,
        ("2 nodes: a taint, which it does not tolerate",),
        "kubectl describe nodes",
    ),
    "taint of a node that is not ready": (
        lambda: observe([unscheduled(0, NOT_READY)]),
        Kind.UNSCHEDULABLE,
        ("1 node: the taint node.kubernetes.io/not-ready, which it does not tolerate",),
        "kubectl describe nodes",
    ),
    "claim": (
        lambda: observe(
            [unscheduled(0, '0/1 nodes are available: persistentvolumeclaim "data" not found.')]
        ),
        Kind.VOLUME,
        ("its PersistentVolumeClaim data does not exist",),
        "kubectl apply -f -",
    ),
    "silent scheduler": (
        lambda: observe(
            [build_pod_wire(phase="Pending", spec={"nodeName": "", "schedulerName": "volcano"})]
        ),
        Kind.UNSCHEDULABLE,
        ("waits for the scheduler volcano",),
        "schedulerName",
    ),
    "lost node": (
        lambda: observe(
            [build_pod_wire(index=0)],
            task_state=TaskState.ATTEMPT_RUNNING,
            nodes={
                "node": {
                    "status": {
                        "conditions": [
                            {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped"}
                        ]
                    }
                }
            },
        ),
        Kind.NODE,
        ("is on the node node, which is not ready",),
        "kubectl delete node node",
    ),
    "sandbox": (
        lambda: observe(
            [pending(0, wait("ContainerCreating"))],
            events={0: [event("FailedCreatePodSandBox", "failed to set up network")]},
        ),
        Kind.POD_START,
        ("cannot be started by its node node",),
        "kubectl describe pod gang-worker-0",
    ),
    "slow start": (
        lambda: observe([pending(0, wait("ContainerCreating"))]),
        Kind.POD_START,
        ("has started no container on its node",),
        "kubectl describe pod gang-worker-0",
    ),
    "unready": (
        lambda: observe(
            [
                build_pod_wire(
                    containers=[
                        {"name": "main", "ready": False, "state": {"running": {"startedAt": "x"}}}
                    ]
                )
            ],
            task_state=TaskState.ATTEMPT_RUNNING,
            events={0: [event("Unhealthy", "Readiness probe failed: HTTP 503")]},
        ),
        Kind.READINESS,
        ("runs, and its container main is not ready",),
        "framework logs gang worker/0 --container main",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rule_finds_its_cause(name: str) -> None:
    check_rule(CASES[name])


def test_gang_of_which_all_run_has_no_cause() -> None:
    running = {"name": "main", "ready": True, "state": {"running": {"startedAt": "x"}}}
    pods = [build_pod_wire(index=index, containers=[running]) for index in range(2)]
    assert find_causes(observe(pods, task_state=TaskState.ATTEMPT_RUNNING)) == ()


def test_image_that_is_missing_is_deeper_than_the_barriers_that_wait() -> None:
    pods = [barrier_pod(0), barrier_pod(1), lose_image(2)]
    observation = observe(pods, number=3)
    cause = find_root(observation)
    assert (cause.kind, cause.tasks) == (Kind.IMAGE, (TaskKey("worker", 2),))
    assert count_waiting(observation, cause) == 2


def test_node_of_a_running_pod_that_is_not_ready_is_asked_for() -> None:
    running = {"name": "main", "ready": True, "state": {"running": {"startedAt": "x"}}}
    lost = build_pod_wire(containers=[running], conditions=[{"type": "Ready", "status": "False"}])
    well = build_pod_wire(index=1, containers=[running], spec={"nodeName": "other"})
    observed = observe([lost, well], task_state=TaskState.ATTEMPT_RUNNING)
    assert plan_requests(observed).nodes == ("node",)


def test_tasks_of_a_role_with_the_same_fault_are_one_cause() -> None:
    (cause,) = find_causes(observe([lose_image(0), lose_image(1)]))
    assert cause.tasks == (TaskKey("worker", 0), TaskKey("worker", 1))


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("waiting after 40 s; ConfigMap gang-attempt is unreachable: timed out", Kind.API_SERVER),
        ("2/2 ready after 40 s; not reached yet: ps/0 (10.0.0.9:2222)", Kind.REQUIREMENT),
        ("2/2 ready after 40 s; ps is not running yet", Kind.REQUIREMENT),
    ],
)
def test_newest_line_of_a_barrier_names_the_cause(line: str, kind: Kind) -> None:
    log = ("barrier: 1/2 ready after 10 s; waiting for worker/1 (x)", f"barrier: {line}")
    observation = observe([barrier_pod(0)], logs={("gang-worker-0", "barrier"): log})
    assert find_root(observation).kind is kind


@pytest.mark.parametrize(
    "line",
    [
        "barrier: warning: missing right: watch configmaps in team; to give it: kubectl x",
        json.dumps(
            {
                "level": "warning",
                "message": "missing right: watch configmaps in team; to give it: kubectl x",
            }
        ),
    ],
    ids=["text", "json"],
)
def test_missing_right_of_a_barrier_is_its_cause(line: str) -> None:
    log = (line,)
    observation = observe([barrier_pod(0)], logs={("gang-worker-0", "barrier"): log})
    cause = find_root(observation)
    assert cause.kind is Kind.API_SERVER
    assert "lacks a right: watch configmaps in team" in cause.text


def test_task_that_would_be_retried_gets_its_template_changed_in_place() -> None:
    tainted = unscheduled(0, "0/1 nodes are available: 1 node(s) had untolerated taint {gpu: a}.")
    patched = list_commands(find_root(observe([tainted], role={"task": build_task(FANCY)})))
    assert patched[0].startswith("kubectl patch framework gang --type=json")
    assert patched[1] == "kubectl delete pod gang-worker-0"


def build_task(fields: Object) -> Object:
    return {**fields, "pod": build_template_wire()}


def test_task_that_would_fail_gets_its_framework_replaced() -> None:
    tainted = unscheduled(0, "0/1 nodes are available: 1 node(s) had untolerated taint {gpu: a}.")
    remedy = find_root(observe([tainted])).remedies[0]
    assert remedy.commands[-1] == "framework run gang.yaml --replace"


def test_avoided_nodes_are_named_and_the_template_is_not_blamed() -> None:
    role = {"recovery": {"avoidNodes": {}}, "task": RETRIED}
    cause = find_root(
        observe([unscheduled(0, NO_NODE_LEFT)], status=build_avoiding_status(), role=role)
    )
    assert cause.facts == (
        "avoided, because of earlier failures there (recovery.avoidNodes): n1, n2",
    )
    assert [remedy.text for remedy in cause.remedies] == [
        "repair the nodes that it avoids, or let the next Pod use them",
        "run with the 1 Task of worker that fit",
    ]
    assert list_commands(cause)[1] == "kubectl delete pod gang-worker-0"
