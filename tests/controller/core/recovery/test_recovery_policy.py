"""Reports of Pods become epochs of the status and the roster: docs/design/recovery.md."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from controller.core.recovery import recovery_policy
from controller.core.recovery.start_deadline import DEADLINE_SECONDS
from framework.api.completion import EPOCH_START_TIMEOUT
from framework.api.constants import (
    ACKNOWLEDGED_GENERATION_ANNOTATION,
    EPOCH_STARTED_ANNOTATION,
    PROCESS_ENDED_ANNOTATION,
    RETRYABLE_CODES_ANNOTATION,
)
from framework.api.epochreports import (
    SERVER_SECONDS,
    START_SECONDS,
    EpochStart,
    ProcessEnd,
    encode_end,
    encode_start,
)
from framework.api.pods import ContainerView, PodPhase
from framework.api.recovery import (
    PERMANENT_FAILURE,
    RESTARTED,
    InPlaceSpec,
    RecoverySpec,
    RecoveryStatus,
    StartBarrierStatus,
)
from framework.api.roster import RosterRecovery, fingerprint_uid
from framework.api.states import TaskState
from framework.api.types import DrainSpec, RetryPolicySpec, TaskSpec
from tests.support.builders import build_role, build_spec, build_template_wire
from tests.support.builders.worlds import World, get_code, get_task

IN_PLACE = RecoverySpec(InPlaceSpec(2, 3600))


class Gang(World):
    """A gang of workers that runs; worker 0 to 2 are restarted in place."""

    def __init__(self, recovery: RecoverySpec | None = IN_PLACE, **fields: Any) -> None:
        super().__init__(build_spec(build_role(number=3, recovery=recovery, **fields)))
        self.run()

    def run(self) -> None:
        self.settle()
        for index in range(3):
            self.run_pod(name(index), index + 1)
        self.settle()
        self.pause(1)

    def pause(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.settle()

    def report(self, index: int, epoch: int, code: int = 137) -> None:
        self.annotate(index, PROCESS_ENDED_ANNOTATION, encode_end(ProcessEnd(epoch, code)))

    def start(self, index: int, epoch: int, *missing: str) -> None:
        text = encode_start(EpochStart(self.shown.since, epoch, missing))
        self.annotate(index, EPOCH_STARTED_ANNOTATION, text)

    def annotate(self, index: int, key: str, value: str) -> None:
        pod = self.pods[name(index)]
        self._change(pod.name, annotations={**pod.annotations, key: value})

    def mark(self, index: int) -> str:
        return fingerprint_uid(self.pods[name(index)].uid)

    @property
    def stored(self) -> RecoveryStatus:
        return self.status.attempt_status.recovery or RecoveryStatus()

    @property
    def stored_begin(self) -> datetime | None:
        barrier = self.stored.start_barrier
        return barrier.begin_time if barrier is not None else None

    def get_codes(self) -> list[int | None]:
        return [get_code(get_task(self.status, index)) for index in range(3)]

    @property
    def shown(self) -> RosterRecovery:
        roster = self.published.roster
        assert roster is not None
        assert roster.recovery is not None
        return roster.recovery


def name(index: int) -> str:
    return f"gang-worker-{index}"


def test_roster_names_the_roles_before_any_failure() -> None:
    gang = Gang()
    assert gang.shown == RosterRecovery(0, 1, ("worker",))
    assert (gang.stored.epoch, gang.stored.decided_time) == (0, None), "nothing has failed"
    assert gang.stored.start_barrier == StartBarrierStatus(1, gang.stored_begin)


def test_gang_without_restart_in_place_ignores_reports() -> None:
    gang = Gang(recovery=None)
    gang.report(1, 0)
    gang.pause(1)
    assert gang.status.attempt_status.recovery is None
    assert gang.published.roster is not None
    assert gang.published.roster.recovery is None


def test_report_begins_the_next_epoch_which_is_stored_before_it_is_published() -> None:
    gang = Gang()
    gang.report(1, 0)
    decision = gang.decide()
    assert decision.status is not None
    assert decision.status.attempt_status.recovery is not None
    assert decision.publication is not None
    gang.carry_out(decision)
    assert (gang.stored.epoch, gang.shown.epoch, gang.shown.since) == (1, 1, 1)
    failed = gang.stored.first_failed
    assert failed is not None
    assert (failed.role, failed.index, failed.epoch, failed.code) == ("worker", 1, 0, 137)
    assert failed.fingerprint == gang.mark(1)
    (event,) = [e for e in decision.events if e.reason == "RestartedInPlace"]
    assert event.message == (
        "Epoch 1 begins: the process of worker/1 was killed by SIGKILL (exit code 137); "
        "all processes start again in their Pods"
    )
    gang.report(2, 0)
    gang.pause(1)
    assert gang.stored.epoch == 1, "that failure has had its restart"
    assert {pod.phase for pod in gang.pods.values()} == {PodPhase.RUNNING}


def test_first_failed_is_the_pod_that_reported_first() -> None:
    gang = Gang()
    gang.report(2, 0)
    gang.report(0, 0)
    gang.pause(1)
    assert gang.stored.first_failed is not None
    assert gang.stored.first_failed.index == 2


def test_used_up_budget_and_permanent_code_are_refused_in_the_roster() -> None:
    gang = Gang()
    for epoch in (0, 1, 2):
        gang.report(1, epoch)
        gang.pause(1)
    assert (gang.stored.epoch, gang.stored.reason) == (3, "BudgetUsedUp")
    assert gang.shown.refused == (gang.mark(1),)
    (restarts,) = gang.stored.restarts
    assert (restarts.role, len(restarts.times)) == ("worker", 2)
    gang = Gang()
    gang.report(0, 0, 210)
    gang.pause(1)
    assert (gang.stored.epoch, gang.stored.reason) == (1, PERMANENT_FAILURE)


@pytest.mark.parametrize(("code", "reason"), [(210, RESTARTED), (1, PERMANENT_FAILURE)])
def test_exit_codes_of_the_template_decide_what_is_permanent(code: int, reason: str) -> None:
    annotations = {RETRYABLE_CODES_ANNOTATION: "main=128-255"}
    template = {**build_template_wire(), "metadata": {"annotations": annotations}}
    gang = Gang(task=TaskSpec(pod=template))
    gang._change(name(0), containers=(ContainerView("main"),))
    gang.report(0, 0, code)
    gang.pause(1)
    assert (gang.stored.epoch, gang.stored.reason) == (1, reason)


@pytest.mark.parametrize(
    ("codes", "code", "reason"),
    [
        ("main=130-143", 134, RESTARTED),
        ("main=130-143", 139, RESTARTED),
        ("main=130-143", 144, PERMANENT_FAILURE),
        ("main=130-143", 202, RESTARTED),
        ("logger=1-5", 5, RESTARTED),
        ("logger=1-5", 137, RESTARTED),
        ("logger=1-5", 200, RESTARTED),
        ("logger=1-5", 202, RESTARTED),
        ("logger=1-5", 210, PERMANENT_FAILURE),
        ("logger=128-255", 210, PERMANENT_FAILURE),
    ],
)
@pytest.mark.parametrize(
    "main",
    [
        {"command": ["python3", "/frameworkbarrier/agent/rendezvous.pyz", "run", "--", "train"]},
        {"command": ["sh", "-c", "exec /frameworkbarrier/agent/rendezvous.pyz run -- train"]},
        {"image": "r/framework-rendezvous:1", "args": ["run", "--", "train"]},
        {"command": ["/bin/framework-rendezvous", "run", "--", "train"]},
    ],
    ids=["installed", "shell", "image", "program"],
)
def test_exit_codes_of_a_container_do_not_judge_the_process_of_another(
    main: dict[str, Any], codes: str, code: int, reason: str
) -> None:
    others = [
        {"name": "logger", "image": "busybox", "command": ["run"]},
        {"name": "watch", "image": "r/framework-rendezvous:1", "args": ["watch"]},
    ]
    template = {
        "metadata": {"annotations": {RETRYABLE_CODES_ANNOTATION: codes}},
        "spec": {"containers": [*others, {"name": "main", **main}]},
    }
    gang = Gang(task=TaskSpec(pod=template))
    gang._change(name(0), containers=(ContainerView("logger"), ContainerView("main")))
    gang.report(0, 0, code)
    gang.pause(1)
    assert (gang.stored.epoch, gang.stored.reason) == (1, reason)


def test_refusal_is_forgotten_with_its_pod() -> None:
    gang = Gang()
    gang.report(0, 0, 210)
    gang.pause(1)
    gang.remove_pod(name(0))
    gang.pause(1)
    assert gang.stored.refused == ()


def test_texts_that_are_no_reports_are_ignored() -> None:
    gang = Gang()
    for text in ("", "0", "0 0", "-1 1", "0 1 ", "0 1\n", "00 1", "9" * 600, "0 1234", "0  1"):
        gang.annotate(1, PROCESS_ENDED_ANNOTATION, text)
        gang.pause(1)
        assert gang.stored.epoch == 0, text


def test_report_of_another_pod_than_the_recorded_one_is_ignored() -> None:
    gang = Gang()
    gang.report(1, 0)
    gang.terminate_pod(name(1))
    gang.pause(1)
    assert gang.stored.epoch == 0, "its Pod ends"
    gang = Gang()
    stranger = replace(gang.pods[name(1)], name="gang-worker-9", uid="stranger")
    report = {PROCESS_ENDED_ANNOTATION: "0 1"}
    gang.pods["gang-worker-9"] = replace(stranger, annotations=report)
    gang.decide()
    gang.carry_out(gang.decide())
    assert gang.stored.epoch == 0, "no Task has it"


def test_generation_of_other_members_has_another_since() -> None:
    gang = Gang()
    gang.end_pod(name(2), 0)
    gang.pause(1)
    assert gang.shown.since == 1, "a member that succeeded is not waited for"
    generation = gang.published.roster.generation if gang.published.roster else 0
    gang.remove_pod(name(1))
    gang.pause(1)
    assert gang.shown.since > generation


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


def test_serving_agent_that_reports_nothing_ends() -> None:
    gang = Gang()
    gang.report(1, 0)
    gang.pause(1)
    decision = gang.decide()
    assert decision.wake_at is not None
    gang.pause(DEADLINE_SECONDS - 2)
    assert get_code(get_task(gang.status, 0)) is None
    gang.pause(2)
    assert get_code(get_task(gang.status, 0)) == EPOCH_START_TIMEOUT


def test_epoch_that_started_has_no_deadline() -> None:
    gang = Gang()
    gang.report(1, 0)
    gang.pause(1)
    gang.start(0, 1)
    gang.pause(2 * DEADLINE_SECONDS)
    assert gang.get_codes() == [None] * 3


def test_epoch_that_started_has_no_deadline_after_the_serving_pod_succeeded() -> None:
    gang = Gang()
    gang.report(1, 0)
    gang.pause(1)
    gang.start(0, 1)
    gang.pause(1)
    gang.end_pod(name(0), 0)
    gang.pause(DEADLINE_SECONDS + 5)
    gang.pause(DEADLINE_SECONDS + 5)
    assert gang.get_codes() == [0, None, None]


def test_gang_of_which_no_agent_ever_reported_has_no_deadline() -> None:
    """Its agents are of an older release or have no right; it may be sound."""
    gang = Gang()
    gang.annotate(2, ACKNOWLEDGED_GENERATION_ANNOTATION, "1")
    gang.pause(2 * DEADLINE_SECONDS)
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


def test_change_of_the_wall_clock_makes_nobody_late() -> None:
    gang = Gang()
    gang.report(1, 0)
    gang.pause(1)
    gang.jump(5 * DEADLINE_SECONDS)
    gang.settle()
    assert gang.get_codes() == [None] * 3
    gang.jump(-9 * DEADLINE_SECONDS)
    gang.pause(DEADLINE_SECONDS)
    assert gang.get_codes() == [EPOCH_START_TIMEOUT, None, None]


def test_refused_pod_is_not_ended_by_a_change_of_the_wall_clock() -> None:
    gang = Gang()
    gang.report(1, 0, 210)
    gang.pause(1)
    gang.jump(5 * DEADLINE_SECONDS)
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
    gang.pause(2 * DEADLINE_SECONDS)
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
    gang.pause(2 * DEADLINE_SECONDS)
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
    gang.pause(DEADLINE_SECONDS - 5)
    assert gang.get_codes() == [None] * 3
    gang.pause(10)
    assert gang.get_codes() == [EPOCH_START_TIMEOUT, None, None]


def test_missing_members_are_believed_of_the_first_member_until_the_start_only() -> None:
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
    gang.pause(DEADLINE_SECONDS + 5)
    assert gang.get_codes() == [None, EPOCH_START_TIMEOUT, None]


def test_roles_are_those_of_the_first_roster() -> None:
    gang = Gang(recovery=None)
    role = gang.framework.spec.task_roles[0]
    gang.edit(replace(gang.framework.spec, task_roles=(replace(role, recovery=IN_PLACE),)))
    gang.pause(1)
    gang.report(1, 0)
    gang.pause(1)
    assert gang.published.roster is not None
    assert gang.published.roster.recovery is None
    assert gang.stored.epoch == 0
    gang = Gang()
    gang.edit(replace(gang.framework.spec, task_roles=(replace(role, recovery=None),)))
    gang.pause(1)
    assert gang.shown == RosterRecovery(0, 1, ("worker",))
    gang.report(1, 0)
    gang.pause(1)
    assert (gang.stored.reason, gang.shown.refused) == ("NotInPlace", (gang.mark(1),))


def test_report_of_a_role_without_restart_in_place_is_ignored() -> None:
    gang = Gang.__new__(Gang)
    roles = build_role(number=3, recovery=IN_PLACE), build_role(name="eval", number=1)
    World.__init__(gang, build_spec(*roles))
    gang.settle()
    gang.run_pod("gang-eval-0", 9)
    gang.run()
    pod = gang.pods["gang-eval-0"]
    gang._change(pod.name, annotations={**pod.annotations, PROCESS_ENDED_ANNOTATION: "0 1"})
    gang.pause(1)
    assert (gang.stored.epoch, gang.shown.refused) == (0, ())


def test_report_of_a_pod_that_drains_is_ignored() -> None:
    gang = Gang(drain=DrainSpec(timeout_seconds=100))
    for index in range(3):
        gang.annotate(index, ACKNOWLEDGED_GENERATION_ANNOTATION, "1")
    spec = gang.framework.spec
    gang.edit(replace(spec, task_roles=(replace(spec.task_roles[0], task_number=2),)))
    gang.pause(1)
    roster = gang.published.roster
    assert roster is not None
    assert [leaving.index for leaving in roster.leaving] == [2]
    gang.report(2, 0, 143)
    gang.pause(1)
    assert not gang.pods[name(2)].is_terminating, "its drain waits for acknowledgements"
    assert gang.stored.epoch == 0


def test_longest_window_counts_all_restarts() -> None:
    gang = Gang(recovery=RecoverySpec(InPlaceSpec(1, 10**15)))
    for epoch in range(2):
        gang.report(1, epoch)
        gang.pause(1)
    assert (gang.stored.epoch, gang.stored.reason) == (2, "BudgetUsedUp")


def test_permanence_is_found_for_reports_of_the_current_epoch_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gang = Gang()
    for index in range(3):
        gang.report(index, 0)
    gang.pause(1)
    looks: list[object] = []
    monkeypatch.setattr(recovery_policy, "_is_permanent", lambda *given: looks.append(given))
    gang.pause(1)
    assert (looks, gang.stored.epoch) == ([], 1)
    gang.report(1, 1)
    gang.pause(1)
    assert (len(looks), gang.stored.epoch) == (1, 2)
