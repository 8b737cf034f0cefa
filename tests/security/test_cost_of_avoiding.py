"""The cost of decisions about avoided nodes, and the status, grow with the Tasks, not faster."""

import json
from dataclasses import replace
from functools import cache

import pytest

from controller.core.decide import decide
from controller.core.objects.object_templates import build_pod
from controller.core.snapshot import Snapshot
from framework.api import codec, constants
from framework.api.avoiding import AvoidNodesSpec, NodeFailure
from framework.api.naming import TaskKey
from framework.api.recovery import RecoverySpec
from framework.api.states import TaskState
from framework.api.types import RetryPolicySpec, TaskSpec, TaskStatus
from tests.security.linearcost import (
    SETTINGS,
    Stage,
    assert_decision_is_linear,
    assert_linear,
    for_two_sizes,
)
from tests.support.builders import at, build_template_wire, end_task
from tests.support.builders.largegangs import LargeGang, build_snapshot, change_tasks
from tests.support.measuring.cost import Operation

AVOID = RecoverySpec(avoid_nodes=AvoidNodesSpec(failures=2, max_nodes=16))
RETRIED = TaskSpec(RetryPolicySpec(max_retry_count=-1), pod=build_template_wire())
NODES = tuple(f"ip-10-0-{i // 250}-{i % 250}.eu-west-1.compute.internal" for i in range(500))
# More than are stored: a release with other limits may have written them.
FAILURES = 64


def fail(task: TaskStatus) -> TaskStatus:
    """Two failures on each of 32 nodes, other nodes for each Task, at other times."""
    failures = (
        build_failure((task.index * 37 + i // 2) % len(NODES), (task.index * 7 + i) % 90)
        for i in range(FAILURES)
    )
    return replace(task, node_failures=tuple(failures))


@cache
def build_failure(node: int, second: int) -> NodeFailure:
    return NodeFailure(NODES[node], at(second))


def decide_failed(gang: LargeGang) -> Snapshot:
    """Each Pod fails on its node."""
    status = change_tasks(gang.build_status(TaskState.ATTEMPT_RUNNING), fail)
    spec = gang.build_spec(task=RETRIED, recovery=AVOID)
    return build_snapshot(spec, status, gang.build_pods("Failed"))


def decide_retried(gang: LargeGang) -> Snapshot:
    """The next attempt of each Task begins."""
    status = gang.build_status(TaskState.ATTEMPT_COMPLETED)
    status = change_tasks(status, lambda task: fail(end_task(task, -300)))
    return build_snapshot(gang.build_spec(task=RETRIED, recovery=AVOID), status)


STAGES: dict[str, Stage] = {
    "failed": decide_failed,
    "retried": decide_retried,
}


@pytest.mark.parametrize("roles", [2, 250])
@pytest.mark.parametrize("name", STAGES)
@for_two_sizes
def test_decision_costs_no_more_than_its_tasks(
    small: int, large: int, name: str, roles: int
) -> None:
    assert_decision_is_linear(small, large, STAGES[name], roles)


@for_two_sizes
def test_pods_that_avoid_nodes_cost_no_more_than_their_number(small: int, large: int) -> None:
    def prepare(size: int) -> Operation:
        gang = LargeGang(size, 2)
        snapshot = decide_retried(gang)
        status = decide(snapshot, SETTINGS).status
        assert status is not None
        framework = replace(snapshot.framework, status=status)
        keys = [TaskKey(name, i) for name in gang.names for i in range(gang.share)]
        assert status.attempt_status.task_roles[0].tasks[0].attempt_status.avoided_nodes
        return lambda: [build_pod(framework, key) for key in keys]

    assert_linear(small, large, prepare)


@pytest.mark.slow
@pytest.mark.parametrize("stage", [decide_failed, decide_retried])
def test_failures_of_ten_thousand_tasks_fit_into_a_stored_status(stage: Stage) -> None:
    decision = decide(stage(LargeGang(constants.MAX_TASKS, 2)), SETTINGS)
    assert decision.status is not None
    kept = [len(task.node_failures) for _, task in decision.status.attempt_status.walk_tasks()]
    assert sum(kept) <= constants.MAX_NODE_FAILURES
    assert max(kept) == constants.MAX_NODE_FAILURES // constants.MAX_TASKS
    wire = codec.compress_status(codec.encode_status(decision.status), 1)
    # Without diagnostics, which have 512 Ki characters, and the spec.
    assert len(json.dumps(wire)) < constants.MAX_OBJECT_BYTES * 2 // 3
