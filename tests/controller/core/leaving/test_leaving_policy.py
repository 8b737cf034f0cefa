"""Tasks leave before their nodes go: docs/design/leaving.md."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from framework.api import constants
from framework.api.completion import POD_EXTERNAL_DELETED, RETRY_TASK_REQUESTED, TASK_LEFT_NODE
from framework.api.epochreports import ProcessEnd, encode_end
from framework.api.leaving import LeaveNodesSpec
from framework.api.nodes import NodeNotice, Taint
from framework.api.recovery import PERMANENT_FAILURE, InPlaceSpec, RecoverySpec, RecoveryStatus
from framework.api.states import TaskState
from framework.api.types import DrainSpec, ExecutionType, TaskSpec
from tests.controller.core.leaving.leavinggangs import LEAVE, SPOT, Gang, name
from tests.support.builders import build_role, build_spec, build_template_wire
from tests.support.builders.nodes import build_cordon, build_notices
from tests.support.builders.worlds import World, get_code, get_task

# --- why ----------------------------------------------------------------------------------------


def test_task_of_a_cordoned_node_is_marked_with_a_deadline_and_leaves_the_members() -> None:
    gang = Gang()
    begin = gang.now
    gang.notice(1)
    task = get_task(gang.status, 1)
    mark = task.attempt_status.leaving
    assert mark is not None
    assert (mark.reason, mark.message) == ("NodeCordoned", "node n1 is cordoned")
    assert mark.deadline_time == begin + timedelta(seconds=61)
    assert (task.state, get_code(task)) == (TaskState.ATTEMPT_RUNNING, None)
    assert gang.get_marks() == ["", "NodeCordoned", ""]
    assert gang.list_members() == [0, 2]
    assert [index for index, _ in gang.list_left()] == [1]
    assert gang.list_failed() == []
    assert gang.is_kept(1)


def test_taint_counts_before_the_cordon_and_is_named_without_its_value() -> None:
    gang = Gang()
    gang.nodes["n1"] = (*build_notices(gang.now, SPOT), build_cordon(gang.now))
    gang.pause(1)
    mark = get_task(gang.status, 1).attempt_status.leaving
    assert mark is not None
    assert mark.message == f"node n1 has the taint {SPOT.key}:NoSchedule"


def test_condition_of_a_live_pod_makes_its_task_leave() -> None:
    gang = Gang()
    gang.disrupt(2, "PreemptionByScheduler")
    gang.pause(1)
    assert gang.get_marks() == ["", "", "PodDisrupted"]
    assert gang.is_kept(2)


@pytest.mark.parametrize(
    ("tolerations", "marked"),
    [
        ([{"key": SPOT.key, "operator": "Exists"}], ""),
        ([{"key": SPOT.key, "operator": "Exists", "effect": "NoSchedule"}], ""),
        ([{"key": SPOT.key, "value": "soon"}], ""),
        ([{"key": SPOT.key, "operator": "Equal", "value": "later"}], "NodeTainted"),
        ([{"key": SPOT.key, "operator": "Lt", "value": "soon"}], "NodeTainted"),
        ([{"key": SPOT.key, "operator": "Exists", "effect": "NoExecute"}], "NodeTainted"),
        ([{"key": SPOT.key, "operator": "Exists", "tolerationSeconds": 60}], "NodeTainted"),
        ([{"key": "other", "operator": "Exists"}], "NodeTainted"),
        ([{"operator": "Exists"}], "NodeTainted"),
        ("bad", "NodeTainted"),
        ([None, {"key": 7}], "NodeTainted"),
    ],
)
def test_template_stays_at_taints_that_it_tolerates_by_name(tolerations: Any, marked: str) -> None:
    template = build_template_wire(tolerations=tolerations)
    gang = Gang(task=TaskSpec(pod=template))
    gang.notice(1, SPOT)
    assert gang.get_marks()[1] == marked


def test_pod_that_is_created_after_the_notice_stays() -> None:
    gang = Gang()
    gang.notice(1)
    gang.acknowledge(1)
    gang.settle()
    gang.remove_pod(name(1))
    gang.pause(5)
    gang.run_worker(1, "n1")
    gang.pause(5)
    assert gang.get_marks() == ["", "", ""]
    assert gang.list_members() == [0, 1, 2]


def test_each_taint_of_a_node_has_its_own_time() -> None:
    karpenter = Taint("karpenter.sh/disrupted", "NoSchedule")
    tolerations = [{"operator": "Exists"}, {"key": karpenter.key, "operator": "Exists"}]
    gang = Gang(task=TaskSpec(pod=build_template_wire(tolerations=tolerations)))
    start = get_task(gang.status, 1).attempt_status.start_time
    old = NodeNotice(SPOT, start - timedelta(seconds=10))
    gang.nodes["n1"] = (old, NodeNotice(karpenter, gang.now))
    gang.pause(1)
    assert gang.get_marks() == ["", "", ""]


@pytest.mark.parametrize(
    ("tolerations", "marked"), [([{"operator": "Exists"}], ""), ([], "NodeTainted")]
)
def test_pod_that_may_have_been_created_after_the_taint_stays_if_it_tolerates_it(
    tolerations: list[Any], marked: str
) -> None:
    gang = Gang(task=TaskSpec(pod=build_template_wire(tolerations=tolerations)))
    gang.nodes["n1"] = (NodeNotice(SPOT, gang.now, is_dated=False),)
    gang.pause(1)
    assert gang.get_marks()[1] == marked


def test_notice_of_the_second_in_which_the_attempt_started_counts() -> None:
    gang = Gang()
    start = get_task(gang.status, 1).attempt_status.start_time
    gang.nodes["n0"] = build_notices(start)
    gang.nodes["n1"] = build_notices(start + timedelta(seconds=0.5))
    gang.nodes["n2"] = build_notices(start - timedelta(seconds=1))
    gang.settle()
    assert gang.get_marks() == ["NodeCordoned", "NodeCordoned", ""]


def test_role_without_the_field_decides_as_without_nodes() -> None:
    gang = Gang(leave=None)
    before = gang.status
    gang.notice(1, SPOT)
    gang.disrupt(0)
    gang.settle()
    assert gang.status == before
    gang.evict(0)
    assert get_code(get_task(gang.status, 0)) == POD_EXTERNAL_DELETED


@pytest.mark.parametrize("execution", [ExecutionType.STOP])
def test_no_task_leaves_when_the_attempt_ends(execution: ExecutionType) -> None:
    gang = Gang()
    gang.edit(replace(gang.framework.spec, execution_type=execution))
    gang.nodes["n1"] = build_notices(gang.now)
    gang.settle()
    assert gang.get_marks() == ["", "", ""]


def test_task_that_has_not_run_leaves_at_once() -> None:
    gang = World(build_spec(build_role(number=1, recovery=RecoverySpec(leave_nodes=LEAVE))))
    gang.settle()
    gang.bind_pod(name(0), "n0")
    gang.now += timedelta(seconds=5)
    gang.nodes["n0"] = build_notices(gang.now)
    gang.settle()
    assert get_code(get_task(gang.status)) == TASK_LEFT_NODE
    assert gang.pods[name(0)].is_terminating


# --- how it ends --------------------------------------------------------------------------------


def test_rigid_gang_waits_for_the_agent_of_the_pod_only_and_retries_without_counting() -> None:
    gang = Gang()
    gang.notice(1)
    gang.pause(5)
    assert gang.is_kept(1)
    gang.acknowledge(1)
    decision = gang.decide()
    assert decision.status is not None
    assert get_code(get_task(decision.status, 1)) == TASK_LEFT_NODE, "stored before the deletion"
    gang.settle()
    assert not gang.is_kept(1)
    assert gang.list_failed() == [(1, TASK_LEFT_NODE)], "survivors end at once"
    gang.replace_worker(1)
    assert gang.get_retries(1) == (1, 0)
    assert gang.list_members() == [0, 1, 2]
    assert (gang.list_left(), gang.list_failed()) == ([], [])
    leaves = get_task(gang.status, 1).leaves
    assert leaves is not None
    assert leaves.count == 1


def test_task_that_left_and_is_retried_within_the_debounce_of_the_roster_is_listed() -> None:
    gang = Gang()
    gang.nodes["n1"] = build_notices(gang.now)
    gang.settle()
    gang.end_pod(name(1), 143)
    gang.settle()
    gang.remove_pod(name(1))
    gang.settle()
    gang.pause(1)
    assert (gang.list_left(), gang.list_failed()) == ([], [(1, None)])
    gang.run_worker(1, "n9")
    gang.pause(1)
    assert (gang.list_members(), gang.list_failed()) == ([0, 1, 2], [])


def test_elastic_gang_goes_on_without_the_task_and_grows_back() -> None:
    gang = Gang(min_member_count=2)
    gang.notice(1)
    roster = gang.published.roster
    assert roster is not None
    assert roster.complete
    gang.acknowledge(1)
    gang.settle()
    assert gang.is_kept(1), "the others have not applied the generation"
    gang.acknowledge(0)
    gang.acknowledge(2)
    gang.settle()
    assert not gang.is_kept(1)
    assert gang.list_failed() == [], "no member waits for it"
    gang.replace_worker(1)
    assert gang.list_members() == [0, 1, 2]


def test_deadline_ends_the_wait_and_names_the_agents() -> None:
    gang = Gang()
    gang.notice(1)
    gang.pause(59)
    assert gang.is_kept(1)
    assert gang.decide().wake_at == gang.now + timedelta(seconds=1)
    gang.now += timedelta(seconds=1)
    (event,) = [e for e in gang.decide().events if e.reason == "LeaveTimedOut"]
    assert name(1) in event.message
    gang.settle()
    assert not gang.is_kept(1)


def test_gang_without_agents_leaves_at_once() -> None:
    gang = Gang(has_agents=False)
    gang.notice(1)
    assert not gang.is_kept(1)


def test_mark_stays_when_the_node_is_uncordoned() -> None:
    gang = Gang()
    gang.notice(1)
    mark = get_task(gang.status, 1).attempt_status.leaving
    gang.nodes.clear()
    gang.pause(30)
    assert get_task(gang.status, 1).attempt_status.leaving == mark


@pytest.mark.parametrize(
    ("code", "expected"), [(1, TASK_LEFT_NODE), (143, TASK_LEFT_NODE), (0, 0), (210, 210)]
)
def test_process_that_ends_while_its_task_leaves(code: int, expected: int) -> None:
    gang = Gang()
    gang.notice(1)
    gang.end_pod(name(1), code)
    gang.settle()
    assert get_code(get_task(gang.status, 1)) == expected


def test_requested_retry_has_priority() -> None:
    gang = Gang()
    gang.notice(1)
    annotations = {constants.RETRY_ANNOTATION: gang.pods[name(1)].uid}
    metadata = replace(gang.framework.metadata, extra={"annotations": annotations})
    gang.framework = replace(gang.framework, metadata=metadata)
    gang.settle()
    assert get_code(get_task(gang.status, 1)) == RETRY_TASK_REQUESTED


def test_scale_down_of_a_leaving_task_ends_it() -> None:
    gang = Gang()
    gang.notice(2)
    (role,) = gang.framework.spec.task_roles
    gang.edit(replace(gang.framework.spec, task_roles=(replace(role, task_number=2),)))
    gang.pause(1)
    assert not gang.is_kept(2)
    assert gang.list_left() == []
    gang.remove_pod(name(2))
    gang.settle()
    assert len(gang.status.attempt_status.task_roles[0].tasks) == 2


def test_scale_down_never_moves_the_deadline_of_a_leaving_task_later() -> None:
    gang = Gang(drain=DrainSpec(timeout_seconds=300))
    gang.notice(2)
    deadline = gang.list_left()
    (role,) = gang.framework.spec.task_roles
    gang.edit(replace(gang.framework.spec, task_roles=(replace(role, task_number=2),)))
    gang.pause(1)
    assert gang.list_left() == deadline
    assert gang.is_kept(2)
    gang.pause(60)
    assert not gang.is_kept(2)


# --- nodes that are not known ---------------------------------------------------------------------


def list_warnings(*, knows_nodes: bool, leave: LeaveNodesSpec | None = LEAVE) -> list[str]:
    """The warnings when the first Pod of a gang runs, and in the decision after that."""
    world = World(build_spec(build_role(number=1, recovery=RecoverySpec(leave_nodes=leave))))
    world.knows_nodes = knows_nodes
    world.settle()
    world.run_pod(name(0))
    warnings = []
    for _ in range(2):
        decision = world.decide()
        warnings += [e.message for e in decision.events if e.reason == "NodesNotWatched"]
        world.carry_out(decision)
    return warnings


def test_user_learns_once_that_nodes_are_not_known() -> None:
    (warning,) = list_warnings(knows_nodes=False)
    assert "Tasks of worker leave only when their Pods are evicted" in warning
    assert list_warnings(knows_nodes=True) == []
    assert list_warnings(knows_nodes=False, leave=None) == []


# --- restarts in place --------------------------------------------------------------------------


def test_report_of_a_leaving_pod_starts_no_epoch() -> None:
    gang = Gang(in_place=InPlaceSpec(2, 3600))
    gang.notice(1)
    gang.annotate_pod(name(1), constants.PROCESS_ENDED_ANNOTATION, "0 137")
    gang.pause(1)
    stored = gang.status.attempt_status.recovery
    assert stored is not None
    assert stored.epoch == 0


def report(gang: Gang, index: int, code: int) -> RecoveryStatus:
    """The process of a worker ends; the next decision is taken."""
    epoch = get_recovery(gang).epoch
    end = encode_end(ProcessEnd(epoch, code))
    gang.annotate_pod(name(index), constants.PROCESS_ENDED_ANNOTATION, end)
    gang.settle()
    return get_recovery(gang)


def get_recovery(gang: Gang) -> RecoveryStatus:
    return gang.status.attempt_status.recovery or RecoveryStatus()


@pytest.mark.parametrize("has_ended", [False, True])
def test_failed_processes_of_peers_are_neither_counted_nor_refused(*, has_ended: bool) -> None:
    gang = Gang(in_place=InPlaceSpec(1, 3600))
    gang.notice(1)
    if has_ended:
        gang.end_pod(name(1), 143)
        gang.settle()
    for index in (0, 2):
        gang.annotate_pod(name(index), constants.PROCESS_ENDED_ANNOTATION, "0 1")
        gang.settle()
        recovery = get_recovery(gang)
        assert (recovery.epoch, recovery.restarts, recovery.refused) == (1, (), ())
    gang.acknowledge(1)
    gang.settle()
    gang.replace_worker(1)
    gang.start_epoch()
    recovery = report(gang, 0, 1)
    assert [len(entry.times) for entry in recovery.restarts] == [1], "the gang is complete"
    assert report(gang, 0, 1).refused


def test_each_task_that_leaves_has_an_epoch_that_is_not_counted() -> None:
    gang = Gang(in_place=InPlaceSpec(1, 3600))
    for index in (1, 2):
        gang.notice(index)
        assert report(gang, 0, 1).restarts == ()
        gang.acknowledge(index)
        gang.settle()
        gang.replace_worker(index)
        gang.start_epoch()
    assert get_recovery(gang).epoch == 2


def test_reports_of_an_epoch_that_has_not_started_count() -> None:
    """No process of it can have lost its connection: such reports are not from an agent."""
    gang = Gang(in_place=InPlaceSpec(2, 3600))
    gang.notice(1)
    for _ in range(20):
        report(gang, 0, 1)
        gang.start_epoch()
        gang.pause(1)
    recovery = get_recovery(gang)
    assert recovery.epoch == 4, "one that is free, two that count, and one that is refused"
    assert [len(entry.times) for entry in recovery.restarts] == [2]
    assert len(recovery.refused) == 1


def test_permanent_code_is_refused_also_while_a_task_leaves() -> None:
    gang = Gang(in_place=InPlaceSpec(1, 3600))
    gang.notice(1)
    recovery = report(gang, 0, 210)
    assert (len(recovery.refused), recovery.reason) == (1, PERMANENT_FAILURE)


def test_failed_process_counts_in_a_gang_that_is_complete_without_the_leaving_task() -> None:
    gang = Gang(in_place=InPlaceSpec(1, 3600), min_member_count=2)
    gang.notice(1)
    assert [len(entry.times) for entry in report(gang, 0, 1).restarts] == [1]
    assert report(gang, 0, 1).refused
