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
from framework.api.types import FrameworkStatus, TaskSpec, TaskStatus
from tests.support.builders import (
    at,
    build_attempt,
    build_configmap,
    build_pod,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_task,
    build_task_attempt,
)
from tests.support.builders.cases import cases
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
NAME = "gang-worker-0"


def wait_for_configmap(state: FrameworkState) -> FrameworkStatus:
    role = build_role_status(state=PENDING)
    attempt = build_attempt(role, configmap_uid=None, instance_uid=None)
    return replace(build_status(role, state=state), attempt_status=attempt)


def draft_of_task(task: TaskStatus, *pods: PodView, **fields: Any) -> Draft:
    state = fields.pop("state", FrameworkState.ATTEMPT_PREPARING)
    status = build_status(build_role_status(tasks=(task,)), state=state)
    return build_draft(build_spec(), status, pods=pods, **fields)


@cases(
    "changes",
    of_another_framework={"owner": OwnerView("Framework", "gang", "other")},
    without_an_owner={"owner": None},
    terminating={"deletion_time": at(1)},
    without_the_finalizer={"finalizers": ()},
    of_another_attempt={"annotations": {constants.FRAMEWORK_ATTEMPT_ID: "1"}},
    of_no_attempt={"annotations": {}},
    after_the_attempt={"state": FrameworkState.ATTEMPT_COMPLETED},
)
def test_configmap_is_not_adopted_unless_it_is_the_one_waited_for(changes: dict[str, Any]) -> None:
    state = changes.pop("state", FrameworkState.ATTEMPT_CREATION_PENDING)
    configmap = replace(build_configmap(), **changes)
    draft = build_draft(status=wait_for_configmap(state), configmap=configmap)
    assert ownership.find_configmap(draft) is None
    assert draft.state is state


FOREIGN_OWNER = OwnerView("ConfigMap", "gang-attempt", "past")


NEXT_ATTEMPT = build_task_attempt(id=1, pod_uid=None, instance_uid=None)


@cases(
    "pod task state",
    of_another_configmap=({"owner": FOREIGN_OWNER}, {}, None),
    without_an_owner=({"owner": None}, {}, None),
    without_annotations=({"annotations": {}}, {}, None),
    of_a_past_instance=({}, {"instance_uid": "new"}, None),
    of_a_past_attempt=({}, {"attempt_status": NEXT_ATTEMPT}, None),
    when_another_uid_is_recorded=({}, {"state": TaskState.ATTEMPT_RUNNING}, None),
    while_the_attempt_completes=({}, {}, FrameworkState.ATTEMPT_DELETION_PENDING),
)
def test_pod_is_not_adopted(
    pod: dict[str, Any], task: dict[str, Any], state: FrameworkState | None
) -> None:
    fields = {"state": PENDING, **task}
    draft = draft_of_task(
        build_task(**fields),
        replace(build_pod(), uid="fresh", **pod),
        state=state or FrameworkState.ATTEMPT_PREPARING,
    )
    before = draft.roles[0].tasks[0]
    assert ownership.adopt_pod(draft, draft.roles[0], before) is before


def named(pod: PodView, name: str, **changes: Any) -> PodView:
    return replace(pod, name=name, uid=f"uid-{name}", **changes)


@cases(
    "pod",
    of_a_dropped_index=named(build_pod(), "gang-worker-7"),
    of_a_removed_role=named(build_pod(), "gang-old-0"),
    of_no_task_name=named(build_pod(), "anything"),
    another_than_the_recorded_one=replace(build_pod(), uid="twin"),
)
@cases(
    "task",
    running=build_task(),
    deleting=build_task(TaskState.ATTEMPT_DELETING),
    completed=build_task(TaskState.COMPLETED, completion_time=NOW),
)
def test_unclaimed_pod_is_deleted_by_uid_in_every_state(pod: PodView, task: TaskStatus) -> None:
    draft = draft_of_task(task, pod)
    ownership.delete_unclaimed_pods(draft)
    assert [(a.key.verb, a.key.name, a.key.identity) for a in draft.actions] == [
        (Verb.DELETE, pod.name, pod.uid)
    ]
    assert draft.status is draft.freeze()


UNCLAIMED = named(build_pod(), "gang-x-0")


@cases(
    "draft",
    claimed=draft_of_task(build_task(), build_pod()),
    of_a_past_attempt=draft_of_task(build_task(), replace(UNCLAIMED, owner=FOREIGN_OWNER)),
    without_an_owner=draft_of_task(build_task(), replace(UNCLAIMED, owner=None)),
    terminating=draft_of_task(build_task(), replace(UNCLAIMED, deletion_time=at(1))),
    to_be_adopted=draft_of_task(
        build_task(PENDING), build_pod(), state=FrameworkState.ATTEMPT_DELETION_PENDING
    ),
    without_a_recorded_configmap=build_draft(
        status=wait_for_configmap(FrameworkState.ATTEMPT_CREATION_PENDING), pods=[build_pod()]
    ),
)
def test_pods_are_left_alone_that_are(draft: Draft) -> None:
    ownership.delete_unclaimed_pods(draft)
    assert not draft.actions


@cases(
    "in_flight expected",
    nothing_in_flight=((), [POD, CONFIGMAP]),
    a_get_in_flight=((ActionKey(Verb.GET, POD, NAME),), [CONFIGMAP]),
    a_create_in_flight=((ActionKey(Verb.CREATE, POD, NAME, "x/0"),), [CONFIGMAP]),
)
def test_live_get_is_requested_once_and_after_a_create(
    in_flight: tuple[ActionKey, ...], expected: list[ObjectKind]
) -> None:
    draft = build_draft(in_flight=frozenset(in_flight))
    for kind in (POD, CONFIGMAP):
        ownership.request_live_get(draft, kind, NAME, "why")
    assert [(a.key.verb, a.key.kind) for a in draft.actions] == [(Verb.GET, k) for k in expected]


def test_unconfirmed_create_is_read_live_after_five_seconds() -> None:
    name = (POD, "gang-worker-0")
    draft = build_draft(unconfirmed={name: at(96)})
    ownership.request_unconfirmed(draft)
    assert not draft.actions
    assert draft.wake_at == at(101)
    late = build_draft(unconfirmed={name: at(95)})
    ownership.request_unconfirmed(late)
    assert list_keys(late.actions) == [("get", "gang-worker-0")]


@cases(
    "live in_flight uid expected",
    unknown=({}, (), "u", False),
    absent=({(POD, "p"): ""}, (), "u", True),
    absent_without_a_uid=({(POD, "p"): ""}, (), None, True),
    present=({(POD, "p"): "u"}, (), "u", False),
    another_uid=({(POD, "p"): "v"}, (), "u", True),
    a_create_is_in_flight=(
        {(POD, "p"): ""},
        (ActionKey(Verb.CREATE, POD, "p", "x/0"),),
        "u",
        False,
    ),
    other_actions_do_not_matter=(
        {(POD, "p"): ""},
        (ActionKey(Verb.DELETE, POD, "p", "x/0"), ActionKey(Verb.CREATE, CONFIGMAP, "p")),
        "u",
        True,
    ),
)
def test_absence_is_known_only_from_a_live_answer(
    live: dict[Any, str], in_flight: tuple[ActionKey, ...], uid: str | None, *, expected: bool
) -> None:
    draft = build_draft(live=live, in_flight=frozenset(in_flight))
    assert draft.is_gone(POD, "p", uid) is expected


CREATE = ActionKey(Verb.CREATE, POD, "gang-worker-0", "task-worker-0/0")
ENDED = build_task(TaskState.COMPLETED)


@cases(
    "task pods fields expected",
    its_pod_is_gone=(ENDED, [], {}, True),
    its_pod_exists=(ENDED, [build_pod()], {}, False),
    it_is_retried=(build_task(TaskState.ATTEMPT_COMPLETED), [], {}, True),
    an_unclaimed_pod_exists=(ENDED, [build_pod(index=5)], {}, False),
    a_foreign_pod=(ENDED, [replace(build_pod(), owner=None)], {}, True),
    its_task_runs=(build_task(), [], {}, False),
    its_pod_may_be_created=(build_task(PENDING), [], {}, False),
    its_pod_terminates=(build_task(TaskState.ATTEMPT_DELETING), [], {}, False),
    a_create_is_in_flight=(ENDED, [], {"in_flight": {CREATE}}, False),
    a_create_may_be_late=(ENDED, [], {"failures": {CREATE: build_failure(0)}}, False),
    a_create_failed=(ENDED, [], {"failures": {CREATE: build_failure(500)}}, False),
    a_create_was_refused=(ENDED, [], {"failures": {CREATE: build_failure(409)}}, True),
)
def test_attempt_is_empty_only_when_no_pod_exists_or_can_be_created(
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
def test_unclaimed_pod_that_hangs_is_forced(timeout: int | None, *, is_forced: bool) -> None:
    # Its deletion began at 40 s: 60 s ago.
    hanging = replace(
        build_pod(), deletion_time=at(70), deletion_grace_seconds=30, annotations={}, uid="past"
    )
    task = build_task(TaskState.ATTEMPT_CREATION_PENDING)
    role = build_role_status(tasks=(task,), pod_graceful_deletion_timeout_seconds=timeout)
    spec = build_spec(build_role(task=TaskSpec(pod_graceful_deletion_timeout_seconds=timeout)))
    decision = decide(build_snapshot(spec, build_status(role), pods=[hanging]), SETTINGS)
    assert forced(decision) == (["gang-worker-0"] if is_forced else [])
