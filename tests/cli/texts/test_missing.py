"""The error of `framework logs` for a Task that does not exist."""

from collections.abc import Sequence

import pytest

from cli.texts.missing import explain_task

# The CRD of the Go original accepts this taskNumber.
LONGEST = range(2**31 - 1)


@pytest.mark.parametrize("known", [[7, 3, 7], range(8), LONGEST], ids=["kept", "live", "longest"])
def test_known_task_gives_no_error(known: Sequence[int]) -> None:
    assert explain_task("gang", "worker", "7", {"worker": known}) is None


@pytest.mark.parametrize("index", ["07", "²", "9" * 5000, str(2**31 - 1)])
def test_role_of_the_longest_task_number_is_not_listed_whole(index: str) -> None:
    text = explain_task("gang", "worker", index, {"worker": LONGEST})
    assert text is not None
    assert text.endswith(f": its Tasks are worker/0-{2**31 - 2}")


@pytest.mark.parametrize("index", ["77", None])
def test_unknown_task_or_role_lists_the_roles_with_their_tasks(index: str | None) -> None:
    known = {"ps": range(1), "worker": [0, 1, 3, 4], "eval": range(0)}
    role = "worker" if index else "wurker"
    text = explain_task("gang", role, index, known)
    assert text is not None
    assert ": its Tasks are ps/0, worker/0-1,3-4, eval (no Tasks)" in text
    assert text.endswith("did you mean worker?") is (index is None)


def test_many_roles_and_many_gaps_are_not_listed_whole() -> None:
    known = {f"role{number}": range(0, 2000, 2)[:] for number in range(30)}
    text = explain_task("gang", "x", None, {r: list(i) for r, i in known.items()})
    assert text is not None
    assert "role9/0,2,4,6,... and 20 more roles" in text
    assert len(text) < 400
