"""The conditions, which answer a user's first questions about a Framework."""

from dataclasses import replace
from typing import Any

from controller.core.decide import decide
from controller.core.snapshot import PublishedRoster
from framework.api.completion import complete_framework
from framework.api.states import FrameworkState, TaskState
from framework.api.types import Condition, ExecutionType, FrameworkStatus
from tests.support.builders import (
    AT,
    at,
    build_configmap,
    build_pod,
    build_role_status,
    build_spec,
    build_status,
    end_attempt,
)
from tests.support.builders.cases import cases
from tests.support.builders.worlds import NOW, SETTINGS, build_snapshot, get_status

PENDING = TaskState.ATTEMPT_CREATION_PENDING
WAITING = build_status(build_role_status(state=PENDING), state=FrameworkState.ATTEMPT_PREPARING)


def find_conditions(status: FrameworkStatus = WAITING, **fields: Any) -> dict[str, Condition]:
    """The conditions after a decision, by type; without a status given, no Pod exists yet."""
    snapshot = build_snapshot(status=status, **fields)
    written = decide(snapshot, SETTINGS).status or snapshot.framework.status
    assert written is not None
    return {condition.type: condition for condition in written.conditions or ()}


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
    published = PublishedRoster(has_version_annotation=True, readiness_checked_at=NOW)
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
