"""Tasks, roles and absent indexes follow the spec: docs/design/scaling.md, "Scale up and down"."""

from typing import Any

import pytest

from controller.core.actions import Urgency
from controller.core.decision import SnapshotTrigger
from controller.core.draft import Draft
from controller.core.machines.scaling import refresh_timeouts, scale
from controller.core.status.initial_status import new_framework_status
from framework.api.completion import DELETE_TASK_REQUESTED, complete_task
from framework.api.states import FRAMEWORK_FROZEN, FrameworkState, TaskState
from framework.api.types import FrameworkSpec, TaskRoleSpec, TaskRoleStatus, TaskSpec, TaskStatus
from tests.support.builders import (
    build_framework,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_task,
    end_task,
)
from tests.support.builders.worlds import NOW, build_draft


def draft_of(spec: FrameworkSpec, *roles: TaskRoleStatus, **fields: Any) -> Draft:
    return build_draft(spec, build_status(*roles), **fields)


def leaving(index: int, state: TaskState = TaskState.COMPLETED) -> TaskStatus:
    """A Task marked as deletionPending."""
    task = build_task(state, index=index, deletion_pending=True, completion_time=NOW)
    return end_task(task, DELETE_TASK_REQUESTED)


def shape(draft: Draft, role: int = 0) -> list[str]:
    """The role's Tasks in a few letters: state, and a ``-`` in front of those that go."""
    return [
        ("-" if task.deletion_pending else "") + task.state.value
        for task in draft.roles[role].tasks
    ]


RUNNING = TaskState.ATTEMPT_RUNNING.value
PENDING = TaskState.ATTEMPT_CREATION_PENDING.value


def test_scale_up_adds_pending_tasks_of_new_instances() -> None:
    draft = draft_of(build_spec(build_role(number=3)), build_role_status(number=1))
    assert scale(draft)
    assert shape(draft) == [RUNNING, PENDING, PENDING]
    uids = {task.instance_uid for task in draft.roles[0].tasks}
    assert len(uids) == 3


def test_scale_down_marks_the_highest_indexes_and_keeps_state_and_time() -> None:
    draft = draft_of(build_spec(build_role(number=1)), build_role_status(number=3))
    before = draft.roles[0].tasks[2]
    assert scale(draft)
    assert shape(draft) == [RUNNING, f"-{RUNNING}", f"-{RUNNING}"]
    marked = draft.roles[0].tasks[2]
    assert marked.transition_time == before.transition_time
    assert marked.attempt_status.completion_status is not None
    assert marked.attempt_status.completion_status.code == DELETE_TASK_REQUESTED


def test_scale_down_keeps_a_completion_that_is_known() -> None:
    known = complete_task(0, "Pod succeeded")
    task = end_task(build_task(TaskState.ATTEMPT_DELETION_PENDING, index=1), known)
    role = build_role_status(tasks=(build_task(), task))
    draft = draft_of(build_spec(build_role(number=1)), role)
    assert scale(draft)
    assert draft.roles[0].tasks[1].attempt_status.completion_status == known


def test_scale_without_a_difference_changes_nothing() -> None:
    draft = draft_of(build_spec(build_role(number=2)), build_role_status(number=2))
    before = draft.status
    assert not scale(draft)
    assert draft.freeze() is before


@pytest.mark.parametrize("state", sorted(FRAMEWORK_FROZEN))
def test_scale_is_frozen_while_the_attempt_ends(state: FrameworkState) -> None:
    status = build_status(build_role_status(number=1), state=state)
    draft = build_draft(build_spec(build_role(number=5)), status)
    assert not scale(draft)
    assert len(draft.roles[0].tasks) == 1


@pytest.mark.parametrize(
    "state", [FrameworkState.ATTEMPT_CREATION_PENDING, FrameworkState.ATTEMPT_CREATION_REQUESTED]
)
def test_scale_works_before_the_attempt_runs(state: FrameworkState) -> None:
    status = build_status(build_role_status(number=1), state=state)
    draft = build_draft(build_spec(build_role(number=2)), status)
    assert scale(draft)
    assert len(draft.roles[0].tasks) == 2


def test_tail_is_dropped_up_to_the_first_that_still_lives() -> None:
    tasks = (build_task(), leaving(1), leaving(2, TaskState.ATTEMPT_DELETING), leaving(3))
    draft = draft_of(build_spec(build_role(number=1)), build_role_status(tasks=tasks))
    assert scale(draft)
    assert shape(draft) == [RUNNING, "-Completed", "-AttemptDeleting"]
    assert [s.trigger for s in draft.snapshots] == [SnapshotTrigger.TASK_DELETION]


def test_a_completed_task_whose_index_is_wanted_again_is_a_new_instance() -> None:
    tasks = (build_task(), leaving(1))
    draft = draft_of(build_spec(build_role(number=2)), build_role_status(tasks=tasks))
    assert scale(draft)
    assert shape(draft) == [RUNNING, PENDING]
    assert draft.roles[0].tasks[1].instance_uid != tasks[1].instance_uid
    assert draft.roles[0].tasks[1].attempt_status.id == 0


def test_a_task_that_still_goes_is_not_replaced() -> None:
    tasks = (build_task(), leaving(1, TaskState.ATTEMPT_RUNNING))
    draft = draft_of(build_spec(build_role(number=2)), build_role_status(tasks=tasks))
    assert not scale(draft)


def test_a_new_role_starts() -> None:
    spec = build_spec(build_role("a", 1), build_role("b", 2))
    draft = draft_of(spec, build_role_status("a"))
    assert scale(draft)
    assert [role.name for role in draft.roles] == ["a", "b"]
    assert shape(draft, 1) == [PENDING, PENDING]


def test_two_new_roles_of_one_name_are_one_role() -> None:
    spec = build_spec(build_role("a", 1), build_role("b", 1), build_role("b", 5))
    draft = draft_of(spec, build_role_status("a"))
    assert scale(draft)
    assert [len(role.tasks) for role in draft.roles] == [1, 1]


def test_a_removed_role_goes_to_nothing_and_the_last_role_takes_its_place() -> None:
    old = build_role_status("old", tasks=(leaving(0),))
    draft = draft_of(
        build_spec(build_role("a"), build_role("z")),
        old,
        build_role_status("a"),
        build_role_status("z"),
    )
    assert scale(draft)
    assert [role.name for role in draft.roles] == ["z", "a"]


def test_a_removed_role_is_marked_first() -> None:
    draft = draft_of(build_spec(build_role("a")), build_role_status("a"), build_role_status("old"))
    assert scale(draft)
    assert shape(draft, 1) == [f"-{RUNNING}"]


def test_a_role_removed_with_no_task_at_all_is_dropped() -> None:
    draft = draft_of(build_spec(build_role("a")), build_role_status("a"), build_role_status("o", 0))
    assert scale(draft)
    assert [role.name for role in draft.roles] == ["a"]


# --- absent indexes ------------------------------------------------------------------------------


def absent(number: int, *indexes: int) -> TaskRoleSpec:
    return build_role(number=number, absent_task_indices=indexes)


def test_an_index_that_becomes_absent_is_scaled_down_like_a_tail() -> None:
    draft = draft_of(build_spec(absent(3, 1)), build_role_status(number=3))
    assert scale(draft)
    assert shape(draft) == [RUNNING, f"-{RUNNING}", RUNNING]


def test_a_tombstone_is_neither_dropped_nor_replaced() -> None:
    tasks = (build_task(), leaving(1), build_task(index=2))
    draft = draft_of(build_spec(absent(3, 1)), build_role_status(tasks=tasks))
    assert not scale(draft)
    tail = draft_of(build_spec(absent(2, 1)), build_role_status(tasks=tasks[:2]))
    assert not scale(tail)


def test_an_index_that_returns_is_a_new_instance() -> None:
    tasks = (build_task(), leaving(1), build_task(index=2))
    draft = draft_of(build_spec(absent(3)), build_role_status(tasks=tasks))
    assert scale(draft)
    assert shape(draft) == [RUNNING, PENDING, RUNNING]


def test_scale_up_over_an_absent_index_makes_a_tombstone() -> None:
    draft = draft_of(build_spec(absent(3, 1)), build_role_status(number=1))
    assert scale(draft)
    assert shape(draft) == [RUNNING, "-Completed", PENDING]
    assert draft.roles[0].tasks[1].attempt_status.pod_uid is None
    assert not draft.snapshots
    assert not scale(draft)


def test_a_tombstone_beyond_the_task_number_is_dropped_without_a_word() -> None:
    framework = build_framework(build_spec(absent(3, 1, 2)))
    status = new_framework_status(framework, NOW)
    draft = build_draft(build_spec(absent(1, 1, 2)), status)
    assert scale(draft)
    assert shape(draft) == [PENDING]
    assert not draft.snapshots


def test_indexes_beyond_the_task_number_are_ignored() -> None:
    draft = draft_of(build_spec(absent(2, 2, 7, -1)), build_role_status(number=2))
    assert not scale(draft)


# --- podGracefulDeletionTimeoutSec ---------------------------------------------------------------


def test_timeouts_follow_the_spec_and_are_persisted_before_they_matter() -> None:
    role = build_role(task=TaskSpec(pod_graceful_deletion_timeout_seconds=60))
    draft = draft_of(build_spec(role), build_role_status())
    refresh_timeouts(draft)
    assert draft.roles[0].status.pod_graceful_deletion_timeout_seconds == 60
    assert draft.urgency >= Urgency.NOW


def test_timeouts_of_a_role_gone_from_the_spec_stay() -> None:
    old = build_role_status("old", pod_graceful_deletion_timeout_seconds=5)
    draft = draft_of(build_spec(), build_role_status(), old)
    refresh_timeouts(draft)
    assert draft.roles[1].status.pod_graceful_deletion_timeout_seconds == 5
    assert draft.urgency < Urgency.NOW
