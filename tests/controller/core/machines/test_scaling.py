"""Tasks, roles and absent indexes follow the spec: docs/design/scaling.md, "Scale up and down"."""

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
from tests.support.builders.cases import cases
from tests.support.builders.worlds import NOW, build_draft, get_code


def leaving(index: int, state: TaskState = TaskState.COMPLETED) -> TaskStatus:
    """A Task marked as deletionPending."""
    task = build_task(state, index=index, deletion_pending=True, completion_time=NOW)
    return end_task(task, DELETE_TASK_REQUESTED)


def absent(number: int, *indexes: int) -> TaskRoleSpec:
    return build_role(number=number, absent_task_indices=indexes)


def tasks_of(*tasks: TaskStatus) -> TaskRoleStatus:
    return build_role_status(tasks=tasks)


def show(draft: Draft) -> list[list[str]]:
    """The state of each Task of each role, after a ``-`` if the Task is deletionPending."""
    return [
        [("-" if task.deletion_pending else "") + task.state.value for task in role.tasks]
        for role in draft.roles
    ]


RUNNING = TaskState.ATTEMPT_RUNNING.value
PENDING = TaskState.ATTEMPT_CREATION_PENDING.value
FIRST, LAST = build_task(), build_task(index=2)
STILL_RUNNING = leaving(1, TaskState.ATTEMPT_RUNNING)


@cases(
    "role before expected",
    up=(build_role(number=3), build_role_status(), [RUNNING, PENDING, PENDING]),
    down=(build_role(), build_role_status(number=3), [RUNNING, f"-{RUNNING}", f"-{RUNNING}"]),
    down_and_the_tail_is_dropped_to_the_last_task_that_is_not_completed=(
        build_role(),
        tasks_of(FIRST, leaving(1), leaving(2, TaskState.ATTEMPT_DELETING), leaving(3)),
        [RUNNING, "-Completed", "-AttemptDeleting"],
    ),
    completed_task_whose_index_is_wanted_again=(
        build_role(number=2),
        tasks_of(FIRST, leaving(1)),
        [RUNNING, PENDING],
    ),
    index_becomes_absent=(
        absent(3, 1),
        build_role_status(number=3),
        [RUNNING, f"-{RUNNING}", RUNNING],
    ),
    absent_index_returns=(
        absent(3),
        tasks_of(FIRST, leaving(1), LAST),
        [RUNNING, PENDING, RUNNING],
    ),
    up_over_an_absent_index_makes_a_tombstone=(
        absent(3, 1),
        build_role_status(),
        [RUNNING, "-Completed", PENDING],
    ),
)
def test_scale_makes_the_tasks_follow_the_spec(
    role: TaskRoleSpec, before: TaskRoleStatus, expected: list[str]
) -> None:
    draft = build_draft(build_spec(role), build_status(before))
    assert scale(draft)
    assert show(draft) == [expected]
    after = draft.roles[0].tasks
    assert len({task.instance_uid for task in after}) == len(after)
    assert {task.attempt_status.id for task in after} == {0}
    known = {task.instance_uid for task in before.tasks}
    is_new = [task.instance_uid not in known for task in after]
    assert is_new == [
        state == PENDING or (state == "-Completed" and index >= len(before.tasks))
        for index, state in enumerate(expected)
    ]
    dropped = [SnapshotTrigger.TASK_DELETION] * (len(before.tasks) > len(after))
    replaced = [SnapshotTrigger.TASK_DELETION] * any(
        task.state is TaskState.COMPLETED and is_new[task.index]
        for task in before.tasks[: len(after)]
    )
    assert [s.trigger for s in draft.snapshots] == dropped + replaced
    assert not scale(draft)


@cases(
    "role before",
    equal=(build_role(number=2), build_role_status(number=2)),
    task_to_replace_still_runs=(build_role(number=2), tasks_of(FIRST, STILL_RUNNING)),
    tombstone=(absent(3, 1), tasks_of(FIRST, leaving(1), LAST)),
    tombstone_at_the_end=(absent(2, 1), tasks_of(FIRST, leaving(1))),
    absent_indexes_beyond_the_task_number=(absent(2, 2, 7, -1), build_role_status(number=2)),
)
def test_scale_changes_nothing(role: TaskRoleSpec, before: TaskRoleStatus) -> None:
    draft = build_draft(build_spec(role), build_status(before))
    status = draft.status
    assert not scale(draft)
    assert draft.freeze() is status


def test_task_scaled_down_keeps_its_time_and_a_completion_that_is_known() -> None:
    known = complete_task(0, "Pod succeeded")
    ended = end_task(build_task(TaskState.ATTEMPT_DELETION_PENDING, index=1), known)
    draft = build_draft(build_spec(), build_status(tasks_of(FIRST, ended, LAST)))
    assert scale(draft)
    _, second, third = draft.roles[0].tasks
    assert second.attempt_status.completion_status == known
    assert get_code(third) == DELETE_TASK_REQUESTED
    assert third.transition_time == LAST.transition_time


def test_tombstone_never_had_a_pod_and_is_dropped_without_a_snapshot() -> None:
    framework = build_framework(build_spec(absent(3, 1, 2)))
    status = new_framework_status(framework, NOW)
    tombstone = status.attempt_status.task_roles[0].tasks[1]
    assert tombstone.attempt_status.pod_uid is None
    draft = build_draft(build_spec(absent(1, 1, 2)), status)
    assert scale(draft)
    assert show(draft) == [[PENDING]]
    assert not draft.snapshots


@pytest.mark.parametrize("state", sorted(FRAMEWORK_FROZEN))
def test_scale_is_frozen_while_the_attempt_ends(state: FrameworkState) -> None:
    draft = build_draft(build_spec(build_role(number=5)), build_status(state=state))
    assert not scale(draft)
    assert show(draft) == [[RUNNING]]


@pytest.mark.parametrize(
    "state", [FrameworkState.ATTEMPT_CREATION_PENDING, FrameworkState.ATTEMPT_CREATION_REQUESTED]
)
def test_scale_works_before_the_attempt_runs(state: FrameworkState) -> None:
    draft = build_draft(build_spec(build_role(number=2)), build_status(state=state))
    assert scale(draft)
    assert show(draft) == [[RUNNING, PENDING]]


A, B, Z = build_role("a"), build_role("b", 2), build_role("z")


@cases(
    "spec before names expected",
    new_role_starts=(
        build_spec(A, B),
        [build_role_status("a")],
        ["a", "b"],
        [[RUNNING], [PENDING, PENDING]],
    ),
    two_new_roles_of_one_name_are_one_role=(
        build_spec(A, build_role("b"), build_role("b", 5)),
        [build_role_status("a")],
        ["a", "b"],
        [[RUNNING], [PENDING]],
    ),
    removed_role_is_marked=(
        build_spec(A),
        [build_role_status("a"), build_role_status("old")],
        ["a", "old"],
        [[RUNNING], [f"-{RUNNING}"]],
    ),
    removed_role_is_dropped_and_the_last_role_takes_its_place=(
        build_spec(A, Z),
        [
            build_role_status("old", tasks=(leaving(0),)),
            build_role_status("a"),
            build_role_status("z"),
        ],
        ["z", "a"],
        [[RUNNING], [RUNNING]],
    ),
    removed_role_without_a_task_is_dropped=(
        build_spec(A),
        [build_role_status("a"), build_role_status("o", 0)],
        ["a"],
        [[RUNNING]],
    ),
)
def test_scale_makes_the_roles_follow_the_spec(
    spec: FrameworkSpec, before: list[TaskRoleStatus], names: list[str], expected: list[list[str]]
) -> None:
    draft = build_draft(spec, build_status(*before))
    assert scale(draft)
    assert [role.name for role in draft.roles] == names
    assert show(draft) == expected


def test_graceful_deletion_timeout_follows_the_spec_and_is_persisted_before_it_is_used() -> None:
    role = build_role(task=TaskSpec(pod_graceful_deletion_timeout_seconds=60))
    removed = build_role_status("old", pod_graceful_deletion_timeout_seconds=5)
    draft = build_draft(build_spec(role), build_status(build_role_status(), removed))
    refresh_timeouts(draft)
    timeouts = [role.status.pod_graceful_deletion_timeout_seconds for role in draft.roles]
    assert timeouts == [60, 5]
    assert draft.urgency >= Urgency.NOW
    refreshed = build_draft(build_spec(role), draft.freeze())
    refresh_timeouts(refreshed)
    assert refreshed.urgency < Urgency.NOW
