"""Which objects need a creation proof, and when a controller's key is persisted."""

from dataclasses import replace
from typing import Any

from controller.core.actions import CreateConfigMap, CreatePod, DeleteObject, Urgency
from controller.core.decide import decide
from controller.core.decision import Decision
from controller.core.draft import Draft
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
PREPARING = FrameworkState.ATTEMPT_PREPARING
CREATING = FrameworkState.ATTEMPT_CREATION_PENDING


def status_of(
    *states: TaskState, state: FrameworkState = PREPARING, **attempt: Any
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
    roles = (replace(role, tasks=tasks),)
    attempt = replace(
        status.attempt_status, creator_keys=(KEY,), accepts_unsigned=True, task_roles=roles
    )
    return replace(status, attempt_status=attempt)


def decide_on(status: FrameworkStatus | None, number: int = 1, **fields: Any) -> Decision:
    spec = build_spec(build_role(number=number))
    return decide(build_snapshot(spec, status, **fields), SETTINGS)


def adopt(status: FrameworkStatus, pod: PodView, **fields: Any) -> str | None:
    """The UID that a Task records when it sees the Pod."""
    draft = build_draft(build_spec(), status, pods=[pod], settings=SETTINGS, **fields)
    role = draft.roles[0]
    return ownership.adopt_pod(draft, role, role.tasks[0]).attempt_status.pod_uid


# --- who is adopted ------------------------------------------------------------------------------


def test_pod_is_adopted_only_with_a_proof_where_keys_are_known() -> None:
    status, pod = status_of(PENDING, creator_keys=(OLD_KEY,)), build_pod()
    assert adopt(status, pod) is None
    assert adopt(status, pod, proven={"another"}) is None
    assert adopt(status, pod, proven={pod.uid}) == pod.uid


def test_proven_pod_of_a_past_attempt_of_the_task_is_not_adopted() -> None:
    status, pod = status_of(PENDING, creator_keys=(KEY,)), build_pod()
    past = replace(pod, annotations={**pod.annotations, constants.TASK_ATTEMPT_ID: "7"})
    assert adopt(status, past, proven={pod.uid}) is None


def test_pod_without_a_proof_is_adopted_in_an_attempt_that_has_no_keys() -> None:
    assert adopt(status_of(PENDING), build_pod()) == build_pod().uid


def test_pod_without_a_proof_is_adopted_by_the_task_that_waited_before_the_take_over() -> None:
    pod = build_pod()
    assert adopt(accept_unsigned(status_of(PENDING)), pod) == pod.uid
    later = status_of(PENDING, creator_keys=(KEY,), accepts_unsigned=True)
    assert adopt(later, pod) is None


@cases(
    "attempt proven is_adopted",
    forged=({"creator_keys": (KEY,)}, (), False),
    proven=({"creator_keys": (KEY,)}, (CONFIGMAP_UID,), True),
    of_an_older_controller=({}, (), True),
    taken_over=({"creator_keys": (KEY,), "accepts_unsigned": True}, (), True),
)
def test_configmap_is_adopted_only_with_a_proof_where_keys_are_known(
    attempt: Any, proven: tuple[str, ...], *, is_adopted: bool
) -> None:
    unknown = {"configmap_uid": None, "instance_uid": None}
    status = status_of(PENDING, state=CREATING, **unknown, **attempt)
    draft = build_draft(status=status, configmap=build_configmap(), proven=frozenset(proven))
    assert (ownership.find_configmap(draft) is not None) is is_adopted


def test_configmap_forged_before_the_first_look_is_neither_adopted_nor_deleted() -> None:
    decision = decide_on(None, configmap=build_configmap())
    assert get_status(decision).attempt_status.configmap_uid is None
    (create,) = decision.actions
    assert isinstance(create, CreateConfigMap)


# --- what is deleted -----------------------------------------------------------------------------


def list_deleted(draft: Draft) -> list[str]:
    ownership.delete_unclaimed_pods(draft)
    return [action.uid for action in draft.actions if isinstance(action, DeleteObject)]


def test_unclaimed_pod_is_deleted_only_with_a_proof() -> None:
    twin = replace(build_pod(), uid="twin")
    status = status_of(TaskState.ATTEMPT_RUNNING, creator_keys=(KEY,))
    assert list_deleted(build_draft(build_spec(), status, pods=[twin])) == []
    proven = build_draft(build_spec(), status, pods=[twin], proven={"twin"})
    assert list_deleted(proven) == ["twin"]


def test_pod_that_is_seen_before_its_create_is_answered_is_not_deleted() -> None:
    """After a take-over: the Task's next attempt needs a proof, which is looked at later."""
    pod = build_pod()
    status = status_of(PENDING, creator_keys=(KEY,), accepts_unsigned=True)
    create = ownership.build_creation_key(status.attempt_status.task_roles[0].tasks[0])
    fields: dict[str, Any] = {"pods": [pod], "configmap": build_configmap()}

    unanswered = decide_on(status, in_flight={create}, **fields)
    assert unanswered.actions == ()

    answered = decide_on(status, proven={pod.uid}, **fields)
    task = get_status(answered).attempt_status.task_roles[0].tasks[0]
    assert (task.attempt_status.pod_uid, answered.actions) == (pod.uid, ())


def test_forged_pod_does_not_keep_a_task_from_asking_for_its_own() -> None:
    decision = decide_on(
        status_of(PENDING, creator_keys=(KEY,)), pods=[build_pod()], configmap=build_configmap()
    )
    (create,) = decision.actions
    assert isinstance(create, CreatePod)
    assert create.urgency is Urgency.NONE


def test_forged_configmap_of_an_earlier_attempt_is_not_deleted() -> None:
    unknown = {"configmap_uid": None, "instance_uid": None, "creator_keys": (KEY,)}
    status = status_of(PENDING, state=CREATING, **unknown)
    forged = build_configmap({constants.FRAMEWORK_ATTEMPT_ID: "7"})
    (create,) = decide_on(status, configmap=forged).actions
    assert isinstance(create, CreateConfigMap)
    (delete,) = decide_on(status, configmap=forged, proven={forged.uid}).actions
    assert isinstance(delete, DeleteObject)


# --- when a key is persisted ---------------------------------------------------------------------


def test_first_status_has_the_key_so_that_creates_wait_for_no_other_write() -> None:
    status = get_status(decide_on(None))
    assert status.attempt_status.creator_keys == (KEY,)
    assert not status.attempt_status.accepts_unsigned


def test_key_of_a_new_controller_is_written_before_its_first_create() -> None:
    status = status_of(PENDING, creator_keys=(OLD_KEY,))
    decision = decide_on(status, configmap=build_configmap())
    written = get_status(decision).attempt_status
    assert written.creator_keys == (OLD_KEY, KEY)
    assert not written.accepts_unsigned
    assert not written.task_roles[0].tasks[0].attempt_status.accepts_unsigned
    assert decision.urgency >= Urgency.NOW
    assert [action.urgency for action in decision.actions] == [Urgency.NOW]
    after = decide_on(get_status(decision), configmap=build_configmap())
    assert after.status is None
    assert [action.urgency for action in after.actions] == [Urgency.NONE]


def test_key_alone_is_no_reason_for_a_write() -> None:
    status = status_of(TaskState.ATTEMPT_RUNNING, creator_keys=(OLD_KEY,))
    fields: Any = {"pods": [build_pod()], "configmap": build_configmap()}
    rested = get_status(decide_on(status, **fields))
    keys = replace(rested.attempt_status, creator_keys=(OLD_KEY,))
    assert decide_on(replace(rested, attempt_status=keys), **fields).status is None


def test_take_over_marks_what_an_older_controller_may_have_created() -> None:
    states = (PENDING, TaskState.ATTEMPT_RUNNING)
    decision = decide_on(status_of(*states), number=3, configmap=build_configmap())
    written = get_status(decision)  # The third Task is new.
    attempt = written.attempt_status
    assert (attempt.creator_keys, attempt.accepts_unsigned) == ((KEY,), True)
    marks = [task.attempt_status.accepts_unsigned for task in attempt.task_roles[0].tasks]
    assert marks == [True, False, False]


def test_next_attempt_of_the_framework_needs_proofs_and_keeps_the_keys() -> None:
    ended = end_attempt(
        status_of(TaskState.COMPLETED, creator_keys=(OLD_KEY,), accepts_unsigned=True),
        CONFIGMAP_EXTERNAL_DELETED,
    )
    ended = replace(ended, state=FrameworkState.ATTEMPT_COMPLETED, transition_time=NOW)
    spec = build_spec(retry_policy=RetryPolicySpec(max_retry_count=-2))
    status = get_status(decide(build_snapshot(spec, ended), SETTINGS))
    assert status.attempt_status.id == 1
    assert status.attempt_status.creator_keys == (OLD_KEY, KEY)
    assert not status.attempt_status.accepts_unsigned


def test_controller_without_a_key_pair_adds_none() -> None:
    status = get_status(decide(build_snapshot(build_spec(), None), Settings()))
    assert status.attempt_status.creator_keys == ()


def test_keys_are_the_newest_few_each_once() -> None:
    keys: tuple[str, ...] = ()
    for number in range(20):
        keys = add_key(keys, f"key {number}")
    assert len(keys) == MAX_CREATOR_KEYS
    assert keys[-1] == "key 19"
    assert add_key(keys, "key 15") == keys
