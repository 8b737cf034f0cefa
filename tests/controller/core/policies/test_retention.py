"""completedPodPolicy, of a Framework or of a role: which Pods that ended stay, and until when."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controller.core.actions import ActionKey, ObjectKind, Verb
from controller.core.decide import decide
from controller.core.decision import Decision
from controller.core.policies.retention import has_live_wrapper
from framework.api import constants
from framework.api.pods import PodPhase
from framework.api.roster import PHASE_COMPLETING
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    CompletedPodPolicy,
    CompletionPolicySpec,
    ExecutionType,
    FrameworkSpec,
    RetryPolicySpec,
    TaskSpec,
    TaskStatus,
)
from tests.support.builders import (
    at,
    build_pod,
    build_pods,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_task,
    build_template_wire,
    end_attempt,
    end_task,
)
from tests.support.builders.cases import cases
from tests.support.builders.worlds import (
    SETTINGS,
    World,
    build_draft,
    build_snapshot,
    get_code,
    get_status,
    get_task,
)

S = FrameworkState
FIRST, SECOND = "gang-worker-0", "gang-worker-1"
FAIL_FAST = CompletionPolicySpec(min_failed_task_count=1)
ONE_RETRY = RetryPolicySpec(max_retry_count=1)


def retain(
    number: int = 2,
    *,
    retry: RetryPolicySpec | None = None,
    pod: Any = None,
    policy: CompletionPolicySpec | None = None,
    **fields: Any,
) -> FrameworkSpec:
    template = TaskSpec(retry or RetryPolicySpec(), pod=pod or build_template_wire())
    completion_policy = policy or CompletionPolicySpec()
    role = build_role(number=number, task=template, completion_policy=completion_policy)
    return build_spec(role, completed_pod_policy=CompletedPodPolicy.RETAIN, **fields)


def stop(world: World) -> None:
    world.edit(replace(world.framework.spec, execution_type=ExecutionType.STOP))


def run(**fields: Any) -> World:
    """A World whose Pods all run."""
    world = World(retain(**fields))
    world.settle()
    for number, name in enumerate(sorted(world.pods)):
        world.run_pod(name, number)
    world.settle()
    return world


def run_until_one_failed(**fields: Any) -> World:
    world = run(**fields)
    world.end_pod(FIRST, 9)
    world.settle()
    return world


def create(number: int = 2) -> World:
    """A World whose Pods were just created, and are not recorded yet."""
    world = World(retain(number))
    while not world.pods:
        world.carry_out(world.decide())
    assert get_task(world.status).attempt_status.pod_uid is None
    return world


def assert_completed_with(world: World, *pods: str) -> None:
    assert world.status.state is S.COMPLETED
    assert sorted(world.pods) == sorted(pods)


@pytest.mark.parametrize(("code", "phase"), [(0, PodPhase.SUCCEEDED), (9, PodPhase.FAILED)])
def test_pod_that_ended_stays_and_its_task_is_completed(code: int, phase: PodPhase) -> None:
    world = run()
    world.end_pod(FIRST, code)
    world.carry_out(world.decide())
    assert get_task(world.status, 0).state is TaskState.COMPLETED
    assert world.pods[FIRST].phase is phase
    assert not world.pods[FIRST].is_terminating
    assert world.settle() <= 2


def test_pod_of_a_task_that_is_retried_is_deleted() -> None:
    world = run_until_one_failed(retry=ONE_RETRY)
    assert get_task(world.status, 0).state is TaskState.ATTEMPT_DELETING
    assert world.pods[FIRST].is_terminating


def test_all_pods_of_a_gang_that_succeeds_stay_with_their_configmap() -> None:
    world = run()
    for name in (FIRST, SECOND):
        world.end_pod(name)
    world.settle()
    assert_completed_with(world, FIRST, SECOND)
    assert world.configmap is not None
    assert not world.configmap.is_terminating
    for name in (FIRST, SECOND):
        world.remove_pod(name)
    assert world.settle() == 0


def test_running_pods_of_the_last_attempt_are_deleted_and_waited_for() -> None:
    world = run_until_one_failed(policy=FAIL_FAST)
    assert world.status.state is S.ATTEMPT_DELETION_PENDING
    assert world.pods[SECOND].is_terminating
    world.remove_pod(SECOND)
    world.settle()
    assert_completed_with(world, FIRST)
    assert get_code(get_task(world.status, 1)) == -220


def test_pod_with_a_wrapper_gets_its_grace_period_after_the_roster_shows_the_end() -> None:
    pod = build_template_wire(terminationGracePeriodSeconds=20)
    pod["metadata"] = {"annotations": {constants.WRAPPER_ANNOTATION: "1"}}
    world = run(pod=pod, policy=FAIL_FAST)
    world.end_pod(FIRST, 9)
    world.now += timedelta(seconds=1)
    world.settle()
    assert not world.pods[SECOND].is_terminating
    assert world.published.roster is not None
    assert world.published.roster.phase == PHASE_COMPLETING
    wake_at = world.decide().wake_at
    assert wake_at is not None
    for moment in (wake_at, wake_at + timedelta(seconds=20)):
        world.now = moment
        world.settle()
    assert world.pods[SECOND].is_terminating


def test_attempt_that_is_retried_is_deleted_with_its_configmap() -> None:
    world = run_until_one_failed(policy=FAIL_FAST, retry_policy=ONE_RETRY)
    assert world.configmap is not None
    assert world.configmap.is_terminating


def test_retained_pod_of_a_task_scaled_down_later_is_deleted_before_its_entry() -> None:
    world = run()
    world.end_pod(SECOND)
    world.settle()
    world.edit(retain(1))
    world.settle()
    assert len(world.status.attempt_status.task_roles[0].tasks) == 2
    assert world.pods[SECOND].is_terminating
    world.remove_pod(SECOND)
    world.settle()
    assert len(world.status.attempt_status.task_roles[0].tasks) == 1


@pytest.mark.parametrize("is_there", [True, False])
def test_entry_of_a_retained_pod_that_no_watch_shows_goes_after_a_live_get(
    *, is_there: bool
) -> None:
    """A user removed the label of the Pod, and the controller was restarted."""
    world = run()
    world.end_pod(SECOND)
    world.settle()
    pod = world.pods.pop(SECOND)
    world.live.clear()
    world.edit(retain(1))
    world.carry_out(world.decide())
    decision = world.decide()
    assert [action.key for action in decision.actions] == [
        ActionKey(Verb.GET, ObjectKind.POD, SECOND)
    ]
    world.edit(retain(2))
    assert get_task(get_status(world.decide()), 1).deletion_pending, "replaced before the answer"
    if is_there:
        world.pods[SECOND] = pod
    world.carry_out(decision)
    world.settle()
    if is_there:
        assert world.pods[SECOND].is_terminating
        world.remove_pod(SECOND)
        world.settle()
    assert not get_task(world.status, 1).deletion_pending
    assert world.pods[SECOND].uid != pod.uid


@pytest.mark.parametrize("is_known", [True, False])
def test_attempt_whose_running_pods_are_gone_ends_after_live_gets(*, is_known: bool) -> None:
    world = run()
    stop(world)
    world.settle()
    for name in list(world.pods):
        world.remove_pod(name)
    if not is_known:
        world.live.clear()
    world.settle()
    assert world.status.state is S.COMPLETED


def test_pod_that_was_not_recorded_before_the_attempt_ended_is_deleted() -> None:
    world = create()
    world.run_pod(FIRST)
    stop(world)
    world.settle()
    # It is unclaimed, and with Retain its ConfigMap is not deleted.
    assert world.pods[FIRST].is_terminating
    assert world.status.state is S.ATTEMPT_DELETION_PENDING
    world.remove_pod(FIRST)
    world.settle()
    assert_completed_with(world)


def test_pod_that_was_created_late_is_deleted_after_the_completion() -> None:
    world = create()
    late = world.pods[FIRST]
    stop(world)
    for name in list(world.pods):
        world.remove_pod(name)
    world.settle()
    assert_completed_with(world)
    # The answer to its create was lost, and the server applied it later.
    world.pods[late.name] = late
    world.settle()
    assert_completed_with(world)


def test_unseen_pod_is_read_live_before_the_attempt_ends() -> None:
    world = create(1)
    # The controller has just started, and the Pod has lost the label of its Framework.
    hidden = world.pods.pop(FIRST)
    world.live.clear()
    stop(world)
    world.carry_out(world.decide())
    while ("get", hidden.name) not in world.made:
        assert world.status.state is S.ATTEMPT_DELETION_PENDING
        world.carry_out(world.decide())
    world.pods[hidden.name] = hidden
    world.settle()
    assert_completed_with(world)


@pytest.mark.parametrize(
    ("phase", "deletion_time", "is_live"),
    [("Running", None, True), ("Succeeded", None, False), ("Running", at(1), False)],
)
def test_end_waits_for_a_running_wrapper(phase: str, deletion_time: Any, *, is_live: bool) -> None:
    pod = replace(build_pod(phase=phase), deletion_time=deletion_time)
    assert not has_live_wrapper(build_draft(pods=[pod]))
    pod = replace(pod, annotations={**pod.annotations, constants.WRAPPER_ANNOTATION: "1"})
    assert has_live_wrapper(build_draft(pods=[pod])) is is_live


def decide_end(*tasks: TaskStatus, pods: Any = (), **fields: Any) -> Decision:
    """The last attempt of a Framework that keeps its Pods is at its end, and that is persisted."""
    status = build_status(build_role_status(tasks=tasks), state=S.ATTEMPT_DELETION_PENDING)
    status = end_attempt(status, -210)
    return decide(build_snapshot(retain(len(tasks)), status, pods=pods, **fields), SETTINGS)


def end(state: TaskState, index: int = 0) -> TaskStatus:
    """A Task that ended with its attempt."""
    time = at(5) if state is TaskState.COMPLETED else None
    return end_task(build_task(state, index=index), -220, completion_time=time)


def has_completed(decision: Decision) -> bool:
    return decision.status is not None and decision.status.state is S.COMPLETED


COMPLETED = end(TaskState.COMPLETED)
NEVER_CREATED = end(TaskState.ATTEMPT_CREATION_PENDING, 1)
CREATE = ActionKey(Verb.CREATE, ObjectKind.POD, SECOND, "task-worker-1/0")


def test_retained_attempt_ends_with_a_task_that_never_had_a_pod() -> None:
    tasks, pods = (COMPLETED, NEVER_CREATED), build_pods("Succeeded")
    # As in every end before a Pod is known, a live GET shows whether it was created.
    unsure = decide_end(*tasks, pods=pods)
    assert [(a.key.verb, a.key.name) for a in unsure.actions] == [(Verb.GET, SECOND)]
    status = get_status(decide_end(*tasks, pods=pods, live={(ObjectKind.POD, SECOND): ""}))
    assert status.state is S.COMPLETED
    assert {task.state for _, task in status.attempt_status.walk_tasks()} == {TaskState.COMPLETED}


@cases(
    "tasks fields expected",
    while_a_create_is_in_flight=((COMPLETED, NEVER_CREATED), {"in_flight": {CREATE}}, False),
    though_a_pod_that_was_kept_is_gone=((COMPLETED,), {}, True),
    pod_known_to_be_gone=((end(TaskState.ATTEMPT_RUNNING),), {"live": {("Pod", FIRST): ""}}, True),
    pod_not_seen=((end(TaskState.ATTEMPT_RUNNING),), {"live": {}}, False),
)
def test_retained_attempt_ends(
    tasks: tuple[TaskStatus, ...], fields: dict[str, Any], *, expected: bool
) -> None:
    assert has_completed(decide_end(*tasks, **fields)) is expected


def test_retained_attempt_at_its_end_keeps_pods_that_ended() -> None:
    decision = decide_end(end(TaskState.ATTEMPT_RUNNING), pods=build_pods("Succeeded"))
    assert [a.key.name for a in decision.actions if a.key.verb is Verb.DELETE] == []
    assert get_task(get_status(decision)).state is TaskState.COMPLETED


WORKER_POD, LAUNCHER_POD = "gang-worker-0", "gang-launcher-0"


def run_mixed(
    policy: CompletedPodPolicy, default: CompletedPodPolicy = CompletedPodPolicy.RETAIN, **pod: Any
) -> World:
    """A World with a launcher that decides the end, and two workers with a policy of their own."""
    template = build_template_wire(**pod)
    if pod:
        template["metadata"] = {"annotations": {constants.WRAPPER_ANNOTATION: "1"}}
    ends = CompletionPolicySpec(min_failed_task_count=1, min_succeeded_task_count=1)
    launcher = build_role("launcher", 1, completion_policy=ends)
    workers = build_role(
        number=2, task=TaskSpec(pod=template), completed_pod_policy=policy,
        completion_policy=CompletionPolicySpec(-1, -1),
    )  # fmt: skip
    world = World(build_spec(launcher, workers, completed_pod_policy=default))
    world.settle()
    for number, name in enumerate(sorted(world.pods)):
        world.run_pod(name, number)
    world.settle()
    return world


def finish(world: World) -> None:
    """End the launcher, and let the Pods that are being deleted go."""
    world.end_pod(LAUNCHER_POD)
    world.settle()
    # First the Pod that decides the end may have to go, then those of its peers.
    for _ in range(2):
        for name in [name for name, pod in world.pods.items() if pod.is_terminating]:
            world.remove_pod(name)
        world.settle()
    assert world.status.state is S.COMPLETED


KEEPING = frozenset({CompletedPodPolicy.RETAIN, CompletedPodPolicy.RETAIN_RUNNING})
LIVE_POD = "gang-worker-1"


@pytest.mark.parametrize("policy", list(CompletedPodPolicy))
def test_policy_of_a_role_decides_about_its_pods_only(policy: CompletedPodPolicy) -> None:
    world = run_mixed(policy)
    world.end_pod(WORKER_POD, 3)
    world.settle()
    assert world.pods[WORKER_POD].is_terminating is (policy is CompletedPodPolicy.DELETE)
    if policy is CompletedPodPolicy.DELETE:
        world.remove_pod(WORKER_POD)
        world.settle()
    assert get_task(world.status, 0, "worker").state is TaskState.COMPLETED
    finish(world)
    stay = [WORKER_POD] if policy in KEEPING else []
    runs = [LIVE_POD] if policy is CompletedPodPolicy.RETAIN_RUNNING else []
    assert_completed_with(world, LAUNCHER_POD, *stay, *runs)
    assert get_code(get_task(world.status, 0, "worker")) == 3


def test_framework_waits_until_the_ended_pods_of_a_role_are_gone() -> None:
    world = run_mixed(CompletedPodPolicy.RETAIN_UNTIL_END)
    world.end_pod(WORKER_POD)
    world.settle()
    world.end_pod(LAUNCHER_POD)
    world.settle()
    assert world.pods[WORKER_POD].is_terminating
    assert not world.pods[LAUNCHER_POD].is_terminating
    world.remove_pod("gang-worker-1")
    world.settle()
    assert world.status.state is S.ATTEMPT_DELETION_PENDING
    world.remove_pod(WORKER_POD)
    world.settle()
    assert_completed_with(world, LAUNCHER_POD)


def test_pod_with_a_wrapper_that_has_ended_is_deleted_without_its_grace_period() -> None:
    world = run_mixed(CompletedPodPolicy.RETAIN_UNTIL_END, terminationGracePeriodSeconds=20)
    world.end_pod(WORKER_POD)
    world.settle()
    world.end_pod(LAUNCHER_POD)
    world.settle()
    assert world.pods[WORKER_POD].is_terminating
    assert not world.pods["gang-worker-1"].is_terminating


@pytest.mark.parametrize("default", list(CompletedPodPolicy))
def test_role_that_retains_keeps_its_pods_whatever_the_framework_says(
    default: CompletedPodPolicy,
) -> None:
    world = run_mixed(CompletedPodPolicy.RETAIN, default)
    world.end_pod(WORKER_POD)
    world.settle()
    finish(world)
    stay = [LAUNCHER_POD] if default in KEEPING else []
    assert_completed_with(world, WORKER_POD, *stay)


def test_no_pod_is_retained_if_no_role_retains_although_the_framework_does() -> None:
    policy = CompletedPodPolicy.RETAIN_UNTIL_END
    role = build_role(number=2, completed_pod_policy=policy)
    world = World(build_spec(role, completed_pod_policy=CompletedPodPolicy.RETAIN))
    world.settle()
    for number, name in enumerate(sorted(world.pods)):
        world.run_pod(name, number)
        world.end_pod(name)
    world.settle()
    assert world.configmap is not None
    assert world.configmap.is_terminating
