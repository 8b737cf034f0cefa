"""completedPodPolicy RetainRunning: live Pods of the last attempt are left running."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controller.core.actions import Verb
from framework.api import constants
from framework.api.completion import is_left_running
from framework.api.pods import PodPhase
from framework.api.roster import PHASE_ACTIVE, PHASE_COMPLETING
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    CompletedPodPolicy,
    CompletionPolicySpec,
    DrainSpec,
    ExecutionType,
    FrameworkSpec,
    RetryPolicySpec,
    TaskSpec,
)
from tests.support.builders import build_role, build_spec, build_template_wire
from tests.support.builders.worlds import World, get_code, get_task

S = FrameworkState
LAUNCHER, FIRST, SECOND = "gang-launcher-0", "gang-worker-0", "gang-worker-1"
ENDS = CompletionPolicySpec(min_failed_task_count=1, min_succeeded_task_count=1)
GRACE_SECONDS = 20
WRAPPED = {"annotations": {constants.WRAPPER_ANNOTATION: "1"}}


def build(
    *,
    launcher: CompletedPodPolicy = CompletedPodPolicy.RETAIN,
    worker: CompletedPodPolicy = CompletedPodPolicy.RETAIN_RUNNING,
    is_wrapped: bool = False,
    worker_count: int = 2,
    **fields: Any,
) -> FrameworkSpec:
    """A launcher that decides the end, and workers that are left running."""
    pod = build_template_wire(terminationGracePeriodSeconds=GRACE_SECONDS)
    if is_wrapped:
        pod["metadata"] = WRAPPED
    workers = build_role(
        number=worker_count,
        task=TaskSpec(RetryPolicySpec(max_retry_count=1), 5, pod),
        completed_pod_policy=worker,
        completion_policy=CompletionPolicySpec(-1, -1),
        drain=DrainSpec(60),
    )
    return build_spec(
        build_role("launcher", 1, completion_policy=ENDS), workers,
        completed_pod_policy=launcher, **fields,
    )  # fmt: skip


def run(spec: FrameworkSpec | None = None) -> World:
    """A World whose Pods all run."""
    world = World(spec or build())
    world.settle()
    for number, name in enumerate(sorted(world.pods)):
        world.run_pod(name, number)
    world.now += timedelta(seconds=1)
    world.settle()
    return world


def end(world: World, code: int = 0) -> None:
    world.end_pod(LAUNCHER, code)
    world.settle()


def stop(world: World) -> None:
    world.edit(replace(world.framework.spec, execution_type=ExecutionType.STOP))


def list_live(world: World) -> list[str]:
    return sorted(name for name, p in world.pods.items() if not (p.is_ended or p.is_terminating))


def remove_terminating(world: World) -> None:
    for name in [name for name, pod in world.pods.items() if pod.is_terminating]:
        world.remove_pod(name)
    world.settle()


@pytest.mark.parametrize("code", [0, 9])
def test_workers_run_on_after_the_launcher_has_ended_the_last_attempt(code: int) -> None:
    world = run()
    end(world, code)
    assert world.status.state is S.COMPLETED
    assert get_code(world.status) == code
    assert list_live(world) == [FIRST, SECOND]
    assert world.configmap is not None
    assert not world.configmap.is_terminating
    task = get_task(world.status, 0, "worker")
    completion = task.attempt_status.completion_status
    assert (task.state, get_code(task)) == (TaskState.COMPLETED, -221)
    assert is_left_running(completion)


def test_the_end_is_stored_before_the_framework_is_completed() -> None:
    """A crash between the two writes leaves the same Pods."""
    world = run()
    world.end_pod(LAUNCHER)
    states = []
    while world.status.state is not S.COMPLETED:
        decision = world.decide()
        world.live.clear()
        world.carry_out(decision)
        states.append(world.status.state)
    assert states[-2:] == [S.ATTEMPT_DELETION_PENDING, S.COMPLETED]
    assert list_live(world) == [FIRST, SECOND]


def test_a_pod_that_was_left_running_changes_nothing_when_it_ends() -> None:
    world = run()
    end(world)
    before = world.status
    world.end_pod(FIRST, 3)
    world.terminate_pod(SECOND)
    assert world.settle() == 0
    world.remove_pod(SECOND)
    assert world.settle() == 0
    assert world.status == before
    assert world.pods[FIRST].phase is PodPhase.FAILED


def test_pod_that_waits_for_its_node_is_left_too() -> None:
    world = World(build())
    world.settle()
    for name in (LAUNCHER, FIRST):
        world.run_pod(name)
    world.settle()
    end(world)
    assert list_live(world) == [FIRST, SECOND]
    assert world.status.state is S.COMPLETED


def test_a_retry_of_the_framework_deletes_all_pods_first() -> None:
    world = run(build(retry_policy=RetryPolicySpec(max_retry_count=1)))
    end(world, 9)
    assert world.configmap is not None
    assert world.configmap.is_terminating
    completion = get_task(world.status, 0, "worker").attempt_status.completion_status
    assert get_code(get_task(world.status, 0, "worker")) == -220
    assert not is_left_running(completion)
    world.collect_garbage()
    remove_terminating(world)
    world.collect_garbage()
    world.settle()
    assert world.status.attempt_status.id == 1
    for number, name in enumerate(sorted(world.pods)):
        world.run_pod(name, number)
    world.settle()
    end(world, 9)
    assert (world.status.state, list_live(world)) == (S.COMPLETED, [FIRST, SECOND])


def pass_deadline(world: World) -> None:
    world.now += timedelta(seconds=100)


def suspend(world: World) -> None:
    world.edit(replace(world.framework.spec, suspend=True))


@pytest.mark.parametrize(("finish", "code"), [(stop, -210), (pass_deadline, -240), (suspend, -250)])
def test_requested_ends_and_the_deadline_leave_no_pod(
    finish: Callable[[World], None], code: int
) -> None:
    world = run(build(active_deadline_seconds=60))
    finish(world)
    world.settle()
    world.collect_garbage()
    assert list_live(world) == []
    remove_terminating(world)
    world.collect_garbage()
    world.settle()
    assert (world.pods, get_code(world.status)) == ({}, code)


def test_stop_after_the_end_deletes_what_was_left_running() -> None:
    world = run()
    end(world)
    before = world.status
    stop(world)
    world.settle()
    assert list_live(world) == []
    # podGracefulDeletionTimeoutSec of the role counts for these Pods, too.
    world.now += timedelta(seconds=GRACE_SECONDS + 5)
    forced = [a.key.identity for a in world.decide().actions if a.key.verb is Verb.DELETE]
    assert forced == [f"{world.pods[name].uid}/0" for name in (FIRST, SECOND)]
    remove_terminating(world)
    assert sorted(world.pods) == [LAUNCHER]
    assert replace(world.status, observed_generation=before.observed_generation) == before


def test_stop_after_the_end_spares_pods_that_lost_their_owner_before() -> None:
    """Another client deleted the ConfigMap, and orphaned the Pods."""
    world = run()
    world.configmap = None
    world.pods = {name: replace(pod, owner=None) for name, pod in world.pods.items()}
    world.live.clear()
    world.settle()
    assert [get_code(task) for _, task in world.status.attempt_status.walk_tasks()] == [-220] * 3
    assert (world.status.state, get_code(world.status)) == (S.COMPLETED, -100)
    stop(world)
    world.settle()
    assert list_live(world) == [LAUNCHER, FIRST, SECOND]


def test_stop_between_the_end_and_the_completion_deletes_them() -> None:
    world = run()
    world.end_pod(LAUNCHER)
    while world.status.state is not S.ATTEMPT_DELETION_PENDING:
        world.carry_out(world.decide())
    stop(world)
    world.settle()
    assert (world.status.state, list_live(world)) == (S.ATTEMPT_DELETION_PENDING, [])
    remove_terminating(world)
    assert (world.status.state, get_code(world.status)) == (S.COMPLETED, 0)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"retry_policy": RetryPolicySpec(max_retry_count=1)}, {}),
        ({"worker": CompletedPodPolicy.RETAIN}, {}),
    ],
    ids=["retry_policy", "pod_policy"],
)
def test_edit_after_the_begin_of_the_end_leaves_no_pod_that_the_status_calls_ended(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    """The controller crashes after its write of the end, and a user edits the Framework."""
    world = run(build(**before))
    world.end_pod(LAUNCHER, 9)
    while world.status.state is not S.ATTEMPT_DELETION_PENDING:
        decision = world.decide()
        world.live.clear()
        world.carry_out(replace(decision, actions=()))
    world.edit(build(**after))
    world.settle()
    assert list_live(world) == []
    remove_terminating(world)
    assert (world.status.state, list_live(world)) == (S.COMPLETED, [])


def test_pods_whose_end_is_decided_already_are_deleted() -> None:
    """One is scaled down and drains, the other one has failed and is retried."""
    world = run(build(worker_count=3))
    world.edit(build(worker_count=2))
    world.settle()
    world.end_pod(FIRST, 9)
    world.settle()
    end(world)
    assert world.status.state is S.ATTEMPT_DELETION_PENDING
    assert list_live(world) == [SECOND]
    remove_terminating(world)
    assert (world.status.state, list_live(world)) == (S.COMPLETED, [SECOND])


def test_agents_in_pods_that_are_left_running_are_not_told_that_the_attempt_ends() -> None:
    world = run(build(is_wrapped=True))
    end(world)
    world.now += timedelta(seconds=60)
    world.settle()
    assert world.published.roster is not None
    assert (world.published.roster.phase, world.published.roster.generation) == (PHASE_ACTIVE, 1)
    assert list_live(world) == [FIRST, SECOND]


def test_agents_in_pods_that_are_left_running_are_not_told_so_for_the_sake_of_other_roles() -> None:
    """All agents read the same roster: Pods of other roles that live are deleted at once."""
    spec = build(is_wrapped=True)
    evaluators = replace(
        spec.task_roles[1], name="evaluator", completed_pod_policy=CompletedPodPolicy.RETAIN
    )
    world = run(replace(spec, task_roles=(*spec.task_roles, evaluators)))
    end(world)
    assert list_live(world) == [FIRST, SECOND]
    remove_terminating(world)
    assert world.status.state is S.COMPLETED
    assert world.published.roster is not None
    assert (world.published.roster.phase, world.published.roster.generation) == (PHASE_ACTIVE, 1)


def test_wrapped_pods_that_do_not_stay_get_their_grace_period() -> None:
    world = run(build(is_wrapped=True))
    stop(world)
    world.now += timedelta(seconds=1)
    world.settle()
    assert world.published.roster is not None
    assert world.published.roster.phase == PHASE_COMPLETING
    assert list_live(world) == [FIRST, SECOND]
    world.now += timedelta(seconds=GRACE_SECONDS)
    world.settle()
    assert list_live(world) == []


def test_framework_waits_for_the_pods_of_other_roles_only() -> None:
    world = run(build(launcher=CompletedPodPolicy.DELETE))
    end(world)
    remove_terminating(world)
    remove_terminating(world)
    assert world.status.state is S.COMPLETED
    assert sorted(world.pods) == [FIRST, SECOND]
