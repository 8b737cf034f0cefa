"""The logged copies of replaced objects: docs/design/failure-handling.md, "History"."""

from dataclasses import replace

from controller.core.decision import SnapshotTrigger
from controller.core.history import object_snapshots
from controller.core.status.initial_status import new_task_status
from framework.api import codec
from framework.api.states import TaskState
from framework.api.types import TaskStatus
from tests.support.builders import AT, build_framework, build_role, build_spec, build_task
from tests.support.builders.worlds import build_draft


def test_framework_is_recorded_as_it_is_persisted() -> None:
    draft = build_draft()
    draft.update(run_time=AT)
    object_snapshots.record_framework(draft, SnapshotTrigger.FRAMEWORK_RETRY)
    (snapshot,) = draft.snapshots
    assert snapshot.subject == "default/gang"
    assert snapshot.body["kind"] == "Framework"
    assert snapshot.body["apiVersion"] == "frameworkcontroller.microsoft.com/v1"
    decoded = codec.decode_framework(snapshot.body)
    assert decoded.status == draft.snapshot.framework.status


def test_task_that_is_retried_is_recorded_with_its_identity() -> None:
    draft = build_draft()
    object_snapshots.record_task_retry(draft, draft.roles[0], draft.roles[0].tasks[0])
    (snapshot,) = draft.snapshots
    assert snapshot.subject == "default/gang worker/0"
    meta = snapshot.body["metadata"]
    assert (meta["name"], meta["uid"]) == ("gang-worker-0", "task-worker-0")
    assert meta["labels"]["FC_TASK_INDEX"] == "0"
    assert meta["annotations"]["FC_TASKROLE_UID"] == "role-worker"
    assert "deletionTimestamp" not in meta
    assert snapshot.body["spec"]["pod"]["spec"]["restartPolicy"] == "Never"
    assert snapshot.body["status"]["state"] == "AttemptRunning"


def test_task_that_is_scaled_down_is_recorded_as_deleted() -> None:
    draft = build_draft()
    object_snapshots.record_task_deletion(draft, draft.roles[0], draft.roles[0].tasks[0])
    (snapshot,) = draft.snapshots
    assert snapshot.trigger is SnapshotTrigger.TASK_DELETION
    assert snapshot.body["metadata"]["deletionTimestamp"] == "2026-01-01T00:01:40Z"


def test_task_of_a_role_gone_from_the_spec_is_recorded_without_a_spec() -> None:
    draft = build_draft(build_spec(build_role("other")))
    object_snapshots.record_task_deletion(draft, draft.roles[0], draft.roles[0].tasks[0])
    assert draft.snapshots[0].body["spec"] is None


def tombstone() -> TaskStatus:
    role = build_role(absent_task_indices=(0,))
    return new_task_status(build_framework(build_spec(role)), 0, role, 0, AT)


def test_tombstone_is_not_recorded() -> None:
    draft = build_draft()
    object_snapshots.record_task_deletion(draft, draft.roles[0], tombstone())
    assert not draft.snapshots


def test_task_that_ended_without_a_pod_is_recorded() -> None:
    draft = build_draft()
    attempt = replace(build_task().attempt_status, instance_uid=None, pod_uid=None)
    task = build_task(TaskState.COMPLETED, attempt_status=attempt)
    object_snapshots.record_task_deletion(draft, draft.roles[0], task)
    assert len(draft.snapshots) == 1
