"""When an attempt is over, and with whose completion.

docs/design/failure-handling.md, "Completion policy".
"""

import pytest

from controller.core.draft import Draft
from controller.core.policies.completion_policy import Completion, find_trigger
from framework.api.completion import (
    DELETE_TASK_REQUESTED,
    complete_task,
)
from framework.api.states import TaskState
from framework.api.types import (
    CompletionPolicySpec,
    CompletionType,
    TaskAttemptCompletionStatus,
    TaskRoleSpec,
    TaskRoleStatus,
    TaskStatus,
)
from tests.support.builders import at, build_role, build_spec, build_status, build_task, end_task
from tests.support.builders.worlds import build_draft

FAILED = CompletionType("Failed", ())


def ended(role: str, index: int, code: int, seconds: float = 0, **fields: object) -> TaskStatus:
    """A Task that is finally Completed with an exit code."""
    task = build_task(TaskState.COMPLETED, role, index, completion_time=at(seconds), **fields)
    completion = (
        complete_task(0, "Pod succeeded")
        if code == 0
        else TaskAttemptCompletionStatus(code, "Phrase", FAILED, f"exit {code}")
    )
    return end_task(task, completion)


def running(role: str, index: int) -> TaskStatus:
    return build_task(TaskState.ATTEMPT_RUNNING, role, index)


def role_of(*tasks: TaskStatus, name: str = "worker") -> TaskRoleStatus:
    return TaskRoleStatus(name, f"role-{name}", tasks)


def policy(
    failed: int = 0, succeeded: int = 0, number: int = 3, name: str = "worker", **kw: object
) -> TaskRoleSpec:
    return build_role(name, number, completion_policy=CompletionPolicySpec(failed, succeeded), **kw)


def draft_of(specs: list[TaskRoleSpec], roles: list[TaskRoleStatus]) -> Draft:
    return build_draft(build_spec(*specs), build_status(*roles))


def named(completion: Completion | None) -> tuple[int, str, int] | None:
    """Code and trigger of a completion."""
    if completion is None:
        return None
    assert completion.trigger is not None
    return completion.code, completion.trigger.task_role_name, completion.trigger.task_index


@pytest.mark.parametrize(
    ("spec", "tasks", "expected"),
    [
        pytest.param(
            policy(failed=1),
            [running("worker", 0), ended("worker", 1, 7), running("worker", 2)],
            (7, "worker", 1),
            id="the_failed_task_of_a_count_of_one",
        ),
        pytest.param(
            policy(failed=2),
            [ended("worker", 0, 5, 30), ended("worker", 1, 7, 20), ended("worker", 2, 9, 10)],
            (7, "worker", 1),
            id="the_second_in_time_reaches_a_count_of_two",
        ),
        pytest.param(
            policy(failed=3),
            [ended("worker", 0, 5), ended("worker", 1, 7), running("worker", 2)],
            None,
            id="the_count_is_not_reached",
        ),
        pytest.param(
            policy(succeeded=1),
            [ended("worker", 0, 5), ended("worker", 1, 0), running("worker", 2)],
            (0, "worker", 1),
            id="success_counts_for_the_other_minimum",
        ),
        pytest.param(
            policy(failed=1, succeeded=1),
            [ended("worker", 0, 0, 10), ended("worker", 1, 7, 10), running("worker", 2)],
            (7, "worker", 1),
            id="at_the_same_second_failed_comes_before_succeeded",
        ),
        pytest.param(
            policy(failed=1),
            [ended("worker", 0, 5, 10), ended("worker", 1, 7, 10), running("worker", 2)],
            (5, "worker", 0),
            id="at_the_same_second_the_lower_index_counts",
        ),
        pytest.param(
            policy(failed=-1, succeeded=0),
            [ended("worker", 0, 5), running("worker", 1), running("worker", 2)],
            None,
            id="minus_one_and_zero_are_inactive",
        ),
        pytest.param(
            policy(),
            [ended("worker", 0, 5, 1), ended("worker", 1, 6, 9), ended("worker", 2, 7, 3)],
            (0, "worker", 1),
            id="all_completed_is_success_though_all_failed_with_the_last_as_trigger",
        ),
        pytest.param(policy(number=0), [], None, id="no_task_at_all_never_completes"),
        pytest.param(
            policy(number=3, absent_task_indices=(2,)),
            [ended("worker", 0, 5, 1), ended("worker", 1, 0, 2), running("worker", 2)],
            (0, "worker", 1),
            id="an_absent_index_is_not_waited_for",
        ),
    ],
)
def test_full_check_finds_the_earliest_trigger(
    spec: TaskRoleSpec, tasks: list[TaskStatus], expected: tuple[int, str, int] | None
) -> None:
    assert (
        named(find_trigger(draft_of([spec], [role_of(*tasks)]), is_after_tasks=False)) == expected
    )


def test_full_check_compares_roles_by_time_then_by_spec_order() -> None:
    specs = [policy(failed=1, number=1, name="a"), policy(failed=1, number=1, name="b")]
    later = role_of(ended("a", 0, 1, 20), name="a")
    sooner = role_of(ended("b", 0, 2, 10), name="b")
    assert named(find_trigger(draft_of(specs, [later, sooner]), is_after_tasks=False)) == (
        2,
        "b",
        0,
    )
    tied = role_of(ended("b", 0, 2, 20), name="b")
    assert named(find_trigger(draft_of(specs, [tied, later]), is_after_tasks=False)) == (1, "a", 0)


def test_full_check_inherits_the_completion_and_says_why() -> None:
    completion = find_trigger(
        draft_of([policy(failed=1)], [role_of(ended("worker", 0, 7))]), is_after_tasks=False
    )
    assert completion is not None
    assert (completion.phrase, completion.diagnostics) == ("Phrase", "exit 7")
    assert completion.trigger is not None
    assert completion.trigger.message == (
        "FailedTaskCount 1 has reached MinFailedTaskCount 1 in the TaskRole"
    )


def test_full_check_takes_the_last_of_all_roles_when_all_completed() -> None:
    specs = [policy(number=1, name="a"), policy(number=1, name="b")]
    roles = [role_of(ended("a", 0, 1, 5), name="a"), role_of(ended("b", 0, 2, 5), name="b")]
    completion = find_trigger(draft_of(specs, roles), is_after_tasks=False)
    assert named(completion) == (0, "a", 0)
    assert completion is not None
    assert "CompletedTaskCount 2 has reached TotalTaskCount 2" in completion.diagnostics


def test_full_check_ignores_tasks_that_go() -> None:
    gone = ended("worker", 1, 7, deletion_pending=True)
    draft = draft_of([policy(failed=1, number=1)], [role_of(running("worker", 0), gone)])
    assert find_trigger(draft, is_after_tasks=False) is None


def test_full_check_ignores_a_role_that_left_the_spec() -> None:
    specs = [policy(number=1)]
    roles = [role_of(running("worker", 0)), role_of(ended("old", 0, 7), name="old")]
    assert find_trigger(draft_of(specs, roles), is_after_tasks=False) is None


@pytest.mark.parametrize(
    ("spec", "tasks", "expected"),
    [
        pytest.param(
            policy(failed=1), [ended("worker", 0, 7), running("worker", 1)], 7, id="failed"
        ),
        pytest.param(
            policy(succeeded=1), [ended("worker", 0, 0), running("worker", 1)], 0, id="succeeded"
        ),
        pytest.param(
            policy(failed=2),
            [ended("worker", 0, 7), running("worker", 1)],
            None,
            id="too_few_failed",
        ),
        pytest.param(
            policy(succeeded=2),
            [ended("worker", 0, 0), running("worker", 1)],
            None,
            id="too_few_good",
        ),
        pytest.param(policy(number=1), [ended("worker", 0, 7)], 0, id="the_last_of_all"),
        pytest.param(
            policy(number=2), [ended("worker", 0, 7), running("worker", 1)], None, id="not_the_last"
        ),
        pytest.param(
            policy(failed=1),
            [ended("worker", 0, 7, deletion_pending=True)],
            None,
            id="a_task_that_goes_never_counts",
        ),
        pytest.param(policy(failed=1), [running("worker", 0)], None, id="not_completed"),
    ],
)
def test_check_in_a_pass_asks_about_tasks_that_just_completed(
    spec: TaskRoleSpec, tasks: list[TaskStatus], expected: int | None
) -> None:
    found = find_trigger(draft_of([spec], [role_of(*tasks)]), is_after_tasks=True)
    assert (found.code if found else None) == expected


def test_check_in_a_pass_needs_the_role_in_the_spec() -> None:
    draft = draft_of([policy(number=0)], [role_of(ended("old", 0, 7), name="old")])
    assert find_trigger(draft, is_after_tasks=True) is None


def test_count_in_a_pass_is_the_one_at_which_the_task_triggered() -> None:
    tasks = [ended("worker", index, 7) for index in range(3)]
    draft = draft_of([policy(failed=2)], [role_of(*tasks)])
    counted = [
        find_trigger(draft, is_after_tasks=is_after_tasks) for is_after_tasks in (True, False)
    ]
    assert [c.trigger.message.split()[1] for c in counted if c and c.trigger] == ["2", "3"]


def test_no_wanted_task_at_all_completes_nothing_however_many_went() -> None:
    task = ended("worker", 0, DELETE_TASK_REQUESTED, deletion_pending=True)
    assert find_trigger(draft_of([policy(number=0)], [role_of(task)]), is_after_tasks=False) is None
