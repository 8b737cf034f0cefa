"""One Task's machine, driven through ``decide``: docs/design/state-machines.md, "Write order"."""

from dataclasses import replace
from typing import Any

import pytest

from controller.core.actions import ActionKey, DeleteObject, ObjectKind, Urgency, Verb, find_urgency
from controller.core.decision import SnapshotTrigger
from controller.core.machines.task_machine import sync_task
from controller.core.snapshot import Snapshot
from framework.api.completion import complete_task
from framework.api.pods import PodView
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    CompletionPolicySpec,
    RetryPolicySpec,
    RetryPolicyStatus,
    TaskSpec,
    TaskStatus,
)
from tests.support.builders import (
    at,
    build_ended,
    build_pod,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_task,
    build_task_attempt,
    end_task,
)
from tests.support.builders.cases import cases
from tests.support.builders.worlds import (
    build_draft,
    build_failure,
    build_published,
    build_snapshot,
    get_code,
    get_status,
    get_task,
    list_keys,
    step,
)

T = TaskState
POD = ObjectKind.POD
NAME = "gang-worker-0"
CREATE = ActionKey(Verb.CREATE, POD, NAME, "task-worker-0/0")
GONE = {(POD, NAME): ""}
PENDING = build_task(T.ATTEMPT_CREATION_PENDING)
# Deletion began at 60 s: the timestamp less the grace period.
TERMINATING = {"deletionTimestamp": "2026-01-01T00:01:30Z", "deletionGracePeriodSeconds": 30}
ONE_RETRY = RetryPolicySpec(max_retry_count=1)
FAIL_FAST = CompletionPolicySpec(min_failed_task_count=1)


def world(
    task: TaskStatus,
    *pods: PodView,
    retry: RetryPolicySpec | None = None,
    timeout: int | None = None,
    state: FrameworkState = FrameworkState.ATTEMPT_RUNNING,
    **fields: Any,
) -> Snapshot:
    """A gang of this Task and of a second one that runs."""
    role = build_role(number=2, task=TaskSpec(retry or RetryPolicySpec(), timeout))
    tasks = (task, build_task(index=1))
    status = build_status(
        build_role_status(tasks=tasks, pod_graceful_deletion_timeout_seconds=timeout),
        state=state,
        observed_generation=1,
    )
    return build_snapshot(build_spec(role), status, pods=(*pods, build_pod(index=1)), **fields)


def list_world_keys(*args: Any, **fields: Any) -> list[tuple[str, str]]:
    return list_keys(step(world(*args, **fields)).actions)


def after(snapshot: Snapshot) -> TaskStatus:
    """The Task after one decision, as it was when nothing is written."""
    status = step(snapshot).status or snapshot.framework.status
    assert status is not None
    return get_task(status)


def summarize(task: TaskStatus) -> tuple[TaskState, int | None]:
    return task.state, get_code(task)


def complete_attempt(**fields: Any) -> TaskStatus:
    """A Task whose attempt is over and persisted, with an exit code."""
    task = build_task(T.ATTEMPT_COMPLETED, **fields)
    return end_task(task, replace(complete_task(-300, "x"), code=7), completion_time=at(50))


def schedule_retry(seconds: int, **fields: Any) -> TaskStatus:
    return complete_attempt(retry_policy_status=RetryPolicyStatus(0, 0, seconds), **fields)


def scale_down(state: TaskState) -> TaskStatus:
    return end_task(build_task(state, deletion_pending=True), -230)


DELETING = end_task(build_task(T.ATTEMPT_DELETING), -101)


# --- creation ------------------------------------------------------------------------------------


@cases(
    "fields",
    first_try={},
    transient_error={"failures": {CREATE: build_failure(500)}},
    foreign_pod_has_the_name={"pods": [replace(build_pod(), owner=None)]},
)
def test_pending_task_creates_its_pod(fields: dict[str, Any]) -> None:
    decision = step(world(PENDING, *fields.pop("pods", ()), **fields))
    assert list_keys(decision.actions) == [("create", NAME)]
    assert decision.actions[0].urgency is Urgency.NONE
    assert decision.status is None


def test_create_waits_until_its_status_is_persisted() -> None:
    """A Task that is retried in this decision is not yet persisted as pending."""
    decision = step(world(complete_attempt(), retry=ONE_RETRY))
    assert list_keys(decision.actions) == [("create", NAME)]
    assert decision.actions[0].urgency is not Urgency.NONE
    assert decision.urgency >= Urgency.NOW


@cases(
    "fields",
    it_is_in_flight={"in_flight": frozenset({CREATE})},
    another_of_that_name_is_in_flight={
        "in_flight": frozenset({replace(CREATE, identity="past/9")})
    },
    it_failed_just_now={"failures": {CREATE: build_failure(seconds=5)}},
    quota={"failures": {CREATE: build_failure(403, "exceeded quota", 5)}},
)
def test_pod_is_not_created_now_when(fields: dict[str, Any]) -> None:
    decision = step(world(PENDING, **fields))
    assert not decision.actions
    if "failures" in fields:
        assert decision.wake_at is not None
        assert decision.wake_at <= at(105)


@cases("owner", foreign={"owner": None}, ours={})
def test_pod_is_not_created_while_another_of_its_name_terminates(owner: Any) -> None:
    terminating = replace(build_pod(task_uid="past"), deletion_time=at(1), **owner)
    assert list_world_keys(PENDING, terminating) == []


@pytest.mark.parametrize(("http", "expected"), [(422, -200), (413, -200), (400, -310), (403, -310)])
def test_permanent_creation_error_completes_after_a_live_get(http: int, expected: int) -> None:
    failures = {CREATE: build_failure(http, "bad", 60)}
    assert list_world_keys(PENDING, failures=failures) == [("get", NAME)]
    task = after(world(PENDING, failures=failures, live=GONE))
    assert summarize(task) == (T.COMPLETED, expected)
    assert task.attempt_status.pod_uid is None


def test_permanent_creation_error_is_retried_by_the_retry_policy() -> None:
    failures = {CREATE: build_failure(422, "bad", 60)}
    decision = step(world(PENDING, failures=failures, live=GONE, retry=ONE_RETRY))
    assert get_task(get_status(decision)).state is T.ATTEMPT_COMPLETED
    assert decision.urgency is Urgency.AGAIN


# --- observation ---------------------------------------------------------------------------------


@cases(
    "pod expected",
    pending=(build_pod(phase="Pending"), T.ATTEMPT_PREPARING),
    running=(build_pod(phase="Running"), T.ATTEMPT_RUNNING),
    unknown=(build_pod(phase="Unknown"), T.ATTEMPT_PREPARING),
    succeeded=(build_pod(phase="Succeeded"), T.ATTEMPT_DELETION_PENDING),
    failed=(build_pod(phase="Failed"), T.ATTEMPT_DELETION_PENDING),
    terminating=(build_pod(metadata=TERMINATING), T.ATTEMPT_DELETING),
)
def test_created_pod_is_adopted_and_its_phase_followed(pod: PodView, expected: TaskState) -> None:
    task = after(world(PENDING, pod))
    assert task.state is expected
    attempt = task.attempt_status
    assert (attempt.pod_uid, attempt.instance_uid) == ("pod-worker-0", "0_pod-worker-0")
    assert (task.run_time is not None) is (expected is T.ATTEMPT_RUNNING)
    assert (get_code(task) == -101) is (expected is T.ATTEMPT_DELETING)


def test_fields_of_the_pod_are_refreshed_and_never_cleared() -> None:
    attempt = build_task_attempt(pod_node_name=None, pod_ip=None, pod_host_ip=None)
    fresh = build_task(T.ATTEMPT_PREPARING, attempt_status=attempt)
    unassigned = build_pod(phase="Pending", podIP="", podIPs=[], hostIP="", spec={"nodeName": ""})
    known = after(world(fresh, unassigned)).attempt_status
    assert (known.pod_ip, known.pod_node_name) == ("", "")
    for pod, expected in ((unassigned, "10.0.0.2"), (build_pod(podIP="10.9.9.9"), "10.9.9.9")):
        assert after(world(build_task(), pod)).attempt_status.pod_ip == expected


def test_refreshed_fields_are_no_urgent_change() -> None:
    pod = build_pod(hostIP="192.168.0.9")
    decision = step(world(build_task(), pod, published=build_published()))
    assert get_task(get_status(decision)).attempt_status.pod_host_ip == "192.168.0.9"
    assert decision.urgency < Urgency.NOW


@pytest.mark.parametrize("phase", ["Unknown", "Nonsense"])
def test_unknown_phase_keeps_the_state(phase: str) -> None:
    assert after(world(build_task(), build_pod(phase=phase))).state is T.ATTEMPT_RUNNING


def test_missing_pod_is_read_live_first() -> None:
    decision = step(world(build_task()))
    assert list_keys(decision.actions) == [("get", NAME)]
    assert decision.status is None


@cases("live", absent="", another_uid="another")
def test_pod_known_to_be_gone_completes_the_attempt(live: str) -> None:
    task = after(world(build_task(), live={(POD, NAME): live}))
    assert summarize(task) == (T.COMPLETED, -101)


def test_pod_that_another_client_deletes_is_observed_until_it_is_gone() -> None:
    pod = build_pod(metadata=TERMINATING)
    task = after(world(build_task(), pod))
    assert summarize(task) == (T.ATTEMPT_DELETING, -101)
    assert list_world_keys(task, pod) == []


def test_finished_pod_is_deleted_only_with_its_completion_persisted() -> None:
    pod = build_pod(phase="Failed", containers=[build_ended(code=9)])
    decision = step(world(build_task(), pod))
    task = get_task(get_status(decision))
    assert summarize(task) == (T.ATTEMPT_DELETION_PENDING, 9)
    (delete,) = decision.actions
    assert (delete.key.verb, delete.key.identity) == (Verb.DELETE, pod.uid)
    assert delete.urgency is not Urgency.NONE
    again = step(world(task, pod))
    assert again.status is None
    assert again.actions[0].urgency is Urgency.NONE


def test_finished_pod_keeps_the_completion_that_was_set_before() -> None:
    pod = build_pod(phase="Failed", containers=[build_ended(code=9)])
    assert get_code(after(world(scale_down(T.ATTEMPT_RUNNING), pod))) == -230


@cases(
    "state phase",
    pending=(T.ATTEMPT_PREPARING, "Pending"),
    running=(T.ATTEMPT_PREPARING, "Running"),
    not_adopted_yet=(T.ATTEMPT_CREATION_PENDING, "Pending"),
)
def test_pod_of_a_task_scaled_down_is_deleted(state: TaskState, phase: str) -> None:
    # Index 0 is wanted: its Task ends only because it was marked before.
    decision = step(world(scale_down(state), build_pod(phase=phase)))
    task = get_task(get_status(decision))
    assert (task.state, task.attempt_status.pod_uid) == (T.ATTEMPT_DELETION_PENDING, "pod-worker-0")
    assert ("delete", NAME) in list_keys(decision.actions)


def test_task_scaled_down_before_its_pod_is_known_ends_after_a_live_get() -> None:
    task = scale_down(T.ATTEMPT_CREATION_PENDING)
    assert list_world_keys(task) == [("get", NAME)]
    decision = step(world(task, live=GONE))
    assert get_task(get_status(decision)).state is T.COMPLETED
    assert decision.urgency is Urgency.AGAIN


@pytest.mark.parametrize("phase", ["Pending", "Running", "Failed"])
def test_cache_older_than_the_persisted_deletion_changes_nothing(phase: str) -> None:
    """A new leader may list Pods as they were before the last one saw them terminate."""
    decision = step(world(DELETING, build_pod(phase=phase)))
    assert (decision.status, decision.actions) == (None, ())


# --- forced deletion -----------------------------------------------------------------------------


@cases(
    "timeout grace is_forced",
    no_timeout=(None, 30, False),
    time_left=(41, 30, False),
    time_over=(40, 30, True),
    absurd_grace_period=(1, 2**62, None),
)
def test_pod_is_deleted_by_force_after_its_timeout(
    timeout: int | None, grace: int, *, is_forced: bool | None
) -> None:
    pod = build_pod(metadata={**TERMINATING, "deletionGracePeriodSeconds": grace})
    decision = step(world(DELETING, pod, timeout=timeout))
    if is_forced is not None:
        graces = [a.grace_seconds for a in decision.actions if isinstance(a, DeleteObject)]
        assert graces == [0] * is_forced
    if timeout == 41:
        assert decision.wake_at == at(101)


# --- retry ---------------------------------------------------------------------------------------


def test_retry_is_executed_once_the_end_is_persisted() -> None:
    decision = step(world(complete_attempt(), retry=ONE_RETRY))
    task = get_task(get_status(decision))
    assert task.state is T.ATTEMPT_CREATION_PENDING
    assert (task.attempt_status.id, task.attempt_status.pod_uid) == (1, None)
    assert task.retry_policy_status == RetryPolicyStatus(1, 1, None)
    assert task.instance_uid == "task-worker-0"
    assert [s.trigger for s in decision.snapshots] == [SnapshotTrigger.TASK_RETRY]


@cases("code", transient=200, conflict=201)
def test_transient_failure_is_retried_at_once_and_counts_only_in_total(code: int) -> None:
    retry = RetryPolicySpec(fancy_retry_policy=True)
    task = after(world(end_task(complete_attempt(), code), retry=retry))
    assert (task.attempt_status.id, task.retry_policy_status) == (1, RetryPolicyStatus(1, 0, None))


@cases(
    "task retry",
    without_a_delay_though_the_clock_was_set_back=(
        complete_attempt(transition_time=at(3600)),
        ONE_RETRY,
    ),
    when_its_time_has_come=(schedule_retry(60, transition_time=at(40)), ONE_RETRY),
    though_the_policy_was_changed_since=(schedule_retry(60, transition_time=at(0)), None),
)
def test_retry_is_executed(task: TaskStatus, retry: RetryPolicySpec | None) -> None:
    assert after(world(task, retry=retry)).attempt_status.id == 1


def test_scheduled_retry_waits_for_its_delay_from_the_transition() -> None:
    decision = step(world(schedule_retry(60, transition_time=at(50)), retry=ONE_RETRY))
    assert decision.status is None
    assert decision.wake_at is not None
    assert decision.wake_at <= at(110)


def test_scale_down_executes_a_scheduled_retry_at_once_and_ends_it_with_its_code() -> None:
    task = after(world(schedule_retry(600, deletion_pending=True), live=GONE))
    assert task.attempt_status.id == 1
    assert summarize(task) == (T.COMPLETED, -230)


def test_no_retried_task_gets_a_pod_while_the_attempt_completes() -> None:
    state = FrameworkState.ATTEMPT_DELETING
    decision = step(world(complete_attempt(), retry=ONE_RETRY, state=state))
    assert get_task(get_status(decision)).state is T.ATTEMPT_CREATION_PENDING
    assert ("create", NAME) not in list_keys(decision.actions)


def test_pod_of_a_completed_task_is_left_alone() -> None:
    done = replace(complete_attempt(completion_time=at(50)), state=T.COMPLETED)
    keys = list_world_keys(done, build_pod(phase="Failed"), configmap=None, live={})
    assert ("delete", NAME) not in keys


# --- with the rest of the Framework --------------------------------------------------------------


@pytest.mark.parametrize("first", [T.ATTEMPT_RUNNING, T.ATTEMPT_CREATION_PENDING])
def test_completion_of_a_task_ends_the_attempt_in_the_same_write(first: TaskState) -> None:
    """A Task that waits for its Pod meanwhile does not create it any more."""
    spec = build_spec(build_role(number=2, completion_policy=FAIL_FAST))
    status = build_status(build_role_status(tasks=(build_task(first), build_task(index=1))))
    pods = [] if first is T.ATTEMPT_CREATION_PENDING else [build_pod()]
    decision = step(build_snapshot(spec, status, pods=pods, live={(POD, "gang-worker-1"): ""}))
    decided = get_status(decision)
    assert decided.state is FrameworkState.ATTEMPT_DELETION_PENDING
    assert get_task(decided, 1).state is T.COMPLETED
    assert get_code(get_task(decided)) == -220
    assert "create" not in dict(list_keys(decision.actions))


def test_role_gone_from_the_spec_neither_creates_nor_retries() -> None:
    pending = scale_down(T.ATTEMPT_CREATION_PENDING)
    status = build_status(build_role_status("ps"), build_role_status(tasks=(pending,)))
    spec = build_spec(build_role("ps"))
    decision = step(build_snapshot(spec, status, pods=[build_pod("ps")], live=GONE))
    assert get_task(get_status(decision)).state is T.COMPLETED
    assert decision.urgency is Urgency.AGAIN
    assert ("create", NAME) not in list_keys(decision.actions)


@cases(
    "change is_persisted",
    as_persisted=({}, True),
    another_instance=({"instance_uid": "another"}, False),
    retry=({"attempt_status": build_task_attempt(id=1, pod_uid=None)}, False),
)
def test_pod_is_created_only_for_the_persisted_attempt(
    change: dict[str, Any], *, is_persisted: bool
) -> None:
    draft = build_draft(status=build_status(build_role_status(state=T.ATTEMPT_CREATION_PENDING)))
    (role,) = draft.roles
    sync_task(draft, role, draft.put_task(role, replace(role.tasks[0], **change)))
    (action,) = draft.actions
    assert action.key.verb is Verb.CREATE
    assert action.urgency is find_urgency(is_persisted=is_persisted)


@cases("uid is_persisted", as_persisted=("pod-worker-0", True), another=("another", False))
def test_pod_is_deleted_only_when_its_end_is_persisted(uid: str, *, is_persisted: bool) -> None:
    task = end_task(build_task(T.ATTEMPT_DELETION_PENDING))
    status = build_status(build_role_status(tasks=(task,)))
    draft = build_draft(status=status, pods=[replace(build_pod(phase="Succeeded"), uid=uid)])
    (role,) = draft.roles
    sync_task(draft, role, draft.put_task(role, end_task(task, pod_uid=uid)))
    (action,) = draft.actions
    assert action.urgency is find_urgency(is_persisted=is_persisted)


@pytest.mark.parametrize(("phase", "expected"), [("Succeeded", 0), ("Failed", 200)])
def test_only_a_failed_pod_is_matched(phase: str, expected: int) -> None:
    pod = build_pod(phase=phase, containers=[build_ended(code=200)])
    task = get_task(get_status(step(build_snapshot(status=build_status(), pods=[pod]))))
    completion = task.attempt_status.completion_status
    assert completion is not None
    assert (completion.code, completion.type.is_succeeded) == (expected, expected == 0)


def test_marked_task_that_is_completed_stays_completed_until_the_tail_is_dropped() -> None:
    done = build_task(T.COMPLETED, index=1, deletion_pending=True, completion_time=at(5))
    tasks = (build_task(), end_task(done, -220), build_task(index=2, deletion_pending=True))
    pods = [build_pod(), build_pod(index=2)]
    decision = step(
        build_snapshot(build_spec(), build_status(build_role_status(tasks=tasks)), pods=pods)
    )
    states = [task.state for _, task in get_status(decision).attempt_status.walk_tasks()]
    assert states == [T.ATTEMPT_RUNNING, T.COMPLETED, T.ATTEMPT_DELETION_PENDING]
