"""Hypothesis strategies for legal worlds: Frameworks, statuses, Pods, rosters.

They draw objects of a cluster whose clients all obey the rules of ``check_status``, which the round
trip test of a status calls. ``json_values`` draws any value that another writer could have stored.
"""

import string
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from framework.api.avoiding import AvoidNodesSpec, NodeFailure
from framework.api.completion import (
    DELETE_TASK_REQUESTED,
    PREDEFINED,
    SUCCEEDED,
    complete_framework,
    complete_task,
)
from framework.api.leaving import (
    NODE_CORDONED,
    NODE_TAINTED,
    POD_DISRUPTED,
    LeaveCount,
    LeaveNodesSpec,
    LeavingStatus,
)
from framework.api.naming import build_instance_uid, build_pod_name
from framework.api.objectmeta import ObjectMeta
from framework.api.recovery import (
    FailedProcess,
    InPlaceSpec,
    RecoverySpec,
    RecoveryStatus,
    RoleRestarts,
    StartBarrierStatus,
)
from framework.api.roster import (
    PHASE_ACTIVE,
    PHASE_COMPLETING,
    STATE_FAILED,
    STATE_SUCCEEDED,
    CompletedTask,
    FailedMember,
    Leaving,
    Member,
    RoleRoster,
    Roster,
    RosterRecovery,
)
from framework.api.states import TASK_ENDED, FrameworkState, TaskState
from framework.api.types import (
    CompletedPodPolicy,
    CompletionPolicySpec,
    CompletionPolicyTriggerStatus,
    Condition,
    DrainSpec,
    ExecutionType,
    Framework,
    FrameworkAttemptStatus,
    FrameworkSpec,
    FrameworkStatus,
    RetryPolicySpec,
    RetryPolicyStatus,
    TaskAttemptCompletionStatus,
    TaskAttemptStatus,
    TaskRoleSpec,
    TaskRoleStatus,
    TaskSpec,
    TaskStatus,
)
from tests.support.builders import (
    BEFORE_POD,
    FRAMEWORK,
    Wire,
    at,
    build_ended,
    build_pod_wire,
    build_waiting,
)

_LETTERS = string.ascii_lowercase + string.digits
MAX_ROLES = 2
MAX_TASKS = 3

# --- Values --------------------------------------------------------------------------------------

# Cheap strategies, because a status draws dozens of each.
texts = st.sampled_from(["", "why", "two words", 'say "<no>" & \n', "naïve 日本 😀", "\u2028"])
role_names = st.text(_LETTERS, min_size=1, max_size=3)
framework_names = st.sampled_from(["gang", "0", "my-gang", "a-0-b", "a" * 63])
uids = st.integers(0, 2**32 - 1).map("{:08x}-0000-4000-8000-000000000000".format)
_hosts = st.integers(0, 2**16 - 1)
addresses = _hosts.map(lambda n: f"10.1.{n >> 8}.{n & 255}") | _hosts.map("fd00::{:x}".format)
fingerprints = st.integers(0, 2**32 - 1).map("{:08x}".format)
times = st.integers(0, 10**9).map(at)
_floats = st.floats(allow_nan=False, allow_infinity=False)  # JSON has no others
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | _floats | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
# Keys that no version of this project has; most often none.
extras = st.sampled_from([{}, {}, {"x-future": None}, {"x-future": {"a": [1, None, "b"]}}])
in_places = st.none() | st.builds(
    InPlaceSpec, st.integers(1, 100), st.integers(1, 3600), extra=extras
)
leave_nodes = st.none() | st.builds(
    LeaveNodesSpec, st.integers(0, 600), st.integers(1, 3), st.integers(1, 3600), extra=extras
)
avoid_nodes = st.none() | st.builds(
    AvoidNodesSpec, st.integers(1, 10), st.integers(1, 3600), st.integers(1, 16), extra=extras
)


# --- Written by users ----------------------------------------------------------------------------

retry_policies = st.builds(
    RetryPolicySpec,
    st.booleans(),
    st.integers(min_value=-2, max_value=3),
    extra=extras,
)
completion_policies = st.builds(
    CompletionPolicySpec, st.integers(-1, MAX_TASKS), st.integers(-1, MAX_TASKS), extra=extras
)
templates = st.fixed_dictionaries(
    {
        "spec": st.fixed_dictionaries(
            {"containers": st.just([{"name": "main", "image": "busybox"}])},
            optional={"futureField": extras},
        )
    },
    optional={"metadata": st.just({"creationTimestamp": None, "labels": {"a": "b"}})},
)
task_specs = st.builds(
    TaskSpec, retry_policies, st.none() | st.integers(0, 600), templates, extra=extras
)
role_specs = st.builds(
    TaskRoleSpec,
    role_names,
    st.integers(0, MAX_TASKS),
    completion_policies,
    task_specs,
    absent_task_indices=st.lists(st.integers(0, MAX_TASKS), unique=True, max_size=2).map(tuple),
    min_member_count=st.none() | st.integers(0, MAX_TASKS + 1),
    drain=st.none() | st.builds(DrainSpec, st.integers(0, 60), extra=extras),
    completed_pod_policy=st.none() | st.sampled_from(CompletedPodPolicy),
    recovery=st.none() | st.builds(RecoverySpec, in_places, leave_nodes, avoid_nodes, extra=extras),
    extra=extras,
)


def _name(role: Any) -> str:
    name: str = role.name
    return name


specs = st.builds(
    FrameworkSpec,
    texts,
    st.sampled_from(ExecutionType),
    retry_policies,
    st.lists(role_specs, max_size=MAX_ROLES, unique_by=_name).map(tuple),
    st.sampled_from(CompletedPodPolicy),
    suspend=st.booleans(),
    active_deadline_seconds=st.none() | st.integers(0, 60),
    ttl_seconds_after_finished=st.none() | st.integers(0, 60),
    extra=extras,
)
metadatas = st.builds(
    ObjectMeta,
    framework_names,
    st.just("default"),
    uids,
    st.integers(1).map(str),
    st.integers(1, 100),
    times,
    st.none() | times,
    extra=extras,
)

# --- Written by the controller -------------------------------------------------------------------

_CODES = st.sampled_from(sorted(PREDEFINED))
_COMPLETING = frozenset(
    {
        TaskState.ATTEMPT_DELETION_PENDING,
        TaskState.ATTEMPT_DELETION_REQUESTED,
        TaskState.ATTEMPT_DELETING,
    }
)
retry_statuses = st.builds(
    lambda counted, uncounted, delay, quick, extra: RetryPolicyStatus(
        counted + uncounted, counted, delay, quick, extra
    ),
    st.integers(0, 3),
    st.integers(0, 3),
    st.none() | st.integers(1, 900),
    st.integers(0, 3),
    extras,
)
conditions = st.builds(
    Condition,
    st.sampled_from(["Running", "Complete", "Suspended"]),
    st.sampled_from(["True", "False", "Unknown"]),
    st.none() | st.integers(1, 9),
    st.none() | times,
    texts,
    texts,
    extra=extras,
)


leaves = st.builds(LeaveCount, st.integers(0, 3), st.none() | times, extra=extras)
node_names = st.sampled_from(["n1", "ip-10-0-0-1.example.internal"])
node_failures = st.builds(NodeFailure, node_names, st.none() | times, extra=extras)


@st.composite
def task_attempts(
    draw: Callable[..., Any], role: str, index: int, state: TaskState, *, is_going: bool
) -> TaskAttemptStatus:
    """An attempt that fits the Task's state; ``is_going``: the Task is deletionPending."""
    attempt = TaskAttemptStatus(
        id=draw(st.integers(0, 3)),
        start_time=draw(times),
        pod_name=build_pod_name(FRAMEWORK, role, index),
        avoided_nodes=tuple(draw(st.lists(node_names, unique=True))),
        extra=draw(extras),
    )
    if state not in BEFORE_POD:
        uid = draw(uids)
        is_assigned = draw(st.booleans()) or state is TaskState.ATTEMPT_RUNNING
        attempt = replace(
            attempt,
            pod_uid=uid,
            instance_uid=build_instance_uid(attempt.id, uid),
            pod_node_name="node" if is_assigned else "",
            pod_ip=draw(addresses) if is_assigned else "",
            pod_host_ip="192.168.0.1" if is_assigned else "",
            run_time=draw(times) if state is TaskState.ATTEMPT_RUNNING else None,
        )
        leaving = st.builds(
            LeavingStatus,
            st.sampled_from([POD_DISRUPTED, NODE_TAINTED, NODE_CORDONED]),
            texts,
            st.none() | times,
            extra=extras,
        )
        attempt = replace(attempt, leaving=draw(st.none() | st.none() | leaving))
    if state in TASK_ENDED:
        attempt = replace(attempt, completion_time=draw(times))
    if is_going or state in TASK_ENDED or state in _COMPLETING:
        code = DELETE_TASK_REQUESTED if is_going else draw(_CODES)
        attempt = replace(attempt, completion_status=complete_task(code, draw(texts)))
    return attempt


@st.composite
def tasks(draw: Callable[..., Any], role: str, index: int) -> TaskStatus:
    state = draw(st.sampled_from(TaskState))
    is_going = draw(st.booleans())
    return TaskStatus(
        index=index,
        instance_uid=draw(uids),
        start_time=draw(times),
        state=state,
        transition_time=draw(times),
        attempt_status=draw(task_attempts(role, index, state, is_going=is_going)),
        run_time=draw(st.none() | times),
        completion_time=draw(times) if state is TaskState.COMPLETED else None,
        deletion_pending=is_going,
        retry_policy_status=draw(retry_statuses),
        drain_deadline_time=draw(st.none() | times) if is_going else None,
        leaves=draw(st.none() | leaves),
        node_failures=tuple(draw(st.lists(node_failures, max_size=2))),
        extra=draw(extras),
    )


@st.composite
def role_statuses(draw: Callable[..., Any], name: str) -> TaskRoleStatus:
    number = draw(st.integers(0, MAX_TASKS))
    return TaskRoleStatus(
        name,
        draw(uids),
        tuple(draw(tasks(name, index)) for index in range(number)),
        draw(st.none() | st.integers(0, 600)),
        draw(extras),
    )


recoveries = st.builds(
    RecoveryStatus,
    st.integers(0, 9),
    st.none() | times,
    st.sampled_from(["", "RestartedInPlace"]),
    st.none()
    | st.builds(
        FailedProcess, role_names, st.integers(0, 9), uids, st.integers(0, 9), st.integers(1, 255)
    ),
    st.lists(
        st.builds(RoleRestarts, role_names, st.lists(times, max_size=2).map(tuple)), max_size=2
    ).map(tuple),
    st.lists(uids, max_size=2).map(tuple),
    st.none()
    | st.builds(
        StartBarrierStatus,
        st.integers(0, 9),
        st.none() | times,
        st.none() | st.integers(0, 9),
        st.booleans(),
    ),
    extras,
)


@st.composite
def attempts(draw: Callable[..., Any], state: FrameworkState) -> FrameworkAttemptStatus:
    names = draw(st.lists(role_names, max_size=MAX_ROLES, unique=True))
    attempt = FrameworkAttemptStatus(
        id=draw(st.integers(0, 3)),
        start_time=draw(times),
        configmap_name=f"{FRAMEWORK}-attempt",
        task_roles=tuple(draw(role_statuses(name)) for name in names),
        recovery=draw(st.none() | recoveries),
        extra=draw(extras),
    )
    task_state = TaskState(state)
    if task_state not in BEFORE_POD:
        uid = draw(uids)
        instance_uid = build_instance_uid(attempt.id, uid)
        attempt = replace(attempt, configmap_uid=uid, instance_uid=instance_uid)
    if task_state in TASK_ENDED:
        attempt = replace(attempt, completion_time=draw(times))
    if task_state in TASK_ENDED or task_state in _COMPLETING:
        trigger = draw(
            st.none()
            | st.builds(CompletionPolicyTriggerStatus, texts, role_names, st.integers(0, 9))
        )
        status = replace(complete_framework(draw(_CODES), draw(texts)), trigger=trigger)
        attempt = replace(attempt, completion_status=status)
    return attempt


@st.composite
def statuses(draw: Callable[..., Any]) -> FrameworkStatus:
    state = draw(st.sampled_from(FrameworkState))
    return FrameworkStatus(
        start_time=draw(times),
        state=state,
        transition_time=draw(times),
        attempt_status=draw(attempts(state)),
        run_time=draw(st.none() | times),
        completion_time=draw(times) if state is FrameworkState.COMPLETED else None,
        retry_policy_status=draw(retry_statuses),
        conditions=draw(st.none() | st.lists(conditions, min_size=1, max_size=2).map(tuple)),
        observed_generation=draw(st.none() | st.integers(1, 9)),
        active_start_time=draw(st.none() | times),
        extra=draw(extras),
    )


frameworks = st.builds(
    Framework,
    metadatas,
    specs,
    st.none() | statuses(),
    st.just({"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework"}),
)


def check_status(status: FrameworkStatus) -> None:
    """Fail unless the status is one that the controller could have written."""
    attempt = status.attempt_status
    state = TaskState(status.state)
    assert (attempt.configmap_uid is None) is (attempt.instance_uid is None)
    assert (attempt.completion_time is not None) is (state in TASK_ENDED)
    if state in TASK_ENDED:
        assert attempt.completion_status is not None
    for role, task in attempt.walk_tasks():
        assert role.tasks[task.index] is task
        _check_task(task)


def _check_task(task: TaskStatus) -> None:
    attempt = task.attempt_status
    assert (attempt.pod_uid is None) is (attempt.instance_uid is None)
    assert (attempt.pod_uid is None) is (attempt.pod_ip is None)
    assert (task.completion_time is not None) is (task.state is TaskState.COMPLETED)
    assert (attempt.completion_time is not None) is (task.state in TASK_ENDED)
    assert task.retry_policy_status.total_retried_count >= 0
    if task.deletion_pending:
        assert _code(attempt.completion_status) == DELETE_TASK_REQUESTED
    if task.state in TASK_ENDED:
        assert attempt.completion_status is not None
    if task.drain_deadline_time is not None:
        assert task.deletion_pending


def _code(status: TaskAttemptCompletionStatus | None) -> int | None:
    return None if status is None else status.code


# --- Pods and rosters ----------------------------------------------------------------------------


@st.composite
def pod_wires(draw: Callable[..., Any]) -> Wire:
    phase = draw(st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]))
    codes = {"Succeeded": st.just(SUCCEEDED), "Failed": st.integers(1, 255)}.get(phase)
    if codes is None:
        containers = [build_waiting(reason=draw(texts))]
    else:
        containers = [build_ended(code=draw(codes), seconds=draw(st.integers(0, 99)))]
    return build_pod_wire(
        draw(role_names), draw(st.integers(0, MAX_TASKS)), phase, containers, message=draw(texts)
    )


@st.composite
def role_rosters(draw: Callable[..., Any], name: str) -> RoleRoster:
    """A role; each wanted Task is a member, completed, or missing."""
    wanted = draw(st.sets(st.integers(0, 30), max_size=8))
    fates = {index: draw(st.sampled_from("mcx")) for index in sorted(wanted)}
    members = tuple(
        Member(
            index,
            tuple(draw(st.lists(addresses, min_size=1, max_size=2))),
            draw(fingerprints),
            draw(st.integers(0, 2)),
        )
        for index, fate in fates.items()
        if fate == "m"
    )
    states = st.sampled_from([STATE_SUCCEEDED, STATE_FAILED])
    completed = tuple(
        CompletedTask(index, draw(states), draw(st.just("") | addresses))
        for index, fate in fates.items()
        if fate == "c"
    )
    absent = tuple(sorted(draw(st.sets(st.integers(0, 30).filter(lambda i: i not in wanted)))))
    minimum = draw(st.integers(0, len(wanted)))
    return RoleRoster(name, len(wanted), minimum, draw(st.booleans()), members, completed, absent)


@st.composite
def rosters(draw: Callable[..., Any]) -> Roster:
    """A roster of any generation, complete exactly if every role has its minimum."""
    names = draw(st.lists(role_names, max_size=MAX_ROLES, unique=True))
    roles = tuple(draw(role_rosters(name)) for name in names)
    generation = draw(st.integers(1, 99))
    leaving = st.builds(
        Leaving,
        role_names,
        st.integers(0, 30),
        fingerprints,
        st.integers(1, generation),
        times.map(lambda moment: moment.strftime("%Y-%m-%dT%H:%M:%SZ")),
    )
    failed = st.builds(
        FailedMember,
        role_names,
        st.integers(0, 30),
        fingerprints,
        st.integers(0, 3),
        st.integers(1, generation),
        st.none() | st.integers(-999, 999),
        st.sampled_from(["", "ContainerSigKillReceived"]),
    )
    recovery = st.builds(
        RosterRecovery,
        st.integers(0, 9),
        st.integers(1, generation),
        st.just(tuple(names)),
        st.lists(fingerprints, max_size=2).map(tuple),
        st.integers(0, generation),
    )
    attempt_id = draw(st.integers(0, 3))
    return Roster(
        namespace="default",
        framework=draw(framework_names),
        framework_uid=draw(uids),
        attempt_id=attempt_id,
        instance_uid=build_instance_uid(attempt_id, draw(uids)),
        generation=generation,
        complete=all(role.ready >= role.minimum for role in roles),
        phase=draw(st.sampled_from([PHASE_ACTIVE, PHASE_COMPLETING])),
        roles=roles,
        leaving=tuple(draw(st.lists(leaving, max_size=2))),
        failed=tuple(draw(st.lists(failed, max_size=2))),
        recovery=draw(st.none() | recovery),
    )
