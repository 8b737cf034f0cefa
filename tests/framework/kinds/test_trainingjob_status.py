"""Framework -> status of a TrainingJob: phases, conditions in their order, workers, restarts."""

from dataclasses import replace
from typing import Any

import pytest

from framework.api.completion import CONTAINER_PERMANENT_FAILED, SUCCEEDED, complete_task
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    Framework,
    FrameworkStatus,
    PodCompletionStatus,
    RetryPolicyStatus,
    TaskRoleStatus,
)
from framework.kinds.trainingjob.status import TrainingJobFacts, map_trainingjob_status
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
    return map_trainingjob_status("gang", framework, old, at(seconds), TrainingJobFacts(**facts))


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
