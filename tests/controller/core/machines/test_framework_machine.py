"""The Framework's machine, driven through ``decide``: docs/design/state-machines.md, "Write order".

From its creation until its attempt is to end; the end is in test_framework_end.
"""

from dataclasses import replace
from typing import Any

import pytest

from controller.core.actions import ActionKey, DeleteObject, ObjectKind, Urgency, Verb, find_urgency
from controller.core.decision import Decision
from controller.core.machines.framework_machine import sync_framework
from framework.api.pods import ConfigMapView, OwnerView, PodView
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    CompletionPolicySpec,
    ExecutionType,
    FrameworkSpec,
    FrameworkStatus,
    RetryPolicyStatus,
    TaskStatus,
)
from tests.support.builders import (
    CONFIGMAP_UID,
    at,
    build_attempt,
    build_configmap,
    build_pod,
    build_pods,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_task,
    end_attempt,
    end_task,
)
from tests.support.builders.cases import cases
from tests.support.builders.worlds import (
    NOW,
    build_draft,
    build_snapshot,
    get_code,
    get_status,
    get_task,
    list_keys,
    step,
)

S = FrameworkState
T = TaskState
NAME = "gang-attempt"
CONFIGMAP = ObjectKind.CONFIGMAP
CREATE = ActionKey(Verb.CREATE, CONFIGMAP, NAME, "f0000000-0000-4000-8000-000000000000/0")
GONE: dict[str, Any] = {"configmap": None, "live": {(CONFIGMAP, NAME): ""}}
STOP = build_spec(execution_type=ExecutionType.STOP)
FOREIGN = replace(build_configmap(), owner=None)
TERMINATING = replace(build_configmap(), deletion_time=at(90))
ACTIVE = [S.ATTEMPT_CREATION_REQUESTED, S.ATTEMPT_PREPARING, S.ATTEMPT_RUNNING]
ENDING = [S.ATTEMPT_DELETION_PENDING, S.ATTEMPT_DELETION_REQUESTED, S.ATTEMPT_DELETING]


def wait_for_configmap(attempt_id: int = 0) -> FrameworkStatus:
    """A Framework that waits for its ConfigMap."""
    role = build_role_status(state=T.ATTEMPT_CREATION_PENDING)
    attempt = build_attempt(role, id=attempt_id, configmap_uid=None, instance_uid=None)
    fields: Any = {"attempt_status": attempt, "observed_generation": 1}
    return replace(build_status(state=S.ATTEMPT_CREATION_PENDING), **fields)


def in_state(state: FrameworkState, task: TaskState = T.ATTEMPT_RUNNING) -> FrameworkStatus:
    return build_status(build_role_status(state=task), state=state)


def summarize(decision: Decision) -> tuple[FrameworkState, int | None, TaskState, int | None]:
    """State and code of the Framework, and of its first Task."""
    status = get_status(decision)
    task = get_task(status)
    return status.state, get_code(status), task.state, get_code(task)


# --- creation ------------------------------------------------------------------------------------


def test_new_framework_is_persisted_before_its_configmap_is_created() -> None:
    decision = step(build_snapshot())
    assert get_status(decision).state is S.ATTEMPT_CREATION_PENDING
    assert list_keys(decision.actions) == [("create", NAME)]
    assert decision.actions[0].urgency is not Urgency.NONE
    assert decision.urgency >= Urgency.NOW


@cases("configmap", absent=None, foreign_one_has_the_name=FOREIGN)
def test_persisted_framework_creates_its_configmap_without_another_write(
    configmap: ConfigMapView | None,
) -> None:
    decision = step(build_snapshot(status=wait_for_configmap(), configmap=configmap))
    assert decision.status is None
    assert list_keys(decision.actions) == [("create", NAME)]
    assert decision.actions[0].urgency is Urgency.NONE


@cases(
    "spec fields",
    it_shall_wait=(build_spec(execution_type=ExecutionType.CREATE), {}),
    it_is_deleted=(build_spec(), {"metadata": {"deletion_time": at(1)}}),
    it_is_deleted_and_stopped=(STOP, {"metadata": {"deletion_time": at(1)}}),
    it_is_in_flight=(build_spec(), {"in_flight": frozenset({CREATE})}),
    it_is_in_flight_and_stopped=(STOP, {"in_flight": frozenset({CREATE}), **GONE}),
    a_foreign_one_terminates=(build_spec(), {"configmap": replace(TERMINATING, owner=None)}),
    the_last_one_terminates=(build_spec(), {"configmap": TERMINATING}),
)
def test_no_configmap_is_created_when(spec: FrameworkSpec, fields: dict[str, Any]) -> None:
    decision = step(build_snapshot(spec, wait_for_configmap(), **fields))
    assert not decision.actions
    assert (decision.status or wait_for_configmap()).state is S.ATTEMPT_CREATION_PENDING


def test_own_configmap_of_another_attempt_is_deleted_first() -> None:
    decision = step(build_snapshot(status=wait_for_configmap(1), configmap=build_configmap()))
    assert [(a.key.verb, a.key.identity) for a in decision.actions] == [("delete", CONFIGMAP_UID)]


def test_observed_configmap_is_recorded_and_the_pods_are_created_after_that_write() -> None:
    decision = step(build_snapshot(status=wait_for_configmap(), configmap=build_configmap()))
    status = get_status(decision)
    attempt = status.attempt_status
    assert status.state is S.ATTEMPT_PREPARING
    assert (attempt.configmap_uid, attempt.instance_uid) == (CONFIGMAP_UID, f"0_{CONFIGMAP_UID}")
    assert list_keys(decision.actions) == [("create", "gang-worker-0")]
    assert decision.actions[0].urgency is not Urgency.NONE
    assert decision.urgency >= Urgency.NOW


def test_stop_before_creation_ends_the_attempt_after_a_live_get() -> None:
    assert list_keys(step(build_snapshot(STOP, wait_for_configmap())).actions) == [("get", NAME)]
    decision = step(build_snapshot(STOP, wait_for_configmap(), **GONE))
    assert summarize(decision) == (S.COMPLETED, -210, T.COMPLETED, -220)


def test_foreign_configmap_is_left_alone_after_stop() -> None:
    foreign = replace(build_configmap(), owner=OwnerView("Deployment", "x", "y"))
    live = {(CONFIGMAP, NAME): "u"}
    decision = step(build_snapshot(STOP, wait_for_configmap(), configmap=foreign, live=live))
    assert get_status(decision).state is S.COMPLETED
    assert not decision.actions


# --- observation of the ConfigMap ----------------------------------------------------------------


@pytest.mark.parametrize("state", ACTIVE)
def test_missing_configmap_is_read_live_first(state: FrameworkState) -> None:
    decision = step(build_snapshot(status=in_state(state), configmap=None, pods=[build_pod()]))
    assert list_keys(decision.actions) == [("get", NAME)]
    assert (decision.status or in_state(state)).state is state


@pytest.mark.parametrize("state", ACTIVE + ENDING)
def test_configmap_known_to_be_gone_completes_every_task(state: FrameworkState) -> None:
    decided = summarize(step(build_snapshot(status=in_state(state), **GONE)))
    assert decided[:3] == (S.COMPLETED, -100, T.COMPLETED)


def test_stop_while_the_created_configmap_is_gone_counts_as_stop() -> None:
    status = in_state(S.ATTEMPT_CREATION_REQUESTED)
    assert get_code(get_status(step(build_snapshot(STOP, status, **GONE)))) == -210


@pytest.mark.parametrize("state", ACTIVE)
def test_configmap_deleted_by_another_client_ends_the_attempt_first(state: FrameworkState) -> None:
    snapshot = build_snapshot(status=in_state(state), configmap=TERMINATING, pods=[build_pod()])
    state, code, _, task_code = summarize(step(snapshot))
    assert (state, code, task_code) == (S.ATTEMPT_DELETING, -100, None)


def test_tasks_of_a_deleting_attempt_follow_their_pods() -> None:
    pod = build_pod(metadata={"deletionTimestamp": "2026-01-01T00:02:00Z"})
    status = in_state(S.ATTEMPT_DELETING)
    decision = step(build_snapshot(status=status, configmap=TERMINATING, pods=[pod]))
    assert summarize(decision)[2:] == (T.ATTEMPT_DELETING, -101)


def test_tasks_in_any_state_end_with_the_configmap() -> None:
    states = [state for state in T if state is not T.COMPLETED]
    tasks = [build_task(state, index=index) for index, state in enumerate(states)]
    place = states.index(T.ATTEMPT_COMPLETED)
    scheduled = replace(tasks[place], retry_policy_status=RetryPolicyStatus(0, 0, 30))
    tasks[place] = end_task(scheduled, 201)
    status = build_status(build_role_status(tasks=tuple(tasks)), state=S.ATTEMPT_DELETING)
    spec = build_spec(build_role(number=len(tasks)))
    decided = get_status(step(build_snapshot(spec, status, **GONE)))
    for _, task in decided.attempt_status.walk_tasks():
        assert task.state is T.COMPLETED
        assert get_code(task) is not None
        assert task.retry_policy_status.retry_delay_seconds is None


def test_end_of_the_attempt_waits_for_pods_whose_create_is_in_flight() -> None:
    create = ActionKey(Verb.CREATE, ObjectKind.POD, "gang-worker-0", "task-worker-0/0")
    status = in_state(S.ATTEMPT_PREPARING, T.ATTEMPT_CREATION_PENDING)
    waiting = step(build_snapshot(status=status, in_flight=frozenset({create}), **GONE))
    assert (waiting.status, waiting.actions) == (None, ())
    assert get_status(step(build_snapshot(status=status, **GONE))).state is S.COMPLETED


@cases(
    "pods expected",
    gone=([], -101),
    not_seen_terminating_yet=([build_pod()], -101),
    released_by_an_orphan_deletion=([replace(build_pod(), owner=None)], -220),
    seen_terminating=([replace(build_pod(), owner=None, deletion_time=at(99))], -101),
    of_another_uid=([replace(build_pod(), owner=None, uid="another")], -101),
)
def test_deleted_configmap_ends_tasks_with_pods_as_deleted(
    pods: list[PodView], expected: int
) -> None:
    """The second Task never had a Pod."""
    tasks = (build_task(), build_task(T.ATTEMPT_CREATION_PENDING, index=1))
    status = build_status(build_role_status(tasks=tasks))
    spec = build_spec(build_role(number=2))
    decided = get_status(step(build_snapshot(spec, status, pods=pods, **GONE)))
    assert get_code(decided) == -100
    ended = [get_task(decided, index) for index in (0, 1)]
    assert [get_code(task) for task in ended] == [expected, -220]
    assert {task.state for task in ended} == {T.COMPLETED}


def test_recorded_configmap_replaced_by_another_is_neither_used_nor_deleted() -> None:
    for configmap in (replace(build_configmap(), uid="other"), replace(FOREIGN, uid="theirs")):
        decision = step(build_snapshot(STOP, in_state(S.ATTEMPT_RUNNING), configmap=configmap))
        assert list_keys(decision.actions) == [("get", NAME)]
        assert decision.publication is None


# --- a running attempt ---------------------------------------------------------------------------


LAST = build_task(index=1)
LEAVING = end_task(build_task(index=1, deletion_pending=True), -230)


@cases("last is_running", wanted=(LAST, True), scaled_down=(LEAVING, False))
def test_framework_runs_when_any_wanted_task_runs(last: TaskStatus, *, is_running: bool) -> None:
    tasks = (build_task(T.ATTEMPT_PREPARING), last)
    status = build_status(build_role_status(tasks=tasks), state=S.ATTEMPT_PREPARING)
    spec = build_spec(build_role(number=1 + is_running))
    pods = build_pods("Pending", "Running")
    decided = get_status(step(build_snapshot(spec, status, pods=pods)))
    assert decided.state is (S.ATTEMPT_RUNNING if is_running else S.ATTEMPT_PREPARING)
    run_time = NOW if is_running else None
    assert (decided.run_time, decided.attempt_status.run_time) == (run_time, run_time)


def test_stop_completes_the_attempt_and_deletes_its_configmap_when_that_is_persisted() -> None:
    decision = step(build_snapshot(STOP, in_state(S.ATTEMPT_RUNNING), pods=[build_pod()]))
    assert summarize(decision) == (S.ATTEMPT_DELETION_PENDING, -210, T.ATTEMPT_RUNNING, -220)
    assert list_keys(decision.actions) == [("delete", NAME)]
    assert decision.actions[0].urgency is not Urgency.NONE
    again = step(build_snapshot(STOP, get_status(decision), pods=[build_pod()]))
    (action,) = again.actions
    assert isinstance(action, DeleteObject)
    assert (action.uid, action.propagation, action.urgency) == (CONFIGMAP_UID, None, Urgency.NONE)
    assert again.status is None


def test_completion_policy_that_a_user_changed_triggers() -> None:
    tasks = (end_task(build_task(T.COMPLETED, completion_time=at(5))), build_task(index=1))
    policy = CompletionPolicySpec(min_succeeded_task_count=1)
    spec = build_spec(build_role(number=2, completion_policy=policy))
    status = build_status(build_role_status(tasks=tasks))
    decided = get_status(step(build_snapshot(spec, status, pods=[build_pod(index=1)])))
    assert (decided.state, get_code(decided)) == (S.ATTEMPT_DELETION_PENDING, 0)


def test_framework_without_tasks_is_quiet() -> None:
    spec = build_spec(build_role(number=0))
    status = build_status(build_role_status(number=0), state=S.ATTEMPT_CREATION_REQUESTED)
    decided = get_status(step(build_snapshot(spec, status)))
    assert decided.state is S.ATTEMPT_PREPARING
    again = step(build_snapshot(spec, decided))
    assert (again.status, again.actions) == (None, ())


def test_unclaimed_pod_is_deleted_while_the_attempt_completes_too() -> None:
    unclaimed = replace(build_pod(), name="gang-old-0", uid="unclaimed")
    status = in_state(S.ATTEMPT_DELETION_PENDING)
    decision = step(build_snapshot(STOP, status, pods=[build_pod(), unclaimed]))
    assert ("delete", "gang-old-0") in list_keys(decision.actions)


@pytest.mark.parametrize("is_recorded", [True, False])
def test_configmap_is_deleted_only_when_its_end_is_persisted(*, is_recorded: bool) -> None:
    draft = build_draft(status=end_attempt(build_status(state=S.ATTEMPT_DELETION_PENDING), -210))
    if not is_recorded:
        draft.update_attempt(configmap_uid="another")
        another = replace(build_configmap(), uid="another")
        draft.snapshot = replace(draft.snapshot, configmap=another)
    sync_framework(draft)
    (action,) = (a for a in draft.actions if a.key.kind is CONFIGMAP)
    assert action.urgency is find_urgency(is_persisted=is_recorded)
