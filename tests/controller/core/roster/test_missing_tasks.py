"""The missing Tasks of a gang, and when they are listed: docs/design/roster.md, "Readiness"."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.core.roster.missing_tasks import explain_missing, find_check_times, list_missing
from framework.api.pods import PodView
from framework.api.states import TaskState
from framework.api.types import TaskStatus
from tests.support.builders import (
    at,
    build_pod,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_task,
    build_task_attempt,
    build_waiting,
)
from tests.support.builders.cases import cases
from tests.support.builders.worlds import build_draft, build_failure

CREATE = ActionKey(Verb.CREATE, ObjectKind.POD, "gang-worker-0", "task-worker-0/0")


@pytest.mark.parametrize(
    ("age", "check", "following"),
    [
        (-5, None, 2),
        (0, None, 2),
        (1.9, None, 2),
        (2, 2, 5),
        (9.9, 5, 10),
        (10, 10, 20),
        (20, 20, 50),
        (49.9, 20, 50),
        (50, 50, 80),
        (3650, 3650, 3680),
        (3679, 3650, 3680),
    ],
)
def test_check_times_grow_to_half_a_minute(
    age: float, check: float | None, following: float
) -> None:
    expected = None if check is None else at(check)
    assert find_check_times(at(0), at(age)) == (expected, at(following))


def test_check_times_are_reached_in_order_and_the_next_is_in_the_future() -> None:
    checks = set()
    for half_seconds in range(220):
        age = half_seconds / 2
        check, following = find_check_times(at(0), at(age))
        checks.add(check)
        assert check is None or check <= at(age) < following
    assert checks == {None, *(at(s) for s in (2, 5, 10, 20, 50, 80))}


def test_check_times_at_the_end_of_time_raise_nothing() -> None:
    end = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    find_check_times(end, at(0))
    find_check_times(at(0), end)


@cases(
    "task pods failures expected",
    in_its_place=(build_task(), [build_pod()], {}, None),
    completed=(build_task(TaskState.COMPLETED), [], {}, None),
    retried_by_a_user=(
        build_task(TaskState.ATTEMPT_DELETION_PENDING),
        [build_pod()],
        {},
        "Pod is terminating",
    ),
    not_created=(build_task(TaskState.ATTEMPT_CREATION_PENDING), [], {}, "Pod is not created yet"),
    not_creatable=(
        build_task(TaskState.ATTEMPT_CREATION_PENDING),
        [],
        {CREATE: build_failure(403, "exceeded quota")},
        "Pod cannot be created: exceeded quota",
    ),
    between_attempts=(
        build_task(TaskState.ATTEMPT_COMPLETED),
        [],
        {},
        "the next attempt waits for its time",
    ),
    terminating=(
        build_task(),
        [build_pod(metadata={"deletionTimestamp": "2026-01-01T00:00:30Z"})],
        {},
        "Pod is terminating",
    ),
    failed=(build_task(), [build_pod(phase="Failed")], {}, "Pod has failed"),
    why_its_pod_waits=(
        build_task(attempt_status=build_task_attempt(pod_ip="")),
        [
            build_pod(
                phase="Pending", containers=[build_waiting(reason="ErrImagePull", message="no")]
            )
        ],
        {},
        "ErrImagePull: no",
    ),
    other_uid=(build_task(), [replace(build_pod(), uid="x")], {}, "Pod is not created yet"),
)
def test_missing_member_is_explained(
    task: TaskStatus, pods: list[PodView], failures: Any, expected: str | None
) -> None:
    status = build_status(build_role_status(tasks=(task,)))
    draft = build_draft(status=status, pods=pods, failures=failures)
    assert explain_missing(draft, task) == expected


def test_readiness_counts_wanted_tasks_only() -> None:
    tasks = (
        build_task(),
        build_task(TaskState.ATTEMPT_CREATION_PENDING, index=1),
        build_task(index=2, deletion_pending=True),
    )
    status = build_status(build_role_status(tasks=tasks), build_role_status("old"))
    draft = build_draft(build_spec(build_role(number=2)), status, pods=[build_pod()])
    readiness = list_missing(draft)
    assert (readiness.ready, readiness.total) == (1, 2)
    assert [(m.role, m.index) for m in readiness.missing] == [("worker", 1)]
