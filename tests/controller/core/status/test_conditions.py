"""The four conditions: what a user asks a Framework first."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.core.decide import decide
from controller.core.snapshot import PublishedRoster
from framework.api.completion import POD_CREATION_PERMANENT_ERROR, complete_framework, complete_task
from framework.api.states import FrameworkState, TaskState
from framework.api.types import Condition, FrameworkStatus
from framework.api.wire import format_time
from tests.support.builders import (
    AT,
    FRAMEWORK_UID,
    at,
    build_attempt,
    build_configmap,
    build_pod,
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
CREATE_CONFIGMAP = ActionKey(
    Verb.CREATE, ObjectKind.CONFIGMAP, "gang-attempt", f"{FRAMEWORK_UID}/0"
)
PENDING = TaskState.ATTEMPT_CREATION_PENDING


def conditions(**fields: Any) -> dict[str, Condition]:
    """What the conditions say after a decision, by type."""
    fields.setdefault("status", build_status())
    fields.setdefault("pods", [build_pod()])
    snapshot = build_snapshot(**fields)
    status = decide(snapshot, SETTINGS).status or snapshot.framework.status
    assert status is not None
    return {condition.type: condition for condition in status.conditions or ()}


def answers(**fields: Any) -> dict[str, tuple[str, str]]:
    return {type_: (c.status, c.reason) for type_, c in conditions(**fields).items()}


def waiting() -> FrameworkStatus:
    return build_status(build_role_status(state=PENDING), state=FrameworkState.ATTEMPT_PREPARING)


def test_running_gang_answers_all_conditions() -> None:
    assert answers() == {
        "GangReady": ("True", "GangComplete"),
        "Running": ("True", "AttemptRunning"),
        "Completed": ("False", "InProgress"),
        "Succeeded": ("False", "InProgress"),
        "Failed": ("False", "InProgress"),
        "Blocked": ("False", "NotBlocked"),
    }


def test_condition_changes_its_time_only_with_its_answer() -> None:
    known = (
        Condition("Running", "True", 1, AT, "AttemptRunning"),
        Condition("Completed", "True", 1, AT, "Succeeded"),
        Condition("Theirs", "True", 1, AT, "Why"),
    )
    told = conditions(status=build_status(conditions=known))
    assert told["Running"].transition_time == AT
    assert told["Completed"].transition_time == NOW
    assert told["Theirs"] == known[2]


def test_missing_tasks_are_named_at_the_steps_of_the_ladder_only() -> None:
    configmap = replace(build_configmap(), creation_time=at(95))
    told = conditions(status=waiting(), pods=[], configmap=configmap)["GangReady"]
    assert (told.status, told.reason) == ("False", "TasksMissing")
    assert told.message == ("0 of 1 Tasks are ready; waiting for worker/0 (Pod is not created yet)")
    again = conditions(
        status=replace(waiting(), conditions=(told,)),
        pods=[],
        configmap=configmap,
        published=PublishedRoster(has_version_annotation=True, progress_checked_at=NOW),
    )["GangReady"]
    assert again.message == told.message


def test_missing_tasks_are_not_named_before_the_first_step() -> None:
    configmap = replace(build_configmap(), creation_time=at(99))
    told = conditions(status=waiting(), pods=[], configmap=configmap)["GangReady"]
    assert (told.reason, told.message) == ("TasksMissing", "")


@cases(
    "code reason is_succeeded message",
    succeeded=(0, "Succeeded", "True", ""),
    failed=(-100, "Failed", "False", "it lost its ConfigMap: another client deleted it"),
    stopped=(-210, "Stopped", "False", "it was stopped by a user"),
)
def test_completed_framework_says_how_it_ended(
    code: int, reason: str, is_succeeded: str, message: str
) -> None:
    status = build_status(state=FrameworkState.ATTEMPT_COMPLETED)
    status = end_attempt(status, complete_framework(code, "why"), completion_time=AT)
    found = conditions(status=status, pods=[], configmap=None)
    is_failed = {"True": "False", "False": "True"}[is_succeeded]
    for type_, answer in {
        "Completed": "True", "Succeeded": is_succeeded, "Failed": is_failed
    }.items():  # fmt: skip
        assert (found[type_].status, found[type_].reason) == (answer, reason)
        assert found[type_].message == message
    assert found["GangReady"].reason == "NoGang"


@cases(
    "failure expected",
    refused=(build_failure(500, count=3, seconds=9), "CreationRefused"),
    name_taken=(build_failure(409, count=3, seconds=9), "NameTaken"),
    a_hiccup=(build_failure(500, count=2, seconds=9), "NotBlocked"),
)
def test_creation_that_fails_again_and_again_blocks(failure: Any, expected: str) -> None:
    told = conditions(status=waiting(), pods=[], failures={CREATE_POD: failure})
    assert told["Blocked"].reason == expected
    assert (told["Blocked"].status == "True") is (expected != "NotBlocked")


def test_failure_of_what_is_no_longer_wanted_blocks_nothing() -> None:
    failure = build_failure(500, count=9, seconds=9)
    others = {
        replace(CREATE_POD, identity="past/0"): failure,
        replace(CREATE_POD, verb=Verb.DELETE): failure,
        CREATE_CONFIGMAP: failure,
    }
    told = conditions(status=waiting(), pods=[], failures=others)
    assert told["Blocked"].reason == "NotBlocked"


@cases(
    "state row is_blocked",
    again_and_again=(PENDING, 3, True),
    a_few_times=(PENDING, 2, False),
    given_up=(TaskState.COMPLETED, 20, False),
    it_has_a_pod_now=(TaskState.ATTEMPT_RUNNING, 20, False),
)
def test_pod_refused_attempt_after_attempt_blocks(
    state: TaskState, row: int, *, is_blocked: bool
) -> None:
    task = build_task(state)
    if state is TaskState.COMPLETED:
        end = complete_task(POD_CREATION_PERMANENT_ERROR, "bad")
        attempt = build_task_attempt(pod_uid=None, completion_status=end, completion_time=AT)
        task = replace(task, attempt_status=attempt, completion_time=AT)
    other = build_task(index=1)
    failures = {
        replace(CREATE_POD, identity="past/0"): build_failure(
            422, "bad", consecutive_failures=row, failed_at=NOW
        )
    }
    told = conditions(
        spec=build_spec(build_role(number=2)),
        status=build_status(build_role_status(tasks=(task, other))),
        pods=[build_pod(), build_pod(index=1)] if state is TaskState.ATTEMPT_RUNNING else [],
        failures=failures,
    )
    assert (told["Blocked"].status == "True") is is_blocked
    assert (told["Blocked"].reason == "CreationRefused") is is_blocked


def test_failures_of_what_is_over_cost_no_walk_through_all_tasks_each() -> None:
    """Ten thousand of them on as many Tasks would keep the controller busy for seconds a pass."""
    number = 1500
    end = complete_task(POD_CREATION_PERMANENT_ERROR, "bad")
    tasks = tuple(
        replace(
            build_task(TaskState.COMPLETED, index=index),
            attempt_status=replace(
                build_task_attempt(pod_uid=None, completion_status=end, completion_time=AT),
                pod_name=f"gang-worker-{index}",
            ),
            completion_time=AT,
        )
        for index in range(number)
    )
    failures = {
        replace(CREATE_POD, name=task.attempt_status.pod_name, identity="past/0"): build_failure(
            422, "bad", count=3, consecutive_failures=20, failed_at=NOW
        )
        for task in tasks
    }
    role = build_role(number=number)
    status = build_status(build_role_status(tasks=tasks))
    spec = build_spec(role)

    def judge(**fields: Any) -> None:
        told = conditions(spec=spec, status=status, pods=[], **fields)
        assert told["Blocked"].reason == "NotBlocked"

    # It is some 1.2 times; this only catches quadratics.
    assert_grows_at_most(4, judge, lambda: judge(failures=failures))


@cases("owners", ours={}, foreign={"ownerReferences": []})
def test_name_that_a_terminating_pod_keeps_blocks_after_a_while(owners: dict[str, Any]) -> None:
    ends = {"uid": "other", "annotations": {}, "deletionTimestamp": format_time(NOW)}
    held = build_pod(metadata={**ends, **owners})
    early = build_snapshot(status=waiting(), pods=[held], now=NOW + timedelta(seconds=29))
    decision = decide(early, SETTINGS)
    assert decision.wake_at is not None
    assert decision.wake_at <= NOW + timedelta(seconds=30)
    assert conditions(status=waiting(), pods=[held])["Blocked"].status == "False"
    told = conditions(status=waiting(), pods=[held], now=NOW + timedelta(seconds=30))
    assert told["Blocked"].reason == "NameTaken"
    assert "gang-worker-0" in told["Blocked"].message


def test_configmap_that_cannot_be_created_blocks() -> None:
    role = build_role_status(tasks=(build_task(PENDING),))
    attempt = build_attempt(role, configmap_uid=None, instance_uid=None)
    status = build_status(state=FrameworkState.ATTEMPT_CREATION_PENDING)
    told = conditions(
        status=replace(status, attempt_status=attempt),
        pods=[],
        failures={CREATE_CONFIGMAP: build_failure(409, count=3, seconds=9)},
    )
    assert told["Blocked"].reason == "NameTaken"
    assert "gang-attempt" in told["Blocked"].message


def test_two_roles_of_one_name_are_told() -> None:
    told = conditions(spec=build_spec(build_role(), build_role()))
    assert (told["Blocked"].status, told["Blocked"].reason) == ("True", "InvalidSpec")


def test_ready_tasks_are_counted() -> None:
    snapshot = build_snapshot(status=build_status(), pods=[build_pod()])
    status = decide(snapshot, SETTINGS).status
    assert status is not None
    assert status.ready_tasks == "1/1"


def test_blocked_is_told_by_one_event() -> None:
    refused = build_failure(409, "exists", seconds=9, count=3)
    status = build_status(build_role_status(state=TaskState.ATTEMPT_CREATION_PENDING))
    snapshot = build_snapshot(status=status, failures={CREATE_POD: refused})
    decision = decide(snapshot, SETTINGS)
    assert [(e.type, e.reason) for e in decision.events] == [("Warning", "NameTaken")]
    told = build_snapshot(status=get_status(decision), failures={CREATE_POD: refused})
    assert decide(told, SETTINGS).events == ()
    other = build_failure(500, "down", seconds=9, count=3)
    changed = decide(replace(told, failures={CREATE_POD: other}), SETTINGS)
    assert [e.reason for e in changed.events] == ["CreationRefused"]
