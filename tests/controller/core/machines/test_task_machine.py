"""One Task's machine, driven through ``decide``: docs/design/state-machines.md, "Write order"."""

from dataclasses import replace
from typing import Any

import pytest

from controller.core.actions import ActionKey, DeleteObject, ObjectKind, Urgency, Verb, find_urgency
from controller.core.decide import decide
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
from tests.support.builders.worlds import (
    SETTINGS,
    build_draft,
    build_failure,
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
TERMINATING = {"deletionTimestamp": "2026-01-01T00:01:30Z", "deletionGracePeriodSeconds": 30}


def world(
    task: TaskStatus,
    *pods: PodView,
    retry: RetryPolicySpec | None = None,
    timeout: int | None = None,
    state: FrameworkState = FrameworkState.ATTEMPT_RUNNING,
    **fields: Any,
) -> Snapshot:
    """A gang of this Task and of a second one that runs."""
    template = TaskSpec(retry or RetryPolicySpec(), timeout)
    role = build_role(number=2, task=template)
    tasks = (task, build_task(index=1))
    status = build_status(
        build_role_status(tasks=tasks, pod_graceful_deletion_timeout_seconds=timeout), state=state
    )
    status = replace(status, observed_generation=1)
    return build_snapshot(build_spec(role), status, pods=(*pods, build_pod(index=1)), **fields)


def after(snapshot: Snapshot) -> TaskStatus:
    """The Task after one decision, as it was when nothing is written."""
    decision = step(snapshot)
    framework = snapshot.framework
    status = decision.status or framework.status
    assert status is not None
    return get_task(status)


def completed_attempt(number: int = 7, **fields: Any) -> TaskStatus:
    """A Task whose attempt is over and persisted, with an exit code."""
    task = build_task(T.ATTEMPT_COMPLETED, **fields)
    return end_task(task, replace(complete_task(-300, "x"), code=number), completion_time=at(50))


def asked_to_go(state: TaskState) -> TaskStatus:
    """A Task that is scaled away."""
    return end_task(build_task(state, deletion_pending=True), -230)


# --- creating ------------------------------------------------------------------------------------


def test_pending_task_gets_its_pod() -> None:
    decision = step(world(build_task(T.ATTEMPT_CREATION_PENDING)))
    assert list_keys(decision.actions) == [("create", NAME)]
    assert decision.actions[0].urgency is Urgency.NONE


def test_create_waits_for_the_status_that_makes_it_safe() -> None:
    """A Task that is retried in this decision is not yet persisted as pending."""
    snapshot = world(completed_attempt(), retry=RetryPolicySpec(max_retry_count=1))
    decision = step(snapshot)
    assert list_keys(decision.actions) == [("create", NAME)]
    assert decision.actions[0].urgency is not Urgency.NONE
    assert decision.urgency >= Urgency.NOW


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"in_flight": frozenset({CREATE})}, id="it_is_under_way"),
        pytest.param(
            {"in_flight": frozenset({replace(CREATE, identity="past/9")})},
            id="one_of_that_name_is_under_way",
        ),
        pytest.param({"failures": {CREATE: build_failure(seconds=5)}}, id="it_failed_just_now"),
        pytest.param({"failures": {CREATE: build_failure(403, "exceeded quota", 5)}}, id="quota"),
    ],
)
def test_pod_is_not_created_now_when(fields: dict[str, Any]) -> None:
    decision = step(world(build_task(T.ATTEMPT_CREATION_PENDING), **fields))
    assert not decision.actions
    if "failures" in fields:
        assert decision.wake_at is not None
        assert decision.wake_at <= at(105)


def test_pod_is_tried_while_a_foreign_one_has_its_name() -> None:
    foreign = replace(build_pod(), owner=None)
    decision = step(world(build_task(T.ATTEMPT_CREATION_PENDING), foreign))
    assert list_keys(decision.actions) == [("create", NAME)]
    assert decision.status is None


@pytest.mark.parametrize("owner", [pytest.param(None, id="foreign"), pytest.param(..., id="ours")])
def test_pod_is_not_created_before_the_one_of_its_name_has_gone(owner: Any) -> None:
    going = replace(build_pod(task_uid="past"), deletion_time=at(1))
    if owner is None:
        going = replace(going, owner=None)
    decision = step(world(build_task(T.ATTEMPT_CREATION_PENDING), going))
    assert not decision.actions


def test_transient_creation_error_is_tried_again() -> None:
    snapshot = world(build_task(T.ATTEMPT_CREATION_PENDING), failures={CREATE: build_failure(500)})
    assert list_keys(step(snapshot).actions) == [("create", NAME)]


@pytest.mark.parametrize(("http", "expected"), [(422, -200), (413, -200), (400, -310), (403, -310)])
def test_permanent_creation_error_completes_after_a_live_get(http: int, expected: int) -> None:
    failures = {CREATE: build_failure(http, "bad", 60)}
    unsure = step(world(build_task(T.ATTEMPT_CREATION_PENDING), failures=failures))
    assert list_keys(unsure.actions) == [("get", NAME)]
    task = after(world(build_task(T.ATTEMPT_CREATION_PENDING), failures=failures, live=GONE))
    assert task.state is T.COMPLETED
    assert (get_code(task), task.attempt_status.pod_uid) == (expected, None)


def test_creation_error_goes_to_the_retry_policy() -> None:
    snapshot = world(
        build_task(T.ATTEMPT_CREATION_PENDING),
        failures={CREATE: build_failure(422, "bad", 60)},
        live=GONE,
        retry=RetryPolicySpec(max_retry_count=1),
    )
    decision = step(snapshot)
    assert get_task(get_status(decision)).state is T.ATTEMPT_COMPLETED
    assert decision.urgency is Urgency.AGAIN


# --- observing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        pytest.param("Pending", T.ATTEMPT_PREPARING, id="pending"),
        pytest.param("Running", T.ATTEMPT_RUNNING, id="running"),
        pytest.param("Unknown", T.ATTEMPT_PREPARING, id="unknown"),
        pytest.param("Succeeded", T.ATTEMPT_DELETION_PENDING, id="succeeded"),
        pytest.param("Failed", T.ATTEMPT_DELETION_PENDING, id="failed"),
    ],
)
def test_created_pod_is_adopted_and_its_phase_followed_in_one_write(
    phase: str, expected: TaskState
) -> None:
    task = after(world(build_task(T.ATTEMPT_CREATION_PENDING), build_pod(phase=phase)))
    assert task.state is expected
    assert task.attempt_status.pod_uid == "pod-worker-0"
    assert (task.run_time is None) is (phase != "Running")


def test_terminating_pod_is_adopted_and_counted_in_one_write() -> None:
    pod = build_pod(metadata=TERMINATING)
    task = after(world(build_task(T.ATTEMPT_CREATION_PENDING), pod))
    assert (task.state, get_code(task)) == (T.ATTEMPT_DELETING, -101)


def test_fields_of_the_pod_are_refreshed_and_never_cleared() -> None:
    attempt = build_task_attempt(pod_node_name=None, pod_ip=None, pod_host_ip=None)
    fresh = build_task(T.ATTEMPT_PREPARING, attempt_status=attempt)
    unassigned = build_pod(phase="Pending", podIP="", podIPs=[], hostIP="", spec={"nodeName": ""})
    task = after(world(fresh, unassigned))
    assert (task.attempt_status.pod_ip, task.attempt_status.pod_node_name) == ("", "")
    kept = after(world(build_task(T.ATTEMPT_RUNNING), unassigned))
    assert kept.attempt_status.pod_ip == "10.0.0.2"
    moved = after(world(build_task(T.ATTEMPT_RUNNING), build_pod(podIP="10.9.9.9")))
    assert moved.attempt_status.pod_ip == "10.9.9.9"


def test_refreshed_fields_are_no_urgent_change() -> None:
    decision = step(world(build_task(), build_pod(hostIP="192.168.0.9")))
    assert get_task(get_status(decision)).attempt_status.pod_host_ip == "192.168.0.9"
    # The first generation of the roster is due: take it away, then nothing waits for the write.
    quiet = world(build_task(), build_pod(hostIP="192.168.0.9"), configmap=None)
    assert step(quiet).urgency < Urgency.NOW


@pytest.mark.parametrize("phase", ["Unknown", "Nonsense"])
def test_unknown_phase_keeps_the_state(phase: str) -> None:
    assert after(world(build_task(), build_pod(phase=phase))).state is T.ATTEMPT_RUNNING


def test_missing_pod_is_not_believed_without_a_live_get() -> None:
    decision = step(world(build_task()))
    assert list_keys(decision.actions) == [("get", NAME)]
    assert decision.status is None


@pytest.mark.parametrize("live", ["", "another"], ids=["nothing_there", "another_one_there"])
def test_pod_known_to_be_gone_completes_the_attempt(live: str) -> None:
    task = after(world(build_task(), live={(POD, NAME): live}))
    assert (task.state, get_code(task)) == (T.COMPLETED, -101)


def test_pod_that_another_client_deletes_is_observed_until_it_is_gone() -> None:
    task = after(world(build_task(), build_pod(metadata=TERMINATING)))
    assert (task.state, get_code(task)) == (T.ATTEMPT_DELETING, -101)
    assert not step(world(task, build_pod(metadata=TERMINATING))).actions


def test_finished_pod_is_deleted_only_with_its_completion_persisted() -> None:
    pod = build_pod(phase="Failed", containers=[build_ended(code=9)])
    decision = step(world(build_task(), pod))
    task = get_task(get_status(decision))
    assert (task.state, get_code(task)) == (T.ATTEMPT_DELETION_PENDING, 9)
    assert list_keys(decision.actions) == [("delete", NAME)]
    assert decision.actions[0].key.identity == pod.uid
    assert decision.actions[0].urgency is not Urgency.NONE
    again = step(world(task, pod))
    assert again.status is None
    assert again.actions[0].urgency is Urgency.NONE


def test_finished_pod_keeps_the_completion_that_was_set_before() -> None:
    pod = build_pod(phase="Failed", containers=[build_ended(code=9)])
    assert get_code(after(world(asked_to_go(T.ATTEMPT_RUNNING), pod))) == -230


def test_task_that_goes_has_its_pod_deleted_whether_it_runs_or_not() -> None:
    for phase in ("Pending", "Running"):
        decision = step(world(asked_to_go(T.ATTEMPT_PREPARING), build_pod(phase=phase)))
        # Index 0 is wanted: it goes only because it was marked before.
        assert get_task(get_status(decision)).state is T.ATTEMPT_DELETION_PENDING
        assert ("delete", NAME) in list_keys(decision.actions)


def test_task_that_goes_before_its_pod_is_known_ends_after_a_live_get() -> None:
    going = asked_to_go(T.ATTEMPT_CREATION_PENDING)
    assert list_keys(step(world(going)).actions) == [("get", NAME)]
    decision = step(world(going, live=GONE))
    assert get_task(get_status(decision)).state is T.COMPLETED
    assert decision.urgency is Urgency.AGAIN


def test_task_that_goes_adopts_its_pod_first_then_deletes_it() -> None:
    decision = step(world(asked_to_go(T.ATTEMPT_CREATION_PENDING), build_pod(phase="Pending")))
    task = get_task(get_status(decision))
    assert (task.state, task.attempt_status.pod_uid) == (T.ATTEMPT_DELETION_PENDING, "pod-worker-0")
    assert ("delete", NAME) in list_keys(decision.actions)


@pytest.mark.parametrize("phase", ["Pending", "Running", "Failed"])
def test_cache_behind_the_persisted_deletion_is_waited_for(phase: str) -> None:
    """A new leader may list Pods as they were before the last one saw them terminate."""
    decision = step(world(deleting(), build_pod(phase=phase)))
    assert decision.status is None
    assert not decision.actions


# --- forced deletion -----------------------------------------------------------------------------


def deleting() -> TaskStatus:
    return end_task(build_task(T.ATTEMPT_DELETING), -101)


def test_pod_is_never_forced_away_without_a_timeout() -> None:
    decision = step(world(deleting(), build_pod(metadata=TERMINATING)))
    assert not decision.actions


def test_pod_is_forced_away_so_long_after_its_deletion_began() -> None:
    """Deletion began at 60 s: the timestamp (90 s) less the grace (30 s)."""
    pod = build_pod(metadata=TERMINATING)
    waiting = step(world(deleting(), pod, timeout=41))
    assert not waiting.actions
    assert waiting.wake_at == at(101)
    decision = step(world(deleting(), pod, timeout=40))
    assert list_keys(decision.actions) == [("delete", NAME)]
    action = decision.actions[0]
    assert isinstance(action, DeleteObject)
    assert action.grace_seconds == 0


def test_absurd_grace_period_forces_nothing_and_raises_nothing() -> None:
    absurd = {**TERMINATING, "deletionGracePeriodSeconds": 2**62}
    step(world(deleting(), build_pod(metadata=absurd), timeout=1))


# --- retrying ------------------------------------------------------------------------------------


def test_retry_is_executed_once_the_end_is_persisted() -> None:
    decision = step(world(completed_attempt(), retry=RetryPolicySpec(max_retry_count=1)))
    task = get_task(get_status(decision))
    assert task.state is T.ATTEMPT_CREATION_PENDING
    assert (task.attempt_status.id, task.attempt_status.pod_uid) == (1, None)
    assert task.retry_policy_status == RetryPolicyStatus(1, 1, None)
    assert task.instance_uid == "task-worker-0"
    assert [s.trigger for s in decision.snapshots] == [SnapshotTrigger.TASK_RETRY]


@pytest.mark.parametrize("code", [200, 201], ids=["transient", "conflict"])
def test_transient_failure_is_retried_at_once_and_counts_only_in_total(code: int) -> None:
    retry = RetryPolicySpec(fancy_retry_policy=True)
    task = after(world(end_task(completed_attempt(), code), retry=retry))
    assert (task.attempt_status.id, task.retry_policy_status) == (1, RetryPolicyStatus(1, 0, None))


def test_retry_without_a_delay_waits_for_no_clock_that_was_set_back() -> None:
    ahead = completed_attempt(transition_time=at(3600))
    assert after(world(ahead, retry=RetryPolicySpec(max_retry_count=1))).attempt_status.id == 1


def test_scheduled_retry_waits_for_its_delay_from_the_transition() -> None:
    scheduled = completed_attempt(
        retry_policy_status=RetryPolicyStatus(0, 0, 60), transition_time=at(50)
    )
    decision = step(world(scheduled, retry=RetryPolicySpec(max_retry_count=1)))
    assert decision.status is None
    assert decision.wake_at is not None
    assert decision.wake_at <= at(110)
    due = replace(scheduled, transition_time=at(40))
    assert after(world(due, retry=RetryPolicySpec(max_retry_count=1))).attempt_status.id == 1


def test_scheduled_retry_is_executed_though_the_policy_has_changed_its_mind() -> None:
    scheduled = completed_attempt(
        retry_policy_status=RetryPolicyStatus(0, 0, 60), transition_time=at(0)
    )
    assert after(world(scheduled)).attempt_status.id == 1


def test_scale_down_makes_a_scheduled_retry_run_at_once_and_end_with_its_code() -> None:
    scheduled = completed_attempt(
        retry_policy_status=RetryPolicyStatus(0, 0, 600),
        deletion_pending=True,
    )
    task = after(world(scheduled, live=GONE))
    assert task.attempt_status.id == 1
    assert (task.state, get_code(task)) == (T.COMPLETED, -230)


@pytest.mark.parametrize("state", [FrameworkState.ATTEMPT_DELETING])
def test_no_retried_task_gets_a_pod_while_the_attempt_completes(state: FrameworkState) -> None:
    snapshot = world(completed_attempt(), retry=RetryPolicySpec(max_retry_count=1), state=state)
    decision = step(snapshot)
    assert get_task(get_status(decision)).state is T.ATTEMPT_CREATION_PENDING
    assert ("create", NAME) not in list_keys(decision.actions)


def test_completed_task_is_left_alone() -> None:
    done = completed_attempt(completion_time=at(50))
    done = replace(done, state=T.COMPLETED)
    decision = step(world(done, build_pod(phase="Failed"), configmap=None, live={}))
    assert ("delete", NAME) not in list_keys(decision.actions)


def test_completion_of_a_task_completes_the_framework_in_the_same_write() -> None:
    policy = CompletionPolicySpec(min_failed_task_count=1)
    spec = build_spec(build_role(number=2, completion_policy=policy))
    status = build_status(build_role_status(number=2))
    snapshot = build_snapshot(spec, status, pods=[build_pod(index=1)], live=GONE)
    decided = get_status(step(snapshot))
    assert decided.state is FrameworkState.ATTEMPT_DELETION_PENDING
    assert get_task(decided).state is T.COMPLETED
    assert get_code(get_task(decided, 1)) == -220


def test_no_pod_is_created_in_the_pass_that_ends_the_attempt() -> None:
    """Task 0 waits for its Pod when Task 1 completes the attempt: the create must not be sent."""
    policy = CompletionPolicySpec(min_failed_task_count=1)
    spec = build_spec(build_role(number=2, completion_policy=policy))
    tasks = (build_task(T.ATTEMPT_CREATION_PENDING), build_task(index=1))
    snapshot = build_snapshot(
        spec, build_status(build_role_status(tasks=tasks)), live={(POD, "gang-worker-1"): ""}
    )
    decision = step(snapshot)
    assert get_status(decision).state is FrameworkState.ATTEMPT_DELETION_PENDING
    assert not [key for key in list_keys(decision.actions) if key[0] == "create"]


def test_role_gone_from_the_spec_neither_creates_nor_retries() -> None:
    pending = asked_to_go(T.ATTEMPT_CREATION_PENDING)
    status = build_status(build_role_status("ps"), build_role_status(tasks=(pending,)))
    snapshot = build_snapshot(
        build_spec(build_role("ps")), status, pods=[build_pod("ps")], live=GONE
    )
    decision = step(snapshot)
    assert get_task(get_status(decision)).state is T.COMPLETED
    assert decision.urgency is Urgency.AGAIN
    assert ("create", NAME) not in list_keys(decision.actions)


@pytest.mark.parametrize(
    ("change", "is_persisted"),
    [
        pytest.param({}, True, id="as_persisted"),
        pytest.param({"instance_uid": "another"}, False, id="another_instance"),
        pytest.param({"attempt_status": build_task_attempt(id=1, pod_uid=None)}, False, id="retry"),
    ],
)
def test_pod_is_created_only_for_the_very_attempt_that_is_persisted(
    change: dict[str, Any], *, is_persisted: bool
) -> None:
    draft = build_draft(status=build_status(build_role_status(state=T.ATTEMPT_CREATION_PENDING)))
    (role,) = draft.roles
    sync_task(draft, role, draft.put_task(role, replace(role.tasks[0], **change)))
    (action,) = draft.actions
    assert (action.key.verb, action.urgency) == (
        Verb.CREATE,
        find_urgency(is_persisted=is_persisted),
    )


def test_pod_is_deleted_only_when_the_end_of_that_very_pod_is_persisted() -> None:
    ended = build_pod(phase="Succeeded")
    task = end_task(build_task(T.ATTEMPT_DELETION_PENDING))
    for uid, is_persisted in ((ended.uid, True), ("another", False)):
        status = build_status(build_role_status(tasks=(task,)))
        draft = build_draft(status=status, pods=[replace(ended, uid=uid)])
        (role,) = draft.roles
        sync_task(draft, role, draft.put_task(role, end_task(task, pod_uid=uid)))
        (action,) = draft.actions
        assert action.urgency is find_urgency(is_persisted=is_persisted)


@pytest.mark.parametrize(("phase", "expected"), [("Succeeded", 0), ("Failed", 200)])
def test_only_a_failed_pod_is_matched(phase: str, expected: int) -> None:
    pod = build_pod(phase=phase, containers=[build_ended(code=200)])
    status = get_status(decide(build_snapshot(status=build_status(), pods=[pod]), SETTINGS))
    (task,) = (task for _, task in status.attempt_status.walk_tasks())
    completion = task.attempt_status.completion_status
    assert completion is not None
    assert (completion.code, completion.type.is_succeeded) == (expected, expected == 0)


def test_marked_task_that_is_completed_waits_for_the_tail_without_a_pod() -> None:
    done = build_task(T.COMPLETED, index=1, deletion_pending=True, completion_time=at(5))
    done = end_task(done, -220)
    tail = build_task(index=2, deletion_pending=True)
    pods = [build_pod(), build_pod(index=2)]
    status = build_status(build_role_status(tasks=(build_task(), done, tail)))
    written = get_status(decide(build_snapshot(build_spec(), status, pods=pods), SETTINGS))
    tasks = [task for _, task in written.attempt_status.walk_tasks()]
    assert [task.state for task in tasks] == [
        T.ATTEMPT_RUNNING,
        T.COMPLETED,
        T.ATTEMPT_DELETION_PENDING,
    ]
