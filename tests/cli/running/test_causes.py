"""The causes that `framework run` prints at its end."""

from dataclasses import replace

from cli.running.causes import describe_failures, warn_of_tolerated_failures
from cli.running.views import GangPhase, GangView, TaskLine
from framework.api.naming import TaskKey

REFUSED = "Pod refused: " + "spec.dnsPolicy: Unsupported value; " * 9
TASKS = tuple(
    TaskLine(TaskKey("w", i), "Failed", 0, REFUSED[:199] + "…", -200, diagnostics=REFUSED)
    for i in range(5)
)
SUCCEEDED = GangView(
    "gang",
    "Succeeded",
    0,
    "",
    tuple(replace(task, is_own_failure=True) for task in TASKS),
    phase=GangPhase.SUCCEEDED,
    unguarded_roles=frozenset({"w"}),
)


def test_success_of_refused_pods_is_a_warning_with_each_cause_once() -> None:
    warning = warn_of_tolerated_failures(SUCCEEDED)
    assert warning.startswith("warning: gang Succeeded although 5 of 5 Tasks failed: ")
    assert "set 1, so that the Framework fails" in warning
    lines = list(describe_failures(SUCCEEDED, lambda *_: None))
    assert lines[:2] == ["", f"gang w/0: {REFUSED}"]
    assert lines[-1] == "2 more Tasks failed"
    assert len([line for line in lines if REFUSED in line]) == 3


def test_failures_that_the_policy_allows_are_not_described() -> None:
    allowed = replace(SUCCEEDED, unguarded_roles=frozenset())
    assert list(describe_failures(allowed, lambda *_: None)) == []
    assert not warn_of_tolerated_failures(allowed)


def test_last_lines_of_the_log_are_shown() -> None:
    lines = list(describe_failures(SUCCEEDED, lambda *_: ("main", ["a", "\x1b[31mb"])))
    assert lines[2:5] == ["  last lines of container main:", "    a", "    b"]
