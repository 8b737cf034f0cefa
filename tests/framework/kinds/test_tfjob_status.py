"""Framework -> status of a TfJob: phase, state, reason, replicas, the latest ten conditions."""

from dataclasses import replace
from typing import Any

import pytest

from framework.api.completion import (
    CONTAINER_PERMANENT_FAILED,
    FRAMEWORK_ATTEMPT_COMPLETION,
    STOP_FRAMEWORK_REQUESTED,
    SUCCEEDED,
    complete_task,
)
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    CompletionPolicyTriggerStatus,
    ContainerCompletionStatus,
    Framework,
    FrameworkAttemptCompletionStatus,
    FrameworkStatus,
    PodCompletionStatus,
    RetryPolicyStatus,
)
from framework.kinds.observing import AddedCondition
from framework.kinds.tfjob.status import TfJobFacts, map_tfjob_status
from tests.support.builders import (
    AT,
    at,
    build_framework,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_task,
    end_attempt,
    end_task,
)

SPEC = build_spec(build_role("master"), build_role("worker", 2))
RUNNING = (build_role_status("master"), build_role_status("worker", 2))


def build(status: FrameworkStatus | None = None) -> Framework:
    return build_framework(SPEC, status)


def map_status(framework: Framework | None, old: Any = None, **facts: Any) -> dict[str, Any]:
    return map_tfjob_status(framework, old, AT, TfJobFacts(**facts))


def build_ended(code: int) -> FrameworkStatus:
    done = end_task(build_task(TaskState.COMPLETED, "master"), code)
    master = build_role_status("master", tasks=(done,))
    status = build_status(master, RUNNING[1], state=FrameworkState.COMPLETED)
    return end_attempt(status, code)


@pytest.mark.parametrize(
    ("framework", "facts", "expected"),
    [
        (None, {}, ("Creating", "Unknown")),
        (build(), {}, ("Creating", "Unknown")),
        (
            build(build_status(*RUNNING, state=FrameworkState.ATTEMPT_PREPARING)),
            {},
            ("Creating", "Unknown"),
        ),
        (build(build_status(*RUNNING)), {}, ("Running", "Running")),
        (build(build_ended(SUCCEEDED)), {}, ("Done", "Succeeded")),
        (build(build_ended(CONTAINER_PERMANENT_FAILED)), {}, ("Done", "Failed")),
        (build(build_status(*RUNNING)), {"is_deleting": True}, ("CleanUp", "Running")),
        (None, {"fault": "spec: bad"}, ("Failed", "Failed")),
    ],
    ids=["none", "new", "preparing", "running", "succeeded", "failed", "deleted", "refused"],
)
def test_phase_and_state_follow_the_master(
    framework: Framework | None, facts: Any, expected: tuple[str, str]
) -> None:
    status = map_status(framework, **facts)
    assert (status["phase"], status["state"]) == expected


def test_reason_is_the_fault_or_the_failure() -> None:
    assert map_status(None, fault="spec: " + "x" * 9999)["reason"].startswith("spec: x")
    assert len(map_status(None, fault="x" * 9999)["reason"]) == 512
    failed = map_status(build(build_ended(CONTAINER_PERMANENT_FAILED)))
    assert failed["reason"] == (
        "it failed with code 210 (ContainerPermanentFailed), which is permanent: x"
    )
    assert map_status(build(build_ended(SUCCEEDED)))["reason"] == ""


BLOCKED = AddedCondition("Blocked", "NameTaken", "the Framework job exists")


def test_reason_is_the_obstacle_until_the_job_fails() -> None:
    blocked = map_status(None, added_conditions=(BLOCKED,))
    assert (blocked["phase"], blocked["reason"]) == (
        "Creating",
        "NameTaken: the Framework job exists",
    )
    retried = map_status(None, blocked, is_still_blocked=True)
    assert retried["reason"] == blocked["reason"]
    assert map_status(None, blocked)["reason"] == ""
    failed = build(build_ended(CONTAINER_PERMANENT_FAILED))
    failure = map_status(failed)["reason"]
    assert map_status(failed, blocked, added_conditions=(BLOCKED,))["reason"] == failure
    refused = map_status(None, fault="spec: bad", added_conditions=(BLOCKED,))
    assert refused["reason"] == "spec: bad"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("", ""),
        ("Traceback\nValueError: no data\n", "; last output: ValueError: no data"),
        ('{"exitCode": 3, "message": "bad settings"}', "; last output: bad settings"),
        ('{"exitCode": 3', '; last output: {"exitCode": 3'),
    ],
)
def test_reason_of_a_failed_master_names_its_container_and_code(message: str, words: str) -> None:
    container = ContainerCompletionStatus("tensorflow", "Error", message, code=3)
    completion = replace(
        complete_task(CONTAINER_PERMANENT_FAILED, "Container tensorflow ended: Pod failed: {}"),
        code=3,
        pod=PodCompletionStatus(containers=(container,)),
    )
    master = end_task(build_task(TaskState.COMPLETED, "master"), completion)
    status = build_status(
        build_role_status("master", tasks=(master,)), state=FrameworkState.COMPLETED
    )
    ended = FrameworkAttemptCompletionStatus(
        code=3,
        phrase=completion.phrase,
        type=completion.type,
        diagnostics=completion.diagnostics,
        trigger=CompletionPolicyTriggerStatus("x", "master", 0),
    )
    assert map_status(build(end_attempt(status, ended)))["reason"] == (
        f"master/0 exited with 3, which is permanent: Container tensorflow ended{words}"
    )


@pytest.mark.parametrize("code", [FRAMEWORK_ATTEMPT_COMPLETION, STOP_FRAMEWORK_REQUESTED])
def test_replica_that_is_stopped_with_its_job_has_not_failed(code: int) -> None:
    tasks = (
        end_task(build_task(TaskState.COMPLETED, "worker", 0), code),
        end_task(build_task(TaskState.COMPLETED, "worker", 1), SUCCEEDED),
    )
    status = build_status(build_role_status("master"), build_role_status("worker", tasks=tasks))
    (_, worker) = map_status(build(status))["replicaStatuses"]
    assert worker == {
        "tf_replica_type": "WORKER",
        "state": "Unknown",
        "ReplicasStates": {"Succeeded": 1, "Unknown": 1},
    }


def test_replicas_are_counted_by_state() -> None:
    waiting = build_task(TaskState.ATTEMPT_PREPARING, "worker", 1)
    tasks = (build_task(role="worker"), waiting)
    status = build_status(build_role_status("master"), build_role_status("worker", tasks=tasks))
    assert map_status(build(status))["replicaStatuses"] == [
        {"tf_replica_type": "MASTER", "state": "Running", "ReplicasStates": {"Running": 1}},
        {
            "tf_replica_type": "WORKER",
            "state": "Running",
            "ReplicasStates": {"Running": 1, "Starting": 1},
        },
    ]


@pytest.mark.parametrize(
    ("codes", "state"),
    [((0, 0), "Succeeded"), ((0, 210), "Failed"), ((), "Unknown")],
)
def test_type_has_the_state_of_its_replicas(codes: tuple[int, ...], state: str) -> None:
    tasks = tuple(
        end_task(build_task(TaskState.COMPLETED, "worker", index), code)
        for index, code in enumerate(codes)
    )
    status = build_status(build_role_status("master"), build_role_status("worker", tasks=tasks))
    (_, worker) = map_status(build(status))["replicaStatuses"]
    assert worker["state"] == state
    assert sum(worker["ReplicasStates"].values()) == 2


def test_conditions_tell_ready_and_recovering_once_each_time() -> None:
    ready = map_status(build(build_status(*RUNNING)))
    assert [c["type"] for c in ready["conditions"]] == ["Ready"]
    assert map_status(build(build_status(*RUNNING)), ready) == ready
    retries = RetryPolicyStatus(total_retried_count=1)
    lost = build_task(TaskState.ATTEMPT_PREPARING, "worker", 1, retry_policy_status=retries)
    worker = build_role_status("worker", tasks=(build_task(role="worker"), lost))
    recovering = map_status(build(build_status(RUNNING[0], worker)), ready)
    assert recovering["conditions"][1] == {
        "type": "Recovering",
        "reason": "worker/1 is started again",
        "transitionTime": "2026-01-01T00:00:00Z",
    }
    again = map_status(build(build_status(*RUNNING)), recovering)
    assert [c["type"] for c in again["conditions"]] == ["Ready", "Recovering", "Ready"]


def test_translated_restart_policy_is_a_condition_once() -> None:
    first = map_status(build(), translation="OnFailure became Never")
    assert [c["reason"] for c in first["conditions"]] == ["OnFailure became Never"]
    second = map_tfjob_status(
        build(build_status(*RUNNING)), first, at(9), TfJobFacts(translation="OnFailure became")
    )
    assert [c["type"] for c in second["conditions"]] == ["RestartPolicyTranslated", "Ready"]


def test_translated_restart_policy_stays_while_others_are_pushed_out() -> None:
    status = map_status(build(), translation="OnFailure became Never")
    kept = status["conditions"][0]
    lost = build_task(
        TaskState.ATTEMPT_PREPARING,
        "worker",
        1,
        retry_policy_status=RetryPolicyStatus(total_retried_count=1),
    )
    losing = (RUNNING[0], build_role_status("worker", tasks=(build_task(role="worker"), lost)))
    for number in range(24):
        roles = losing if number % 2 else RUNNING
        status = map_tfjob_status(
            build(build_status(*roles)), status, at(number), TfJobFacts(translation="OnFailure")
        )
    assert len(status["conditions"]) == 11
    assert status["conditions"][0] == kept


def test_ten_conditions_are_kept_and_bad_ones_are_left_out() -> None:
    old = {"conditions": [1, {"type": 2}, *({"type": f"T{i}"} for i in range(40))]}
    conditions = map_status(build(build_status(*RUNNING)), old)["conditions"]
    assert [c["type"] for c in conditions] == [*(f"T{i}" for i in range(31, 40)), "Ready"]
    for bad in ({"conditions": "x"}, {"conditions": None}, {}):
        assert map_status(build(), bad)["conditions"] == []


def test_scaled_down_tasks_are_not_counted() -> None:
    leaving = replace(build_task(role="worker", index=1), deletion_pending=True)
    worker = build_role_status("worker", tasks=(build_task(role="worker"), leaving))
    (_, mapped) = map_status(build(build_status(RUNNING[0], worker)))["replicaStatuses"]
    assert mapped["ReplicasStates"] == {"Running": 1, "Unknown": 1}
