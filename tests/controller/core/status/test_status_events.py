"""The Events of a status change."""

from dataclasses import replace
from typing import Any

import pytest

from controller.core.status.status_events import list_events
from framework.api.completion import TASK_LEFT_NODE, complete_framework
from framework.api.leaving import LeavingStatus
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    CompletionPolicyTriggerStatus,
    CompletionType,
    Condition,
    ContainerCompletionStatus,
    FrameworkAttemptCompletionStatus,
    FrameworkStatus,
    PodCompletionStatus,
    TaskAttemptCompletionStatus,
    TaskStatus,
)
from tests.support.builders import (
    AT,
    build_attempt,
    build_role_status,
    build_status,
    build_task,
    end_attempt,
    end_task,
)
from tests.support.builders.cases import cases

SEVEN = TaskAttemptCompletionStatus(
    7,
    "ContainerUnrecognizedFailed",
    CompletionType("Failed", ()),
    'Pod failed: {"containers": [{"message": "a secret"}]}',
    PodCompletionStatus(containers=(ContainerCompletionStatus("main", "Error", "a secret", 0, 7),)),
)
PENDING = TaskState.ATTEMPT_CREATION_PENDING


def list_texts(before: FrameworkStatus | None, after: FrameworkStatus) -> list[str]:
    return [f"{e.type} {e.reason}: {e.message}" for e in list_events(before, after)]


def build_workers(*tasks: TaskStatus, **fields: Any) -> FrameworkStatus:
    return build_status(build_role_status(tasks=tasks), **fields)


def build_running(count: int) -> list[TaskStatus]:
    return [build_task(index=index) for index in range(count)]


def test_failed_task_is_named_with_its_exit_code_and_without_its_message() -> None:
    tasks = build_running(3)
    after = [*tasks[:2], end_task(tasks[2], SEVEN)]
    texts = list_texts(build_workers(*tasks), build_workers(*after))
    assert texts == ["Warning TaskFailed: worker/2 exited with 7"]


def test_failure_that_is_stored_is_not_reported_again() -> None:
    failed = end_task(build_task(), SEVEN)
    before = build_workers(failed, build_task(index=1))
    after = build_workers(replace(failed, state=TaskState.COMPLETED), build_task(index=1))
    assert list_texts(before, after) == []


def test_failure_of_the_next_attempt_is_reported() -> None:
    failed = end_task(build_task(), SEVEN)
    again = replace(failed, attempt_status=replace(failed.attempt_status, id=1))
    assert list_texts(build_workers(failed), build_workers(again)) == [
        "Warning TaskFailed: worker/0 exited with 7"
    ]


@pytest.mark.parametrize("code", [-210, -220, -230, -200, -310])
def test_task_that_did_not_fail_by_itself_gives_no_event(code: int) -> None:
    before, after = build_workers(build_task()), build_workers(end_task(build_task(), code))
    assert list_texts(before, after) == []


def test_of_many_failures_three_are_named() -> None:
    tasks = build_running(1000)
    after = build_workers(*(end_task(task, SEVEN) for task in tasks))
    assert list_texts(build_workers(*tasks), after) == [
        "Warning TaskFailed: worker/0 exited with 7",
        "Warning TaskFailed: worker/1 exited with 7",
        "Warning TaskFailed: worker/2 exited with 7",
        "Warning TaskFailed: 997 more Tasks failed",
    ]


def test_created_pods_are_one_event() -> None:
    before = build_workers(*(build_task(PENDING, index=index) for index in range(5)))
    assert list_texts(before, build_workers(*build_running(5))) == [
        "Normal PodCreated: Created the Pods of worker/0, worker/1, worker/2 and 2 more"
    ]


def test_complete_gang_is_reported_when_its_condition_becomes_true() -> None:
    ready = (Condition("GangReady", "True", 1, AT, "GangComplete"),)
    missing = (Condition("GangReady", "False", 1, AT, "TasksMissing"),)
    tasks = build_running(2)
    before = build_workers(*tasks, conditions=missing)
    after = build_workers(*tasks, conditions=ready)
    assert list_texts(before, after) == [
        "Normal GangReady: The gang is complete: 2 Tasks have addresses"
    ]
    assert list_texts(after, replace(after, ready_tasks="2/2")) == []


def test_gang_without_tasks_is_not_reported() -> None:
    ready = (Condition("GangReady", "True", 1, AT, "GangComplete"),)
    assert list_texts(build_workers(), build_workers(conditions=ready)) == []


def test_scaling_is_reported_by_role() -> None:
    workers, servers = build_running(2), build_role_status("ps")
    before = build_status(build_role_status(tasks=tuple(workers)), servers)
    leaving = replace(workers[1], deletion_pending=True)
    after = build_status(build_role_status(tasks=(workers[0], leaving)), servers)
    assert list_texts(before, after) == ["Normal Scaled: Role worker is scaled from 2 to 1 Tasks"]
    assert list_texts(build_status(servers), before) == [
        "Normal Scaled: Role worker is scaled from 0 to 2 Tasks",
        "Normal PodCreated: Created the Pods of worker/0, worker/1",
    ]


def test_next_attempt_is_not_a_scaling() -> None:
    before = build_workers(*build_running(2))
    roles = (build_role_status(state=PENDING),)
    after = build_status(attempt_status=build_attempt(*roles, id=1))
    assert list_texts(before, after) == []


def build_end(
    state: FrameworkState, completion: FrameworkAttemptCompletionStatus, attempt: int = 0
) -> FrameworkStatus:
    task = end_task(build_task(), SEVEN)
    roles = (build_role_status(tasks=(task,)),)
    fields = build_attempt(*roles, completion_status=completion, id=attempt)
    return build_status(state=state, attempt_status=fields)


FAILED = FrameworkAttemptCompletionStatus(
    7, "Phrase", CompletionType("Failed", ()), "", CompletionPolicyTriggerStatus("", "worker", 0)
)


@pytest.mark.parametrize(
    ("state", "completion", "attempt", "text"),
    [
        ("AttemptCompleted", FAILED, 0, "Warning {}: Attempt 0 failed: worker/0 exited with 7"),
        ("Completed", FAILED, 0, "Warning {}: The Framework failed: worker/0 exited with 7"),
        ("Completed", FAILED, 2,
         "Warning {}: The Framework failed after 3 attempts: worker/0 exited with 7"),
        ("Completed", complete_framework(0, ""), 1,
         "Normal {}: The Framework succeeded after 2 attempts"),
        ("AttemptCompleted", complete_framework(-210, ""), 0,
         "Normal {}: Attempt 0 was stopped by a user"),
    ],
    ids=["attempt", "failed", "attempts", "succeeded", "stopped"],
)  # fmt: skip
def test_end_is_reported_with_its_cause(
    state: str, completion: FrameworkAttemptCompletionStatus, attempt: int, text: str
) -> None:
    before = build_end(FrameworkState.ATTEMPT_DELETING, completion, attempt)
    after = build_end(FrameworkState(state), completion, attempt)
    assert list_texts(before, after) == [text.format(state)]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (
            -240,
            (
                "Warning DeadlineExceeded: The Framework was active for longer than its "
                "activeDeadlineSeconds: its Pods are deleted"
            ),
        ),
        (
            -250,
            (
                "Normal Suspending: A user suspends the Framework: its Pods are deleted, and the "
                "attempt is not counted"
            ),
        ),
    ],
)
def test_requested_end_is_reported_when_it_begins_and_not_again(code: int, text: str) -> None:
    before = build_status()
    after = end_attempt(before, code)
    assert list_texts(before, after) == [text]
    assert list_texts(after, replace(after, ready_tasks="0/1")) == []


def with_suspended(status: str, reason: str) -> FrameworkStatus:
    message = "No Pod is created" if status == "True" else ""
    condition = Condition("Suspended", status, 1, AT, reason, message)
    return build_status(build_role_status(tasks=()), conditions=(condition,))


def test_suspension_and_resumption_are_reported_once() -> None:
    never = build_status(build_role_status(tasks=()))
    suspending = with_suspended("False", "Suspending")
    suspended = with_suspended("True", "Suspended")
    resumed = with_suspended("False", "Resumed")
    done = ["Normal Suspended: The Framework is suspended. No Pod is created"]
    again = ["Normal Resumed: A user resumes the Framework"]
    assert list_texts(None, suspended) == list_texts(suspending, suspended) == done
    assert list_texts(suspended, resumed) == list_texts(suspending, resumed) == again
    assert list_texts(suspended, suspended) == list_texts(resumed, resumed) == []
    assert list_texts(never, suspending) == list_texts(never, never) == []
    assert list_texts(suspended, with_suspended("False", "Stopped")) == []


def test_stop_is_reported_when_it_begins() -> None:
    before = build_status()
    attempt = replace(before.attempt_status, completion_status=complete_framework(-210, ""))
    after = replace(before, attempt_status=attempt)
    assert list_texts(before, after) == [
        "Normal Stopping: A user stops the Framework: its Pods are deleted"
    ]


@cases(
    "code text",
    stop=(-210, "Normal Stopping: A user stops the Framework"),
    deadline=(
        -240,
        (
            "Warning DeadlineExceeded: The Framework was active for longer than its "
            "activeDeadlineSeconds"
        ),
    ),
)
def test_requested_end_after_the_end_of_an_attempt_is_reported_too(code: int, text: str) -> None:
    """The retry is due at once, and ends in the same write."""
    before = build_end(FrameworkState.ATTEMPT_COMPLETED, complete_framework(201, ""), 0)
    after = build_end(FrameworkState.COMPLETED, complete_framework(code, ""), 1)
    attempt = replace(after.attempt_status, configmap_uid=None, instance_uid=None)
    texts = list_texts(before, replace(after, attempt_status=attempt))
    assert texts[0] == text
    assert len(texts) == 2
    assert " Completed: The Framework " in texts[1]


def test_running_attempt_is_reported() -> None:
    before = build_status(state=FrameworkState.ATTEMPT_PREPARING)
    assert list_texts(before, build_status()) == ["Normal AttemptRunning: Attempt 0 runs"]


def test_roles_beyond_the_third_that_are_scaled_are_counted() -> None:
    before, after = (
        build_status(
            *[build_role_status(name=f"r{i}", tasks=build_running(count)) for i in range(256)]
        )
        for count in (1, 2)
    )
    texts = [text for text in list_texts(before, after) if "Scaled" in text]
    assert texts[2:] == [
        "Normal Scaled: Role r2 is scaled from 1 to 2 Tasks",
        "Normal Scaled: 253 more roles are scaled",
    ]


def leave(task: TaskStatus) -> TaskStatus:
    leaving = LeavingStatus("NodeCordoned", "node n1 is cordoned", AT)
    return replace(task, attempt_status=replace(task.attempt_status, leaving=leaving))


def test_tasks_that_leave_are_reported_once_and_their_end_is_no_failure() -> None:
    tasks = build_running(5)
    before, after = build_workers(*tasks), build_workers(*(leave(task) for task in tasks))
    assert list_texts(before, after) == [
        "Normal TaskLeaving: worker/0 leaves: node n1 is cordoned",
        "Normal TaskLeaving: worker/1 leaves: node n1 is cordoned",
        "Normal TaskLeaving: worker/2 leaves: node n1 is cordoned",
        "Normal TaskLeaving: 2 more Tasks leave",
    ]
    left = build_workers(*(end_task(leave(task), TASK_LEFT_NODE) for task in tasks))
    assert list_texts(after, left) == []
