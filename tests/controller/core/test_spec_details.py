"""Sentences of the contract that no other test holds the core to, each by one decision."""

from dataclasses import replace
from typing import Any

import pytest

from controller.core.actions import (
    ActionKey,
    DeleteObject,
    ObjectKind,
    Propagation,
    Urgency,
    Verb,
    find_urgency,
)
from controller.core.decide import decide
from controller.core.decision import Decision
from controller.core.machines.framework_machine import sync_framework
from controller.core.machines.task_machine import sync_task
from controller.core.objects.ownership import is_attempt_empty
from controller.core.policies.retention import has_live_wrapper
from controller.core.roster.drain import is_draining, list_leaving
from controller.core.settings import Settings
from framework.api import constants
from framework.api.completion import (
    CONTAINER_TRANSIENT_FAILED,
    complete_framework,
)
from framework.api.pods import PodView
from framework.api.roster import Leaving, fingerprint_uid
from framework.api.states import FrameworkState, TaskState
from framework.api.types import (
    CompletedPodPolicy,
    DrainSpec,
    RetryPolicySpec,
    TaskSpec,
    TaskStatus,
)
from tests.support.builders import (
    at,
    build_configmap,
    build_ended,
    build_pod,
    build_pods,
    build_role,
    build_role_roster,
    build_role_status,
    build_roster,
    build_spec,
    build_status,
    build_task,
    build_task_attempt,
    end_attempt,
    end_task,
)
from tests.support.worlds import (
    SETTINGS,
    build_draft,
    build_failure,
    build_published,
    build_snapshot,
    get_status,
    get_task,
)

S = FrameworkState
T = TaskState
POD = ObjectKind.POD
NAME = "gang-worker-0"
CREATE = ActionKey(Verb.CREATE, POD, NAME, "task-worker-0/0")


def forced(decision: Decision) -> list[str]:
    return [
        action.name
        for action in decision.actions
        if isinstance(action, DeleteObject) and action.grace_seconds == 0
    ]


# --- write order ---------------------------------------------------------------------------------


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


def test_pod_waits_for_the_uid_of_the_configmap_to_be_persisted() -> None:
    status = build_status(build_role_status(state=T.ATTEMPT_CREATION_PENDING))
    unknown = replace(status.attempt_status, configmap_uid=None, instance_uid=None)
    status = replace(status, state=S.ATTEMPT_CREATION_PENDING, attempt_status=unknown)
    decision = decide(build_snapshot(status=status, configmap=build_configmap()), SETTINGS)
    (action,) = decision.actions
    assert (action.key.kind, action.key.verb) == (POD, Verb.CREATE)
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


# --- ends ----------------------------------------------------------------------------------------


def lose_configmap(*pods: PodView, **task: Any) -> Decision:
    """A ConfigMap that somebody deleted is known to be gone; the second Task never had a Pod."""
    pending = build_task(T.ATTEMPT_CREATION_PENDING, index=1)
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
    assert {task.state for task in tasks} == {T.COMPLETED}


@pytest.mark.parametrize(("timeout", "is_forced"), [(None, False), (600, False), (30, True)])
def test_unclaimed_pod_that_hangs_is_forced_as_a_claimed_one_is(
    timeout: int | None, *, is_forced: bool
) -> None:
    # Its deletion began at 40 s: 60 s ago.
    hanging = replace(
        build_pod(), deletion_time=at(70), deletion_grace_seconds=30, annotations={}, uid="past"
    )
    task = build_task(T.ATTEMPT_CREATION_PENDING)
    role = build_role_status(tasks=(task,), pod_graceful_deletion_timeout_seconds=timeout)
    spec = build_spec(build_role(task=TaskSpec(pod_graceful_deletion_timeout_seconds=timeout)))
    decision = decide(build_snapshot(spec, build_status(role), pods=[hanging]), SETTINGS)
    assert forced(decision) == ([NAME] if is_forced else [])


def test_delay_of_nothing_is_never_persisted() -> None:
    completion = replace(complete_framework(-100, "x"), code=201)
    conflict = replace(completion.type, attributes=("Transient", "Conflict"))
    completion = replace(completion, type=conflict)
    status = end_attempt(build_status(state=S.ATTEMPT_DELETING), completion)
    gone = {(ObjectKind.CONFIGMAP, "gang-attempt"): ""}
    spec = build_spec(retry_policy=RetryPolicySpec(fancy_retry_policy=True))
    for low, expected in ((0, None), (5, 5)):
        settings = Settings(min_conflict_delay_seconds=low, max_conflict_delay_seconds=low)
        written = get_status(
            decide(build_snapshot(spec, status, configmap=None, live=gone), settings)
        )
        assert written.state is S.ATTEMPT_COMPLETED
        assert written.retry_policy_status.retry_delay_seconds == expected


# --- told ----------------------------------------------------------------------------------------


def test_blocked_is_told_by_one_event() -> None:
    refused = build_failure(409, "exists", seconds=9, count=3)
    status = build_status(build_role_status(state=T.ATTEMPT_CREATION_PENDING))
    snapshot = build_snapshot(status=status, failures={CREATE: refused})
    decision = decide(snapshot, SETTINGS)
    assert [(e.type, e.reason) for e in decision.events] == [("Warning", "NameTaken")]
    told = build_snapshot(status=get_status(decision), failures={CREATE: refused})
    assert decide(told, SETTINGS).events == ()
    other = build_failure(500, "down", seconds=9, count=3)
    changed = decide(replace(told, failures={CREATE: other}), SETTINGS)
    assert [e.reason for e in changed.events] == ["CreationRefused"]


# --- drain: who is expected to take note ---------------------------------------------------------

ACKNOWLEDGED = constants.ACKNOWLEDGED_GENERATION_ANNOTATION
TOOK_NOTE = {ACKNOWLEDGED: "7"}
BEHIND = {ACKNOWLEDGED: "6"}


def drain(peer: PodView | None, *, is_peer_leaving: bool = False, leaver: Any = None) -> bool:
    """Return whether the second Task, which leaves since generation 7, must still wait."""
    leaving_task = build_task(
        index=1, deletion_pending=True, drain_deadline_time=at(1000), run_time=at(1)
    )
    peer_task = build_task(deletion_pending=is_peer_leaving, drain_deadline_time=at(1000))
    pod = build_pod(index=1)
    pod = replace(pod, annotations={**pod.annotations, **(TOOK_NOTE if leaver is None else leaver)})
    entry = Leaving("worker", 1, fingerprint_uid(pod.uid), 7, "2026-01-01T00:16:40Z")
    roster = build_roster(build_role_roster("worker", 1), generation=7, leaving=[entry])
    draft = build_draft(
        build_spec(build_role(drain=DrainSpec(1000))),
        build_status(build_role_status(tasks=(peer_task, leaving_task))),
        pods=[pod, *([peer] if peer else [])],
        published=build_published(roster),
    )
    (role,) = draft.roles
    return is_draining(draft, role, role.tasks[1], pod)


def peer(annotations: Any = None, phase: str = "Running", **fields: Any) -> PodView:
    pod = build_pod(phase=phase)
    return replace(pod, annotations={**pod.annotations, **(annotations or {})}, **fields)


@pytest.mark.parametrize(
    ("pod", "is_awaited"),
    [
        pytest.param(peer(BEHIND), True, id="behind"),
        pytest.param(peer(TOOK_NOTE), False, id="took_note"),
        pytest.param(peer(), False, id="without_an_agent"),
        pytest.param(peer(BEHIND, "Pending"), False, id="not_running_yet"),
        pytest.param(peer(BEHIND, "Failed"), False, id="ended"),
        pytest.param(peer(BEHIND, deletion_time=at(1)), False, id="going"),
        pytest.param(peer(BEHIND, uid="another"), False, id="not_the_recorded_one"),
        pytest.param(None, False, id="gone"),
    ],
)
def test_drain_waits_for_members_that_run_and_have_an_agent(
    pod: PodView | None, *, is_awaited: bool
) -> None:
    assert drain(pod) is is_awaited


def test_drain_does_not_wait_for_others_that_leave() -> None:
    assert not drain(peer(BEHIND), is_peer_leaving=True)


def test_drain_waits_for_the_leavers_own_agent() -> None:
    assert drain(peer(TOOK_NOTE), leaver=BEHIND)
    assert not drain(peer(TOOK_NOTE), leaver={})


# --- the attempt ---------------------------------------------------------------------------------


@pytest.mark.parametrize("is_leaving", [True, False])
def test_framework_does_not_run_by_a_task_that_is_scaled_down(*, is_leaving: bool) -> None:
    last = build_task(index=1, deletion_pending=is_leaving)
    last = end_task(last, -230) if is_leaving else last
    tasks = (build_task(T.ATTEMPT_PREPARING), last)
    status = build_status(build_role_status(tasks=tasks), state=S.ATTEMPT_PREPARING)
    spec = build_spec(build_role(number=1 if is_leaving else 2))
    pods = build_pods("Pending", "Running")
    written = decide(build_snapshot(spec, status, pods=pods), SETTINGS).status
    assert written is not None
    assert written.state is (S.ATTEMPT_PREPARING if is_leaving else S.ATTEMPT_RUNNING)


@pytest.mark.parametrize(
    ("state", "pods", "is_empty"),
    [
        pytest.param(T.COMPLETED, [], True, id="all_gone"),
        pytest.param(T.ATTEMPT_COMPLETED, [], True, id="all_gone_one_would_be_retried"),
        pytest.param(T.ATTEMPT_DELETING, [], False, id="one_not_known_to_be_gone"),
        pytest.param(T.ATTEMPT_RUNNING, [], False, id="one_not_seen"),
        pytest.param(T.ATTEMPT_CREATION_PENDING, [], False, id="one_may_come"),
        pytest.param(T.COMPLETED, [build_pod(index=5)], False, id="one_that_nobody_claims"),
        pytest.param(T.COMPLETED, [replace(build_pod(), owner=None)], True, id="a_foreign_one"),
    ],
)
def test_attempt_is_empty_only_when_no_pod_is_left_and_none_can_come(
    state: TaskState, pods: list[PodView], *, is_empty: bool
) -> None:
    status = build_status(build_role_status(tasks=(build_task(state),)))
    assert is_attempt_empty(build_draft(status=status, pods=pods)) is is_empty


@pytest.mark.parametrize("code", [0, 500, 409])
def test_attempt_is_not_empty_while_a_create_may_still_be_carried_out(code: int) -> None:
    status = build_status(build_role_status(tasks=(build_task(T.COMPLETED),)))
    failures = {CREATE: build_failure(code)}
    assert is_attempt_empty(build_draft(status=status, failures=failures)) is (code == 409)
    in_flight = frozenset({CREATE})
    assert not is_attempt_empty(build_draft(status=status, in_flight=in_flight))


@pytest.mark.parametrize(
    ("phase", "deletion_time", "is_live"),
    [("Running", None, True), ("Succeeded", None, False), ("Running", at(1), False)],
)
def test_only_a_live_wrapper_waits_to_be_told(
    phase: str, deletion_time: Any, *, is_live: bool
) -> None:
    wrapped = {constants.WRAPPER_ANNOTATION: "1"}
    pod = replace(build_pod(phase=phase), deletion_time=deletion_time)
    assert not has_live_wrapper(build_draft(pods=[pod]))
    pod = replace(pod, annotations={**pod.annotations, **wrapped})
    assert has_live_wrapper(build_draft(pods=[pod])) is is_live


# --- retained Pods -------------------------------------------------------------------------------


def end_retained(*tasks: TaskStatus, pods: Any = (), **fields: Any) -> Decision:
    """The last attempt of a Framework that keeps its Pods is at its end, and that is persisted."""
    status = build_status(build_role_status(tasks=tasks), state=S.ATTEMPT_DELETION_PENDING)
    status = end_attempt(status, -210)
    spec = build_spec(build_role(number=len(tasks)), completed_pod_policy=CompletedPodPolicy.RETAIN)
    return decide(build_snapshot(spec, status, pods=pods, **fields), SETTINGS)


def ended(state: TaskState, index: int = 0) -> TaskStatus:
    """A Task that ended with its attempt; while its Pod's creation is pending, it has none."""
    end = at(5) if state is T.COMPLETED else None
    return end_task(build_task(state, index=index), -220, completion_time=end)


def test_retained_attempt_ends_with_a_task_that_never_had_a_pod() -> None:
    tasks = (ended(T.COMPLETED), ended(T.ATTEMPT_CREATION_PENDING, 1))
    name = "gang-worker-1"
    # Whether it never had one: as in every end before a Pod is known, a live GET tells.
    unsure = end_retained(*tasks, pods=build_pods("Succeeded"))
    assert [(a.key.verb, a.key.name) for a in unsure.actions] == [(Verb.GET, name)]
    live = {(ObjectKind.POD, name): ""}
    status = get_status(end_retained(*tasks, pods=build_pods("Succeeded"), live=live))
    assert status.state is S.COMPLETED
    assert {task.state for _, task in status.attempt_status.walk_tasks()} == {T.COMPLETED}


def test_retained_attempt_waits_for_a_create_that_is_under_way() -> None:
    create = ActionKey(Verb.CREATE, POD, "gang-worker-1", "task-worker-1/0")
    tasks = (ended(T.COMPLETED), ended(T.ATTEMPT_CREATION_PENDING, 1))
    decision = end_retained(*tasks, in_flight=frozenset({create}))
    assert (decision.status or build_status()).state is not S.COMPLETED


def test_retained_attempt_ends_though_a_pod_that_was_kept_is_gone() -> None:
    status = get_status(end_retained(ended(T.COMPLETED)))
    assert status.state is S.COMPLETED


@pytest.mark.parametrize("is_gone", [True, False])
def test_retained_attempt_ends_only_when_a_pod_not_seen_is_known_to_be_gone(
    *, is_gone: bool
) -> None:
    live = {(POD, NAME): ""} if is_gone else {}
    decision = end_retained(ended(T.ATTEMPT_RUNNING), live=live)
    state = (decision.status or build_status(state=S.ATTEMPT_DELETION_PENDING)).state
    assert (state is S.COMPLETED) is is_gone


@pytest.mark.parametrize(("phase", "expected"), [("Succeeded", 0), ("Failed", 200)])
def test_only_a_failed_pod_is_matched(phase: str, expected: int) -> None:
    pod = build_pod(phase=phase, containers=[build_ended(code=200)])
    status = get_status(decide(build_snapshot(status=build_status(), pods=[pod]), SETTINGS))
    (task,) = (task for _, task in status.attempt_status.walk_tasks())
    completion = task.attempt_status.completion_status
    assert completion is not None
    assert (completion.code, completion.type.is_succeeded) == (expected, expected == 0)


def test_retained_attempt_at_its_end_keeps_pods_that_ended() -> None:
    decision = end_retained(ended(T.ATTEMPT_RUNNING), pods=build_pods("Succeeded"))
    assert [a.key.name for a in decision.actions if a.key.verb is Verb.DELETE] == []
    assert get_task(get_status(decision)).state is T.COMPLETED


def test_roster_of_a_gang_that_stops_shows_nobody_leaving() -> None:
    leaving = build_task(index=1, deletion_pending=True, drain_deadline_time=at(1000))
    role = build_role_status(tasks=(build_task(), leaving))
    published = build_roster(build_role_roster("worker", 2), generation=7)
    pods = build_pods("Running", "Running")
    for metadata, expected in (({}, 1), ({"deletion_time": at(1)}, 0)):
        draft = build_draft(status=build_status(role), pods=pods, metadata=metadata)
        assert len(list(list_leaving(draft, published))) == expected


def test_marked_task_that_is_completed_waits_for_the_tail_without_a_pod() -> None:
    done = replace(ended(T.COMPLETED, 1), deletion_pending=True)
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


@pytest.mark.parametrize("change", [{"uid": "another"}, {"deletion_time": at(1)}])
def test_roster_shows_only_the_recorded_pod_leaving(change: dict[str, Any]) -> None:
    leaving = build_task(index=1, deletion_pending=True, drain_deadline_time=at(1000))
    role = build_role_status(tasks=(build_task(), leaving))
    published = build_roster(build_role_roster("worker", 2), generation=7)
    pods = [build_pod(), replace(build_pod(index=1), **change)]
    assert list(list_leaving(build_draft(status=build_status(role), pods=pods), published)) == []


@pytest.mark.parametrize(
    ("retries", "expected"),
    [pytest.param(0, Propagation.BACKGROUND, id="last"), pytest.param(1, None, id="retried")],
)
def test_configmap_of_an_empty_attempt_goes_at_once_only_when_no_attempt_follows(
    retries: int, expected: Propagation | None
) -> None:
    role = build_role_status(tasks=(build_task(T.COMPLETED),))
    status = build_status(role, state=S.ATTEMPT_DELETION_PENDING)
    status = end_attempt(status, CONTAINER_TRANSIENT_FAILED)
    policy = RetryPolicySpec(fancy_retry_policy=False, max_retry_count=retries)
    decision = decide(build_snapshot(build_spec(retry_policy=policy), status), SETTINGS)

    (action,) = [item for item in decision.actions if isinstance(item, DeleteObject)]
    assert action.propagation is expected
