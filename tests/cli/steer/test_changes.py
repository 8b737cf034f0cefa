"""start and stop, and how their patches protect what was read."""

from dataclasses import replace

import pytest

from cli.exitcodes import CliError, ExitCode
from cli.steer.changes import (
    Gang,
    apply_operations,
    compute_start,
    compute_stop,
    read_gang,
    set_field,
)
from framework.api.completion import (
    POD_EXTERNAL_DELETED,
    POD_LEFT_RUNNING,
    STOP_FRAMEWORK_REQUESTED,
    SUCCEEDED,
    complete_task,
)
from framework.api.states import FrameworkState, TaskState
from framework.api.types import ExecutionType
from tests.cli.steer.gangs import build_gang, build_gang_of
from tests.support.builders import (
    FRAMEWORK_UID,
    build_role_status,
    build_spec,
    build_status,
    build_task,
    end_attempt,
    end_task,
)

ENDED = end_attempt(build_status(state=FrameworkState.COMPLETED), STOP_FRAMEWORK_REQUESTED)
UID_TEST = {"op": "test", "path": "/metadata/uid", "value": FRAMEWORK_UID}


def test_start_of_a_framework_that_waits_sets_the_execution_type() -> None:
    change = compute_start(build_gang_of(execution_type=ExecutionType.CREATE))
    assert change.verb == "started"
    assert list(change.operations) == [
        UID_TEST,
        {"op": "test", "path": "/spec/executionType", "value": "Create"},
        {"op": "add", "path": "/spec/executionType", "value": "Start"},
    ]


def test_start_of_a_started_framework_changes_nothing() -> None:
    change = compute_start(build_gang_of())
    assert (change.verb, change.operations) == ("unchanged", ())


@pytest.mark.parametrize("execution", [ExecutionType.STOP, ExecutionType.START])
def test_start_of_what_has_ended_says_how_to_run_it_again(execution: ExecutionType) -> None:
    gang = build_gang(build_spec(execution_type=execution), ENDED)
    with pytest.raises(CliError, match=r"run --replace FILE.*delete gang") as caught:
        compute_start(gang)
    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize("execution", [ExecutionType.CREATE, ExecutionType.START])
def test_stop_sets_the_execution_type(execution: ExecutionType) -> None:
    change = compute_stop(build_gang_of(execution_type=execution))
    assert change.operations[-1]["value"] == "Stop"


@pytest.mark.parametrize(
    ("gang", "note"),
    [
        (build_gang_of(execution_type=ExecutionType.STOP), "stopped already"),
        (build_gang(None, ENDED), "ended already (Stopped"),
    ],
    ids=["stopped", "ended"],
)
def test_stop_of_what_is_over_changes_nothing(gang: Gang, note: str) -> None:
    change = compute_stop(gang)
    assert change.operations == ()
    assert note in change.notes[0]


def test_stop_after_the_end_ends_the_pods_that_were_left_running() -> None:
    end = complete_task(POD_LEFT_RUNNING, "it runs on")
    task = end_task(build_task(TaskState.COMPLETED), end)
    roles = build_role_status(tasks=(task,))
    left = end_attempt(build_status(roles, state=FrameworkState.COMPLETED), SUCCEEDED)
    spec = build_spec()
    change = compute_stop(build_gang(spec, left))
    assert change.operations[-1]["value"] == "Stop"
    assert "left running are deleted" in change.notes[0]
    stopped = build_gang(replace(spec, execution_type=ExecutionType.STOP), left)
    assert compute_stop(stopped).notes == ("it is stopped already",)


def test_field_that_was_absent_must_still_be_absent() -> None:
    gang = build_gang_of()
    del gang.body["spec"]["executionType"]
    assert list(set_field(gang, "Stop", "executionType")) == [
        UID_TEST,
        {"op": "test", "path": "/spec/executionType", "value": None},
        {"op": "add", "path": "/spec/executionType", "value": "Stop"},
    ]


def test_dry_run_applies_what_the_patch_adds_and_keeps_what_was_read() -> None:
    gang = build_gang_of()
    changed = apply_operations(gang.body, set_field(gang, 7, "taskRoles", 0, "taskNumber"))
    assert changed["spec"]["taskRoles"][0]["taskNumber"] == 7
    assert gang.body["spec"]["taskRoles"][0]["taskNumber"] == 4


def test_framework_that_cannot_be_read_is_named_with_the_field() -> None:
    body = build_gang_of().body
    body["spec"]["taskRoles"][0]["taskNumber"] = "x"
    with pytest.raises(CliError, match=r"gang: spec.taskRoles\[0\].taskNumber"):
        read_gang(body)


def test_end_of_a_success_is_described_without_a_phrase() -> None:
    ended = end_attempt(build_status(state=FrameworkState.COMPLETED), 0)
    assert build_gang(None, ended).describe_end() == "Succeeded"
    failed = end_attempt(build_status(state=FrameworkState.COMPLETED), POD_EXTERNAL_DELETED)
    assert build_gang(None, failed).describe_end() == "Failed: PodExternalDeleted"
