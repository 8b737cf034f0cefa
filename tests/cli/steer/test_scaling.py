"""scale and remove: the patch, and what it says about Tasks."""

from typing import Any

import pytest

from cli.exitcodes import CliError, ExitCode
from cli.steer.changes import Change, Gang, apply_operations, read_gang
from cli.steer.scaling import removal, scaling
from framework.api.naming import TaskKey
from framework.api.states import FrameworkState
from framework.api.types import CompletionPolicySpec, DrainSpec, ExecutionType, TaskRoleSpec
from tests.cli.steer.gangs import build_gang, build_gang_of
from tests.support.builders import build_role, build_status, end_attempt


def build_worker(number: int = 4, *absent: int, **fields: Any) -> TaskRoleSpec:
    return build_role("worker", number, absent_task_indices=absent, **fields)


def scale(gang: Gang, size: int, **current: int) -> Change:
    return scaling({"worker": size}, current)(gang)


def remove(gang: Gang, *indexes: int, is_undo: bool = False) -> Change:
    return removal([TaskKey("worker", i) for i in indexes], is_undo=is_undo)(gang)


def apply(gang: Gang, change: Change) -> TaskRoleSpec:
    """Return the first role after the change."""
    return read_gang(apply_operations(gang.body, change.operations)).spec.task_roles[0]


def list_indexes(role: TaskRoleSpec) -> list[int]:
    return [i for i in range(role.task_number) if i not in role.absent]


@pytest.mark.parametrize(
    ("before", "size", "number", "indexes"),
    [
        (build_worker(4), 6, 6, [0, 1, 2, 3, 4, 5]),
        (build_worker(4), 2, 2, [0, 1]),
        (build_worker(4), 0, 0, []),
        (build_worker(4, 3), 4, 5, [0, 1, 2, 4]),
        (build_worker(5, 3), 3, 3, [0, 1, 2]),
        (build_worker(3, 3), 5, 6, [0, 1, 2, 4, 5]),
        (build_worker(4, 0, 1), 4, 6, [2, 3, 4, 5]),
        (build_worker(4, 4, 5, 6), 5, 8, [0, 1, 2, 3, 7]),
        (build_worker(4, 1, 1), 4, 5, [0, 2, 3, 4]),
    ],
)
def test_scale_gives_the_role_that_many_tasks_and_keeps_absent_indexes(
    before: TaskRoleSpec, size: int, number: int, indexes: list[int]
) -> None:
    gang = build_gang_of(before)
    after = apply(gang, scale(gang, size))
    assert (after.task_number, list_indexes(after)) == (number, indexes)
    assert after.absent_task_indices == before.absent_task_indices


def test_scale_tests_uid_role_name_and_all_that_it_counted_before_it_changes() -> None:
    gang = build_gang_of(build_role("ps", 1), build_worker(4))
    tested = [(o["op"], o["path"]) for o in scale(gang, 6).operations]
    assert tested == [
        ("test", "/metadata/uid"),
        ("test", "/spec/taskRoles/1/name"),
        ("test", "/spec/taskRoles/1/taskNumber"),
        ("test", "/spec/taskRoles/1/absentTaskIndices"),
        ("add", "/spec/taskRoles/1/taskNumber"),
    ]


def test_scale_to_the_size_it_has_changes_nothing() -> None:
    change = scale(build_gang_of(build_worker(5, 3)), 4)
    assert (change.verb, change.operations) == ("unchanged", ())


def test_scale_down_names_the_tasks_that_leave_and_how() -> None:
    drained = build_worker(9, drain=DrainSpec(30))
    notes = "\n".join(scale(build_gang_of(drained), 2).notes)
    assert "9 -> 2 Tasks" in notes
    assert "worker/2, worker/3, worker/4, worker/5, worker/6 and 2 more" in notes
    assert "30 s to acknowledge" in notes
    assert "30 s" not in "\n".join(scale(build_gang_of(), 2).notes)


@pytest.mark.parametrize("spec", [{"suspend": True}, {"execution_type": ExecutionType.CREATE}])
def test_scale_down_of_a_framework_without_pods_deletes_none(spec: dict[str, Any]) -> None:
    gang = build_gang_of(build_worker(4), **spec)
    for change in (scale(gang, 3), remove(gang, 3)):
        assert "leaving: worker/3" in change.notes
        assert "Pod" not in "\n".join(change.notes)


def test_scale_up_names_the_indexes_that_stay_absent() -> None:
    notes = "\n".join(scale(build_gang_of(build_worker(4, 3)), 5).notes)
    assert "new: worker/4, worker/5" in notes
    assert "still absent: worker/3" in notes


@pytest.mark.parametrize(
    ("gang", "size", "warning"),
    [
        (build_gang_of(build_worker(4, min_member_count=3)), 2, "minMemberCount of 3"),
        (build_gang_of(build_worker(4), build_role("ps", 1)), 0, "worker has no Tasks"),
        (build_gang_of(build_worker(4)), 0, "ends only when it is stopped or deleted"),
        (
            build_gang_of(build_worker(4, completion_policy=CompletionPolicySpec(0, 4))),
            2,
            "minSucceededTaskCount",
        ),
    ],
    ids=["minimum", "zero", "no-task", "unreachable"],
)
def test_scale_warns_of_what_the_server_accepts_and_a_user_may_not_expect(
    gang: Gang, size: int, warning: str
) -> None:
    change = scale(gang, size)
    assert change.verb == "scaled"
    assert warning in "\n".join(change.warnings)


def test_scale_does_not_warn_of_what_was_so_before() -> None:
    policy = CompletionPolicySpec(0, 9)
    gang = build_gang_of(build_worker(2, completion_policy=policy, min_member_count=5))
    assert [w for w in scale(gang, 1).warnings if "minMember" in w] == []


@pytest.mark.parametrize(
    ("gang", "size", "fault", "code"),
    [
        (build_gang_of(), 10_001, "10000, the most that a role may have", ExitCode.USAGE),
        (build_gang_of(build_worker(4, 3)), 10_000, "with 1 absent", ExitCode.USAGE),
        (
            build_gang_of(build_worker(4), build_role("ps", 6000)),
            4001,
            "at most 10000 Tasks",
            ExitCode.USAGE,
        ),
        (build_gang_of(build_role("workers", 4)), 1, "did you mean workers", ExitCode.FAILED),
        (
            build_gang(
                None, end_attempt(build_status(state=FrameworkState.COMPLETED), 0), name="gang"
            ),
            1,
            "has ended",
            ExitCode.USAGE,
        ),
    ],
    ids=["role", "gaps", "total", "name", "ended"],
)
def test_scale_refuses_what_cannot_be(gang: Gang, size: int, fault: str, code: ExitCode) -> None:
    with pytest.raises(CliError, match=fault) as caught:
        scale(gang, size)
    assert caught.value.exit_code is code


def test_scale_down_of_a_gang_beyond_the_limit_is_possible() -> None:
    gang = build_gang_of(build_worker(9000), build_role("ps", 6000))
    assert apply(gang, scale(gang, 8000)).task_number == 8000


def test_scale_with_another_current_size_changes_nothing() -> None:
    gang = build_gang_of(build_worker(4, 3))
    assert scale(gang, 5, worker=3).verb == "scaled"
    with pytest.raises(CliError, match="expected 4 Tasks, but there are 3") as caught:
        scale(gang, 5, worker=4)
    assert caught.value.exit_code is ExitCode.FAILED


def test_scale_while_the_attempt_ends_says_that_it_is_for_the_next_one() -> None:
    status = build_status(state=FrameworkState.ATTEMPT_DELETION_PENDING)
    assert "next attempt" in "\n".join(scale(build_gang(None, status), 5).notes)


def test_remove_lists_the_indexes_and_keeps_the_number() -> None:
    gang = build_gang_of(build_worker(4, 9))
    change = remove(gang, 2, 1)
    after = apply(gang, change)
    assert (after.task_number, after.absent_task_indices) == (4, (1, 2, 9))
    assert change.verb == "removed"
    assert "remove --undo gang worker/1 worker/2" in change.notes[-1]


def test_remove_of_an_absent_task_says_so_and_removes_the_others() -> None:
    gang = build_gang_of(build_worker(4, 1))
    assert remove(gang, 1).operations == ()
    change = remove(gang, 1, 2)
    assert "worker/1: absent already" in change.notes
    assert apply(gang, change).absent_task_indices == (1, 2)


def test_undo_is_the_contrary_of_remove() -> None:
    gang = build_gang_of(build_worker(4, 1, 2))
    change = remove(gang, 1, 3, is_undo=True)
    assert change.verb == "restored"
    assert "worker/3: not absent" in change.notes
    assert apply(gang, change).absent_task_indices == (2,)


def test_undo_reaches_indexes_above_the_number_of_tasks() -> None:
    gang = build_gang_of(build_worker(2, 3))
    assert apply(gang, remove(gang, 3, is_undo=True)).absent_task_indices == ()


@pytest.mark.parametrize("is_undo", [False, True])
def test_remove_of_a_task_that_never_was_names_those_that_are(*, is_undo: bool) -> None:
    with pytest.raises(CliError, match="its Tasks are worker/0-1") as caught:
        remove(build_gang_of(build_worker(2)), 7, is_undo=is_undo)
    assert caught.value.exit_code is ExitCode.FAILED
