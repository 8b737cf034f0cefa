"""Which objects are ours, adopted, unclaimed or known absent.

docs/design/state-machines.md, "Absence", "Adoption" and "Unclaimed Pods".
"""

from dataclasses import replace
from typing import Any

import pytest

from controller.core.actions import ActionKey, DeleteObject, ObjectKind, Verb
from controller.core.decide import decide
from controller.core.decision import Decision
from controller.core.draft import Draft
from controller.core.objects import ownership
from framework.api import constants
from framework.api.pods import OwnerView, PodView
from framework.api.states import FrameworkState, TaskState
from framework.api.types import TaskSpec, TaskStatus
from tests.support.builders import (
    CONFIGMAP_UID,
    at,
    build_attempt,
    build_configmap,
    build_pod,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_task,
)
from tests.support.builders.worlds import (
    NOW,
    SETTINGS,
    build_draft,
    build_failure,
    build_snapshot,
    list_keys,
)

PENDING = TaskState.ATTEMPT_CREATION_PENDING
POD = ObjectKind.POD
CONFIGMAP = ObjectKind.CONFIGMAP


def waiting_for_configmap(state: FrameworkState = FrameworkState.ATTEMPT_CREATION_PENDING) -> Any:
    role = build_role_status(state=PENDING)
    attempt = build_attempt(role, configmap_uid=None, instance_uid=None)
    return replace(build_status(role, state=state), attempt_status=attempt)


def draft_of_task(task: TaskStatus, *pods: PodView, **fields: Any) -> Draft:
    state = fields.pop("state", FrameworkState.ATTEMPT_PREPARING)
    status = build_status(build_role_status(tasks=(task,)), state=state)
    return build_draft(build_spec(), status, pods=pods, **fields)


# --- the ConfigMap -------------------------------------------------------------------------------


def test_configmap_of_this_attempt_is_adopted_and_recorded() -> None:
    draft = build_draft(status=waiting_for_configmap(), configmap=build_configmap())
    found = ownership.find_configmap(draft)
    assert found is not None
    assert draft.state is FrameworkState.ATTEMPT_CREATION_REQUESTED
    assert draft.status.attempt_status.configmap_uid == CONFIGMAP_UID
    assert draft.status.attempt_status.instance_uid == f"0_{CONFIGMAP_UID}"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"owner": OwnerView("Framework", "gang", "other")}, id="of_another_framework"),
        pytest.param({"owner": None}, id="without_an_owner"),
        pytest.param({"deletion_time": at(1)}, id="terminating"),
        pytest.param({"finalizers": ()}, id="without_the_finalizer"),
        pytest.param(
            {"annotations": {constants.FRAMEWORK_ATTEMPT_ID: "1"}}, id="of_another_attempt"
        ),
        pytest.param({"annotations": {}}, id="of_no_attempt"),
    ],
)
def test_configmap_is_not_adopted_unless_it_is_the_one_waited_for(changes: dict[str, Any]) -> None:
    configmap = replace(build_configmap(), **changes)
    draft = build_draft(status=waiting_for_configmap(), configmap=configmap)
    assert ownership.find_configmap(draft) is None
    assert draft.state is FrameworkState.ATTEMPT_CREATION_PENDING


def test_configmap_is_adopted_only_while_it_is_waited_for() -> None:
    status = waiting_for_configmap(FrameworkState.ATTEMPT_COMPLETED)
    draft = build_draft(status=status, configmap=build_configmap())
    assert ownership.find_configmap(draft) is None


@pytest.mark.parametrize(
    ("configmap", "is_found"),
    [
        pytest.param(build_configmap(), True, id="the_recorded_one"),
        pytest.param(build_configmap(uid="other"), False, id="another_of_its_name"),
        pytest.param(None, False, id="none"),
    ],
)
def test_configmap_is_found_by_its_recorded_uid(configmap: Any, *, is_found: bool) -> None:
    draft = build_draft(configmap=configmap)
    assert (ownership.find_configmap(draft) is not None) is is_found


# --- Pods ----------------------------------------------------------------------------------------


def test_pod_of_this_task_attempt_is_adopted_and_recorded() -> None:
    draft = draft_of_task(build_task(PENDING), build_pod())
    task = ownership.adopt_pod(draft, draft.roles[0], draft.roles[0].tasks[0])
    assert task.state is TaskState.ATTEMPT_CREATION_REQUESTED
    assert task.attempt_status.pod_uid == "pod-worker-0"
    assert task.attempt_status.instance_uid == "0_pod-worker-0"
    assert draft.roles[0].tasks[0] is task


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(build_pod(metadata={"deletionTimestamp": "2026-01-01T00:00:30Z"}), id="going"),
        pytest.param(build_pod(phase="Failed"), id="finished"),
    ],
)
def test_terminating_and_finished_pods_are_adopted_too(pod: PodView) -> None:
    draft = draft_of_task(build_task(PENDING), pod)
    task = ownership.adopt_pod(draft, draft.roles[0], draft.roles[0].tasks[0])
    assert task.attempt_status.pod_uid == pod.uid


FOREIGN_OWNER = OwnerView("ConfigMap", "gang-attempt", "past")


@pytest.mark.parametrize(
    ("pod", "task", "state"),
    [
        pytest.param(
            replace(build_pod(), owner=FOREIGN_OWNER), None, None, id="of_another_configmap"
        ),
        pytest.param(replace(build_pod(), owner=None), None, None, id="without_an_owner"),
        pytest.param(replace(build_pod(), annotations={}), None, None, id="without_annotations"),
        pytest.param(None, build_task(PENDING, instance_uid="new"), None, id="of_a_past_instance"),
        pytest.param(
            None,
            replace(
                build_task(PENDING),
                attempt_status=replace(build_task(PENDING).attempt_status, id=1),
            ),
            None,
            id="of_a_past_attempt",
        ),
        pytest.param(
            None, build_task(TaskState.ATTEMPT_RUNNING), None, id="when_another_uid_is_recorded"
        ),
        pytest.param(
            None, None, FrameworkState.ATTEMPT_DELETION_PENDING, id="while_the_attempt_completes"
        ),
    ],
)
def test_pod_is_not_adopted(
    pod: PodView | None, task: TaskStatus | None, state: FrameworkState | None
) -> None:
    pod = replace(pod or build_pod(), uid="fresh")
    draft = draft_of_task(
        task or build_task(PENDING), pod, state=state or FrameworkState.ATTEMPT_PREPARING
    )
    before = draft.roles[0].tasks[0]
    assert ownership.adopt_pod(draft, draft.roles[0], before) is before


def test_missing_pod_is_not_adopted() -> None:
    draft = draft_of_task(build_task(PENDING))
    before = draft.roles[0].tasks[0]
    assert ownership.adopt_pod(draft, draft.roles[0], before) is before


def test_pod_is_found_by_its_recorded_uid() -> None:
    draft = draft_of_task(build_task(), build_pod())
    assert ownership.find_pod(draft, draft.roles[0].tasks[0]) is not None
    foreign = draft_of_task(build_task(), replace(build_pod(), uid="other"))
    assert ownership.find_pod(foreign, foreign.roles[0].tasks[0]) is None
    assert ownership.find_pod(draft_of_task(build_task()), build_task()) is None


# --- unclaimed Pods ------------------------------------------------------------------------------


def named(pod: PodView, name: str, **changes: Any) -> PodView:
    return replace(pod, name=name, uid=f"uid-{name}", **changes)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(named(build_pod(), "gang-worker-7"), id="of_a_dropped_index"),
        pytest.param(named(build_pod(), "gang-old-0"), id="of_a_removed_role"),
        pytest.param(named(build_pod(), "anything"), id="of_no_task_name"),
        pytest.param(replace(build_pod(), uid="twin"), id="another_than_the_recorded_one"),
    ],
)
@pytest.mark.parametrize(
    "task",
    [
        build_task(),
        build_task(TaskState.ATTEMPT_DELETING),
        build_task(TaskState.COMPLETED, completion_time=NOW),
    ],
    ids=["running", "deleting", "completed"],
)
def test_unclaimed_pod_is_deleted_by_uid_in_every_state(pod: PodView, task: TaskStatus) -> None:
    draft = draft_of_task(task, pod)
    ownership.delete_unclaimed_pods(draft)
    assert [(a.key.verb, a.key.name, a.key.identity) for a in draft.actions] == [
        (Verb.DELETE, pod.name, pod.uid)
    ]
    assert draft.status is draft.freeze()


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(build_pod(), id="the_claimed_one"),
        pytest.param(named(build_pod(), "gang-x-0", owner=FOREIGN_OWNER), id="of_a_past_attempt"),
        pytest.param(named(build_pod(), "gang-x-0", owner=None), id="without_an_owner"),
        pytest.param(named(build_pod(), "gang-x-0", deletion_time=at(1)), id="that_goes_already"),
    ],
)
def test_pods_are_left_alone_that_are_claimed_foreign_or_going(pod: PodView) -> None:
    draft = draft_of_task(build_task(), pod)
    ownership.delete_unclaimed_pods(draft)
    assert not draft.actions


def test_a_pod_that_waits_to_be_adopted_is_left_alone() -> None:
    draft = draft_of_task(
        build_task(PENDING), build_pod(), state=FrameworkState.ATTEMPT_DELETION_PENDING
    )
    ownership.delete_unclaimed_pods(draft)
    assert not draft.actions


def test_without_a_recorded_configmap_no_pod_is_ours() -> None:
    draft = build_draft(status=waiting_for_configmap(), pods=[build_pod()])
    ownership.delete_unclaimed_pods(draft)
    assert not draft.actions


# --- absence -------------------------------------------------------------------------------------


def test_live_get_is_asked_for_once_for_a_live_get() -> None:
    draft = build_draft()
    ownership.request_live_get(draft, POD, "gang-worker-0", "why")
    assert list_keys(draft.actions) == [("get", "gang-worker-0")]
    asked = build_draft(in_flight={ActionKey(Verb.GET, POD, "gang-worker-0")})
    ownership.request_live_get(asked, POD, "gang-worker-0", "why")
    assert not asked.actions


def test_live_get_waits_for_a_create_of_that_name() -> None:
    draft = build_draft(in_flight={ActionKey(Verb.CREATE, POD, "gang-worker-0", "x/0")})
    ownership.request_live_get(draft, POD, "gang-worker-0", "why")
    ownership.request_live_get(draft, CONFIGMAP, "gang-worker-0", "another kind")
    assert [a.key.kind for a in draft.actions] == [CONFIGMAP]


def test_unconfirmed_create_is_looked_up_after_five_seconds() -> None:
    name = (POD, "gang-worker-0")
    draft = build_draft(unconfirmed={name: at(96)})
    ownership.request_unconfirmed(draft)
    assert not draft.actions
    assert draft.wake_at == at(101)
    late = build_draft(unconfirmed={name: at(95)})
    ownership.request_unconfirmed(late)
    assert list_keys(late.actions) == [("get", "gang-worker-0")]


@pytest.mark.parametrize(
    ("live", "in_flight", "uid", "expected"),
    [
        pytest.param({}, (), "u", False, id="nothing_is_known"),
        pytest.param({(POD, "p"): ""}, (), "u", True, id="the_name_is_free"),
        pytest.param({(POD, "p"): ""}, (), None, True, id="the_name_is_free_of_any"),
        pytest.param({(POD, "p"): "u"}, (), "u", False, id="it_is_there"),
        pytest.param({(POD, "p"): "v"}, (), "u", True, id="another_is_there"),
        pytest.param(
            {(POD, "p"): ""},
            (ActionKey(Verb.CREATE, POD, "p", "x/0"),),
            "u",
            False,
            id="a_create_is_under_way",
        ),
        pytest.param(
            {(POD, "p"): ""},
            (ActionKey(Verb.DELETE, POD, "p", "x/0"), ActionKey(Verb.CREATE, CONFIGMAP, "p")),
            "u",
            True,
            id="other_actions_do_not_matter",
        ),
    ],
)
def test_absence_is_known_only_from_a_live_answer(
    live: dict[Any, str], in_flight: tuple[ActionKey, ...], uid: str | None, *, expected: bool
) -> None:
    draft = build_draft(live=live, in_flight=frozenset(in_flight))
    assert draft.is_gone(POD, "p", uid) is expected


# --- an attempt without Pods ---------------------------------------------------------------------

CREATE = ActionKey(Verb.CREATE, POD, "gang-worker-0", "task-worker-0/0")
ENDED = build_task(TaskState.COMPLETED)


@pytest.mark.parametrize(
    ("task", "pods", "fields", "expected"),
    [
        pytest.param(ENDED, [], {}, True, id="its_pod_is_gone"),
        pytest.param(ENDED, [build_pod()], {}, False, id="its_pod_is_there"),
        pytest.param(build_task(TaskState.ATTEMPT_COMPLETED), [], {}, True, id="it_is_retried"),
        pytest.param(ENDED, [build_pod(index=5)], {}, False, id="an_unclaimed_pod_is_there"),
        pytest.param(ENDED, [replace(build_pod(), owner=None)], {}, True, id="a_foreign_pod"),
        pytest.param(build_task(), [], {}, False, id="its_task_goes_on"),
        pytest.param(build_task(PENDING), [], {}, False, id="its_pod_may_come"),
        pytest.param(build_task(TaskState.ATTEMPT_DELETING), [], {}, False, id="its_pod_goes"),
        pytest.param(ENDED, [], {"in_flight": {CREATE}}, False, id="a_create_is_on_its_way"),
        pytest.param(
            ENDED, [], {"failures": {CREATE: build_failure(0)}}, False, id="a_create_may_be_late"
        ),
        pytest.param(
            ENDED, [], {"failures": {CREATE: build_failure(500)}}, False, id="a_create_failed"
        ),
        pytest.param(
            ENDED, [], {"failures": {CREATE: build_failure(409)}}, True, id="a_create_was_refused"
        ),
    ],
)
def test_attempt_is_empty_only_when_no_pod_is_left_or_can_come(
    task: TaskStatus, pods: list[PodView], fields: Any, *, expected: bool
) -> None:
    assert ownership.is_attempt_empty(draft_of_task(task, *pods, **fields)) is expected


def forced(decision: Decision) -> list[str]:
    return [
        action.name
        for action in decision.actions
        if isinstance(action, DeleteObject) and action.grace_seconds == 0
    ]


@pytest.mark.parametrize(("timeout", "is_forced"), [(None, False), (600, False), (30, True)])
def test_unclaimed_pod_that_hangs_is_forced_as_a_claimed_one_is(
    timeout: int | None, *, is_forced: bool
) -> None:
    # Its deletion began at 40 s: 60 s ago.
    hanging = replace(
        build_pod(), deletion_time=at(70), deletion_grace_seconds=30, annotations={}, uid="past"
    )
    task = build_task(TaskState.ATTEMPT_CREATION_PENDING)
    role = build_role_status(tasks=(task,), pod_graceful_deletion_timeout_seconds=timeout)
    spec = build_spec(build_role(task=TaskSpec(pod_graceful_deletion_timeout_seconds=timeout)))
    decision = decide(build_snapshot(spec, build_status(role), pods=[hanging]), SETTINGS)
    assert forced(decision) == (["gang-worker-0"] if is_forced else [])
