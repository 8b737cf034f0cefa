"""When an attempt is over, and with whose completion.

docs/design/failure-handling.md, "Completion policy".
"""

import pytest

from controller.core.policies.completion_policy import Completion, find_trigger
from framework.api.completion import DELETE_TASK_REQUESTED, complete_task
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
from tests.support.builders.cases import cases
from tests.support.builders.worlds import build_draft

FAILED = CompletionType("Failed", ())


def end(
    index: int, code: int, seconds: float = 0, role: str = "worker", **fields: object
) -> TaskStatus:
    """A Task that is finally Completed with an exit code."""
    task = build_task(TaskState.COMPLETED, role, index, completion_time=at(seconds), **fields)
    if code == 0:
        return end_task(task, complete_task(0, "Pod succeeded"))
    return end_task(task, TaskAttemptCompletionStatus(code, "Phrase", FAILED, f"exit {code}"))


def run(index: int) -> TaskStatus:
    return build_task(index=index)


def role_of(*tasks: TaskStatus, name: str = "worker") -> TaskRoleStatus:
    return TaskRoleStatus(name, f"role-{name}", tasks)


def policy(
    failed: int = 0, succeeded: int = 0, number: int = 3, name: str = "worker", **kw: object
) -> TaskRoleSpec:
    return build_role(name, number, completion_policy=CompletionPolicySpec(failed, succeeded), **kw)


def find(
    specs: list[TaskRoleSpec], roles: list[TaskRoleStatus], *, is_after_tasks: bool = False
) -> Completion | None:
    draft = build_draft(build_spec(*specs), build_status(*roles))
    return find_trigger(draft, is_after_tasks=is_after_tasks)


def summarize(completion: Completion | None) -> tuple[int, str, int] | None:
    """Code and trigger of a completion."""
    if completion is None:
        return None
    assert completion.trigger is not None
    return completion.code, completion.trigger.task_role_name, completion.trigger.task_index


@cases(
    "spec tasks expected",
    failed_task_of_a_count_of_one=(policy(1), [run(0), end(1, 7), run(2)], (7, "worker", 1)),
    second_in_time_reaches_a_count_of_two=(
        policy(2),
        [end(0, 5, 30), end(1, 7, 20), end(2, 9, 10)],
        (7, "worker", 1),
    ),
    count_is_not_reached=(policy(3), [end(0, 5), end(1, 7), run(2)], None),
    success_counts_for_the_other_minimum=(
        policy(succeeded=1),
        [end(0, 5), end(1, 0), run(2)],
        (0, "worker", 1),
    ),
    at_the_same_second_failed_comes_before_succeeded=(
        policy(1, 1),
        [end(0, 0, 10), end(1, 7, 10), run(2)],
        (7, "worker", 1),
    ),
    at_the_same_second_the_lower_index_counts=(
        policy(1),
        [end(0, 5, 10), end(1, 7, 10), run(2)],
        (5, "worker", 0),
    ),
    minus_one_and_zero_are_inactive=(policy(-1, 0), [end(0, 5), run(1), run(2)], None),
    all_completed_is_success_though_all_failed_with_the_last_as_trigger=(
        policy(),
        [end(0, 5, 1), end(1, 6, 9), end(2, 7, 3)],
        (0, "worker", 1),
    ),
    no_task_at_all_never_completes=(policy(number=0), [], None),
    no_wanted_task_never_completes=(
        policy(number=0),
        [end(0, DELETE_TASK_REQUESTED, deletion_pending=True)],
        None,
    ),
    an_absent_index_is_not_waited_for=(
        policy(absent_task_indices=(2,)),
        [end(0, 5, 1), end(1, 0, 2), run(2)],
        (0, "worker", 1),
    ),
    a_task_scaled_down_does_not_count=(
        policy(1, number=1),
        [run(0), end(1, 7, deletion_pending=True)],
        None,
    ),
)
def test_full_check_finds_the_earliest_trigger(
    spec: TaskRoleSpec, tasks: list[TaskStatus], expected: tuple[int, str, int] | None
) -> None:
    assert summarize(find([spec], [role_of(*tasks)])) == expected


def test_full_check_compares_roles_by_time_then_by_spec_order() -> None:
    specs = [policy(1, number=1, name="a"), policy(1, number=1, name="b")]
    first = role_of(end(0, 1, 20, "a"), name="a")
    for seconds, expected in ((10, (2, "b", 0)), (20, (1, "a", 0))):
        second = role_of(end(0, 2, seconds, "b"), name="b")
        assert summarize(find(specs, [second, first])) == expected


def test_full_check_inherits_the_completion_and_explains_it() -> None:
    completion = find([policy(1)], [role_of(end(0, 7))])
    assert completion is not None
    assert (completion.phrase, completion.diagnostics) == ("Phrase", "exit 7")
    assert completion.trigger is not None
    assert completion.trigger.message == (
        "FailedTaskCount 1 has reached MinFailedTaskCount 1 in the TaskRole"
    )


def test_full_check_takes_the_last_of_all_roles_when_all_completed() -> None:
    specs = [policy(number=1, name="a"), policy(number=1, name="b")]
    roles = [role_of(end(0, n, 5, name), name=name) for n, name in ((1, "a"), (2, "b"))]
    completion = find(specs, roles)
    assert summarize(completion) == (0, "a", 0)
    assert completion is not None
    assert "CompletedTaskCount 2 has reached TotalTaskCount 2" in completion.diagnostics


@pytest.mark.parametrize("is_after_tasks", [True, False])
def test_role_that_is_not_in_the_spec_triggers_nothing(*, is_after_tasks: bool) -> None:
    old = role_of(end(0, 7, role="old"), name="old")
    assert find([policy(number=0)], [old], is_after_tasks=is_after_tasks) is None
    roles = [role_of(run(0)), old]
    assert find([policy(number=1)], roles, is_after_tasks=is_after_tasks) is None


@cases(
    "spec tasks expected",
    failed=(policy(1), [end(0, 7), run(1)], 7),
    succeeded=(policy(succeeded=1), [end(0, 0), run(1)], 0),
    too_few_failed=(policy(2), [end(0, 7), run(1)], None),
    too_few_succeeded=(policy(succeeded=2), [end(0, 0), run(1)], None),
    the_last_of_all=(policy(number=1), [end(0, 7)], 0),
    not_the_last=(policy(number=2), [end(0, 7), run(1)], None),
    a_task_scaled_down_never_counts=(policy(1), [end(0, 7, deletion_pending=True)], None),
    not_completed=(policy(1), [run(0)], None),
)
def test_check_after_tasks(
    spec: TaskRoleSpec, tasks: list[TaskStatus], expected: int | None
) -> None:
    found = find([spec], [role_of(*tasks)], is_after_tasks=True)
    assert (found.code if found else None) == expected


def test_count_after_tasks_is_the_one_at_which_the_task_triggered() -> None:
    roles = [role_of(*(end(index, 7) for index in range(3)))]
    counted = [find([policy(2)], roles, is_after_tasks=is_after) for is_after in (True, False)]
    assert [c.trigger.message.split()[1] for c in counted if c and c.trigger] == ["2", "3"]
