"""The rules of ``framework why``: what was read, and the root cause with its remedy."""

import json
import shlex
import subprocess
from dataclasses import replace

import pytest

from cli.why.cause import Kind
from cli.why.observation import Observation
from cli.why.ranking import find_causes
from framework.api import constants
from framework.api.completion import (
    CONFIGMAP_EXTERNAL_DELETED,
    FRAMEWORK_DEADLINE_EXCEEDED,
    POD_CREATION_UNKNOWN_ERROR,
    POD_EXTERNAL_DELETED,
    STOP_FRAMEWORK_REQUESTED,
    complete_task,
)
from framework.api.leaving import LeavingStatus
from framework.api.naming import TaskKey
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    CompletionType,
    ContainerCompletionStatus,
    FrameworkStatus,
    PodCompletionStatus,
    RetryPolicyStatus,
    TaskAttemptCompletionStatus,
)
from framework.api.wire import format_time
from framework.kube.resources import Object
from tests.cli.why.builders import (
    LACKS_GPU,
    Case,
    check_rule,
    event,
    fail,
    fail_with,
    find_root,
    list_commands,
    lose_image,
    observe,
    pending,
)
from tests.support.builders import (
    AT,
    at,
    build_pod_wire,
    build_role_status,
    build_status,
    build_template_wire,
    end_attempt,
    end_task,
)

STANDSTILL = "the gang stands still for 60 s, after step 4: worker/1 is behind; 1 waits for it"


def block(reason: str, message: str) -> Object:
    """The wire of a status with the condition Blocked."""
    condition = {
        "type": "Blocked",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_time(at(5)),
    }
    return {"conditions": [condition]}


def retry(delay: int) -> FrameworkStatus:
    """A status in which worker/0 failed and waits for its retry."""
    role = build_role_status("worker", 2)
    completion = TaskAttemptCompletionStatus(
        3, "Phrase", CompletionType("Failed", ()), "x",
        PodCompletionStatus(containers=(ContainerCompletionStatus("main", "Error", "lost", 0, 3),)),
    )  # fmt: skip
    ended = replace(
        end_task(role.tasks[0], completion),
        state=TaskState.ATTEMPT_COMPLETED,
        transition_time=at(290),
        retry_policy_status=RetryPolicyStatus(2, 2, delay),
    )
    return build_status(replace(role, tasks=(ended, role.tasks[1])))


def observe_drain(acknowledged: str, timeout_seconds: int = 60) -> Observation:
    """worker/1 leaves since 30 s; worker/0 has acknowledged a generation, the newest is 2."""
    role = build_role_status("worker", 2)
    leaving = replace(role.tasks[1], deletion_pending=True, drain_deadline_time=at(330))
    status = build_status(
        replace(role, tasks=(role.tasks[0], leaving)), state=FrameworkState.ATTEMPT_RUNNING
    )
    seen = {constants.ACKNOWLEDGED_GENERATION_ANNOTATION: acknowledged}
    configmap = {"metadata": {"annotations": {constants.GENERATION_ANNOTATION: "2"}}}
    return observe(
        [build_pod_wire(metadata={"annotations": seen}), build_pod_wire(index=1)],
        status=status,
        role={"drain": {"timeoutSec": timeout_seconds}},
        configmap=configmap,
    )


CASES: dict[str, Case] = {
    "out of memory": (
        lambda: observe(
            status=fail(ContainerCompletionStatus("main", "OOMKilled", "", 9, 137), code=137),
            role={
                "task": {
                    "pod": build_template_wire(
                        containers=[
                            {
                                "name": "main",
                                "image": "x",
                                "resources": {"limits": {"memory": "512Mi"}},
                            }
                        ]
                    )
                }
            },
        ),
        Kind.OUT_OF_MEMORY,
        ("ran out of memory: its container main was killed",),
        '"value":"1024Mi"',
    ),
    "evicted": (
        lambda: observe(status=fail(reason="Evicted", message="The node was low on memory.")),
        Kind.NODE,
        ("was ended by its node: Evicted",),
        "framework run gang.yaml --replace",
    ),
    "agent": (
        lambda: observe(
            status=fail(
                ContainerCompletionStatus(
                    "barrier",
                    "Error",
                    '{"exitCode":210,"reason":"BadConfig","message":"correct X"}',
                    0,
                    210,
                ),
                code=210,
            )
        ),
        Kind.AGENT,
        ("ended because of its barrier: correct X",),
        "framework run gang.yaml --replace",
    ),
    "hang": (
        lambda: observe(
            status=fail(
                ContainerCompletionStatus(
                    "train",
                    "Error",
                    json.dumps({"exitCode": 202, "reason": "Hung", "message": STANDSTILL}),
                    0,
                    202,
                ),
                code=202,
            )
        ),
        Kind.HANG,
        ("was killed by its agent in train, because the gang stood still",),
        "framework logs gang worker/0 --container train",
    ),
    "barrier that gave up": (
        lambda: observe(
            status=fail(
                ContainerCompletionStatus(
                    "barrier",
                    "Error",
                    json.dumps(
                        {
                            "exitCode": 201,
                            "reason": "GangIncomplete",
                            "message": "timed out",
                            "missing": [{"role": "worker", "index": 1, "reason": LACKS_GPU}],
                        }
                    ),
                    0,
                    201,
                ),
                code=201,
            )
        ),
        Kind.GANG,
        ("gave up waiting for the gang: its barrier missed worker/1 (0/3 nodes",),
        "framework run gang.yaml --replace",
    ),
    "lost Pod": (
        lambda: observe(status=fail_with(complete_task(POD_EXTERNAL_DELETED, "x"))),
        Kind.POD_LOST,
        ("lost its Pod",),
        "framework run gang.yaml --replace",
    ),
    "retry": (
        lambda: observe(status=retry(60)),
        Kind.CRASH,
        ("exited with 3",),
        "framework run gang.yaml --replace",
    ),
    "refused": (
        lambda: observe(
            status=fail_with(
                complete_task(
                    POD_CREATION_UNKNOWN_ERROR,
                    "Failed to create Pod: "
                    + json.dumps(
                        {
                            "message": (
                                'pods "gang-worker-0" is forbidden: violates PodSecurity '
                                '"restricted:latest": runAsNonRoot != true (pod must set it), '
                                "seccompProfile (pod must set it)"
                            )
                        }
                    ),
                )
            )
        ),
        Kind.REFUSED,
        ("enforces the level restricted of Pod Security: runAsNonRoot != true",),
        "framework inject --restricted - --output gang.yaml",
    ),
    "quota": (
        lambda: observe(
            task_state=TaskState.ATTEMPT_CREATION_PENDING,
            wire_status=block(
                "CreationRefused",
                'Pod gang-worker-1 cannot be created: pods "gang-worker-1" is forbidden: exceeded '
                "quota: team, requested: pods=1, used: pods=4, limited: pods=4",
            ),
        ),
        Kind.QUOTA,
        ("the quota team is used up (pods: 4 of 4 used, a Pod needs 1)",),
        '{"spec":{"hard":{"pods":"6"}}}',
    ),
    "name": (
        lambda: observe(
            task_state=TaskState.ATTEMPT_CREATION_PENDING,
            wire_status=block(
                "NameTaken", "Pod gang-worker-0 cannot be created: delete or rename (x)"
            ),
            holder={"metadata": {"ownerReferences": [{"kind": "Job", "name": "eval"}]}},
        ),
        Kind.NAME_TAKEN,
        ("another Pod has the name gang-worker-0",),
        "kubectl delete pod gang-worker-0",
    ),
    "old Pod that does not go and may not be read": (
        lambda: observe(
            task_state=TaskState.ATTEMPT_CREATION_PENDING,
            wire_status=block(
                "NameTaken",
                "Pod gang-worker-0 cannot be created: an older Pod of this name is being deleted, "
                "and still exists",
            ),
        ),
        Kind.NAME_TAKEN,
        ("a Pod gang-worker-0 that is being deleted still has the name",),
        "kubectl delete pod gang-worker-0 --ignore-not-found --force --grace-period=0",
    ),
    "limit": (
        lambda: observe(wire_status=block("TooManyTasks", "20000 Tasks, and 10000 are allowed")),
        Kind.LIMIT,
        ("a limit of the controller holds it: TooManyTasks",),
        "framework run gang.yaml --replace",
    ),
    "unreadable": (
        lambda: observe(wire_status=block("UnreadableFramework", "spec.x: must be a list")),
        Kind.UNREADABLE,
        ("the controller cannot read it",),
        "framework run gang.yaml --replace",
    ),
    "controller": (
        lambda: observe(wire_status={"observedGeneration": 1}, metadata={"generation": 2}),
        Kind.NO_CONTROLLER,
        ("no controller has seen its last change",),
        "kubectl get deployments -A -l app.kubernetes.io/name=framework-controller",
    ),
    "lease": (
        lambda: observe(
            lease={"spec": {"renewTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15}}
        ),
        Kind.NO_CONTROLLER,
        ("its controller does not run any more",),
        "kubectl scale deployment/framework-controller --replicas=1",
    ),
    "lost ConfigMap": (
        lambda: observe(
            status=end_attempt(
                build_status(state=FrameworkState.COMPLETED), CONFIGMAP_EXTERNAL_DELETED
            )
        ),
        Kind.POD_LOST,
        ("another client, or a second controller, deleted it",),
        "kubectl get deployments -A -l app.kubernetes.io/name=framework-controller",
    ),
    "finalizer": (
        lambda: observe(
            metadata={
                "deletionTimestamp": format_time(AT),
                "finalizers": ["foregroundDeletion", "a.io/x"],
            }
        ),
        Kind.DELETION,
        ("the finalizer a.io/x holds the deletion",),
        '[{"op":"remove","path":"/metadata/finalizers/1"}]',
    ),
    "suspended": (
        lambda: observe(spec={"suspend": True}),
        Kind.SUSPENDED,
        ("is suspended",),
        "framework resume gang",
    ),
    "drain": (
        lambda: observe_drain(acknowledged="1"),
        Kind.DRAIN,
        ("agents have not acknowledged it: those of worker/0",),
        "kubectl delete pod gang-worker-1",
    ),
    "deadline": (
        lambda: observe(
            spec={"activeDeadlineSeconds": 60},
            status=end_attempt(
                build_status(state=FrameworkState.COMPLETED), FRAMEWORK_DEADLINE_EXCEEDED
            ),
        ),
        Kind.DEADLINE,
        ("was active for longer than its activeDeadlineSeconds, 60",),
        '[{"op":"add","path":"/spec/activeDeadlineSeconds","value":null}]',
    ),
    "stopped": (
        lambda: observe(
            spec={"executionType": "Stop"},
            status=end_attempt(
                build_status(state=FrameworkState.COMPLETED), STOP_FRAMEWORK_REQUESTED
            ),
        ),
        Kind.STOPPED,
        ("was stopped by a user",),
        "framework run gang.yaml --replace",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rule_finds_its_cause(name: str) -> None:
    check_rule(CASES[name])


def test_remedy_that_installs_the_controller_does_not_choose_between_base_and_overlay() -> None:
    """The base would replace the image and the settings of an installed overlay."""
    cause = find_root(observe(wire_status={"observedGeneration": 1}, metadata={"generation": 2}))
    *_, install = cause.remedies
    assert install.commands == ("kubectl apply --server-side -k FOLDER",)
    assert "FOLDER is the folder of your overlay, or deploy/base" in install.text


def test_drain_with_a_timeout_outside_of_all_times_has_no_start() -> None:
    cause = find_root(observe_drain("1", timeout_seconds=2**62))
    assert (cause.kind, cause.since) == (Kind.DRAIN, None)


def test_task_that_leaves_is_named_with_its_reason_and_deadline() -> None:
    leaving = LeavingStatus("NodeCordoned", "node n1 is cordoned", at(400))
    role = build_role_status(number=2)
    first, task = role.tasks
    task = replace(task, attempt_status=replace(task.attempt_status, leaving=leaving))
    status = build_status(replace(role, tasks=(first, task)))
    cause = find_root(observe(status=status))
    assert (cause.kind, cause.tasks) == (Kind.LEAVING, (TaskKey("worker", 1),))
    assert cause.text == "leaves: node n1 is cordoned"
    assert cause.facts[1] == f"at {format_time(at(400))} its Pod is deleted in any case"
    assert list_commands(cause) == ["kubectl delete pod gang-worker-1"]


def test_drain_that_agents_have_acknowledged_is_no_cause() -> None:
    assert Kind.DRAIN not in {cause.kind for cause in find_causes(observe_drain("2"))}


def test_copy_of_a_framework_that_was_stopped_while_suspended_runs() -> None:
    ended = end_attempt(build_status(state=FrameworkState.COMPLETED), STOP_FRAMEWORK_REQUESTED)
    stopped = observe(spec={"executionType": "Stop", "suspend": True}, status=ended)
    copy, _ = list_commands(find_root(stopped))
    script = shlex.split(copy)[shlex.split(copy).index("sed") + 1]
    lines = "spec:\n  executionType: Stop\n  suspend: true\n    executionType: Stop\n"
    edited = subprocess.run(
        ["sed", script], input=lines, capture_output=True, check=True, text=True
    ).stdout
    assert edited == "spec:\n  executionType: Start\n  suspend: false\n    executionType: Stop\n"


def test_deadline_that_was_removed_after_it_had_passed_has_the_same_remedy() -> None:
    """A JSON patch that removes an absent field fails."""
    ended = end_attempt(build_status(state=FrameworkState.COMPLETED), FRAMEWORK_DEADLINE_EXCEEDED)
    cause = find_root(observe(status=ended))
    assert cause.text == "was active for longer than its activeDeadlineSeconds"
    copy, _ = list_commands(cause)
    assert '[{"op":"add","path":"/spec/activeDeadlineSeconds","value":null}]' in copy


def test_task_that_starts_again_after_quick_ends_has_failed() -> None:
    role = build_role_status("worker", 2, TaskState.ATTEMPT_CREATION_REQUESTED)
    retried = replace(role.tasks[0], retry_policy_status=RetryPolicyStatus(4, 4, None, 3))
    status = build_status(replace(role, tasks=(retried, role.tasks[1])))
    failed = event("TaskFailed", "worker/0 exited with 3")
    cause = find_root(replace(observe(status=status), events=(failed,)))
    assert (cause.kind, cause.tasks) == (Kind.CRASH, (TaskKey("worker", 0),))
    assert "its last 3 attempts ended within seconds" in cause.text
    assert cause.quote == "worker/0 exited with 3"


def test_retry_has_the_time_of_the_next_attempt() -> None:
    (fact,) = find_root(observe(status=retry(60))).facts
    assert fact == "the next attempt, number 3, starts at 2026-01-01T00:05:50Z, in 50 s"


@pytest.mark.parametrize(
    "lease",
    [
        {"renewTime": "2025-12-31T23:00:00.000000Z", "leaseDurationSeconds": 15},
        {
            "renewTime": "2025-12-31T23:59:55.000000Z",
            "leaseDurationSeconds": 1,
            "holderIdentity": "",
        },
    ],
    ids=["run out", "released a moment ago"],
)
def test_lease_of_a_controller_that_has_ended_says_nothing_while_another_one_works(
    lease: Object,
) -> None:
    observed = observe([lose_image()], lease={"spec": lease})
    assert Kind.NO_CONTROLLER not in {cause.kind for cause in find_causes(observed)}


def test_who_is_behind_and_who_waits_is_in_the_facts_of_a_hang() -> None:
    assert find_root(CASES["hang"][0]()).facts == (STANDSTILL,)


def test_missing_ssh_key_of_a_trainingjob_has_the_commands_that_create_it() -> None:
    text = 'MountVolume.SetUp failed for volume "training-job-ssh" : secret "mine" not found'
    found = find_root(observe([pending()], events={0: [event("FailedMount", text)]}))
    assert found.kind is Kind.VOLUME
    assert "there is no Secret mine" in found.text
    make, config, create = found.remedies[0].commands
    assert make.startswith("ssh-keygen ")
    assert config.endswith("> config")
    files = "--from-file=id_rsa --from-file=id_rsa.pub --from-file=config"
    assert create.startswith(f"kubectl create secret generic mine {files} ")
    # Not apply, which stores the private key in an annotation, too.
    assert create.endswith(" | kubectl create -f -")
