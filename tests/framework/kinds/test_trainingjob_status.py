"""Framework -> status of a TrainingJob: phases, conditions in their order, workers, restarts."""

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
    CompletionType,
    ContainerCompletionStatus,
    Framework,
    FrameworkAttemptCompletionStatus,
    FrameworkStatus,
    PodCompletionStatus,
    RetryPolicyStatus,
    TaskAttemptCompletionStatus,
    TaskRoleStatus,
)
from framework.kinds.observing import AddedCondition
from framework.kinds.trainingjob.failures import list_failures
from framework.kinds.trainingjob.status import (
    ScalerEnd,
    TrainingJobFacts,
    is_suspended,
    map_trainingjob_status,
)
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

SPEC = build_spec(build_role("launcher"), build_role("worker", 2))
PREPARING = TaskState.ATTEMPT_PREPARING
WAITING = build_role_status("launcher", state=PREPARING)
LAUNCHED = build_role_status("launcher")
WORKERS = build_role_status("worker", 2)


def build(*roles: TaskRoleStatus, **fields: Any) -> Framework:
    return build_framework(SPEC, build_status(*roles, **fields))


def map_status(
    framework: Framework | None, old: Any = None, seconds: int = 0, **facts: Any
) -> dict[str, Any]:
    """Map as the decision about a job does: the facts contain the failures."""
    added_conditions = (*facts.pop("added_conditions", ()), *list_failures("gang", framework))
    known = TrainingJobFacts(added_conditions=added_conditions, **facts)
    return map_trainingjob_status("gang", framework, old, at(seconds), known)


def list_types(status: dict[str, Any]) -> list[str]:
    return [condition["type"] for condition in status["conditions"]]


def build_ended(code: int, reason: str = "") -> Framework:
    completion = replace(complete_task(code, "x"), pod=PodCompletionStatus(reason=reason))
    done = end_task(build_task(TaskState.COMPLETED, "launcher"), completion)
    status = build_status(
        build_role_status("launcher", tasks=(done,)), WORKERS, state=FrameworkState.COMPLETED
    )
    return build_framework(SPEC, replace(end_attempt(status, code), completion_time=at(60)))


STEPS = ["Created", "WorkersCreated", "WorkersReady", "LauncherCreated", "Running"]


@pytest.mark.parametrize(
    ("framework", "count"),
    [
        (None, 1),
        (build_framework(SPEC), 1),
        (build(WAITING, build_role_status("worker", 1)), 1),
        (build(WAITING, build_role_status("worker", 2, PREPARING)), 2),
        (
            build(build_role_status("launcher", state=TaskState.ATTEMPT_CREATION_PENDING), WORKERS),
            3,
        ),
        (build(WAITING, WORKERS), 4),
        (build(LAUNCHED, WORKERS), 5),
    ],
)
def test_conditions_come_in_the_order_of_the_original(
    framework: Framework | None, count: int
) -> None:
    status = map_status(framework)
    assert list_types(status) == STEPS[:count]
    assert status["phase"] == ("Running" if count == len(STEPS) else "Created")


def test_a_lost_worker_changes_no_condition() -> None:
    before = map_status(build(LAUNCHED, WORKERS))
    workers = build_role_status("worker", tasks=(build_task(), build_task(PREPARING, index=1)))
    after = map_status(build(LAUNCHED, workers), before, seconds=9)
    assert after["conditions"] == before["conditions"]
    assert after["currentWorkers"] == ["gang-worker-0"]
    assert after["targetWorkers"] == ["gang-worker-0", "gang-worker-1"]
    assert after["replicaStatuses"] == {"Launcher": {"active": 1}, "Worker": {"active": 1}}


def build_failure(message: str = "") -> TaskAttemptCompletionStatus:
    """The end of a Task whose container `train` exited with 3."""
    container = ContainerCompletionStatus("train", "Error", message, code=3)
    kind = CompletionType("Failed", ())
    pod = PodCompletionStatus(containers=(container,))
    return TaskAttemptCompletionStatus(3, "Unknown", kind, "Pod failed: {}", pod=pod)


def build_failed(state: FrameworkState, **fields: Any) -> Framework:
    """A job whose launcher exited with 3."""
    end = build_failure("starting\nno data\n")
    done = end_task(build_task(TaskState.COMPLETED, "launcher"), end)
    launcher = build_role_status("launcher", tasks=(done,))
    trigger = CompletionPolicyTriggerStatus(
        "FailedTaskCount 1 has reached MinFailedTaskCount 1 in the TaskRole", "launcher", 0
    )
    attempt = FrameworkAttemptCompletionStatus(
        end.code, end.phrase, end.type, end.diagnostics, trigger
    )
    status = build_status(launcher, WORKERS, state=state, **fields)
    return build_framework(SPEC, end_attempt(status, attempt))


def find_condition(status: dict[str, Any], type_: str) -> dict[str, Any]:
    (condition,) = [c for c in status["conditions"] if c["type"] == type_]
    return condition  # type: ignore[no-any-return]  # JSON


WHY = "launcher/0 exited with 3: last output: no data"


def test_failed_job_says_how_its_launcher_ended() -> None:
    status = map_status(build_failed(FrameworkState.COMPLETED))
    assert status["conditions"][-1]["message"] == f"job gang has failed: {WHY}"
    assert "AttemptFailed" not in list_types(status)


def test_reason_is_the_failure_or_what_nothing_can_be_created_for() -> None:
    blocked = AddedCondition("Blocked", "NameTaken", "the Framework gang exists")
    waiting = map_status(None, added_conditions=(blocked,))
    assert waiting["reason"] == "NameTaken: the Framework gang exists"
    assert map_status(None, waiting, is_still_blocked=True)["reason"] == waiting["reason"]
    assert "reason" not in map_status(build(LAUNCHED, WORKERS), waiting)
    failed = map_status(build_failed(FrameworkState.COMPLETED), added_conditions=(blocked,))
    assert failed["reason"] == f"job gang has failed: {WHY}"
    assert map_status(None, fault="spec: bad")["reason"] == "spec: bad"


def test_cause_of_the_last_restart_stays_while_the_job_runs_again() -> None:
    running = map_status(build(LAUNCHED, WORKERS))
    ending = map_status(build_failed(FrameworkState.ATTEMPT_DELETING), running, seconds=1)
    assert find_condition(ending, "AttemptFailed")["message"] == f"attempt 0: {WHY}"
    retried = RetryPolicyStatus(total_retried_count=1)
    again = build(LAUNCHED, WORKERS, retry_policy_status=retried)
    status = map_status(again, ending, seconds=9)
    assert list_types(status) == ["AttemptFailed", *STEPS]
    assert status["conditions"][0] == find_condition(ending, "AttemptFailed")
    ended = map_status(build_ended(SUCCEEDED), status, seconds=10)
    assert "AttemptFailed" not in list_types(ended)


def build_ended_workers(*ends: TaskAttemptCompletionStatus | int) -> TaskRoleStatus:
    tasks = (
        end_task(build_task(TaskState.COMPLETED, "worker", index), end)
        for index, end in enumerate(ends)
    )
    return build_role_status("worker", tasks=tuple(tasks))


def test_failed_workers_are_named_and_are_not_ready() -> None:
    failed = build_ended_workers(build_failure("no sshd"), build_failure())
    status = map_status(build(LAUNCHED, failed))
    assert status["replicaStatuses"]["Worker"] == {"failed": 2}
    assert "WorkersReady" not in list_types(status)
    assert list_types(status)[-1] == "Running"
    condition = find_condition(status, "WorkersFailed")
    assert condition["reason"] == "TrainingJobWorkerFailed"
    assert condition["message"] == (
        "2 failed, and the restartPolicy of worker does not replace them; "
        "gang-worker-0 exited with 3: last output: no sshd"
    )
    assert "WorkersFailed" not in list_types(map_status(build(LAUNCHED, WORKERS), status))


@pytest.mark.parametrize("code", [FRAMEWORK_ATTEMPT_COMPLETION, STOP_FRAMEWORK_REQUESTED])
def test_workers_that_end_with_their_job_have_not_failed(code: int) -> None:
    stopped = build_ended_workers(code, SUCCEEDED, build_failure())
    status = map_status(build(LAUNCHED, stopped))
    assert status["replicaStatuses"]["Worker"] == {"succeeded": 1, "failed": 1}
    stopped = build_ended_workers(code, SUCCEEDED)
    assert "WorkersFailed" not in list_types(map_status(build(LAUNCHED, stopped)))


def test_launcher_that_ends_in_its_barrier_has_not_run() -> None:
    done = end_task(build_task(TaskState.COMPLETED, "launcher"), build_failure())
    never_ran = replace(done, attempt_status=replace(done.attempt_status, run_time=None))
    launcher = build_role_status("launcher", tasks=(never_ran,))
    failed = build_ended_workers(build_failure(), build_failure())
    types = list_types(map_status(build(launcher, failed)))
    assert "Running" not in types
    assert "WorkersReady" not in types


def test_end_of_a_scaler_is_a_condition_and_scaling_becomes_false() -> None:
    running = build(LAUNCHED, WORKERS)
    scaling = map_status(running, scaler="ScaleIn:default/s")
    end = ScalerEnd("ScaleIn:default/s", is_succeeded=True, reason="ScalingInSucceeded")
    scaled = map_status(running, scaling, 5, scaler_end=end)
    assert find_condition(scaled, "Scaling")["status"] == "False"
    last = scaled["conditions"][-1]
    assert (last["type"], last["reason"]) == ("ScaleSucceeded", "ScalingInSucceeded")
    assert last["message"] == "ScaleIn:default/s has succeeded"
    assert map_status(running, scaled, 9) == scaled
    again = map_status(running, scaled, 10, scaler="ScaleOut:default/t")
    assert list_types(again)[-2:] == ["ScaleSucceeded", "Scaling"]
    end = ScalerEnd("ScaleOut:default/t", is_succeeded=False, reason="Timeout")
    failed = map_status(running, again, 20, scaler_end=end, scaler="ScaleIn:default/u")
    assert list_types(failed)[-3:] == ["ScaleSucceeded", "ScaleFailed", "Scaling"]
    assert find_condition(failed, "ScaleFailed")["reason"] == "ScalingOutFailed"
    assert find_condition(failed, "ScaleFailed")["message"] == (
        "ScaleOut:default/t has failed (Timeout); details: kubectl describe scaleout t"
    )


SUSPENDED = {"job-supervisor.kube-ai.io/job-suspended": "true"}


def test_suspension_of_a_job_that_had_a_framework_is_final() -> None:
    running = map_status(build(LAUNCHED, WORKERS))
    status = map_status(build(LAUNCHED, WORKERS), running, is_suspended=True)
    assert is_suspended({"metadata": {"annotations": SUSPENDED}})
    assert is_suspended({"metadata": {}, "status": status})
    assert not is_suspended({"metadata": {}, "status": running})
    new = map_status(None, is_suspended=True)
    assert not is_suspended({"metadata": {}, "status": new})
    started = map_status(None, new)
    assert find_condition(started, "Suspended")["status"] == "False"
    assert started["phase"] == "Created"


def test_status_without_news_is_the_old_one() -> None:
    for framework in (None, build(WAITING, WORKERS), build_ended(SUCCEEDED)):
        before = map_status(framework)
        assert map_status(framework, before, seconds=9) == before


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (SUCCEEDED, "", ("Succeeded", "TrainingJobSucceeded")),
        (CONTAINER_PERMANENT_FAILED, "", ("Failed", "TrainingJobFailed")),
        (CONTAINER_PERMANENT_FAILED, "Evicted", ("Failed", "TrainingJobEvicted")),
    ],
)
def test_end_is_the_last_condition_and_running_becomes_false(
    code: int, reason: str, expected: tuple[str, str]
) -> None:
    running = map_status(build(LAUNCHED, WORKERS))
    status = map_status(build_ended(code, reason), running, seconds=60)
    last = status["conditions"][-1]
    assert (status["phase"], last["type"], last["reason"]) == (expected[0], *expected)
    (run,) = [c for c in status["conditions"] if c["type"] == "Running"]
    assert (run["status"], run["lastTransitionTime"]) == ("False", "2026-01-01T00:01:00Z")
    assert status["completionTime"] == "2026-01-01T00:01:00Z"
    assert status["startTime"] == "2026-01-01T00:00:00Z"


def test_end_that_is_seen_first_has_all_conditions() -> None:
    assert list_types(map_status(build_ended(SUCCEEDED))) == [*STEPS, "Succeeded"]


def test_restart_begins_the_conditions_anew_and_is_counted_once() -> None:
    before = map_status(build(LAUNCHED, WORKERS))
    assert before["restartCount"] == 0
    retried = RetryPolicyStatus(total_retried_count=1, accountable_retried_count=1)
    framework = build(WAITING, build_role_status("worker", 2, PREPARING))
    assert isinstance(framework.status, FrameworkStatus)
    again = replace(framework, status=replace(framework.status, retry_policy_status=retried))
    status = map_status(again, before, seconds=9)
    assert (status["restartCount"], status["phase"]) == (1, "Created")
    assert list_types(status) == ["Created", "WorkersCreated"]
    assert map_status(again, status, seconds=99) == status


def test_suspended_and_refused_jobs() -> None:
    running = map_status(build(LAUNCHED, WORKERS))
    suspended = map_status(build(LAUNCHED, WORKERS), running, is_suspended=True)
    assert (suspended["phase"], list_types(suspended)[-1]) == ("Suspended", "Suspended")
    refused = map_status(None, fault="spec: bad")
    assert (refused["phase"], refused["conditions"][-1]["message"]) == ("Failed", "spec: bad")


def test_scaling_is_a_phase_of_a_running_job() -> None:
    running = map_status(build(LAUNCHED, WORKERS))
    scaling = map_status(build(LAUNCHED, WORKERS), running, scaler="ScaleIn:default/s")
    assert (scaling["phase"], scaling["currentScaler"]) == ("Scaling", "ScaleIn:default/s")
    assert list_types(scaling)[-1] == "Scaling"
    scaled = map_status(build(LAUNCHED, WORKERS), scaling)
    assert (scaled["phase"], "currentScaler" in scaled) == ("Running", False)
    second = map_status(build(LAUNCHED, WORKERS), scaled, scaler="ScaleOut:default/t")
    assert "ScaleOut:default/t" in second["conditions"][-1]["message"]
    assert map_status(build(WAITING, WORKERS), scaler="ScaleIn:a/b")["phase"] == "Created"


@pytest.mark.parametrize("old", [{"restartCount": "9"}, {"restartCount": True}, {"conditions": 3}])
def test_bad_old_status_is_replaced(old: Any) -> None:
    assert map_status(None, old) == map_status(None)


def test_times_are_those_of_the_change() -> None:
    (created,) = map_trainingjob_status("gang", None, None, AT, TrainingJobFacts())["conditions"]
    assert created["lastUpdateTime"] == created["lastTransitionTime"] == "2026-01-01T00:00:00Z"
