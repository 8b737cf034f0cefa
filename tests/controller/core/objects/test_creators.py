"""Which objects need a creation proof, and when a controller's key is persisted."""

from dataclasses import replace
from typing import Any

import pytest

from controller.core.actions import CreateConfigMap, CreatePod, DeleteObject, Urgency
from controller.core.decide import decide
from controller.core.decision import Decision
from controller.core.objects import ownership
from controller.core.objects.creators import add_key
from controller.core.settings import Settings
from framework.api import constants
from framework.api.completion import CONFIGMAP_EXTERNAL_DELETED
from framework.api.constants import MAX_CREATOR_KEYS
from framework.api.pods import PodView
from framework.api.states import FrameworkState, TaskState
from framework.api.types import FrameworkStatus, RetryPolicySpec
from tests.support.builders import (
    CONFIGMAP_UID,
    build_attempt,
    build_configmap,
    build_pod,
    build_role,
    build_role_status,
    build_spec,
    build_status,
    build_task,
    end_attempt,
)
from tests.support.builders.cases import cases
from tests.support.builders.worlds import NOW, build_draft, build_snapshot, get_status

KEY, OLD_KEY = "new key", "old key"
SETTINGS = Settings(creator_key=KEY)
PENDING = TaskState.ATTEMPT_CREATION_PENDING
CREATING = FrameworkState.ATTEMPT_CREATION_PENDING
NO_CONFIGMAP = {"configmap_uid": None, "instance_uid": None}
POD, CONFIGMAP = build_pod(), build_configmap()


def status_of(
    *states: TaskState, state: FrameworkState = FrameworkState.ATTEMPT_PREPARING, **attempt: Any
) -> FrameworkStatus:
    tasks = tuple(build_task(task, index=index) for index, task in enumerate(states))
    role = build_role_status(tasks=tasks)
    return replace(build_status(role, state=state), attempt_status=build_attempt(role, **attempt))


def accept_unsigned(status: FrameworkStatus) -> FrameworkStatus:
    """The status after a controller with a key has taken it over."""
    role = status.attempt_status.task_roles[0]
    tasks = tuple(
        replace(task, attempt_status=replace(task.attempt_status, accepts_unsigned=True))
        for task in role.tasks
    )
    fields: Any = {"creator_keys": (KEY,), "accepts_unsigned": True}
    attempt = replace(status.attempt_status, task_roles=(replace(role, tasks=tasks),), **fields)
    return replace(status, attempt_status=attempt)


def decide_on(status: FrameworkStatus | None, number: int = 1, **fields: Any) -> Decision:
    fields.setdefault("configmap", CONFIGMAP)
    spec = build_spec(build_role(number=number))
    return decide(build_snapshot(spec, status, **fields), SETTINGS)


def adopt(status: FrameworkStatus, pod: PodView = POD, **fields: Any) -> bool:
    """Return whether a Task records the Pod."""
    draft = build_draft(build_spec(), status, pods=[pod], settings=SETTINGS, **fields)
    role = draft.roles[0]
    uid = ownership.adopt_pod(draft, role, role.tasks[0]).attempt_status.pod_uid
    assert uid in {None, pod.uid}
    return uid is not None


SIGNED = status_of(PENDING, creator_keys=(KEY,))
OF_ANOTHER_ATTEMPT = replace(POD, annotations={**POD.annotations, constants.TASK_ATTEMPT_ID: "7"})


@cases(
    "status pod proven is_adopted",
    without_a_proof=(SIGNED, POD, (), False),
    with_a_proof_of_another=(SIGNED, POD, ("another",), False),
    with_its_proof=(SIGNED, POD, (POD.uid,), True),
    of_another_attempt_of_the_task=(SIGNED, OF_ANOTHER_ATTEMPT, (POD.uid,), False),
    in_an_attempt_without_keys=(status_of(PENDING), POD, (), True),
    when_the_task_waited_before_the_take_over=(accept_unsigned(status_of(PENDING)), POD, (), True),
    when_the_task_is_newer_than_the_take_over=(
        status_of(PENDING, creator_keys=(KEY,), accepts_unsigned=True),
        POD,
        (),
        False,
    ),
)
def test_pod_is_adopted(
    status: FrameworkStatus, pod: PodView, proven: tuple[str, ...], *, is_adopted: bool
) -> None:
    assert adopt(status, pod, proven=frozenset(proven)) is is_adopted


@cases(
    "attempt proven is_adopted",
    forged=({"creator_keys": (KEY,)}, (), False),
    proven=({"creator_keys": (KEY,)}, (CONFIGMAP_UID,), True),
    of_an_older_controller=({}, (), True),
    taken_over=({"creator_keys": (KEY,), "accepts_unsigned": True}, (), True),
)
def test_configmap_is_adopted(attempt: Any, proven: tuple[str, ...], *, is_adopted: bool) -> None:
    status = status_of(PENDING, state=CREATING, **NO_CONFIGMAP, **attempt)
    draft = build_draft(status=status, configmap=CONFIGMAP, proven=frozenset(proven))
    assert (ownership.find_configmap(draft) is not None) is is_adopted


def test_configmap_forged_before_the_first_decision_is_neither_adopted_nor_deleted() -> None:
    decision = decide_on(None)
    assert get_status(decision).attempt_status.configmap_uid is None
    (create,) = decision.actions
    assert isinstance(create, CreateConfigMap)


@pytest.mark.parametrize("proven", [(), ("twin",)])
def test_unclaimed_pod_is_deleted_only_with_a_proof(proven: tuple[str, ...]) -> None:
    status = status_of(TaskState.ATTEMPT_RUNNING, creator_keys=(KEY,))
    twin = replace(POD, uid="twin")
    draft = build_draft(build_spec(), status, pods=[twin], proven=frozenset(proven))
    ownership.delete_unclaimed_pods(draft)
    assert [a.uid for a in draft.actions if isinstance(a, DeleteObject)] == list(proven)


def test_pod_that_is_seen_before_its_create_is_answered_is_not_deleted() -> None:
    """After a take-over: the Task's next attempt needs a proof, which is read later."""
    status = status_of(PENDING, creator_keys=(KEY,), accepts_unsigned=True)
    create = ownership.build_creation_key(status.attempt_status.task_roles[0].tasks[0])
    assert decide_on(status, in_flight={create}, pods=[POD]).actions == ()
    answered = decide_on(status, proven={POD.uid}, pods=[POD])
    task = get_status(answered).attempt_status.task_roles[0].tasks[0]
    assert (task.attempt_status.pod_uid, answered.actions) == (POD.uid, ())


def test_task_requests_its_own_pod_beside_a_forged_one() -> None:
    (create,) = decide_on(SIGNED, pods=[POD]).actions
    assert isinstance(create, CreatePod)
    assert create.urgency is Urgency.NONE


def test_forged_configmap_of_an_earlier_attempt_is_not_deleted() -> None:
    status = status_of(PENDING, state=CREATING, **NO_CONFIGMAP, creator_keys=(KEY,))
    forged = build_configmap({constants.FRAMEWORK_ATTEMPT_ID: "7"})
    (create,) = decide_on(status, configmap=forged).actions
    assert isinstance(create, CreateConfigMap)
    (delete,) = decide_on(status, configmap=forged, proven={forged.uid}).actions
    assert isinstance(delete, DeleteObject)


@cases("key expected", with_a_key=(KEY, (KEY,)), without_a_key=("", ()))
def test_first_status_has_the_key_of_its_controller(key: str, expected: tuple[str, ...]) -> None:
    attempt = get_status(decide(build_snapshot(), Settings(creator_key=key))).attempt_status
    assert (attempt.creator_keys, attempt.accepts_unsigned) == (expected, False)


def test_key_of_a_new_controller_is_written_before_its_first_create() -> None:
    decision = decide_on(status_of(PENDING, creator_keys=(OLD_KEY,)))
    written = get_status(decision).attempt_status
    assert (written.creator_keys, written.accepts_unsigned) == ((OLD_KEY, KEY), False)
    assert not written.task_roles[0].tasks[0].attempt_status.accepts_unsigned
    assert decision.urgency >= Urgency.NOW
    assert [action.urgency for action in decision.actions] == [Urgency.NOW]
    after = decide_on(get_status(decision))
    assert after.status is None
    assert [action.urgency for action in after.actions] == [Urgency.NONE]


def test_key_alone_is_no_reason_for_a_write() -> None:
    status = status_of(TaskState.ATTEMPT_RUNNING, creator_keys=(OLD_KEY,))
    written = get_status(decide_on(status, pods=[POD]))
    attempt = replace(written.attempt_status, creator_keys=(OLD_KEY,))
    assert decide_on(replace(written, attempt_status=attempt), pods=[POD]).status is None


def test_take_over_marks_what_an_older_controller_may_have_created() -> None:
    states = (PENDING, TaskState.ATTEMPT_RUNNING)
    attempt = get_status(decide_on(status_of(*states), number=3)).attempt_status
    assert (attempt.creator_keys, attempt.accepts_unsigned) == ((KEY,), True)
    marks = [task.attempt_status.accepts_unsigned for task in attempt.task_roles[0].tasks]
    assert marks == [True, False, False]  # The third Task is new.


def test_next_attempt_of_the_framework_needs_proofs_and_keeps_the_keys() -> None:
    status = status_of(TaskState.COMPLETED, creator_keys=(OLD_KEY,), accepts_unsigned=True)
    ended = end_attempt(status, CONFIGMAP_EXTERNAL_DELETED)
    ended = replace(ended, state=FrameworkState.ATTEMPT_COMPLETED, transition_time=NOW)
    spec = build_spec(retry_policy=RetryPolicySpec(max_retry_count=-2))
    attempt = get_status(decide(build_snapshot(spec, ended), SETTINGS)).attempt_status
    assert (attempt.id, attempt.creator_keys) == (1, (OLD_KEY, KEY))
    assert not attempt.accepts_unsigned


def test_keys_are_the_newest_few_each_once() -> None:
    keys: tuple[str, ...] = ()
    for number in range(20):
        keys = add_key(keys, f"key {number}")
    assert (len(keys), keys[-1]) == (MAX_CREATOR_KEYS, "key 19")
    assert add_key(keys, "key 15") == keys
