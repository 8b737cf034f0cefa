"""The draft: shares what does not change, moves along the tables, remembers when to wake."""

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
    assert after[0] is before[0]
    assert after[1] is not before[1]


def test_move_sets_the_times_that_go_with_the_step() -> None:
    draft = build_draft(status=build_status(state=FrameworkState.ATTEMPT_PREPARING))
    draft.move(FrameworkState.ATTEMPT_RUNNING)
    assert draft.status.run_time == draft.status.attempt_status.run_time == NOW
    draft.move(FrameworkState.ATTEMPT_COMPLETED)
    assert draft.status.attempt_status.completion_time == NOW
    assert draft.status.completion_time is None
    draft.move(FrameworkState.COMPLETED)
    assert draft.status.completion_time == draft.status.transition_time == NOW
    assert draft.urgency >= Urgency.NOW


def test_move_outside_the_tables_is_a_bug() -> None:
    draft = build_draft(status=build_status(state=FrameworkState.COMPLETED))
    with pytest.raises(IllegalTransitionError, match="Completed -> AttemptRunning"):
        draft.move(FrameworkState.ATTEMPT_RUNNING)
    task = build_task(TaskState.COMPLETED)
    with pytest.raises(IllegalTransitionError, match="Task: Completed -> AttemptDeleting"):
        draft.move_task(draft.roles[0], task, TaskState.ATTEMPT_DELETING)


def test_move_task_sets_the_times_that_go_with_the_step() -> None:
    task = build_task(TaskState.ATTEMPT_PREPARING, run_time=at(1))
    draft = build_draft(status=build_status(build_role_status(tasks=(task,))))
    role = draft.roles[0]
    task = draft.move_task(role, task, TaskState.ATTEMPT_RUNNING)
    assert (task.run_time, task.attempt_status.run_time) == (at(1), NOW)
    task = draft.move_task(role, task, TaskState.ATTEMPT_COMPLETED)
    assert (task.attempt_status.completion_time, task.completion_time) == (NOW, None)
    task = draft.move_task(role, task, TaskState.COMPLETED)
    assert task.completion_time == NOW
    assert role.tasks == [task]


def test_times_are_whole_seconds() -> None:
    draft = build_draft(now=NOW.replace(microsecond=999_999))
    draft.move(FrameworkState.ATTEMPT_DELETION_PENDING)
    assert draft.status.transition_time == NOW


def test_act_is_not_repeated_while_in_flight() -> None:
    draft = build_draft(in_flight={DELETE.key})
    draft.add_action(DELETE)
    assert not draft.actions
    draft.add_action(replace(DELETE, uid="other"))
    draft.add_action(replace(DELETE, grace_seconds=0))
    assert len(draft.actions) == 2


def test_act_waits_after_a_failure_and_asks_to_be_woken() -> None:
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
def test_elapsed_time_is_told_or_waited_for(
    start: datetime, seconds: float, expected: object, wake_at: object
) -> None:
    draft = build_draft()
    assert draft.has_elapsed(start, seconds) is expected
    assert draft.wake_at == wake_at
