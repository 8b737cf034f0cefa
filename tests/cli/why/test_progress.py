"""The rule of ``framework why`` about a training that reports no step."""

from dataclasses import replace

import pytest

from cli.why.cause import Kind
from cli.why.observation import Observation
from cli.why.ranking import find_causes
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
