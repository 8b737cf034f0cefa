"""P1-P6 and P13 of ``decide``, over histories of a World, and over all that can be decoded.

docs/design/invariants.md, "Properties".
"""

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.core.actions import CreatePod
from controller.core.decide import decide
from controller.core.decision import Decision
from controller.core.settings import Settings
from controller.core.snapshot import PublishedRoster, Snapshot
from framework.api import codec
from framework.api.avoiding import AvoidNodesSpec
from framework.api.completion import complete_framework, complete_task
from framework.api.fielderrors import FieldErrors
from framework.api.leaving import LeaveNodesSpec
from framework.api.pods import parse_configmap, parse_pod
from framework.api.recovery import RecoverySpec
from framework.api.states import FRAMEWORK_COMPLETING, FrameworkState, TaskState
from framework.api.types import (
    CompletedPodPolicy,
    CompletionPolicySpec,
    ExecutionType,
    Framework,
    FrameworkSpec,
    FrameworkStatus,
    RetryPolicySpec,
    TaskRoleSpec,
    TaskSpec,
)
from tests.support.builders import (
    at,
    build_configmap_wire,
    build_pod,
    build_role_status,
    build_status,
    build_template_wire,
    strategies,
)
from tests.support.builders.nodes import build_cordon
from tests.support.builders.worlds import World, build_snapshot
from tests.support.simulator.invariants import check_step

SETTINGS = Settings(
    min_conflict_delay_seconds=5, max_conflict_delay_seconds=20, completed_retain_seconds=500
)

# --- legal histories -----------------------------------------------------------------------------

_retries = st.builds(RetryPolicySpec, st.booleans(), st.sampled_from([-2, -1, 0, 1, 2]))
_tasks = st.builds(
    TaskSpec, _retries, st.sampled_from([None, None, 5]), st.just(build_template_wire())
)
_roles = st.builds(
    TaskRoleSpec,
    st.sampled_from(["ps", "worker"]),
    st.integers(0, 3),
    st.builds(CompletionPolicySpec, st.integers(-1, 2), st.integers(-1, 2)),
    _tasks,
    absent_task_indices=st.sampled_from([(), (), (0,), (1, 2)]),
    min_member_count=st.sampled_from([None, None, 1]),
    completed_pod_policy=st.sampled_from([None, None, *CompletedPodPolicy]),
    recovery=st.sampled_from(
        [None, RecoverySpec(leave_nodes=LeaveNodesSpec(10, 2, 60), avoid_nodes=AvoidNodesSpec(1))]
    ),
)
_specs = st.builds(
    FrameworkSpec,
    execution_type=st.sampled_from([*ExecutionType, ExecutionType.START, ExecutionType.START]),
    retry_policy=_retries,
    task_roles=st.lists(_roles, max_size=2, unique_by=lambda role: role.name).map(tuple),
    suspend=st.sampled_from([False, False, True]),
    active_deadline_seconds=st.sampled_from([None, None, None, 30]),
    ttl_seconds_after_finished=st.sampled_from([None, None, 20]),
)


@dataclass(frozen=True)
class Step:
    """An event of a kind, and a number that chooses its Pod or its value."""

    kind: str
    choice: int
    spec: FrameworkSpec


_KINDS = (
    "decide decide run run run end end fail terminate remove collect edit edit wait refuse forget "
    "kill_configmap delete cordon disrupt"
)
_steps = st.builds(Step, st.sampled_from(_KINDS.split()), st.integers(0, 5), _specs)
_histories = st.tuples(_specs, st.lists(_steps, max_size=25))


EXIT_CODES = (1, 200, 201, 210, 137, 9)
HTTP_CODES = (422, 403, 500, 429, 400, 413)


def happen(world: World, step: Step) -> None:
    """Let a step happen where it can."""
    names = sorted(world.pods)
    if names:
        _happen_to_pod(world, step, names[step.choice % len(names)])
    match step.kind:
        case "collect":
            world.collect_garbage()
        case "edit":
            world.edit(_legal_edit(world.framework.spec, step.spec))
        case "wait":
            world.now += timedelta(seconds=(1, 3, 7, 20, 100, 400)[step.choice])
        case "refuse":
            refused = [a for a in world.decide().actions if isinstance(a, CreatePod)]
            if refused:
                world.refuse(refused[0], HTTP_CODES[step.choice])
        case "forget":
            world.live.clear()  # a crash
            world.failures.clear()
        case "kill_configmap":
            world.terminate_configmap()
        case "delete" if step.choice == 0:
            world.delete_framework()
        case _:
            pass


def _happen_to_pod(world: World, step: Step, name: str) -> None:
    pod = world.pods[name]
    if step.kind == "run" and not pod.is_ended:
        world.run_pod(name, step.choice)
    elif step.kind in {"end", "fail"} and pod.node_name:
        world.end_pod(name, 0 if step.kind == "end" else EXIT_CODES[step.choice])
    elif step.kind == "disrupt":
        world.disrupt_pod(name)
        if step.choice % 2:
            world.terminate_pod(name)
    elif step.kind == "cordon":
        world.nodes = {"node": (build_cordon(world.now),)} if step.choice else {}
    elif step.kind == "terminate":
        world.terminate_pod(name)
    elif step.kind == "remove" and pod.is_terminating:
        world.remove_pod(name)


def _legal_edit(old: FrameworkSpec, new: FrameworkSpec) -> FrameworkSpec:
    """A user may not bring a stopped Framework back, nor hold a started one."""
    order = list(ExecutionType)
    later = max(order.index(old.execution_type), order.index(new.execution_type))
    return replace(new, execution_type=order[later])


def run(history: tuple[FrameworkSpec, list[Step]], check: Any) -> World:
    """Run a history; ``check`` sees the World and each decision before it is carried out."""
    spec, steps = history
    world = World(spec, SETTINGS)
    for step in [*steps, Step("decide", 0, spec)]:
        happen(world, step)
        if world.is_gone:
            break
        decision = world.decide()
        check(world, decision)
        world.carry_out(decision)
    return world


quick = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@quick
@given(_histories)
def test_p1_p2_p3_p4_p13_hold_at_every_step(history: Any) -> None:
    def check(world: World, decision: Decision) -> None:
        check_determinism(world, decision)
        check_transition(world, decision)
        check_creates(world, decision)
        check_wake_time(world, decision)

    run(history, check)


def check_determinism(world: World, decision: Decision) -> None:
    """P1: equal snapshots give equal decisions, and are not changed."""
    snapshot = world.observe()
    before = copy.deepcopy(snapshot)
    assert decide(snapshot, world.settings) == decision
    assert snapshot == before


def check_transition(world: World, decision: Decision) -> None:
    """P2, P3: a status follows from the last one along the tables; it survives the codec (P9)."""
    if decision.status is not None:
        check_step(world.framework.status, decision.status)
        assert codec.decode_status(codec.encode_status(decision.status)) == decision.status


def check_creates(world: World, decision: Decision) -> None:
    """P4: only Pods that a pending Task waits for are created."""
    status = decision.status or world.framework.status
    for action in decision.actions:
        if isinstance(action, CreatePod):
            assert status is not None
            assert status.state not in FRAMEWORK_COMPLETING
            role = status.attempt_status.find_role(action.task.role)
            assert role is not None
            assert role.tasks[action.task.index].state is TaskState.ATTEMPT_CREATION_PENDING
            assert action.name not in world.pods


def check_wake_time(world: World, decision: Decision) -> None:
    """P13: the time to wake is in the future, and not after any deadline."""
    if decision.wake_at is not None:
        assert decision.wake_at > world.now
    if world.framework.status is None or decision.status is not None:
        return
    for deadline in _list_deadlines(world):
        assert decision.wake_at is not None, f"no wake time for {deadline}"
        assert decision.wake_at <= deadline


@quick
@given(_specs, st.lists(st.tuples(st.sampled_from(["run", "end", "fail"]), st.integers(0, 5))))
def test_p5_retries_never_exceed_the_policy(spec: FrameworkSpec, steps: Any) -> None:
    """No step edits the spec here, so its policies bound the counts."""

    def check(world: World, decision: Decision) -> None:
        status = decision.status
        if status is None:
            return
        holders = [(spec.retry_policy, status.retry_policy_status)]
        for role in spec.task_roles:
            found = status.attempt_status.find_role(role.name)
            policy = role.task.retry_policy
            tasks = found.tasks if found else ()
            holders.extend((policy, task.retry_policy_status) for task in tasks)
        for policy, counts in holders:
            if policy.max_retry_count >= 0:
                assert counts.accountable_retried_count <= policy.max_retry_count
            if not policy.fancy_retry_policy:
                assert counts.accountable_retried_count == counts.total_retried_count

    world_steps = []
    for kind, choice in steps:
        world_steps += [Step(kind, choice, spec), Step("remove", choice, spec)]
        world_steps += [Step("collect", 0, spec), Step("wait", choice, spec)]
    run((spec, world_steps), check)


@quick
@given(_histories)
def test_p6_a_world_without_faults_becomes_quiet(history: Any) -> None:
    world = run(history, lambda _world, _decision: None)
    world.failures.clear()
    for _ in range(12):
        if world.is_gone:
            return
        world.settle()
        for name in sorted(world.pods):
            if world.pods[name].is_terminating:
                world.remove_pod(name)
            elif not world.pods[name].is_ended:
                world.run_pod(name)
        world.collect_garbage()
    spec = world.framework.spec
    policies = [spec.retry_policy, *(role.task.retry_policy for role in spec.task_roles)]
    unlimited = any(policy.max_retry_count == -2 for policy in policies)
    if not unlimited and not world.is_gone:
        assert world.settle() == 0


_ACTIVE = (
    FrameworkState.ATTEMPT_CREATION_PENDING,
    FrameworkState.ATTEMPT_RUNNING,
    FrameworkState.ATTEMPT_COMPLETED,
)


def _list_deadlines(world: World) -> list[Any]:
    """Deadlines of the status at which no event will arrive."""
    status, spec, deadlines = world.status, world.framework.spec, []
    if status.state is FrameworkState.COMPLETED and not world.framework.metadata.deletion_time:
        ttl, retained = spec.ttl_seconds_after_finished, SETTINGS.completed_retain_seconds
        assert retained is not None
        deadlines.append(
            status.transition_time + timedelta(seconds=retained if ttl is None else ttl)
        )
    delay = status.retry_policy_status.retry_delay_seconds
    is_waiting = not spec.suspend and spec.execution_type is not ExecutionType.STOP
    if status.state is FrameworkState.ATTEMPT_COMPLETED and delay is not None and is_waiting:
        deadlines.append(status.transition_time + timedelta(seconds=delay))
    start, seconds = status.active_start_time, spec.active_deadline_seconds
    configmap = world.configmap
    # An attempt that is not created yet ends after its terminating ConfigMap: an event.
    is_blocked = (
        status.state is FrameworkState.ATTEMPT_CREATION_PENDING
        and configmap is not None
        and configmap.is_terminating
    )
    is_active = status.state in _ACTIVE and not world.framework.metadata.deletion_time
    if is_active and not is_blocked and is_waiting and start is not None and seconds is not None:
        deadlines.append(start + timedelta(seconds=seconds))
    if configmap is None or configmap.uid != status.attempt_status.configmap_uid:
        return [deadline for deadline in deadlines if deadline > world.now]
    deadlines += [due for due in _list_forced(world) if due is not None]
    return [deadline for deadline in deadlines if deadline > world.now]


def _list_forced(world: World) -> Iterator[Any]:
    """When terminating Pods are to be forced away."""
    for role, task in world.status.attempt_status.walk_tasks():
        pod = world.pods.get(task.attempt_status.pod_name)
        timeout = role.pod_graceful_deletion_timeout_seconds
        if task.state is not TaskState.ATTEMPT_DELETING or timeout is None or pod is None:
            continue
        if pod.uid == task.attempt_status.pod_uid and pod.deletion_time is not None:
            yield pod.deletion_time + timedelta(seconds=timeout - pod.deletion_grace_seconds)


@st.composite
def _nasty_snapshots(draw: Any) -> Snapshot:
    """A Framework of any status, beside objects that may or may not fit to it."""
    framework: Framework = draw(strategies.frameworks)
    pods = {}
    for wire in draw(st.lists(strategies.pod_wires(), max_size=4)):
        pod = parse_pod(wire)
        status = framework.status
        if status is not None and draw(st.booleans()):
            # Often the very Pod that a Task has recorded.
            tasks = [task for _, task in status.attempt_status.walk_tasks()]
            if tasks:
                task = draw(st.sampled_from(tasks)).attempt_status
                disruption = draw(st.sampled_from(["", "", "EvictionByEvictionAPI"]))
                uid = task.pod_uid or pod.uid
                pod = replace(pod, name=task.pod_name, uid=uid, disruption=disruption)
        pods[pod.name] = pod
    configmap = draw(st.none() | st.just(parse_configmap(build_configmap_wire())))
    if configmap is not None and framework.status is not None and draw(st.booleans()):
        recorded = framework.status.attempt_status.configmap_uid
        configmap = replace(configmap, uid=recorded or configmap.uid)
    return Snapshot(
        framework,
        draw(strategies.times),
        configmap=configmap,
        pods=pods,
        published=PublishedRoster(
            draw(st.none() | strategies.rosters()), has_version_annotation=True
        ),
        nodes={"node": (build_cordon(at(10**9)),)} if draw(st.booleans()) else {},
    )


@quick
@given(_nasty_snapshots())
def test_decide_raises_for_no_status_that_could_have_been_written(snapshot: Snapshot) -> None:
    decision = decide(snapshot, SETTINGS)
    if decision.wake_at is not None:
        assert decision.wake_at > snapshot.now


_FIELDS = ("state", "completionStatus", "podUID", "configMapUID", "retryDelaySec", "startTime")


@st.composite
def _absurd_statuses(draw: Any) -> Any:
    """A status in which some values were swapped for those of another."""
    wire = codec.encode_status(draw(strategies.statuses()))
    other = codec.encode_status(draw(strategies.statuses()))
    for field in draw(st.lists(st.sampled_from(_FIELDS), max_size=3)):
        donor = _find(other, field)
        if donor is not _MISSING:
            _swap(wire, field, donor)
    return wire


_MISSING = object()


def _find(wire: Any, field: str) -> Any:
    if isinstance(wire, dict):
        if field in wire:
            return wire[field]
        wire = list(wire.values())
    if isinstance(wire, list):
        for item in wire:
            found = _find(item, field)
            if found is not _MISSING:
                return found
    return _MISSING


def _swap(wire: Any, field: str, value: Any) -> None:
    if isinstance(wire, dict):
        for key in wire:
            if key == field:
                wire[key] = copy.deepcopy(value)
            else:
                _swap(wire[key], field, value)
    elif isinstance(wire, list):
        for item in wire:
            _swap(item, field, value)


@quick
@given(_nasty_snapshots(), _absurd_statuses())
def test_decide_only_asserts_on_an_absurd_status(snapshot: Snapshot, wire: Any) -> None:
    """Only another client writes such a status; the worker then makes no decision for a while."""
    try:
        status = codec.decode_status(wire)
    except FieldErrors:
        return
    framework = replace(snapshot.framework, status=status)
    with contextlib.suppress(AssertionError):
        decide(replace(snapshot, framework=framework), SETTINGS)


@pytest.mark.parametrize("state", list(FrameworkState))
@pytest.mark.parametrize("task", list(TaskState))
def test_decide_raises_for_no_pair_of_states(state: FrameworkState, task: TaskState) -> None:
    status = _complete(build_status(build_role_status(state=task), state=state))
    for pods in ((), (build_pod(),), (build_pod(phase="Failed"),)):
        decide(build_snapshot(status=status, pods=pods), SETTINGS)


def _complete(status: FrameworkStatus) -> FrameworkStatus:
    """Give everything a completion: it may have one in every state."""
    role = status.attempt_status.task_roles[0]
    completion = complete_task(-101, "gone")
    tasks = tuple(
        replace(task, attempt_status=replace(task.attempt_status, completion_status=completion))
        for task in role.tasks
    )
    attempt = replace(
        status.attempt_status,
        completion_status=complete_framework(-100, "gone"),
        task_roles=(replace(role, tasks=tasks),),
    )
    return replace(status, attempt_status=attempt)
