"""The rule of ``framework why`` about a training that reports no step."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from cli.why.answers import describe_healthy
from cli.why.cause import Kind
from cli.why.observation import Observation
from cli.why.ranking import find_causes
from framework.api.recovery import RESTARTED, FailedProcess, RecoveryStatus
from framework.api.states import FrameworkState, TaskState
from framework.api.trainingstatus import TrainingStatus
from tests.cli.why.builders import find_root, list_commands, observe
from tests.support.builders import at, build_pod_wire, build_role_status, build_status


def observe_training(
    value: str = "on", *, began: float = -1.0, training: TrainingStatus | None = None
) -> Observation:
    """A gang that has run since ``began``, five minutes after the start."""
    env = [{"name": "FB_PROGRESS_STATUS", "value": value}]
    spec = {"containers": [{"name": "main", "image": "x", "env": env}]}
    pods = [build_pod_wire(index=index, phase="Running", spec=spec) for index in range(2)]
    tasks = build_role_status("worker", 2, TaskState.ATTEMPT_RUNNING)
    status = build_status(tasks, state=FrameworkState.ATTEMPT_RUNNING)
    attempt = replace(status.attempt_status, run_time=at(began), training=training)
    return observe(pods, status=replace(status, attempt_status=attempt))


def observe_standstill(
    *,
    step_at: float | None,
    restart_at: float | None = None,
    env: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    failed: bool = False,
) -> Observation:
    """A gang that has run for five minutes, with a limit of 60 s unless ``env`` has another."""
    given = {"FB_PROGRESS_TIMEOUT_SEC": "60"} if env is None else env
    variables = [{"name": name, "value": value} for name, value in given.items()]
    spec = {"containers": [{"name": "main", "image": "x", "env": variables}]}
    pods = [build_pod_wire(index=index, phase="Running", spec=spec) for index in range(2)]
    for pod in pods:
        pod["metadata"]["annotations"] = dict(annotations or {})
    tasks = build_role_status("worker", 2, TaskState.ATTEMPT_RUNNING)
    status = build_status(tasks, state=FrameworkState.ATTEMPT_RUNNING)
    training = None if step_at is None else TrainingStatus(4, 10, update_time=at(step_at))
    process = FailedProcess("worker", 1, "89abcdef", 0, 202) if failed else None
    recovery = None if restart_at is None else RecoveryStatus(1, at(restart_at), RESTARTED, process)
    attempt = replace(status.attempt_status, run_time=at(0), training=training, recovery=recovery)
    return observe(pods, status=replace(status, attempt_status=attempt))


FIRST = "; until the first step after it, the limit is FB_FIRST_PROGRESS_TIMEOUT_SEC"


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        (observe_standstill(step_at=150), "for 2m30s after step 4 of 10; the limit is FB_PROGRESS"),
        (
            observe_standstill(step_at=100, restart_at=110),
            f"for 3m10s since the restart in place{FIRST} (1800 s)",
        ),
        (
            observe_standstill(step_at=120, restart_at=110),
            f"for 3m10s since the restart in place{FIRST} (1800 s)",
        ),
        (
            observe_standstill(
                step_at=None,
                env={"FB_PROGRESS_TIMEOUT_SEC": "5", "FB_FIRST_PROGRESS_TIMEOUT_SEC": "0"},
            ),
            "since the start, and no hang is found until the first step",
        ),
        (
            observe_standstill(
                step_at=None,
                env={},
                annotations={
                    "frameworkbarrier.io/progress-timeout-sec": "60",
                    "frameworkbarrier.io/first-progress-timeout-sec": "900",
                },
            ),
            f"since the start{FIRST} (900 s)",
        ),
    ],
    ids=["in training", "after a restart", "late report", "no limit", "annotations"],
)
def test_overdue_step_is_told_with_the_limit_that_counts(
    observation: Observation, words: str
) -> None:
    text = describe_healthy(observation)
    assert text.startswith("all 2 Tasks run, but no step is reported for ")
    assert words in text


def test_overdue_step_after_a_restart_in_place_is_a_fact_of_the_restart() -> None:
    cause = find_root(observe_standstill(step_at=100, restart_at=110, failed=True))
    assert cause.kind is Kind.EPOCHS
    assert cause.facts[-1].startswith("no step is reported for 3m10s since the restart in place;")


@pytest.mark.parametrize(
    "observation",
    [
        observe_standstill(step_at=200),
        observe_standstill(step_at=100, restart_at=200),
        observe_standstill(step_at=100, env={}),
        observe_standstill(step_at=100, env={"FB_PROGRESS_TIMEOUT_SEC": "$(LIMIT)"}),
    ],
    ids=["lately", "restarted lately", "no limit", "value that only the cluster knows"],
)
def test_step_that_is_not_overdue_is_not_told(observation: Observation) -> None:
    assert describe_healthy(observation) == "nothing is wrong: all 2 Tasks run"


def test_training_that_reports_no_step_is_told_with_both_reasons() -> None:
    cause = find_root(observe_training())
    assert cause.kind is Kind.PROGRESS
    assert "peers.progress" in cause.facts[0]
    assert "deploy/agents/drain" in cause.facts[0]
    assert list_commands(cause) == ["framework logs gang worker/0"]


@pytest.mark.parametrize(
    "observation",
    [
        observe_training("auto"),
        observe_training(began=100.0),
        observe_training(training=TrainingStatus(1)),
    ],
    ids=["not wanted", "before the first step", "reported"],
)
def test_other_training_is_no_cause(observation: Observation) -> None:
    assert Kind.PROGRESS not in {cause.kind for cause in find_causes(observation)}
