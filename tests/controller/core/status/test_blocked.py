"""Blocked: a user must act. Rules: docs/design/failure-handling.md, "Conditions"."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.core.decide import decide
from controller.core.snapshot import Failure
from controller.core.status.blocked import BLOCKED
from framework.api.completion import POD_CREATION_PERMANENT_ERROR, complete_task
from framework.api.states import FrameworkState, TaskState
from framework.api.types import Condition, FrameworkStatus, TaskStatus
from framework.api.wire import format_time
from tests.support.builders import (
    AT,
    FRAMEWORK_UID,
    build_attempt,
    build_pod,
    build_pods,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_task,
    build_task_attempt,
)
from tests.support.builders.cases import cases
from tests.support.builders.worlds import NOW, SETTINGS, build_failure, build_snapshot
from tests.support.measuring.cost import assert_grows_at_most

CREATE_POD = ActionKey(Verb.CREATE, ObjectKind.POD, "gang-worker-0", "task-worker-0/0")
CREATE_CONFIGMAP = replace(
    CREATE_POD, kind=ObjectKind.CONFIGMAP, name="gang-attempt", identity=f"{FRAMEWORK_UID}/0"
)
PENDING = TaskState.ATTEMPT_CREATION_PENDING
WAITING = build_status(build_role_status(state=PENDING), state=FrameworkState.ATTEMPT_PREPARING)


def find_blocked(status: FrameworkStatus = WAITING, **fields: Any) -> Condition:
    """The condition after a decision; without a status given, no Pod exists yet."""
    snapshot = build_snapshot(status=status, **fields)
    written = decide(snapshot, SETTINGS).status or snapshot.framework.status
    assert written is not None
    return next(c for c in written.conditions or () if c.type == BLOCKED)


OFTEN = build_failure(500, count=9, seconds=9)
OF_OTHER_ACTIONS = {
    replace(CREATE_POD, identity="past/0"): OFTEN,
    replace(CREATE_POD, verb=Verb.DELETE): OFTEN,
    CREATE_CONFIGMAP: OFTEN,
}


@cases(
    "failures expected",
    refused=({CREATE_POD: build_failure(500, count=3, seconds=9)}, "CreationRefused"),
    name_taken=({CREATE_POD: build_failure(409, count=3, seconds=9)}, "NameTaken"),
    transient=({CREATE_POD: build_failure(500, count=2, seconds=9)}, "NotBlocked"),
    of_actions_no_longer_wanted=(OF_OTHER_ACTIONS, "NotBlocked"),
)
def test_creation_that_fails_three_times_blocks(failures: Any, expected: str) -> None:
    blocked = find_blocked(failures=failures)
    assert (blocked.reason, blocked.status) == (expected, str(expected != "NotBlocked"))


def refuse_in_a_row(number: int, **fields: Any) -> Failure:
    return build_failure(422, "bad", consecutive_failures=number, failed_at=NOW, **fields)


def complete_without_pod(index: int = 0) -> TaskStatus:
    attempt = build_task_attempt(
        index=index,
        pod_uid=None,
        completion_status=complete_task(POD_CREATION_PERMANENT_ERROR, "bad"),
        completion_time=AT,
    )
    task = build_task(TaskState.COMPLETED, index=index, completion_time=AT)
    return replace(task, attempt_status=attempt)


@cases(
    "task count is_blocked",
    many_attempts=(build_task(PENDING), 3, True),
    a_few_attempts=(build_task(PENDING), 2, False),
    not_retried_any_more=(complete_without_pod(), 20, False),
    it_has_a_pod_now=(build_task(), 20, False),
)
def test_pod_refused_in_attempts_blocks(task: TaskStatus, count: int, *, is_blocked: bool) -> None:
    blocked = find_blocked(
        build_status(build_role_status(tasks=(task, build_task(index=1)))),
        spec=build_spec(build_role(number=2)),
        pods=build_pods("Running", "Running") if task.state is TaskState.ATTEMPT_RUNNING else [],
        failures={replace(CREATE_POD, identity="past/0"): refuse_in_a_row(count)},
    )
    assert (blocked.status == "True") is (blocked.reason == "CreationRefused") is is_blocked


def test_cost_of_failures_of_completed_tasks_is_linear() -> None:
    """With ten thousand of each, a search of all Tasks for each failure would take seconds."""
    tasks = tuple(complete_without_pod(index) for index in range(1500))
    failure = refuse_in_a_row(20, count=3)
    failures = {
        replace(CREATE_POD, name=task.attempt_status.pod_name, identity="past/0"): failure
        for task in tasks
    }
    status = build_status(build_role_status(tasks=tasks))
    spec = build_spec(build_role(number=len(tasks)))

    def judge(**fields: Any) -> None:
        assert find_blocked(status, spec=spec, **fields).reason == "NotBlocked"

    # It is some 1.2 times; the limit only excludes quadratic cost.
    assert_grows_at_most(4, judge, lambda: judge(failures=failures))


@cases("owners", ours={}, foreign={"ownerReferences": []})
def test_name_that_a_terminating_pod_keeps_blocks_after_a_while(owners: dict[str, Any]) -> None:
    metadata = {"uid": "other", "annotations": {}, "deletionTimestamp": format_time(NOW), **owners}
    pods = [build_pod(metadata=metadata)]
    late = NOW + timedelta(seconds=30)
    early = build_snapshot(status=WAITING, pods=pods, now=late - timedelta(seconds=1))
    decision = decide(early, SETTINGS)
    assert decision.wake_at is not None
    assert decision.wake_at <= late
    assert find_blocked(pods=pods).status == "False"
    blocked = find_blocked(pods=pods, now=late)
    assert blocked.reason == "NameTaken"
    assert "gang-worker-0" in blocked.message


def test_configmap_that_cannot_be_created_blocks() -> None:
    role = build_role_status(tasks=(build_task(PENDING),))
    attempt = build_attempt(role, configmap_uid=None, instance_uid=None)
    status = build_status(state=FrameworkState.ATTEMPT_CREATION_PENDING)
    failures = {CREATE_CONFIGMAP: build_failure(409, count=3, seconds=9)}
    blocked = find_blocked(replace(status, attempt_status=attempt), failures=failures)
    assert blocked.reason == "NameTaken"
    assert "gang-attempt" in blocked.message


def test_two_roles_with_the_same_name_block() -> None:
    blocked = find_blocked(build_status(), spec=build_spec(build_role(), build_role()))
    assert (blocked.status, blocked.reason) == ("True", "InvalidSpec")


def test_each_reason_of_blocked_is_reported_by_one_event() -> None:
    status = build_status(build_role_status(state=PENDING))
    reasons = []
    for code in (409, 409, 500):
        failures = {CREATE_POD: build_failure(code, "no", seconds=9, count=3)}
        decision = decide(build_snapshot(status=status, failures=failures), SETTINGS)
        reasons.append([(event.type, event.reason) for event in decision.events])
        status = decision.status or status
    assert reasons == [[("Warning", "NameTaken")], [], [("Warning", "CreationRefused")]]
