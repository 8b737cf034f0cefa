"""The lines of the barrier's log."""

import pytest

from barrier.decision import Fail, Wait
from barrier.report import Reporter, describe_failure, render_wait
from framework.agent.exitcodes import ExitCode
from framework.agent.report import render_missing
from framework.api.gangreadiness import GangReadiness, Missing


def test_render_wait_names_missing_tasks_with_reasons() -> None:
    missing = (
        Missing("worker", 2, "Unschedulable: 0/1 nodes are available"),
        Missing("ps", 0, "ImagePullBackOff"),
    )
    line = render_wait(Wait("GangIncomplete", "", GangReadiness(3, 5, missing)), 12.4)
    assert line == (
        "3/5 ready after 12 s; waiting for worker/2 (Unschedulable: 0/1 nodes are available), "
        "ps/0 (ImagePullBackOff)"
    )


def test_render_missing_many_are_counted() -> None:
    missing = tuple(Missing("worker", i, "x") for i in range(12))
    text = render_missing(GangReadiness(0, 1000, missing))
    assert "worker/9 (x) and 990 more" in text
    assert "worker/10" not in text


def test_describe_failure_has_the_readiness() -> None:
    readiness = GangReadiness(1, 2, (Missing("worker", 1, "Pending"),))
    fail = Fail(ExitCode.TRANSIENT_CONFLICT, "GangIncomplete", "too late", readiness)
    assert describe_failure(fail) == "too late (1/2 ready; missing: worker/1 (Pending))"


def test_reporter_unchanged_wait_is_repeated_only_when_due(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reporter = Reporter(0.0, 10.0, is_json=False)
    wait = Wait("X", "something")
    for now in (0.0, 1.0, 9.9, 10.0, 11.0):
        reporter.show_wait(wait._replace(wake_at=now), now)
    reporter.show_wait(Wait("X", "something else"), 12.0)
    assert capsys.readouterr().err.splitlines() == [
        "barrier: waiting after 0 s; something",
        "barrier: waiting after 10 s; something",
        "barrier: waiting after 12 s; something else",
    ]


def test_reporter_control_characters_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    Reporter(0.0, 10.0, is_json=False).say("a\x1b[31mb\nc")
    assert capsys.readouterr().err == "barrier: a\\x1b[31mb\\nc\n"
