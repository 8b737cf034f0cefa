"""Members that come late to a start barrier end: docs/design/recovery.md, "Steps"."""

import pytest

from controller.core.recovery.late_members import CONTROLLER_SECONDS
from framework.api.completion import EPOCH_START_TIMEOUT
from framework.api.constants import ACKNOWLEDGED_GENERATION_ANNOTATION, EPOCH_STARTED_ANNOTATION
from framework.api.epochreports import SERVER_SECONDS, START_SECONDS
from framework.api.recovery import StartBarrierStatus
from framework.api.roster import fingerprint_uid
from framework.api.states import TaskState
from framework.api.types import RetryPolicySpec, TaskSpec
from tests.controller.core.recovery.recoverygangs import IN_PLACE, Gang, name
from tests.support.builders import build_role, build_spec, build_template_wire
from tests.support.builders.worlds import World, get_code, get_task


def test_member_that_does_not_come_ends() -> None:
    gang = Gang()
    gang.report(1, 0)
    gang.pause(1)
    gang.start(0, 0, gang.mark(2))
    gang.pause(1)
    assert get_task(gang.status, 2).state is TaskState.ATTEMPT_RUNNING, "of another epoch"
    gang.start(0, 1, gang.mark(2), "0" * 8)
    gang.pause(1)
    assert get_code(get_task(gang.status, 2)) == EPOCH_START_TIMEOUT
    assert get_code(get_task(gang.status, 1)) is None


@pytest.mark.parametrize("text", ["", "1", "0 0", "1 0 worker", "1 0 89ABCDEF", "1 0  89abcdef"])
def test_text_that_is_no_report_chooses_no_pod(text: str) -> None:
    gang = Gang()
    gang.annotate(0, EPOCH_STARTED_ANNOTATION, text)
    gang.pause(1)
    assert gang.stored.start_barrier == StartBarrierStatus(1, gang.stored_begin)
    assert gang.get_codes() == [None] * 3


def test_serving_agent_that_reports_nothing_ends() -> None:
    gang = Gang()
    gang.report(1, 0)
    gang.pause(1)
    decision = gang.decide()
    assert decision.wake_at is not None
    gang.pause(CONTROLLER_SECONDS - 2)
    assert get_code(get_task(gang.status, 0)) is None
    gang.pause(2)
    assert get_code(get_task(gang.status, 0)) == EPOCH_START_TIMEOUT


def test_epoch_that_started_has_no_deadline() -> None:
    gang = Gang()
    gang.report(1, 0)
    gang.pause(1)
    gang.start(0, 1)
    gang.pause(2 * CONTROLLER_SECONDS)
    assert gang.get_codes() == [None] * 3


@pytest.mark.parametrize("is_seen_running", [True, False])
def test_epoch_that_started_has_no_deadline_after_the_serving_pod_succeeded(
    *, is_seen_running: bool
) -> None:
    gang = Gang()
    gang.report(1, 0)
    gang.pause(1)
    gang.start(0, 1)
    if is_seen_running:
        gang.pause(1)
    gang.end_pod(name(0), 0)
    gang.pause(1)
    gang.remove_pod(name(0))
    gang.pause(1)
    assert gang.published.roster is not None
    assert (gang.published.roster.complete, gang.shown.since) == (True, 1)
    gang.pause(CONTROLLER_SECONDS + 5)
    gang.pause(CONTROLLER_SECONDS + 5)
    assert gang.get_codes() == [0, None, None]


def test_pod_that_has_ended_chooses_no_member() -> None:
    gang = Gang()
    gang.report(1, 0)
    gang.pause(1)
    gang.start(0, 1, gang.mark(2))
    gang.end_pod(name(0), 0)
    gang.pause(1)
    assert gang.get_codes() == [0, None, None]


def test_gang_of_which_no_agent_ever_reported_has_no_deadline() -> None:
    """Its agents are of an older release or have no right; it may be sound."""
    gang = Gang()
    gang.annotate(2, ACKNOWLEDGED_GENERATION_ANNOTATION, "1")
    gang.pause(2 * CONTROLLER_SECONDS)
    assert gang.get_codes() == [None] * 3
    gang.start(0, 0, gang.mark(2))
    gang.pause(1)
    assert gang.get_codes() == [None, None, EPOCH_START_TIMEOUT]


def test_member_that_agents_wait_for_ends_although_no_agent_that_serves_has_reported() -> None:
    """Agents name the serving Pod: only they know which role has rank 0."""
    gang = Gang.__new__(Gang)
    roles = build_role(number=3, recovery=IN_PLACE), build_role("chief", 1, recovery=IN_PLACE)
    World.__init__(gang, build_spec(*roles))
    gang.settle()
    gang.run_pod("gang-chief-0", 9)
    gang.run()
    gang.pause(SERVER_SECONDS - 10)
    chief = fingerprint_uid(gang.pods["gang-chief-0"].uid)
    gang.start(1, 0, chief, gang.mark(2))
    gang.pause(1)
    assert not gang.pods["gang-chief-0"].is_terminating, "the controller has not waited so long"
    gang.pause(10)
    assert get_code(get_task(gang.status, 0, "chief")) == EPOCH_START_TIMEOUT
    assert gang.get_codes() == [None] * 3, "worker 2 is not the first member of a role"


def test_change_of_the_wall_clock_makes_no_pod_late() -> None:
    gang = Gang()
    gang.report(1, 0)
    gang.pause(1)
    gang.jump(5 * CONTROLLER_SECONDS)
    gang.settle()
    assert gang.get_codes() == [None] * 3
    gang.jump(-9 * CONTROLLER_SECONDS)
    gang.pause(CONTROLLER_SECONDS)
    assert gang.get_codes() == [EPOCH_START_TIMEOUT, None, None]


def test_refused_pod_is_not_ended_by_a_change_of_the_wall_clock() -> None:
    gang = Gang()
    gang.report(1, 0, 210)
    gang.pause(1)
    gang.jump(5 * CONTROLLER_SECONDS)
    gang.settle()
    assert gang.get_codes() == [None] * 3


def test_members_of_a_gang_that_is_not_full_have_a_deadline() -> None:
    """One of the wanted Pods has no node; the others may start without it."""
    gang = Gang.__new__(Gang)
    World.__init__(gang, build_spec(build_role(number=3, recovery=IN_PLACE, min_member_count=2)))
    gang.settle()
    gang.run_pod(name(0), 1)
    gang.settle()
    gang._change(name(1), node_name="node", pod_ip="10.0.0.2")
    gang.settle()
    gang.pause(1)
    assert gang.published.roster is not None
    assert (gang.published.roster.complete, gang.stored.start_barrier) == (True, None)
    gang.start(0, 0, gang.mark(1))
    gang.pause(2 * CONTROLLER_SECONDS)
    assert gang.get_codes() == [None] * 3, "its containers do not run yet"
    gang.run_pod(name(1), 2)
    gang.pause(1)
    gang.pause(START_SECONDS - 5)
    assert gang.get_codes() == [None] * 3, "its agent may be starting"
    gang.pause(10)
    assert gang.get_codes() == [None, EPOCH_START_TIMEOUT, None]


def test_new_members_have_a_start_barrier_of_their_own() -> None:
    """A report about the members before says nothing about these."""
    retries = RetryPolicySpec(max_retry_count=-2)
    gang = Gang(task=TaskSpec(pod=build_template_wire(), retry_policy=retries))
    gang.start(0, 0)
    gang.pause(2 * CONTROLLER_SECONDS)
    late = gang.mark(2)
    gang.start(0, 0, late)
    gang.remove_pod(name(1))
    gang.pause(5)
    gang.pause(5)
    gang.run_pod(name(1), 7)
    gang.pause(1)
    gang.pause(1)
    assert gang.published.roster is not None
    assert gang.published.roster.complete
    assert gang.shown.since > 1
    assert gang.get_codes() == [None] * 3
    barrier = gang.stored.start_barrier
    assert barrier is not None
    assert (barrier.since, barrier.started_epoch) == (gang.shown.since, None)
    gang.pause(CONTROLLER_SECONDS - 5)
    assert gang.get_codes() == [None] * 3
    gang.pause(10)
    assert gang.get_codes() == [EPOCH_START_TIMEOUT, None, None]


def test_choice_of_the_first_member_counts_until_the_start_only() -> None:
    gang = Gang()
    gang.start(2, 0, gang.mark(0), gang.mark(1))
    gang.pause(1)
    assert gang.get_codes() == [None] * 3, "it does not serve the start barrier"
    gang.start(0, 0)
    gang.pause(1)
    gang.start(0, 0, gang.mark(1))
    gang.pause(1)
    assert gang.get_codes() == [None] * 3, "the epoch runs"


def test_refused_pod_that_goes_on_starts_no_more_epochs_and_ends() -> None:
    gang = Gang()
    for epoch in range(20):
        gang.report(1, epoch)
        gang.pause(1)
    assert gang.stored.epoch == 3
    gang.start(0, 3)
    gang.pause(CONTROLLER_SECONDS + 5)
    assert gang.get_codes() == [None, EPOCH_START_TIMEOUT, None]


class Quorum(Gang):
    """A gang that is complete with two of its three workers; worker 2 has no Pod that runs."""

    def __init__(self) -> None:
        super().__init__(min_member_count=2)

    def run(self) -> None:
        self.settle()
        for index in range(2):
            self.run_pod(name(index), index + 1)
        self.settle()
        self.pause(60)


def test_success_together_with_the_start_restarts_no_quorum() -> None:
    gang = Quorum()
    gang.start(0, 0)
    gang.settle()
    gang.report(1, 0)
    gang.pause(1)
    since, epoch = gang.shown.since, gang.shown.epoch
    gang.start(0, epoch)
    gang.end_pod(name(1), 0)
    gang.pause(1)
    assert (epoch, gang.shown.since) == (1, since)
    barrier = gang.stored.start_barrier
    assert barrier is not None
    assert barrier.started_epoch == epoch


def test_success_at_a_start_barrier_postpones_no_deadline() -> None:
    """The start may have been reported, and the report lost: each success begins a new since."""
    gang = Gang()
    gang.report(1, 0)
    gang.pause(1)
    begin = gang.stored_begin
    gang.pause(CONTROLLER_SECONDS - 20)
    before = gang.shown.since
    gang.succeed(2)
    assert (gang.shown.since, gang.shown.waits_since) == (before + 2, before)
    assert gang.stored_begin == begin
    gang.pause(10)
    assert get_code(get_task(gang.status, 0)) is None
    gang.pause(10)
    assert get_code(get_task(gang.status, 0)) == EPOCH_START_TIMEOUT


def test_success_in_a_gang_that_is_not_full_postpones_no_deadline() -> None:
    gang = Quorum()
    gang.start(0, 0)
    gang.settle()
    gang.report(1, 0)
    gang.pause(1)
    gang.pause(CONTROLLER_SECONDS - 20)
    gang.succeed(1)
    assert gang.shown.waits_since == 1
    gang.pause(10)
    assert get_code(get_task(gang.status, 0)) is None
    gang.pause(10)
    assert get_code(get_task(gang.status, 0)) == EPOCH_START_TIMEOUT


def test_members_that_come_after_a_success_have_all_the_time() -> None:
    retries = RetryPolicySpec(max_retry_count=-2)
    gang = Gang(task=TaskSpec(pod=build_template_wire(), retry_policy=retries))
    gang.report(1, 0)
    gang.pause(1)
    gang.pause(CONTROLLER_SECONDS - 50)
    gang.succeed(2)
    assert gang.shown.waits_since == 1
    gang.remove_pod(name(1))
    gang.pause(5)
    gang.pause(5)
    gang.run_pod(name(1), 7)
    gang.pause(1)
    gang.pause(1)
    assert gang.shown.waits_since == 0
    gang.pause(CONTROLLER_SECONDS - 10)
    assert get_code(get_task(gang.status, 0)) is None
