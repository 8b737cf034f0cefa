import pytest

from framework.api.completion import POD_EXTERNAL_DELETED, SUCCEEDED, complete_task
from framework.api.fielderrors import FieldError, FieldErrors, join_path
from framework.api.states import TaskState
from framework.api.types import CompletionType
from tests.support.builders import (
    build_attempt,
    build_role,
    build_role_status,
    build_spec,
    build_task,
    build_task_attempt,
)
from tests.support.builders.cases import cases


@cases(
    "number absent minimum wanted quorum",
    {
        "all": (4, (), None, 4, 4),
        "gaps": (4, (1, 3), None, 2, 2),
        "gaps beyond the last are ignored": (4, (4, 9), None, 4, 4),
        "quorum": (4, (), 3, 4, 3),
        "quorum is capped": (4, (0,), 9, 3, 3),
        "waits for none": (4, (), 0, 4, 0),
        "nonsense is ignored": (2, (-1, 1, 1), None, 1, 1),
        "no Tasks": (0, (), None, 0, 0),
    },
)
def test_role_counts_wanted_and_quorum(
    number: int, absent: tuple[int, ...], minimum: int | None, wanted: int, quorum: int
) -> None:
    role = build_role(number=number, absent_task_indices=absent, min_member_count=minimum)
    assert (role.wanted_count, role.quorum) == (wanted, quorum)


def test_spec_finds_first_role_and_counts_all() -> None:
    spec = build_spec(build_role("a", 1), build_role("b", 2), build_role("a", 3))
    role = spec.find_role("a")
    assert role is not None
    assert role.task_number == 1
    assert spec.find_role("c") is None
    assert spec.wanted_count == 6


@pytest.mark.parametrize(
    ("state", "code", "is_going", "expected"),
    [
        (TaskState.COMPLETED, SUCCEEDED, False, (True, True, False)),
        (TaskState.COMPLETED, POD_EXTERNAL_DELETED, False, (True, False, True)),
        (TaskState.COMPLETED, SUCCEEDED, True, (False, False, False)),
        (TaskState.ATTEMPT_COMPLETED, SUCCEEDED, False, (False, False, False)),
        (TaskState.COMPLETED, None, False, (True, False, False)),
    ],
)
def test_task_counts_only_when_completed_and_staying(
    state: TaskState, code: int | None, expected: tuple[bool, bool, bool], *, is_going: bool
) -> None:
    status = None if code is None else complete_task(code, "")
    attempt = build_task_attempt(completion_status=status)
    task = build_task(state, deletion_pending=is_going, attempt_status=attempt)
    assert (task.is_completed, task.is_succeeded, task.is_failed) == expected


def test_attempt_finds_role_and_walks_tasks_in_status_order() -> None:
    attempt = build_attempt(build_role_status("b", 2), build_role_status("a", 1))
    assert attempt.find_role("a") is attempt.task_roles[1]
    assert attempt.find_role("c") is None
    walked = [(role.name, task.index) for role, task in attempt.walk_tasks()]
    assert walked == [("b", 0), ("b", 1), ("a", 0)]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (CompletionType("Succeeded"), (True, False, False)),
        (CompletionType("Failed", ("Transient",)), (False, True, True)),
        (CompletionType("Failed", None), (False, True, False)),
        (CompletionType("Other"), (False, False, False)),
    ],
)
def test_completion_type_table(kind: CompletionType, expected: tuple[bool, bool, bool]) -> None:
    assert (kind.is_succeeded, kind.is_failed, kind.has_attribute("Transient")) == expected


def test_field_errors_show_all_with_their_paths() -> None:
    errors = FieldErrors([FieldError("spec.a", "is bad"), FieldError("", "is worse")])
    assert str(errors) == "spec.a: is bad; is worse"
    assert len(errors.errors) == 2
    assert join_path("", "a") == "a"
    assert join_path("a", "b") == "a.b"
