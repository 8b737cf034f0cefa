"""The progress of the training comes into the status: docs/design/recovery.md."""

from datetime import timedelta

import pytest

from framework.api.constants import TRAINING_PROGRESS_ANNOTATION
from framework.api.trainingprogress import TrainingProgress, encode_training_progress
from framework.api.trainingstatus import TrainingStatus
from tests.support.builders import build_role, build_spec
from tests.support.builders.worlds import World

TEXT = "1 40 1000 2.5 worker/1 1 worker/1"


class Gang(World):
    """A gang of a chief and three workers that runs; counts the writes of its status."""

    def __init__(self) -> None:
        super().__init__(build_spec(build_role("chief", number=1), build_role(number=3)))
        self.settle()
        names = ["gang-chief-0", *(f"gang-worker-{index}" for index in range(3))]
        for number, name in enumerate(names, 1):
            self.run_pod(name, number)
        self.pause(60)

    def pause(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.settle()

    def report(self, text: str, pod: str = "gang-chief-0") -> None:
        annotations = {**self.pods[pod].annotations, TRAINING_PROGRESS_ANNOTATION: text}
        self._change(pod, annotations=annotations)

    def report_step(self, step: int) -> None:
        self.report(encode_training_progress(TrainingProgress(1, step, None, None, "", 0, ())))

    def publish_again(self) -> None:
        """Publish generation 2."""
        self.run_pod("gang-worker-2", 9)
        self.pause(60)
        assert self.published.roster is not None
        assert self.published.roster.generation == 2

    @property
    def training(self) -> TrainingStatus | None:
        return self.status.attempt_status.training


@pytest.fixture
def gang() -> Gang:
    return Gang()


def test_gang_without_reports_has_no_training_status(gang: Gang) -> None:
    assert gang.training is None


def test_report_of_the_first_member_is_copied(gang: Gang) -> None:
    gang.report(TEXT)
    gang.settle()
    assert gang.training == TrainingStatus(
        step=40,
        total_steps=1000,
        steps_per_second="2.5",
        remaining_seconds=384,
        slowest="worker/1",
        straggler_count=1,
        stragglers=("worker/1",),
        generation=1,
        update_time=gang.now,
    )


def test_progress_causes_at_most_one_write_in_15_seconds(gang: Gang) -> None:
    steps = set()
    for second in range(60):
        gang.report_step(second)
        gang.pause(1)
        assert gang.training is not None
        steps.add(gang.training.step)
    assert len(steps) == 4


def test_decision_requests_a_wake_when_the_copy_is_due(gang: Gang) -> None:
    gang.report_step(1)
    gang.settle()
    begin = gang.now
    gang.pause(5)
    gang.report_step(2)
    decision = gang.decide()
    assert (decision.status, decision.wake_at) == (None, begin + timedelta(seconds=15))


def test_write_for_another_change_includes_the_progress(gang: Gang) -> None:
    gang.report_step(1)
    gang.settle()
    gang.pause(1)
    gang.report_step(2)
    gang.end_pod("gang-worker-2")
    gang.settle()
    assert gang.training is not None
    assert gang.training.step == 2


def test_progress_is_copied_after_the_clock_was_set_back(gang: Gang) -> None:
    gang.report_step(1)
    gang.settle()
    gang.jump(-3600)
    gang.report_step(2)
    gang.settle()
    assert gang.training is not None
    assert gang.training.step == 2


def test_report_of_another_than_the_first_member_is_ignored(gang: Gang) -> None:
    gang.report(TEXT, "gang-worker-1")
    gang.settle()
    assert gang.training is None
    gang.report(TEXT, "gang-worker-0")
    gang.settle()
    assert gang.training is not None


def test_of_two_reports_the_newer_generation_counts(gang: Gang) -> None:
    gang.publish_again()
    gang.report("2 7 - - - 0", "gang-worker-0")
    gang.report("1 9 - - - 0", "gang-chief-0")
    gang.settle()
    assert gang.training is not None
    assert gang.training.step == 7


def test_report_of_an_older_generation_does_not_come_back(gang: Gang) -> None:
    gang.publish_again()
    gang.report("2 7 - - - 0", "gang-chief-0")
    gang.report("1 9 - - - 0", "gang-worker-0")
    gang.settle()
    gang.remove_pod("gang-chief-0")
    gang.pause(60)
    assert gang.training is not None
    assert gang.training.step == 7


def test_generation_that_is_not_published_hides_no_other(gang: Gang) -> None:
    gang.report("999999999 7 - - - 0", "gang-worker-0")
    gang.report("1 9 - - - 0", "gang-chief-0")
    gang.settle()
    assert gang.training is not None
    assert (gang.training.step, gang.training.generation) == (9, 1)


def test_names_that_are_not_of_members_are_left_out(gang: Gang) -> None:
    gang.report("1 7 - - ps/0 3 worker/9 worker/1 worker/2:57")
    gang.settle()
    assert gang.training is not None
    assert (gang.training.slowest, gang.training.straggler_count) == ("", 3)
    assert gang.training.stragglers == ("worker/1", "worker/2 rank 57")


@pytest.mark.parametrize("text", ["", "1", "\x1b[31m", "1 7 - - - 0 " + "x" * 1000])
def test_other_texts_change_nothing(gang: Gang, text: str) -> None:
    gang.report(text)
    assert gang.settle() == 0
    assert gang.training is None


@pytest.mark.parametrize("code", [0, 1])
def test_last_report_comes_with_the_end_of_the_attempt_and_stays(gang: Gang, code: int) -> None:
    gang.report(TEXT)
    gang.settle()
    gang.pause(1)
    gang.report_step(1000)
    gang.end_pod("gang-chief-0", code)
    for index in range(3):
        gang.end_pod(f"gang-worker-{index}", code)
    gang.settle()
    for name in list(gang.pods):
        gang.remove_pod(name)
    gang.pause(60)
    assert gang.status.attempt_status.completion_status is not None
    assert gang.training is not None
    assert gang.training.step == 1000


def test_step_after_the_total_has_no_remaining_time(gang: Gang) -> None:
    gang.report("1 2000 1000 2 - 0")
    gang.settle()
    assert gang.training is not None
    assert gang.training.remaining_seconds is None
