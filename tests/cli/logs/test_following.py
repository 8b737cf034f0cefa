"""`framework logs -f` ends when nothing more will be printed."""

import pytest

from cli.logs.following import is_over
from framework.kube.resources import Object
from tests.cli.running.views import SUCCESS, completion, framework, task

DONE = task(0, "Completed", ended=SUCCESS)
FAILED = task(1, "Completed", ended=completion(7))
RUNNING = task(1, "AttemptRunning")


@pytest.mark.parametrize(
    ("wire", "choice", "over"),
    [
        ({"status": None}, (None, None), False),
        (framework(DONE, RUNNING), (None, None), False),
        (framework(DONE, RUNNING), ("worker", "0"), True),
        (framework(DONE, RUNNING), ("worker", None), False),
        # The Framework may be retried.
        (framework(DONE, FAILED), ("worker", "1"), False),
        (framework(DONE, FAILED, state="Completed", ended=completion(7)), ("worker", "1"), True),
        (framework(DONE), ("ps", None), False),
    ],
    ids=["new", "runs", "task", "role", "failed", "completed", "no-such-role"],
)
def test_output_is_over(wire: Object, choice: tuple[str | None, str | None], *, over: bool) -> None:
    assert is_over(wire, *choice) is over
