"""The rules of ``framework why`` about restarts in place and their start barriers."""

from dataclasses import replace

import pytest

from cli.why.answers import describe_healthy
from cli.why.cause import Kind
from cli.why.observation import Observation
from cli.why.ranking import find_causes
from framework.api.completion import POD_EXTERNAL_DELETED
from framework.api.constants import EPOCH_STARTED_ANNOTATION
from framework.api.naming import TaskKey
from framework.api.recovery import (
    BUDGET_USED_UP,
    RESTARTED,
    FailedProcess,
    RecoveryStatus,
    RoleRestarts,
    StartBarrierStatus,
)
from framework.api.roster import fingerprint_uid
from framework.api.states import FrameworkState
from tests.cli.why.builders import find_root, list_commands, observe
from tests.support.builders import (
    at,
    build_pod_wire,
    build_role_status,
    build_status,
    end_attempt,
    pod_uid,
)


def observe_epoch(
    reason: str, seconds: float, *, code: int | None = None, process_code: int = 137
) -> Observation:
    """A gang whose third epoch was decided ``seconds`` ago; its attempt has ended with ``code``."""
    failed = FailedProcess("worker", 1, "89abcdef", 2, process_code)
    recovery = RecoveryStatus(
        3, at(300 - seconds), reason, failed, (RoleRestarts("worker", (at(1), at(2))),)
    )
    status = build_status(build_role_status(number=2))
    status = replace(status, attempt_status=replace(status.attempt_status, recovery=recovery))
    if code is not None:
        status = replace(end_attempt(status, code), state=FrameworkState.COMPLETED)
    return observe(status=status)


def test_process_that_failed_first_is_named() -> None:
    cause = find_root(observe_epoch(RESTARTED, 60))
    assert (cause.kind, cause.tasks) == (Kind.EPOCHS, (TaskKey("worker", 1),))
    assert cause.text == (
        "was the first whose process failed, so the gang restarted in place: epoch 3"
    )
    assert "was killed by SIGKILL (exit code 137)" in cause.facts[0]
    assert cause.facts[1] == "counted restarts: 2 of worker"
    assert list_commands(cause) == ["framework logs gang worker/1"]


def test_process_that_hung_and_was_restarted_in_place_is_named() -> None:
    cause = find_root(observe_epoch(RESTARTED, 60, process_code=202))
    assert cause.tasks == (TaskKey("worker", 1),)
    assert "was killed, because the gang stood still (code 202)" in cause.facts[0]
    assert "stacks" in cause.remedies[0].text


@pytest.mark.parametrize(
    ("reason", "seconds", "code", "expected"),
    [
        (RESTARTED, 700, None, False),
        (RESTARTED, 60, POD_EXTERNAL_DELETED, False),
        (BUDGET_USED_UP, 700, POD_EXTERNAL_DELETED, True),
        (BUDGET_USED_UP, 60, None, True),
        (BUDGET_USED_UP, 60, 0, False),
    ],
)
def test_epoch_is_a_cause_while_it_matters(
    reason: str, seconds: float, code: int | None, *, expected: bool
) -> None:
    causes = find_causes(observe_epoch(reason, seconds, code=code))
    assert (Kind.EPOCHS in {cause.kind for cause in causes}) is expected


@pytest.mark.parametrize(("code", "start"), [(None, "all 2 Tasks run"), (0, "it succeeded")])
def test_restart_that_is_over_is_in_the_answer(code: int | None, start: str) -> None:
    text = describe_healthy(observe_epoch(RESTARTED, 700, code=code))
    assert text.startswith(f"nothing is wrong: {start}")
    assert text.endswith(
        "; its processes restarted in place (epoch 3), the last time because the process of "
        "worker/1 was killed by SIGKILL (exit code 137)"
    )


def observe_start(*, report: str = "", started: int | None = 0, seconds: float = 60) -> Observation:
    """A gang in epoch 2 of which all Pods have run for ``seconds``."""
    barrier = StartBarrierStatus(7, at(300 - seconds), started)
    recovery = RecoveryStatus(2, at(0), RESTARTED, None, start_barrier=barrier)
    status = build_status(build_role_status(number=2))
    status = replace(status, attempt_status=replace(status.attempt_status, recovery=recovery))
    reports = {"annotations": {EPOCH_STARTED_ANNOTATION: report}}
    pods = [build_pod_wire(metadata=reports), build_pod_wire(index=1)]
    return observe(pods, status=status)


def test_gang_that_does_not_start_has_a_cause() -> None:
    cause = find_root(observe_start(report="7 1"))
    assert (cause.kind, cause.tasks) == (Kind.START, ())
    assert cause.text == "no agent has reported that the processes of epoch 2 run"
    assert "older release" in cause.facts[0]
    assert list_commands(cause) == ["framework logs gang worker/0"]


def test_task_that_an_agent_misses_is_named() -> None:
    cause = find_root(observe_start(report=f"7 2 {fingerprint_uid(pod_uid('worker', 1))}"))
    assert (cause.kind, cause.tasks) == (Kind.START, (TaskKey("worker", 1),))
    assert list_commands(cause) == ["framework logs gang worker/1"]


@pytest.mark.parametrize(("started", "seconds"), [(2, 600), (1, 59)])
def test_gang_that_has_started_or_may_be_starting_has_no_cause(
    started: int, seconds: float
) -> None:
    causes = find_causes(observe_start(started=started, seconds=seconds))
    assert Kind.START not in {cause.kind for cause in causes}


def test_gang_that_has_waited_for_some_seconds_is_not_called_sound() -> None:
    text = describe_healthy(observe_start(seconds=20))
    assert text.startswith(
        "all 2 Tasks run, but no agent has reported for 20s that the processes of epoch 2 run"
    )
    assert describe_healthy(observe_start(seconds=5)).startswith("nothing is wrong: all 2 Tasks")


def test_gang_that_does_not_start_again_has_the_start_barrier_as_its_first_cause() -> None:
    failed = FailedProcess("worker", 1, "89abcdef", 1, 137)
    observation = observe_start()
    assert observation.status is not None
    attempt = observation.status.attempt_status
    assert attempt.recovery is not None
    recovery = replace(attempt.recovery, first_failed=failed, decided_time=at(230))
    status = replace(observation.status, attempt_status=replace(attempt, recovery=recovery))
    causes = find_causes(replace(observation, status=status))
    assert [cause.kind for cause in causes] == [Kind.START, Kind.EPOCHS]
