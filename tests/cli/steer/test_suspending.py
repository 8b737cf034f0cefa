"""suspend and resume, and what the other commands say of a suspended Framework."""

import pytest

from cli.exitcodes import CliError, ExitCode
from cli.steer.changes import Computation, Gang
from cli.steer.retrying import retrying
from cli.steer.scaling import scaling
from cli.steer.suspending import Suspended, compute_resume, compute_suspend
from framework.api.completion import STOP_FRAMEWORK_REQUESTED
from framework.api.naming import TaskKey
from framework.api.states import FrameworkState
from framework.api.types import Condition, ExecutionType, FrameworkStatus
from tests.cli.steer.gangs import build_gang, build_gang_of
from tests.support.builders import (
    FRAMEWORK_UID,
    build_role,
    build_spec,
    build_status,
    end_attempt,
)

ENDED = end_attempt(build_status(state=FrameworkState.COMPLETED), STOP_FRAMEWORK_REQUESTED)
SUSPENDED = Condition("Suspended", "True", reason="Suspended")
GOAL = Suspended("gang", FRAMEWORK_UID)


def build_suspended(status: FrameworkStatus | None = None) -> Gang:
    return build_gang(build_spec(build_role("worker", 2), suspend=True), status)


@pytest.mark.parametrize(
    ("compute", "before", "after", "verb"),
    [
        (compute_suspend, False, True, "suspended"),
        (compute_suspend, True, None, "unchanged"),
        (compute_resume, True, False, "resumed"),
        (compute_resume, False, None, "unchanged"),
    ],
)
def test_suspend_and_resume_set_the_field(
    *, compute: Computation, before: bool, after: bool | None, verb: str
) -> None:
    change = compute(build_gang_of(suspend=before))
    assert change.verb == verb
    assert [o["value"] for o in change.operations if o["op"] == "add"] == (
        [] if after is None else [after]
    )


@pytest.mark.parametrize("compute", [compute_suspend, compute_resume])
@pytest.mark.parametrize(
    "gang",
    [build_gang_of(execution_type=ExecutionType.STOP), build_gang(None, ENDED)],
    ids=["stopped", "ended"],
)
def test_what_is_over_is_neither_suspended_nor_resumed(compute: Computation, gang: Gang) -> None:
    with pytest.raises(CliError, match="run --replace FILE") as caught:
        compute(gang)
    assert caught.value.exit_code is ExitCode.USAGE


def test_resume_of_a_framework_that_was_never_started_says_so() -> None:
    change = compute_resume(build_gang_of(suspend=True, execution_type=ExecutionType.CREATE))
    assert "never started" in change.notes[0]


@pytest.mark.parametrize(
    ("gang", "is_reached", "failure"),
    [
        (build_suspended(build_status()), False, ""),
        (
            build_suspended(build_status(conditions=(SUSPENDED,), observed_generation=1)),
            True,
            "",
        ),
        (
            build_suspended(build_status(conditions=(SUSPENDED,), observed_generation=0)),
            False,
            "",
        ),
        (build_suspended(None), False, ""),
        (build_suspended(ENDED), False, "has ended"),
        (build_gang_of(), False, "was resumed"),
        (None, False, "was deleted"),
    ],
    ids=["runs", "suspended", "not-seen", "new", "ended", "resumed", "deleted"],
)
def test_suspension_is_waited_for_until_no_pod_is_left(
    *, gang: Gang | None, is_reached: bool, failure: str
) -> None:
    verdict = GOAL.judge(gang)
    assert verdict.is_reached is is_reached
    assert failure in verdict.failure
    assert bool(failure) == bool(verdict.failure)


def test_suspended_framework_is_scaled_for_its_next_attempt() -> None:
    notes = scaling({"worker": 3}, {})(build_suspended()).notes
    assert "suspended, so this is for its next attempt" in "\n".join(notes)


def test_task_of_a_suspended_framework_is_not_retried() -> None:
    with pytest.raises(CliError, match="resume gang"):
        retrying([TaskKey("worker", 0)])(build_suspended(build_status()))
