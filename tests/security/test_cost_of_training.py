"""The cost of the progress in the status grows with the Tasks, not faster."""

from dataclasses import replace

import pytest

from controller.core.decide import decide
from controller.core.snapshot import Snapshot
from framework.api.constants import TRAINING_PROGRESS_ANNOTATION
from framework.api.states import TaskState
from framework.api.trainingprogress import (
    MAX_CHARS,
    MAX_NUMBER,
    TrainingProgress,
    encode_training_progress,
)
from rendezvous.core.hangs.gangprogress import GangMeter
from rendezvous.core.hangs.progress import StandstillLimits
from rendezvous.core.hangs.reports import AgentReport, ProcessReport
from rendezvous.core.hangs.watch import GangWatch
from tests.security.linearcost import (
    SETTINGS,
    assert_decision_is_linear,
    assert_linear,
    for_two_sizes,
)
from tests.support.builders.largegangs import LargeGang, build_snapshot
from tests.support.measuring.cost import Operation


def build_trained(gang: LargeGang) -> Snapshot:
    """A gang whose Pods all carry the longest report there is."""
    last = f"{gang.names[-1]}/9999 rank 999999999"
    progress = TrainingProgress(1, MAX_NUMBER, MAX_NUMBER, 0.001, last, 10**9, (last,) * 5)
    text = encode_training_progress(progress)
    assert len(text) <= MAX_CHARS
    pods = {
        name: replace(pod, annotations={**pod.annotations, TRAINING_PROGRESS_ANNOTATION: text})
        for name, pod in gang.build_pods().items()
    }
    status = gang.build_status(TaskState.ATTEMPT_RUNNING)
    return build_snapshot(gang.build_spec(), status, pods, published=gang.build_published())


@pytest.mark.parametrize("roles", [2, 250])
@for_two_sizes
def test_decision_costs_no_more_than_its_tasks(small: int, large: int, roles: int) -> None:
    assert_decision_is_linear(small, large, build_trained, roles)


def test_gang_of_these_tests_reports_its_progress() -> None:
    status = decide(build_trained(LargeGang(8, 2)), SETTINGS).status
    assert status is not None
    assert status.attempt_status.training is not None
    assert status.attempt_status.training.step == MAX_NUMBER


def prepare_measure(size: int) -> Operation:
    """One measure of a gang by the agent of rank 0."""
    watch, meter = GangWatch(StandstillLimits(60.0, 60.0), 1), GangMeter()
    for index in range(size):
        process = ProcessReport(index, index % 7, 100, 0.0, busy_seconds=1.0 + index % 3)
        watch.take(("worker", index), AgentReport((1, 0), 0, (process,)), 0.0, "p")

    def measure() -> None:
        ranks, stragglers = watch.list_ranks(), watch.list_stragglers()
        assert len(ranks) == size
        found = meter.follow(1, watch.run, ranks, stragglers, 1.0)
        assert found is not None
        encode_training_progress(found)

    return measure


@for_two_sizes
def test_measure_of_a_gang_costs_no_more_than_its_ranks(small: int, large: int) -> None:
    assert_linear(small, large, prepare_measure)
