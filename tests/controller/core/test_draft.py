"""The draft: unchanged parts are shared, states follow the tables, and the earliest wake counts."""

from dataclasses import replace
from datetime import datetime

import pytest

from controller.core.actions import DeleteObject, ObjectKind, Urgency
from framework.api.states import FrameworkState, IllegalTransitionError, TaskState
from tests.support.builders import at, build_role_status, build_status, build_task
from tests.support.builders.cases import cases
from tests.support.builders.worlds import NOW, build_draft, build_failure

DELETE = DeleteObject(ObjectKind.POD, "gang-worker-0", "uid", "why")


def test_freeze_shares_the_roles_that_did_not_change() -> None:
    draft = build_draft(status=build_status(build_role_status("a"), build_role_status("b")))
    before = draft.status.attempt_status.task_roles
    draft.put_task(draft.roles[1], build_task(TaskState.COMPLETED, "b"))
    after = draft.freeze().attempt_status.task_roles
    assert (after[0] is before[0], after[1] is before[1]) == (True, False)


def test_run_time_of_the_first_attempt_is_kept() -> None:
    task = build_task(TaskState.ATTEMPT_PREPARING, run_time=at(1))
    role_status = build_role_status(tasks=(task,))
    status = build_status(role_status, state=FrameworkState.ATTEMPT_PREPARING, run_time=at(1))
    draft = build_draft(status=status)
    draft.move(FrameworkState.ATTEMPT_RUNNING)
    moved = draft.move_task(draft.roles[0], task, TaskState.ATTEMPT_RUNNING)
    assert (draft.status.run_time, draft.status.attempt_status.run_time) == (at(1), NOW)
    assert (moved.run_time, moved.attempt_status.run_time) == (at(1), NOW)


def test_completion_times_of_attempt_and_whole_are_those_of_their_own_steps() -> None:
    draft = build_draft(now=NOW.replace(microsecond=999_999))
    (role,) = draft.roles
    task = draft.move_task(role, role.tasks[0], TaskState.ATTEMPT_COMPLETED)
    draft.move(FrameworkState.ATTEMPT_COMPLETED)
    assert (task.attempt_status.completion_time, task.completion_time) == (NOW, None)
    assert (draft.status.attempt_status.completion_time, draft.status.completion_time) == (
        NOW,
        None,
    )
    task = draft.move_task(role, task, TaskState.COMPLETED)
    draft.move(FrameworkState.COMPLETED)
    assert (
        task.completion_time == draft.status.completion_time == draft.status.transition_time == NOW
    )
    assert role.tasks == [task]
    assert draft.urgency >= Urgency.NOW


def test_move_outside_the_tables_is_an_error() -> None:
    draft = build_draft(status=build_status(state=FrameworkState.COMPLETED))
    with pytest.raises(IllegalTransitionError, match="Completed -> AttemptRunning"):
        draft.move(FrameworkState.ATTEMPT_RUNNING)
    task = build_task(TaskState.COMPLETED)
    with pytest.raises(IllegalTransitionError, match="Task: Completed -> AttemptDeleting"):
        draft.move_task(draft.roles[0], task, TaskState.ATTEMPT_DELETING)


def test_action_is_not_repeated_while_in_flight() -> None:
    draft = build_draft(in_flight={DELETE.key})
    draft.add_action(DELETE)
    assert not draft.actions
    draft.add_action(replace(DELETE, uid="other"))
    draft.add_action(replace(DELETE, grace_seconds=0))
    assert len(draft.actions) == 2


def test_action_waits_after_a_failure_and_requests_a_wake() -> None:
    draft = build_draft(failures={DELETE.key: build_failure(seconds=7)})
    draft.add_action(DELETE)
    assert (draft.actions, draft.wake_at) == ([], at(107))
    again = build_draft(failures={DELETE.key: build_failure(seconds=0)})
    again.add_action(DELETE)
    assert again.actions == [DELETE]


def test_wake_keeps_the_earliest_time() -> None:
    draft = build_draft()
    for moment in (at(120), at(110), at(130)):
        draft.request_wake(moment)
    assert draft.wake_at == at(110)


@cases(
    "start seconds expected wake_at",
    just_now=(at(0), 100, True, None),
    in_a_second=(at(0), 101, False, at(101)),
    negative=(at(200), -150, True, None),
    beyond_all_time=(at(0), 10**20, False, None),
    before_all_time=(at(0), -(10**20), False, None),
)
def test_time_that_has_not_elapsed_requests_a_wake(
    start: datetime, seconds: float, expected: object, wake_at: object
) -> None:
    draft = build_draft()
    assert draft.has_elapsed(start, seconds) is expected
    assert draft.wake_at == wake_at
