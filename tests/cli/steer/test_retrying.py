"""retry: which Pods are listed, what follows, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest

from cli.exitcodes import CliError
from cli.steer.changes import Change, Gang, apply_operations, read_gang
from cli.steer.effects import Retried
from cli.steer.retrying import build_retried, retrying
from framework.api.completion import POD_EXTERNAL_DELETED
from framework.api.constants import RETRY_ANNOTATION
from framework.api.naming import TaskKey
from framework.api.states import FrameworkState, TaskState
from framework.api.types import ExecutionType, RetryPolicyStatus, TaskStatus
from tests.cli.steer.gangs import build_gang
from tests.support.builders import (
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_task,
    end_task,
    pod_uid,
)

KEY = TaskKey("worker", 0)
UID, OTHER_UID = pod_uid("worker", 0), pod_uid("worker", 1)
RUNNING = TaskState.ATTEMPT_RUNNING


def build(
    task: TaskStatus | None = None, annotations: dict[str, str] | None = None, **spec: Any
) -> Gang:
    """A gang of this Task and of a second one that runs."""
    tasks = task or build_task(RUNNING), build_task(RUNNING, index=1)
    gang = build_gang(
        build_spec(build_role("worker", 2), **spec), build_status(build_role_status(tasks=tasks))
    )
    if annotations is not None:
        gang.body["metadata"]["annotations"] = annotations
    return gang


def retry(gang: Gang, *keys: TaskKey) -> Change:
    return retrying(keys or (KEY,))(gang)


def apply(gang: Gang, change: Change) -> dict[str, str]:
    """Return the annotations after the change."""
    body = apply_operations(gang.body, change.operations)
    annotations: dict[str, str] = body["metadata"]["annotations"]
    return annotations


def test_retry_lists_the_pods_of_the_tasks() -> None:
    gang = build(annotations={"a": "b"})
    change = retry(gang, KEY, TaskKey("worker", 1))
    assert change.verb == "retried"
    assert apply(gang, change) == {"a": "b", RETRY_ANNOTATION: f"{UID},{OTHER_UID}"}
    assert "-260" in change.notes[0]


def test_retry_keeps_open_requests_and_drops_those_of_former_pods() -> None:
    gang = build(annotations={RETRY_ANNOTATION: f"gone, {OTHER_UID}"})
    assert apply(gang, retry(gang)) == {RETRY_ANNOTATION: f"{OTHER_UID},{UID}"}


def test_retry_that_is_requested_already_changes_nothing() -> None:
    gang = build(annotations={RETRY_ANNOTATION: UID})
    assert retry(gang).operations == ()


def test_patch_tests_the_old_value() -> None:
    operations = retry(build(annotations={RETRY_ANNOTATION: "old"})).operations
    path = "/metadata/annotations/frameworkbarrier.io~1retry"
    assert {"op": "test", "path": path, "value": "old"} in operations


def test_first_annotation_does_not_replace_those_that_another_client_adds_meanwhile() -> None:
    gang = build()
    operations = retry(gang).operations
    assert [o["path"] for o in operations if o["op"] == "test"] == [
        "/metadata/uid",
        "/metadata/resourceVersion",
    ]
    assert apply(gang, retry(gang)) == {RETRY_ANNOTATION: UID}


WAITING = replace(
    end_task(build_task(TaskState.ATTEMPT_COMPLETED), POD_EXTERNAL_DELETED),
    retry_policy_status=RetryPolicyStatus(retry_delay_seconds=8),
)
ENDING = end_task(build_task(TaskState.ATTEMPT_DELETING), POD_EXTERNAL_DELETED)


@pytest.mark.parametrize(
    ("task", "note", "verb", "ended"),
    [
        (build_task(TaskState.ATTEMPT_PREPARING), "attempt 0 ends with -260", "retried", 0),
        (WAITING, "attempt 1 begins now, without its pause of 8 s", "retried", 0),
        (ENDING, "without a pause", "retried", 0),
        (build_task(TaskState.ATTEMPT_CREATION_PENDING), "being created", "unchanged", -1),
        (build_task(TaskState.ATTEMPT_CREATION_REQUESTED), "being created", "unchanged", -1),
    ],
)
def test_retry_says_what_follows_in_each_state(
    task: TaskStatus, note: str, verb: str, ended: int
) -> None:
    gang = build(task)
    change = retry(gang)
    assert change.verb == verb
    assert note in change.notes[0]
    assert build_retried(gang, [KEY]) == Retried("gang", gang.uid, {KEY: ended})


def test_task_that_has_ended_is_replaced_and_not_retried() -> None:
    task = end_task(build_task(TaskState.COMPLETED), 0)
    with pytest.raises(CliError, match=r"remove gang worker/0.*remove --undo gang worker/0"):
        retry(build(task))


@pytest.mark.parametrize(
    ("gang", "key", "fault"),
    [
        (build(), TaskKey("worker", 2), "no Task worker/2: its Tasks are worker/0"),
        (build(), TaskKey("ps", 0), "no role 'ps'"),
        (build(build_task(RUNNING, deletion_pending=True)), KEY, "no such Task"),
        (build(execution_type=ExecutionType.STOP), KEY, "is stopped, and no Task of it runs again"),
        (
            build_gang(None, build_status(state=FrameworkState.ATTEMPT_DELETION_PENDING)),
            KEY,
            "its attempt ends",
        ),
        (build_gang(None, build_status(state=FrameworkState.COMPLETED)), KEY, "has ended"),
        (build_gang(None, None), KEY, "no such Task"),
    ],
    ids=["index", "role", "leaving", "stopped", "ending", "ended", "new"],
)
def test_task_that_cannot_be_retried_is_refused(gang: Gang, key: TaskKey, fault: str) -> None:
    with pytest.raises(CliError, match=fault):
        retry(gang, key)


def test_dry_run_shows_an_object_that_can_be_read() -> None:
    gang = build()
    assert read_gang(apply_operations(gang.body, retry(gang).operations)).name == "gang"
