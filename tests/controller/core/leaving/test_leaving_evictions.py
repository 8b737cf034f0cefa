"""Tasks whose Pods are evicted leave, within a budget: docs/design/leaving.md."""

from dataclasses import replace

import pytest

from framework.api.completion import POD_EXTERNAL_DELETED, TASK_LEFT_NODE
from framework.api.states import TaskState
from framework.api.types import CompletedPodPolicy
from tests.controller.core.leaving.leavinggangs import LEAVE, Gang, name
from tests.support.builders.nodes import build_notices
from tests.support.builders.worlds import get_code, get_task

# --- evictions ----------------------------------------------------------------------------------


def test_eviction_is_not_counted_and_peers_learn_of_it_before_the_pod_is_gone() -> None:
    gang = Gang()
    gang.evict(1)
    task = get_task(gang.status, 1)
    assert (task.state, get_code(task)) == (TaskState.ATTEMPT_DELETING, TASK_LEFT_NODE)
    assert gang.list_failed() == [(1, TASK_LEFT_NODE)], "at once, as without the field"
    assert (gang.list_members(), gang.list_left()) == ([0, 2], [])
    gang.remove_pod(name(1))
    gang.pause(1)
    assert gang.get_retries(1) == (1, 0)


def test_evicted_pod_that_is_gone_before_the_next_decision_is_not_counted() -> None:
    gang = Gang()
    gang.disrupt(1)
    gang.remove_pod(name(1))
    gang.pause(1)
    assert gang.get_retries(1) == (1, 0)
    gang.remove_pod(name(2))
    gang.settle()
    assert get_code(get_task(gang.status, 2)) == POD_EXTERNAL_DELETED, "it was not evicted"


def test_marked_task_that_is_evicted_has_left_once() -> None:
    gang = Gang()
    gang.notice(1)
    gang.evict(1)
    assert (gang.list_left(), gang.list_failed()) == ([], [(1, TASK_LEFT_NODE)])
    leaves = get_task(gang.status, 1).leaves
    assert leaves is not None
    assert leaves.count == 1, "one time, although it has two reasons"


def test_pod_that_was_ended_by_its_node_is_not_counted() -> None:
    gang = Gang()
    gang.disrupt(1, "TerminationByKubelet")
    gang.end_pod(name(1), 137)
    gang.settle()
    assert get_code(get_task(gang.status, 1)) == TASK_LEFT_NODE


@pytest.mark.parametrize("policy", list(CompletedPodPolicy))
@pytest.mark.parametrize("reason", ["cordon", "TerminationByKubelet"])
def test_task_that_leaves_is_replaced_also_if_its_last_pod_would_be_kept(
    policy: CompletedPodPolicy, reason: str
) -> None:
    gang = Gang(completed_pod_policy=policy)
    if reason == "cordon":
        gang.notice(1)
    else:
        gang.disrupt(1, reason)
    gang.end_pod(name(1), 143)
    gang.settle()
    assert get_code(get_task(gang.status, 1)) == TASK_LEFT_NODE
    gang.replace_worker(1)
    assert gang.get_retries(1) == (1, 0)
    assert get_task(gang.status, 1).state is TaskState.ATTEMPT_RUNNING


def test_pod_that_another_client_deletes_has_not_left() -> None:
    gang = Gang()
    gang.terminate_pod(name(1))
    gang.settle()
    assert get_code(get_task(gang.status, 1)) == POD_EXTERNAL_DELETED
    assert gang.list_failed() == [(1, POD_EXTERNAL_DELETED)]


# --- budget -------------------------------------------------------------------------------------


def test_budget_bounds_the_uncounted_retries_and_comes_back_after_the_window() -> None:
    gang = Gang(leave=replace(LEAVE, max_leaves=2))
    codes = []
    for _ in range(3):
        gang.evict(1)
        codes.append(get_code(get_task(gang.status, 1)))
        gang.remove_pod(name(1))
        gang.pause(1)
        if name(1) in gang.pods:
            gang.run_worker(1)
        gang.pause(20)
    assert codes == [TASK_LEFT_NODE, TASK_LEFT_NODE, POD_EXTERNAL_DELETED]


def test_marks_stop_when_the_budget_is_used_up_and_begin_again_after_the_window() -> None:
    gang = Gang(leave=replace(LEAVE, max_leaves=1, within_seconds=600))
    gang.evict(1)
    gang.replace_worker(1)
    gang.pause(100)
    gang.nodes["n9"] = build_notices(gang.now)
    gang.pause(1)
    assert gang.get_marks() == ["", "", ""]
    gang.pause(600)
    assert gang.get_marks() == ["", "NodeCordoned", ""]
    leaves = get_task(gang.status, 1).leaves
    assert leaves is not None
    assert leaves.count == 1


def test_attempts_that_are_evicted_at_once_are_retried_with_pauses() -> None:
    gang = Gang(leave=replace(LEAVE, max_leaves=10))
    for _ in range(4):
        gang.evict(1)
        gang.remove_pod(name(1))
        gang.pause(0)
        if name(1) in gang.pods:
            gang.run_worker(1)
            gang.settle()
    assert get_task(gang.status, 1).retry_policy_status.retry_delay_seconds
