"""The conditions, which answer a user's first questions about a Framework."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.core.decide import decide
from controller.core.snapshot import Failure, PublishedRoster
from framework.api.completion import POD_CREATION_PERMANENT_ERROR, complete_framework, complete_task
from framework.api.states import FrameworkState, TaskState
from framework.api.types import Condition, ExecutionType, FrameworkStatus, TaskStatus
from framework.api.wire import format_time
from tests.support.builders import (
    AT,
    FRAMEWORK_UID,
    at,
    build_attempt,
    build_configmap,
    build_pod,
    build_pods,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_task,
    build_task_attempt,
    end_attempt,
)
from tests.support.builders.cases import cases
from tests.support.builders.worlds import NOW, SETTINGS, build_failure, build_snapshot, get_status
from tests.support.measuring.cost import assert_grows_at_most

CREATE_POD = ActionKey(Verb.CREATE, ObjectKind.POD, "gang-worker-0", "task-worker-0/0")
CREATE_CONFIGMAP = replace(
    CREATE_POD, kind=ObjectKind.CONFIGMAP, name="gang-attempt", identity=f"{FRAMEWORK_UID}/0"
)
PENDING = TaskState.ATTEMPT_CREATION_PENDING
WAITING = build_status(build_role_status(state=PENDING), state=FrameworkState.ATTEMPT_PREPARING)


def find_conditions(status: FrameworkStatus = WAITING, **fields: Any) -> dict[str, Condition]:
    """The conditions after a decision, by type; without a status given, no Pod exists yet."""
    snapshot = build_snapshot(status=status, **fields)
    written = decide(snapshot, SETTINGS).status or snapshot.framework.status
    assert written is not None
    return {condition.type: condition for condition in written.conditions or ()}


def find_blocked(status: FrameworkStatus = WAITING, **fields: Any) -> Condition:
    return find_conditions(status, **fields)["Blocked"]


def test_running_gang_has_all_conditions_and_counts_its_ready_tasks() -> None:
    status = get_status(decide(build_snapshot(status=build_status(), pods=[build_pod()]), SETTINGS))
    assert {c.type: (c.status, c.reason) for c in status.conditions or ()} == {
        "GangReady": ("True", "GangComplete"),
        "Running": ("True", "AttemptRunning"),
        "Completed": ("False", "InProgress"),
        "Succeeded": ("False", "InProgress"),
        "Failed": ("False", "InProgress"),
        "Blocked": ("False", "NotBlocked"),
    }
    assert status.ready_tasks == "1/1"


def test_condition_changes_its_time_only_with_its_status() -> None:
    known = (
        Condition("Running", "True", 1, AT, "AttemptRunning"),
        Condition("Completed", "True", 1, AT, "Succeeded"),
        Condition("Theirs", "True", 1, AT, "Why"),
    )
    after = find_conditions(build_status(conditions=known), pods=[build_pod()])
    times = [after[name].transition_time for name in ("Running", "Completed")]
    assert times == [AT, NOW]
    assert after["Theirs"] == known[2]


def test_missing_tasks_are_named_at_the_check_times_only() -> None:
    def find(seconds: float, **fields: Any) -> Condition:
        configmap = replace(build_configmap(), creation_time=at(seconds))
        return find_conditions(configmap=configmap, **fields)["GangReady"]

    assert (find(99).reason, find(99).message) == ("TasksMissing", "")
    first = find(95)
    assert (first.status, first.reason) == ("False", "TasksMissing")
    assert first.message == "0 of 1 Tasks are ready; waiting for worker/0 (Pod is not created yet)"
    published = PublishedRoster(has_version_annotation=True, progress_checked_at=NOW)
    again = find(95, status=replace(WAITING, conditions=(first,)), published=published)
    assert again.message == first.message


@cases(
    "code reason is_succeeded message",
    succeeded=(0, "Succeeded", "True", ""),
    failed=(-100, "Failed", "False", "it lost its ConfigMap: another client deleted it"),
    stopped=(-210, "Stopped", "False", "it was stopped by a user"),
)
def test_completed_framework_shows_its_completion(
    code: int, reason: str, is_succeeded: str, message: str
) -> None:
    status = build_status(state=FrameworkState.ATTEMPT_COMPLETED)
    status = end_attempt(status, complete_framework(code, "why"), completion_time=AT)
    after = find_conditions(status, configmap=None)
    is_failed = str(is_succeeded == "False")
    expected = {"Completed": "True", "Succeeded": is_succeeded, "Failed": is_failed}
    assert {name: after[name].status for name in expected} == expected
    assert {(after[name].reason, after[name].message) for name in expected} == {(reason, message)}
    assert after["GangReady"].reason == "NoGang"


@cases(
    "execution_type expected",
    created=(ExecutionType.CREATE, ("NotStarted", "It starts when spec.executionType is Start")),
    started=(ExecutionType.START, ("NoGang", "The Framework is AttemptCreationPending")),
)
def test_framework_that_waits_for_its_start_says_so(
    execution_type: ExecutionType, expected: tuple[str, str]
) -> None:
    status = build_status(
        build_role_status(state=PENDING), state=FrameworkState.ATTEMPT_CREATION_PENDING
    )
    attempt = replace(status.attempt_status, configmap_uid=None, instance_uid=None)
    status = replace(status, attempt_status=attempt)
    spec = build_spec(execution_type=execution_type)
    ready = find_conditions(status, spec=spec, configmap=None)["GangReady"]
    assert (ready.reason, ready.message) == expected


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
