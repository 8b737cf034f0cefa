"""The Framework's machine, driven through ``decide``: docs/design/state-machines.md, "Write order".

From its creation until its attempt is to end; what follows is in test_framework_end.
"""

from dataclasses import replace
from typing import Any

import pytest

from controller.core.actions import ActionKey, DeleteObject, ObjectKind, Urgency, Verb, find_urgency
from controller.core.decide import decide
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
from tests.support.builders.worlds import (
    NOW,
    SETTINGS,
    build_draft,
    build_snapshot,
    get_code,
    get_status,
    get_task,
    list_keys,
    step,
)

S = FrameworkState
NAME = "gang-attempt"
CONFIGMAP = ObjectKind.CONFIGMAP
CREATE = ActionKey(Verb.CREATE, CONFIGMAP, NAME, "f0000000-0000-4000-8000-000000000000/0")
GONE = {(CONFIGMAP, NAME): ""}
STOP = build_spec(execution_type=ExecutionType.STOP)
TERMINATING = at(90)


def pending(attempt_id: int = 0, **fields: Any) -> FrameworkStatus:
    """A Framework that waits for its ConfigMap."""
    role = build_role_status(state=TaskState.ATTEMPT_CREATION_PENDING)
    attempt = build_attempt(role, id=attempt_id, configmap_uid=None, instance_uid=None)
    defaults: dict[str, Any] = {"state": S.ATTEMPT_CREATION_PENDING, "attempt_status": attempt}
    return replace(build_status(), **(defaults | fields))


def in_state(state: FrameworkState, task: TaskState = TaskState.ATTEMPT_RUNNING) -> FrameworkStatus:
    return build_status(build_role_status(state=task), state=state)


# --- creating ------------------------------------------------------------------------------------


def test_new_framework_is_persisted_before_its_configmap_is_created() -> None:
    decision = step(build_snapshot())
    assert get_status(decision).state is S.ATTEMPT_CREATION_PENDING
    assert list_keys(decision.actions) == [("create", NAME)]
    assert decision.actions[0].urgency is not Urgency.NONE
    assert decision.urgency >= Urgency.NOW


def test_persisted_framework_creates_its_configmap_without_another_write() -> None:
    status = replace(pending(), observed_generation=1)
    decision = step(build_snapshot(status=status))
    assert decision.status is None
    assert list_keys(decision.actions) == [("create", NAME)]
    assert decision.actions[0].urgency is Urgency.NONE


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        pytest.param(build_spec(execution_type=ExecutionType.CREATE), {}, id="it_shall_wait"),
        pytest.param(build_spec(), {"metadata": {"deletion_time": at(1)}}, id="it_is_deleted"),
        pytest.param(STOP, {"metadata": {"deletion_time": at(1)}}, id="deleted_and_stopped"),
        pytest.param(build_spec(), {"in_flight": frozenset({CREATE})}, id="it_is_under_way"),
        pytest.param(
            build_spec(),
            {"configmap": replace(build_configmap(), owner=None, deletion_time=TERMINATING)},
            id="a_foreign_one_that_has_the_name_goes_away",
        ),
        pytest.param(
            build_spec(),
            {"configmap": replace(build_configmap(), deletion_time=TERMINATING)},
            id="the_last_one_still_terminates",
        ),
    ],
)
def test_no_configmap_is_created_when(spec: FrameworkSpec, fields: dict[str, Any]) -> None:
    decision = step(build_snapshot(spec, pending(), **fields))
    assert not decision.actions
    status = decision.status or pending()
    assert status.state is S.ATTEMPT_CREATION_PENDING


def test_configmap_is_tried_while_a_foreign_one_has_its_name() -> None:
    foreign = replace(build_configmap(), owner=None)
    decision = step(build_snapshot(status=pending(), configmap=foreign))
    assert list_keys(decision.actions) == [("create", NAME)]


def test_own_configmap_of_another_attempt_is_deleted_first() -> None:
    decision = step(build_snapshot(status=pending(1), configmap=build_configmap()))
    assert [(a.key.verb, a.key.identity) for a in decision.actions] == [("delete", CONFIGMAP_UID)]


def test_configmap_seen_is_recorded_and_the_pods_are_created_in_the_next_step() -> None:
    decision = step(build_snapshot(status=pending(), configmap=build_configmap()))
    status = get_status(decision)
    assert status.state is S.ATTEMPT_PREPARING
    assert status.attempt_status.configmap_uid == CONFIGMAP_UID
    assert list_keys(decision.actions) == [("create", "gang-worker-0")]
    assert decision.actions[0].urgency is not Urgency.NONE


def test_stop_before_creation_ends_the_attempt_after_a_live_get() -> None:
    unsure = step(build_snapshot(STOP, pending()))
    assert list_keys(unsure.actions) == [("get", NAME)]
    status = get_status(step(build_snapshot(STOP, pending(), live=GONE)))
    assert status.state is S.COMPLETED
    assert get_code(status) == -210
    task = get_task(status)
    assert task.state is TaskState.COMPLETED
    assert task.attempt_status.completion_status is not None
    assert task.attempt_status.completion_status.code == -220


def test_stop_before_creation_waits_for_a_create_that_is_under_way() -> None:
    snapshot = build_snapshot(STOP, pending(), live=GONE, in_flight=frozenset({CREATE}))
    decision = step(snapshot)
    assert not decision.actions
    assert (decision.status or pending()).state is S.ATTEMPT_CREATION_PENDING


def test_foreign_configmap_is_left_alone_after_stop() -> None:
    foreign = replace(build_configmap(), owner=OwnerView("Deployment", "x", "y"))
    decision = step(
        build_snapshot(STOP, pending(), configmap=foreign, live={(CONFIGMAP, NAME): "u"})
    )
    assert get_status(decision).state is S.COMPLETED
    assert not decision.actions


# --- observing the ConfigMap ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "state", [S.ATTEMPT_CREATION_REQUESTED, S.ATTEMPT_PREPARING, S.ATTEMPT_RUNNING]
)
def test_missing_configmap_is_not_believed_without_a_live_get(state: FrameworkState) -> None:
    decision = step(build_snapshot(status=in_state(state), configmap=None, pods=[build_pod()]))
    assert list_keys(decision.actions) == [("get", NAME)]
    assert (decision.status or in_state(state)).state is state


@pytest.mark.parametrize(
    "state",
    [
        S.ATTEMPT_CREATION_REQUESTED,
        S.ATTEMPT_PREPARING,
        S.ATTEMPT_RUNNING,
        S.ATTEMPT_DELETION_PENDING,
        S.ATTEMPT_DELETION_REQUESTED,
        S.ATTEMPT_DELETING,
    ],
)
def test_configmap_known_to_be_gone_completes_every_task_in_one_write(
    state: FrameworkState,
) -> None:
    status = get_status(step(build_snapshot(status=in_state(state), configmap=None, live=GONE)))
    assert status.state is S.COMPLETED
    assert get_code(status) == -100
    assert get_task(status).state is TaskState.COMPLETED


def test_stop_while_the_created_configmap_is_gone_counts_as_stop() -> None:
    snapshot = build_snapshot(
        STOP, in_state(S.ATTEMPT_CREATION_REQUESTED), configmap=None, live=GONE
    )
    assert get_code(get_status(step(snapshot))) == -210


@pytest.mark.parametrize(
    "state", [S.ATTEMPT_CREATION_REQUESTED, S.ATTEMPT_PREPARING, S.ATTEMPT_RUNNING]
)
def test_configmap_that_another_client_deletes_ends_the_attempt_but_not_yet_its_tasks(
    state: FrameworkState,
) -> None:
    configmap = replace(build_configmap(), deletion_time=TERMINATING)
    snapshot = build_snapshot(status=in_state(state), configmap=configmap, pods=[build_pod()])
    status = get_status(step(snapshot))
    assert (status.state, get_code(status)) == (S.ATTEMPT_DELETING, -100)
    assert get_task(status).attempt_status.completion_status is None


def test_tasks_of_a_deleting_attempt_follow_their_pods() -> None:
    configmap = replace(build_configmap(), deletion_time=TERMINATING)
    going = build_pod(metadata={"deletionTimestamp": "2026-01-01T00:02:00Z"})
    snapshot = build_snapshot(
        status=in_state(S.ATTEMPT_DELETING), configmap=configmap, pods=[going]
    )
    task = get_task(get_status(step(snapshot)))
    assert task.state is TaskState.ATTEMPT_DELETING
    assert task.attempt_status.completion_status is not None
    assert task.attempt_status.completion_status.code == -101


def test_tasks_in_any_state_end_with_the_configmap() -> None:
    states = [state for state in TaskState if state is not TaskState.COMPLETED]
    tasks = []
    for index, state in enumerate(states):
        task = build_task(state, index=index)
        if state is TaskState.ATTEMPT_COMPLETED:
            task = replace(end_task(task, 201), retry_policy_status=RetryPolicyStatus(0, 0, 30))
        tasks.append(task)
    status = build_status(build_role_status(tasks=tuple(tasks)), state=S.ATTEMPT_DELETING)
    spec = build_spec(build_role(number=len(tasks)))
    decided = get_status(step(build_snapshot(spec, status, configmap=None, live=GONE)))
    for index in range(len(tasks)):
        task = get_task(decided, index)
        assert task.state is TaskState.COMPLETED
        assert task.attempt_status.completion_status is not None
        assert task.retry_policy_status.retry_delay_seconds is None


def test_foreign_configmap_that_took_the_name_gets_no_roster() -> None:
    foreign: ConfigMapView = replace(build_configmap(), uid="theirs", owner=None)
    snapshot = build_snapshot(
        status=in_state(S.ATTEMPT_RUNNING), configmap=foreign, pods=[build_pod()]
    )
    assert step(snapshot).publication is None


def test_end_of_the_attempt_waits_for_pods_that_are_on_their_way() -> None:
    create = ActionKey(Verb.CREATE, ObjectKind.POD, "gang-worker-0", "task-worker-0/0")
    fields: dict[str, Any] = {"configmap": None, "live": GONE}
    status = in_state(S.ATTEMPT_PREPARING, TaskState.ATTEMPT_CREATION_PENDING)
    waiting = step(build_snapshot(status=status, in_flight=frozenset({create}), **fields))
    assert (waiting.status, waiting.actions) == (None, ())
    assert get_status(step(build_snapshot(status=status, **fields))).state is S.COMPLETED


# --- running -------------------------------------------------------------------------------------


def test_framework_runs_when_any_task_that_stays_runs() -> None:
    status = in_state(S.ATTEMPT_PREPARING, TaskState.ATTEMPT_PREPARING)
    decided = get_status(step(build_snapshot(status=status, pods=[build_pod()])))
    assert decided.state is S.ATTEMPT_RUNNING
    assert decided.run_time == decided.attempt_status.run_time == NOW


def test_stop_completes_the_attempt_whatever_its_tasks_do() -> None:
    decision = step(build_snapshot(STOP, in_state(S.ATTEMPT_RUNNING), pods=[build_pod()]))
    status = get_status(decision)
    assert (status.state, get_code(status)) == (S.ATTEMPT_DELETION_PENDING, -210)
    task = get_task(status)
    assert task.state is TaskState.ATTEMPT_RUNNING
    assert task.attempt_status.completion_status is not None
    assert task.attempt_status.completion_status.code == -220
    assert list_keys(decision.actions) == [("delete", NAME)]
    assert decision.actions[0].urgency is not Urgency.NONE


def test_configmap_is_deleted_by_uid_and_without_a_propagation_policy() -> None:
    status = get_status(step(build_snapshot(STOP, in_state(S.ATTEMPT_RUNNING), pods=[build_pod()])))
    decision = step(build_snapshot(STOP, status, pods=[build_pod()]))
    action = decision.actions[0]
    assert isinstance(action, DeleteObject)
    assert (action.uid, action.propagation, action.urgency) == (CONFIGMAP_UID, None, Urgency.NONE)
    assert decision.status is None


def test_policy_that_a_user_changed_triggers() -> None:
    done = end_task(build_task(TaskState.COMPLETED, completion_time=at(5)))
    tasks = (done, build_task(index=1))
    policy = CompletionPolicySpec(min_succeeded_task_count=1)
    spec = build_spec(build_role(number=2, completion_policy=policy))
    status = build_status(build_role_status(tasks=tasks))
    decided = get_status(step(build_snapshot(spec, status, pods=[build_pod(index=1)])))
    assert decided.state is S.ATTEMPT_DELETION_PENDING
    assert get_code(decided) == 0


def test_framework_without_tasks_rests() -> None:
    spec = build_spec(build_role(number=0))
    status = build_status(build_role_status(number=0), state=S.ATTEMPT_CREATION_REQUESTED)
    decided = get_status(step(build_snapshot(spec, status)))
    assert decided.state is S.ATTEMPT_PREPARING
    again = step(build_snapshot(spec, decided))
    assert (again.status, again.actions) == (None, ())


def test_unclaimed_pod_is_deleted_while_the_attempt_completes_too() -> None:
    stray = replace(build_pod(), name="gang-old-0", uid="stray")
    status = in_state(S.ATTEMPT_DELETION_PENDING)
    decision = step(build_snapshot(STOP, status, pods=[build_pod(), stray]))
    assert ("delete", "gang-old-0") in list_keys(decision.actions)


def test_nothing_relies_on_a_configmap_that_is_another() -> None:
    other = replace(build_configmap(), uid="other")
    decision = step(build_snapshot(STOP, in_state(S.ATTEMPT_RUNNING), configmap=other))
    assert list_keys(decision.actions) == [("get", NAME)]
    assert decision.publication is None


def test_pod_waits_for_the_uid_of_the_configmap_to_be_persisted() -> None:
    status = build_status(build_role_status(state=TaskState.ATTEMPT_CREATION_PENDING))
    unknown = replace(status.attempt_status, configmap_uid=None, instance_uid=None)
    status = replace(status, state=S.ATTEMPT_CREATION_PENDING, attempt_status=unknown)
    decision = decide(build_snapshot(status=status, configmap=build_configmap()), SETTINGS)
    (action,) = decision.actions
    assert (action.key.kind, action.key.verb) == (ObjectKind.POD, Verb.CREATE)
    assert action.urgency is not Urgency.NONE
    assert decision.urgency >= Urgency.NOW


@pytest.mark.parametrize("is_recorded", [True, False])
def test_configmap_is_deleted_only_when_the_end_of_that_very_one_is_persisted(
    *, is_recorded: bool
) -> None:
    draft = build_draft(status=end_attempt(build_status(state=S.ATTEMPT_DELETION_PENDING), -210))
    configmap = build_configmap()
    if not is_recorded:
        draft.update_attempt(configmap_uid="another")
        configmap = replace(configmap, uid="another")
    draft.snapshot = replace(draft.snapshot, configmap=configmap)
    sync_framework(draft)
    (action,) = (a for a in draft.actions if a.key.kind is ObjectKind.CONFIGMAP)
    assert action.urgency is find_urgency(is_persisted=is_recorded)


def lose_configmap(*pods: PodView, **task: Any) -> Decision:
    """A deleted ConfigMap is known to be gone; the second Task never had a Pod."""
    pending = build_task(TaskState.ATTEMPT_CREATION_PENDING, index=1)
    role = build_role_status(tasks=(build_task(**task), pending))
    snapshot = build_snapshot(
        build_spec(build_role(number=2)),
        build_status(role),
        pods=pods,
        configmap=None,
        live={(ObjectKind.CONFIGMAP, "gang-attempt"): ""},
    )
    return decide(snapshot, SETTINGS)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([], -101, id="gone"),
        pytest.param([build_pod()], -101, id="not_seen_going_yet"),
        pytest.param([replace(build_pod(), owner=None)], -220, id="let_go_by_an_orphan_deletion"),
        pytest.param(
            [replace(build_pod(), owner=None, deletion_time=at(99))], -101, id="seen_going"
        ),
        pytest.param([replace(build_pod(), owner=None, uid="another")], -101, id="of_another"),
    ],
)
def test_configmap_deleted_by_others_takes_the_tasks_that_had_pods(
    pods: list[PodView], expected: int
) -> None:
    status = get_status(lose_configmap(*pods))
    assert status.attempt_status.completion_status is not None
    assert status.attempt_status.completion_status.code == -100
    tasks = [task for _, task in status.attempt_status.walk_tasks()]
    ends = [task.attempt_status.completion_status for task in tasks]
    assert [end.code if end else None for end in ends] == [expected, -220]
    assert {task.state for task in tasks} == {TaskState.COMPLETED}


@pytest.mark.parametrize("is_leaving", [True, False])
def test_framework_does_not_run_by_a_task_that_is_scaled_down(*, is_leaving: bool) -> None:
    last = build_task(index=1, deletion_pending=is_leaving)
    last = end_task(last, -230) if is_leaving else last
    tasks = (build_task(TaskState.ATTEMPT_PREPARING), last)
    status = build_status(build_role_status(tasks=tasks), state=S.ATTEMPT_PREPARING)
    spec = build_spec(build_role(number=1 if is_leaving else 2))
    pods = build_pods("Pending", "Running")
    written = decide(build_snapshot(spec, status, pods=pods), SETTINGS).status
    assert written is not None
    assert written.state is (S.ATTEMPT_PREPARING if is_leaving else S.ATTEMPT_RUNNING)
