"""The error of `framework logs` for a Task that does not exist."""

from collections.abc import Sequence

import pytest

from cli.missing import explain_task

# The CRD of the Go original accepts this taskNumber.
LONGEST = range(2**31 - 1)


@pytest.mark.parametrize("known", [[7, 3, 7], range(8), LONGEST], ids=["kept", "live", "longest"])
def test_known_task_gives_no_error(known: Sequence[int]) -> None:
    assert explain_task("gang", "worker", "7", {"worker": known}) is None


@pytest.mark.parametrize("index", ["07", "²", "9" * 5000, str(2**31 - 1)])
def test_role_of_the_longest_task_number_is_not_listed_whole(index: str) -> None:
    text = explain_task("gang", "worker", index, {"worker": LONGEST})
    assert text is not None
    assert text.endswith(f"worker/9 and {2**31 - 11} more")
