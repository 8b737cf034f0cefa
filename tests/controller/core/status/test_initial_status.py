"""New statuses and their identifiers: docs/design/state-machines.md, "Objects of an attempt".

Tombstones: docs/design/scaling.md, "Absent indexes".
"""

from controller.core.status.initial_status import (
    derive_instance_uid,
    new_attempt_status,
    new_task_status,
)
from framework.api.completion import DELETE_TASK_REQUESTED
from framework.api.states import TaskState
from framework.api.types import TaskSpec
from tests.support.builders import AT, build_framework, build_role, build_spec


def test_new_attempt_has_every_role_and_task_of_the_spec_in_its_order() -> None:
    task = TaskSpec(pod_graceful_deletion_timeout_seconds=9)
    spec = build_spec(build_role("ps", 1), build_role("worker", 2, task=task), build_role("x", 0))
    attempt = new_attempt_status(build_framework(spec), 3, AT)
    assert attempt.id == 3
    assert [(role.name, len(role.tasks)) for role in attempt.task_roles] == [
        ("ps", 1),
        ("worker", 2),
        ("x", 0),
    ]
    assert attempt.task_roles[1].pod_graceful_deletion_timeout_seconds == 9
    assert [t.attempt_status.pod_name for t in attempt.task_roles[1].tasks] == [
        "gang-worker-0",
        "gang-worker-1",
    ]


def test_new_attempt_takes_the_first_of_two_roles_with_the_same_name() -> None:
    spec = build_spec(build_role("a", 1), build_role("b", 1), build_role("a", 5))
    attempt = new_attempt_status(build_framework(spec), 0, AT)
    assert [(role.name, len(role.tasks)) for role in attempt.task_roles] == [("a", 1), ("b", 1)]


def test_new_tombstone_is_completed_and_never_had_a_pod() -> None:
    role = build_role(number=2, absent_task_indices=(1,))
    task = new_task_status(build_framework(build_spec(role)), 0, role, 1, AT)
    assert task.state is TaskState.COMPLETED
    assert task.deletion_pending
    assert task.start_time == task.completion_time == task.transition_time == AT
    assert task.run_time is None
    attempt = task.attempt_status
    assert (attempt.id, attempt.pod_uid, attempt.pod_name) == (0, None, "gang-worker-1")
    assert attempt.start_time == attempt.completion_time == AT
    assert attempt.completion_status is not None
    assert attempt.completion_status.code == DELETE_TASK_REQUESTED
    assert task.instance_uid == derive_instance_uid(
        build_framework(build_spec(role)), 0, "worker", 1
    )


def test_instance_uids_are_equal_for_equal_bases_and_new_for_others() -> None:
    framework = build_framework()
    same = derive_instance_uid(framework, 0, "worker", 1)
    assert same == derive_instance_uid(build_framework(), 0, "worker", 1)
    others = {
        derive_instance_uid(build_framework(resource_version="2"), 0, "worker", 1),
        derive_instance_uid(build_framework(uid="other"), 0, "worker", 1),
        derive_instance_uid(framework, 1, "worker", 1),
        derive_instance_uid(framework, 0, "ps", 1),
        derive_instance_uid(framework, 0, "worker", 2),
        derive_instance_uid(framework, 0, "worker"),
    }
    assert len(others | {same}) == 7
