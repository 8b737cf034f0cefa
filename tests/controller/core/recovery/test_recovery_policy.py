"""Reports of Pods become epochs of the status and the roster: docs/design/recovery.md."""

from dataclasses import replace
from typing import Any

import pytest

from controller.core.recovery import recovery_policy
from framework.api.constants import (
    ACKNOWLEDGED_GENERATION_ANNOTATION,
    PROCESS_ENDED_ANNOTATION,
    RETRYABLE_CODES_ANNOTATION,
)
from framework.api.pods import ContainerView, PodPhase
from framework.api.recovery import (
    PERMANENT_FAILURE,
    RESTARTED,
    InPlaceSpec,
    RecoverySpec,
    StartBarrierStatus,
)
from framework.api.roster import RosterRecovery
from framework.api.types import DrainSpec, TaskSpec
from tests.controller.core.recovery.recoverygangs import IN_PLACE, Gang, name
from tests.support.builders import build_role, build_spec, build_template_wire
from tests.support.builders.worlds import World


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
