"""The cost of decisions about restarts in place grows with the Tasks, not faster."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest

from controller.core.decide import decide
from controller.core.draft import Draft
from controller.core.recovery.missing_peers import is_waiting_for_left
from controller.core.snapshot import Snapshot
from framework.api.constants import EPOCH_STARTED_ANNOTATION, PROCESS_ENDED_ANNOTATION
from framework.api.leaving import NODE_CORDONED, LeavingStatus
from framework.api.recovery import (
    BUDGET_USED_UP,
    InPlaceSpec,
    RecoverySpec,
    RecoveryStatus,
    StartBarrierStatus,
)
from framework.api.roster import RosterRecovery, fingerprint_uid
from framework.api.states import TaskState
from framework.api.types import TaskStatus
from tests.security.linearcost import (
    SETTINGS,
    Stage,
    assert_decision_is_linear,
    assert_linear,
    for_two_sizes,
)
from tests.support.builders import at
from tests.support.builders.largegangs import LargeGang, build_snapshot, change_tasks

IN_PLACE = RecoverySpec(InPlaceSpec(9, 3600))


def build_recovering(
    gang: LargeGang, notes: Mapping[str, str], refused: tuple[str, ...] = ()
) -> Snapshot:
    """A gang in epoch 1, which it has not started; each Pod has these annotations."""
    status = gang.build_status(TaskState.ATTEMPT_RUNNING)
    recovery = RecoveryStatus(
        1, at(0), BUDGET_USED_UP, refused=refused, start_barrier=StartBarrierStatus(1, at(0), 0)
    )
    status = replace(status, attempt_status=replace(status.attempt_status, recovery=recovery))
    pods = {
        name: replace(pod, annotations={**pod.annotations, **notes})
        for name, pod in gang.build_pods().items()
    }
    shown = RosterRecovery(1, 1, tuple(gang.names), refused)
    spec = gang.build_spec(recovery=IN_PLACE)
    published = gang.build_published(recovery=shown)
    assert published.roster is not None
    # Not all wanted Pods are members, so each Pod is looked at.
    roles = tuple(role._replace(running=False) for role in published.roster.roles)
    published = replace(published, roster=published.roster._replace(roles=roles))
    return build_snapshot(spec, status, pods, published=published)


def list_fingerprints(gang: LargeGang) -> tuple[str, ...]:
    return tuple(sorted(fingerprint_uid(pod.uid) for pod in gang.build_pods().values()))


def decide_start_timed_out(gang: LargeGang) -> Snapshot:
    """All Pods name others that have not come, and the controller has waited for long."""
    named = " ".join(list_fingerprints(gang)[:10])
    snapshot = build_recovering(gang, {EPOCH_STARTED_ANNOTATION: f"1 1 {named}"})
    waits = decide(snapshot, SETTINGS).waits
    assert waits
    return replace(snapshot, waited=dict.fromkeys(waits, 10_000.0))


def decide_half_leaves(gang: LargeGang) -> Snapshot:
    """Half of the Tasks leave an elastic gang, which is complete without them; all Pods report."""
    snapshot = build_recovering(gang, {PROCESS_ENDED_ANNOTATION: "1 1"})
    status, roster = snapshot.framework.status, snapshot.published.roster
    assert status is not None
    assert roster is not None
    half = gang.share // 2
    status = change_tasks(status, lambda task: leave(task) if task.index >= half else task)
    barrier = StartBarrierStatus(1, at(0), 1)
    assert status.attempt_status.recovery is not None
    recovery = replace(status.attempt_status.recovery, start_barrier=barrier)
    status = replace(status, attempt_status=replace(status.attempt_status, recovery=recovery))
    roles = tuple(role._replace(members=role.members[:half]) for role in roster.roles)
    return replace(
        snapshot,
        framework=replace(snapshot.framework, status=status),
        published=replace(snapshot.published, roster=roster._replace(roles=roles)),
    )


def leave(task: TaskStatus) -> TaskStatus:
    leaving = LeavingStatus(NODE_CORDONED, "node n is cordoned", at(7200))
    return replace(task, attempt_status=replace(task.attempt_status, leaving=leaving))


STAGES: dict[str, Stage] = {
    "running": lambda gang: build_recovering(gang, {EPOCH_STARTED_ANNOTATION: "1 1"}),
    "failed": lambda gang: build_recovering(gang, {PROCESS_ENDED_ANNOTATION: "1 1"}),
    "failed_before": lambda gang: build_recovering(gang, {PROCESS_ENDED_ANNOTATION: "0 1"}),
    "refused": lambda gang: build_recovering(
        gang, {PROCESS_ENDED_ANNOTATION: "1 1"}, list_fingerprints(gang)
    ),
    "start_timed_out": decide_start_timed_out,
    "half_leaves": decide_half_leaves,
}


@pytest.mark.parametrize("roles", [2, 250])
@pytest.mark.parametrize("name", STAGES)
@for_two_sizes
def test_decision_costs_no_more_than_its_tasks(
    small: int, large: int, name: str, roles: int
) -> None:
    assert_decision_is_linear(small, large, STAGES[name], roles)


@for_two_sizes
def test_search_for_a_task_that_left_costs_no_more_than_the_tasks(small: int, large: int) -> None:
    """The Tasks that leave times the members would be slow."""

    def prepare(size: int) -> partial[bool]:
        snapshot = decide_half_leaves(LargeGang(size, 2))
        status = snapshot.framework.status
        assert status is not None
        return partial(is_waiting_for_left, Draft(snapshot, SETTINGS, status))

    assert_linear(small, large, prepare)
    assert not prepare(8)()


def test_stages_decide_what_their_names_say() -> None:
    gang = LargeGang(8, 2)
    decisions = {name: decide(stage(gang), SETTINGS) for name, stage in STAGES.items()}
    epochs = {
        name: decision.status.attempt_status.recovery.epoch
        for name, decision in decisions.items()
        if decision.status is not None and decision.status.attempt_status.recovery is not None
    }
    assert epochs["failed"] == 2
    assert epochs["half_leaves"] == 2
    assert epochs["start_timed_out"] == 1
    ended = decisions["start_timed_out"].status
    assert ended is not None
    codes = [
        task.attempt_status.completion_status.code
        for _, task in ended.attempt_status.walk_tasks()
        if task.attempt_status.completion_status is not None
    ]
    assert -270 in codes
