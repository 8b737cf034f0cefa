import pytest

from cli.running.progress import TaskLine
from cli.see.folding import describe_states, fold_tasks, name_indices
from framework.api.naming import TaskKey


def build_line(index: int, state: str = "Running", role: str = "worker") -> TaskLine:
    return TaskLine(TaskKey(role, index), state, 0, "")


@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        ([3], "3"),
        (list(range(32)), "0-31"),
        ([0, 1, 3, 7, 8], "0-1,3,7-8"),
        (list(range(0, 20, 2)), "0,2,4,6 and 6 more"),
    ],
)
def test_indices_are_named_by_ranges(indices: list[int], expected: str) -> None:
    assert name_indices(indices) == expected


def test_equal_tasks_of_a_role_fold_and_keep_their_order() -> None:
    lines = [build_line(0), build_line(1, "Failed"), build_line(2), build_line(0, role="ps")]
    folds = fold_tasks(lines, lambda line: line.state)
    assert [fold.name for fold in folds] == ["worker/0,2", "worker/1", "ps/0"]


def test_states_are_counted() -> None:
    lines = [build_line(0), build_line(1, "Failed"), build_line(2)]
    assert describe_states(lines) == "2 Running, 1 Failed"
