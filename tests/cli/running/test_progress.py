import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cli.running.progress import GangView, World, build_view, list_own_failures
from framework.api import constants
from framework.api.naming import TaskKey
from framework.kube.resources import Object

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TIME = "2026-01-02T03:04:05Z"


def completion(code: int, kind: str = "Failed") -> Object:
    kind_wire = {"name": kind, "attributes": []}
    return {"code": code, "phrase": "Phrase", "type": kind_wire, "diagnostics": f"diagnosed {code}"}


SUCCESS = completion(0, "Succeeded")


def retries(count: int, delay_seconds: int | None) -> Object:
    counts = dict.fromkeys(("totalRetriedCount", "accountableRetriedCount"), count)
    return {**counts, "retryDelaySec": delay_seconds}


def task(
    index: int,
    state: str,
    *,
    attempt: int = 0,
    ip: str | None = None,
    ended: Object | None = None,
    retry_delay: int | None = None,
    deletion_pending: bool = False,
) -> Object:
    status = {"id": attempt, "startTime": TIME, "podName": f"gang-worker-{index}"}
    return {
        "index": index,
        "instanceUID": f"t{index}",
        "state": state,
        **dict.fromkeys(("startTime", "transitionTime"), TIME),
        "deletionPending": deletion_pending,
        "retryPolicyStatus": retries(attempt, retry_delay),
        "attemptStatus": {**status, "podIP": ip, "completionStatus": ended},
    }


def framework(
    *tasks: Object,
    state: str = "AttemptPreparing",
    ended: Object | None = None,
    retry_delay: int | None = None,
    blocked: str | None = None,
    reason: str = "NameTaken",
    suspended: str | None = None,
) -> Object:
    conditions = [{"type": "GangReady", "status": "False", "reason": "NoGang"}]
    if suspended is not None:
        conditions.append({"type": "Suspended", "status": suspended, "reason": "Suspended"})
    if blocked is not None:
        answer = {"status": "True", "reason": reason, "message": blocked}
        conditions.append({"type": "Blocked", **answer})
    roles = [{"name": "worker", "instanceUID": "r", "taskStatuses": list(tasks)}]
    attempt = {"id": 0, "startTime": TIME, "completionStatus": ended, "taskRoleStatuses": roles}
    status = {"conditions": conditions, "state": state, "attemptStatus": attempt}
    status |= dict.fromkeys(("startTime", "transitionTime"), TIME)
    return {
        "metadata": {"name": "gang", "namespace": "default", "uid": "u"},
        "status": {**status, "retryPolicyStatus": retries(0, retry_delay)},
    }


def pod(index: int, *, phase: str = "Pending", **status: Any) -> dict[str, Object]:
    name = f"gang-worker-{index}"
    metadata = {"name": name, "uid": f"p{index}"}
    status = {"phase": phase, **status}
    return {name: {"metadata": metadata, "spec": {"nodeName": "local"}, "status": status}}


def view(
    obj: Object | None,
    pods: Mapping[str, Object] | None = None,
    *,
    configmap: Object | None = None,
    warnings: Mapping[str, str] | None = None,
    now: datetime | None = NOW,
) -> GangView:
    return build_view(World("gang", "default", obj, configmap, pods, warnings), now)


def notes(shown: GangView) -> dict[str, str]:
    return {str(line.key): line.note for line in shown.tasks}


IN_BARRIER: dict[str, Any] = {
    "podIP": "127.64.0.1",
    "initContainerStatuses": [{"name": "barrier", "state": {"running": {}}}],
}
NO_NODE = "0/1 nodes are available"
NOT_SCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
UNSCHEDULABLE: dict[str, Any] = {"conditions": [{**NOT_SCHEDULED, "message": NO_NODE}]}
NO_IMAGE = {"waiting": {"reason": "ImagePullBackOff", "message": "no pull"}}
NEW_NOTE = "waits for a controller: check that framework-controller runs"


@pytest.mark.parametrize(("is_local", "note"), [(False, NEW_NOTE), (True, "")])
def test_view_of_a_new_framework_asks_for_a_check_of_the_controller_unless_it_is_local(
    note: str, *, is_local: bool
) -> None:
    world = World("gang", "default", {"metadata": {"name": "gang"}, "status": None})
    shown = build_view(world, expects_controller=is_local)
    assert (shown.state, shown.note, shown.tasks) == ("New", note, ())


def test_view_of_an_unreadable_status_names_the_field() -> None:
    shown = view({"metadata": {"name": "gang"}, "status": {"state": 7}})
    assert shown.state == "Unreadable"
    assert "status.state" in shown.note


WAITING = {
    "pending": ("AttemptCreationPending", None, "waits for its Pod to be created"),
    "requested": ("AttemptCreationRequested", None, "waits for its Pod"),
    "unschedulable": ("AttemptPreparing", UNSCHEDULABLE, f"Unschedulable: {NO_NODE}"),
    "image": (
        "AttemptPreparing",
        {"podIP": "127.64.0.1", "containerStatuses": [{"name": "main", "state": NO_IMAGE}]},
        "ImagePullBackOff: no pull",
    ),
    "no-address": ("AttemptPreparing", {}, "Pod is Pending on local, without an address yet"),
    "starting": ("AttemptPreparing", {"podIP": "127.64.0.1"}, "its containers start"),
    "almost": ("AttemptPreparing", {"phase": "Running"}, ""),
    "running": ("AttemptRunning", {"phase": "Running"}, ""),
}


@pytest.mark.parametrize(("state", "status", "note"), WAITING.values(), ids=WAITING)
def test_view_of_a_waiting_task_has_the_reason(
    state: str, status: dict[str, Any] | None, note: str
) -> None:
    pods = {} if status is None else pod(0, **status)
    assert notes(view(framework(task(0, state)), pods)) == {"worker/0": note}


def test_view_of_a_task_that_leaves_has_its_reason() -> None:
    leaver = task(0, "AttemptRunning")
    leaver["attemptStatus"]["leaving"] = {
        "reason": "NodeCordoned",
        "message": "node n1 is cordoned",
        "deadlineTime": TIME,
    }
    shown = view(framework(leaver), pod(0, phase="Running"))
    assert notes(shown) == {"worker/0": "leaves: node n1 is cordoned"}


def test_view_of_a_barrier_names_the_missing_tasks() -> None:
    gang = framework(
        task(0, "AttemptPreparing", ip="127.64.0.1"),
        task(1, "AttemptPreparing"),
        task(2, "Completed", ended=SUCCESS),
        task(3, "AttemptPreparing", deletion_pending=True),
    )
    shown = view(gang, pod(0, **IN_BARRIER) | pod(1, **UNSCHEDULABLE))
    assert notes(shown)["worker/0"] == "barrier: the gang of 3 lacks worker/1"


def build_progress(text: str) -> Object:
    return {"metadata": {"annotations": {constants.PROGRESS_ANNOTATION: text}}}


def build_missing(*reasons: str, start: int = 0, ready: int = 0) -> Object:
    missing = [{"role": "worker", "index": i, "reason": r} for i, r in enumerate(reasons, start)]
    total = ready + len(missing)
    return build_progress(json.dumps({"ready": ready, "total": total, "missing": missing}))


def test_view_of_a_barrier_with_progress_has_the_reasons_of_missing_tasks() -> None:
    configmap = build_missing(*(f"reason {i}" for i in range(1, 6)), start=1, ready=1)
    gang = framework(task(0, "AttemptPreparing", ip="127.64.0.1"))
    shown = view(gang, pod(0, **IN_BARRIER), configmap=configmap)
    assert notes(shown)["worker/0"] == (
        "barrier: the gang of 6 lacks worker/1 (reason 1), worker/2 (reason 2), "
        "worker/3 (reason 3) and 2 more"
    )


@pytest.mark.parametrize("progress", ["", "[]", "{", '{"missing": [{"role": "a"}]}', "null"])
def test_view_with_unreadable_progress_ignores_it(progress: str) -> None:
    gang = framework(task(0, "AttemptPreparing", ip="127.64.0.1"))
    shown = view(gang, pod(0, **IN_BARRIER), configmap=build_progress(progress))
    assert notes(shown)["worker/0"] == "barrier runs"


def test_view_with_a_warning_event_adds_it_once() -> None:
    gang = framework(task(0, "AttemptPreparing"), task(1, "AttemptPreparing"))
    pods = pod(0) | pod(1, **UNSCHEDULABLE)
    warnings = {"p0": 'configmap "app" not found', "p1": "Error: 0/1 nodes are available"}
    assert notes(view(gang, pods, warnings=warnings)) == {
        "worker/0": 'Pod is Pending on local, without an address yet; configmap "app" not found',
        "worker/1": "Unschedulable: 0/1 nodes are available",
    }


@pytest.mark.parametrize(
    ("now", "when"), [(NOW + timedelta(seconds=18), "in 42 s"), (None, "at 03:05:05 UTC")]
)
def test_view_of_a_task_to_be_retried_says_when(now: datetime | None, when: str) -> None:
    """Output to a pipe has no clock: a count-down would print a line each second."""
    waiting = task(0, "AttemptCompleted", ended=completion(7), retry_delay=60)
    shown = view(framework(waiting), now=now)
    assert notes(shown) == {"worker/0": f"Phrase: diagnosed 7; next attempt {when}"}


def test_view_names_the_number_of_transient_retries_that_do_not_count() -> None:
    """With maxRetryCount: 2, attempt 400 would be a surprise."""
    waiting = task(0, "AttemptCompleted", attempt=3, ended=completion(137), retry_delay=0)
    waiting["retryPolicyStatus"] |= {"totalRetriedCount": 3, "accountableRetriedCount": 1}
    gang = framework(waiting, state="AttemptCompleted", ended=completion(201), retry_delay=0)
    gang["status"]["retryPolicyStatus"] |= {"totalRetriedCount": 1, "accountableRetriedCount": 0}
    shown = view(gang)
    assert notes(shown) == {
        "worker/0": "Phrase: diagnosed 137; next attempt now; 2 of 3 retries were Transient and "
        "do not count"
    }
    assert shown.note.endswith("; next attempt now; 1 of 1 retries were Transient and do not count")


def test_view_of_tasks_that_end_with_their_framework_calls_them_stopped() -> None:
    ended = task(0, "Completed", ended=completion(-220))
    (line,) = view(framework(ended)).tasks
    assert (line.state, line.note) == ("Stopped", "ended with its Framework")
    assert not line.is_own_failure


def test_view_names_the_roles_without_a_failure_limit() -> None:
    gang = framework(task(0, "AttemptRunning"))
    limit = {"frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 1}}
    wanted = {"frameworkAttemptCompletionPolicy": {"minFailedTaskCount": -1}}
    roles = [{"name": "guarded", **limit}, {"name": "tolerated", **wanted}, {"name": "worker"}]
    gang["spec"] = {"taskRoles": roles}
    assert view(gang).unguarded_roles == {"worker"}


def test_view_of_a_framework_to_be_retried_counts_down() -> None:
    waiting = framework(state="AttemptCompleted", ended=completion(201), retry_delay=100)
    shown = view(waiting, now=NOW + timedelta(seconds=40))
    assert shown.note == "Phrase: diagnosed 201; next attempt in 60 s"
    assert not shown.is_completed


def test_view_of_a_failed_framework_separates_the_failure_from_stopped_tasks() -> None:
    trigger = {"message": "m", "taskRoleName": "worker", "taskIndex": 1}
    shown = view(
        framework(
            task(0, "Completed", ended=completion(-220)),
            task(1, "Completed", attempt=2, ended=completion(7)),
            task(2, "Completed", ended=SUCCESS),
            state="Completed",
            ended={**completion(7), "trigger": trigger},
        )
    )
    assert (shown.state, shown.is_completed, shown.is_succeeded) == ("Failed", True, False)
    assert shown.note == "decided by worker/1: Phrase: diagnosed 7"
    lines = [(line.state, line.code, line.attempt) for line in shown.tasks]
    assert lines == [("Stopped", -220, 0), ("Failed", 7, 2), ("Succeeded", 0, 0)]
    assert [line.key for line in list_own_failures(shown)] == [TaskKey("worker", 1)]


def test_view_of_a_succeeded_framework_has_no_notes() -> None:
    done = task(0, "Completed", ended=SUCCESS)
    shown = view(framework(done, state="Completed", ended=SUCCESS))
    assert (shown.state, shown.note, shown.is_succeeded) == ("Succeeded", "", True)
    assert notes(shown) == {"worker/0": ""}


@pytest.mark.parametrize("state", ["AttemptDeletionPending", "AttemptCompleted"])
def test_task_that_a_user_retries_has_not_failed(state: str) -> None:
    shown = view(framework(task(0, state, ended=completion(-260)), state="AttemptRunning"))
    (line,) = shown.tasks
    assert not line.is_own_failure
    assert "retried on request" in line.note
    assert "Phrase" not in line.note


def test_view_leaves_out_tasks_that_are_scaled_down() -> None:
    gone = task(1, "Completed", ended=completion(-230), deletion_pending=True)
    shown = view(framework(task(0, "AttemptRunning"), gone))
    assert list(notes(shown)) == ["worker/0"]


def test_view_cuts_a_long_reason() -> None:
    waiting = {**UNSCHEDULABLE["conditions"][0], "message": "why \n" * 200}
    pods = pod(0, conditions=[waiting])
    (note,) = notes(view(framework(task(0, "AttemptPreparing")), pods)).values()
    assert len(note) == 200
    assert "\n" not in note


def test_view_of_a_task_whose_pod_cannot_be_created_has_the_reason() -> None:
    gang = framework(*(task(i, "AttemptCreationPending") for i in range(3)))
    refusal = 'Pod cannot be created: pods "gang-worker-0" is forbidden: exceeded quota: q'
    configmap = build_missing(refusal, "Pod is not created yet")
    assert notes(view(gang, {}, configmap=configmap)) == {
        "worker/0": "Pod cannot be created: exceeded quota: q",
        "worker/1": "waits for its Pod to be created",
        "worker/2": "waits for its Pod to be created",
    }


def test_view_of_a_blocked_framework_has_the_message() -> None:
    message = 'Pod p cannot be created: pods "p" is forbidden: why'
    gang = framework(task(0, "AttemptCreationPending"), blocked=message)
    shown = view(gang, {})
    assert (shown.state, shown.note) == ("Waiting", "blocked: Pod p cannot be created: why")
    assert shown.is_blocked


def test_view_of_a_framework_that_waits_for_a_retry_is_not_blocked() -> None:
    ended = task(0, "AttemptCompleted", ended=completion(3), retry_delay=20)
    shown = view(framework(ended, blocked="worker/0: soon", reason="RetryBackoff"), {})
    assert (shown.note, shown.is_blocked) == ("blocked: worker/0: soon", False)
    assert [line.is_retrying for line in shown.tasks] == [True]
    again = framework(state="AttemptCompleted", ended=completion(3), retry_delay=20)
    assert (view(again).is_retrying, shown.is_retrying) == (True, False)


def test_view_of_a_completed_framework_is_not_blocked_any_more() -> None:
    done = framework(state="Completed", ended=completion(7), blocked="Pod p")
    shown = view(done)
    assert (shown.note, shown.is_blocked) == ("Phrase: diagnosed 7", False)


@pytest.mark.parametrize(
    ("reason", "note"), [("NameTaken", "Phrase: diagnosed 7"), ("StatusRefused", "blocked: why")]
)
def test_view_of_an_attempt_that_is_over_leaves_out_a_refused_creation(
    reason: str, note: str
) -> None:
    gang = framework(state="AttemptDeletionPending", ended=completion(7), blocked="why")
    gang["status"]["conditions"][1]["reason"] = reason
    assert view(gang).note == note


@pytest.mark.parametrize(("stored", "state"), [({}, "New"), ({"state": 7}, "Unreadable")])
def test_view_of_a_framework_that_the_controller_cannot_read_has_the_reason(
    stored: Object, state: str
) -> None:
    condition = {"type": "Blocked", "status": "True", "reason": "UnreadableFramework"}
    status = {**stored, "conditions": [{**condition, "message": "spec.taskRoles: is not a list"}]}
    shown = view({"metadata": {"name": "gang"}, "status": status})
    assert (shown.state, shown.note) == (state, "blocked: spec.taskRoles: is not a list")


NO_ROLES = "it has no Tasks: spec.taskRoles is empty"
NO_NUMBER = "it has no Tasks: no role has a taskNumber above 0"


@pytest.mark.parametrize(
    ("spec", "note"),
    [
        ({"taskRoles": [{"name": "a", "taskNumber": 0}, {"name": "b"}]}, NO_NUMBER),
        ({"taskRoles": []}, NO_ROLES),
        ({}, NO_ROLES),
        ({"taskRoles": [{"name": "a", "taskNumber": 1}]}, ""),
    ],
    ids=["no-number", "no-roles", "no-field", "about-to-come"],
)
def test_view_of_a_framework_without_tasks_has_the_reason(spec: Object, note: str) -> None:
    shown = view({**framework(), "spec": spec})
    assert (shown.state, shown.note) == ("Waiting", note)


def container(
    code: int | None, *, restarts: int = 0, state: str = "running", reason: str = ""
) -> Object:
    states: dict[str, Object] = {
        "running": {"running": {}},
        "waiting": {"waiting": {"reason": reason, "message": "back-off 10s restarting"}},
        "terminated": {"terminated": {"exitCode": 0}},
    }
    last = {} if code is None else {"terminated": {"exitCode": code}}
    return {"name": "train", "restartCount": restarts, "state": states[state], "lastState": last}


def crashing(status: Object, policy: str, kind: str = "containerStatuses") -> dict[str, Object]:
    pods = pod(0, phase="Running", podIP="127.64.0.1", **{kind: [status]})
    pods["gang-worker-0"]["spec"]["restartPolicy"] = policy
    return pods


BACK_OFF = container(3, restarts=6, state="waiting", reason="CrashLoopBackOff")


@pytest.mark.parametrize(
    ("status", "policy", "note"),
    [
        (BACK_OFF, "Always", "CrashLoopBackOff, 6 restarts, exited with 3"),
        (BACK_OFF, "OnFailure", "CrashLoopBackOff, 6 restarts, exited with 3"),
        (container(0, restarts=1), "Always", "1 restart, exited with 0"),
        (container(3, restarts=1, state="terminated"), "OnFailure", ""),
        (container(None), "Always", ""),
    ],
    ids=["back-off", "on-failure", "runs-again", "ended-well", "first-run"],
)  # fmt: skip
def test_view_of_a_task_that_restarts_has_the_count_and_the_remedy(
    status: Object, policy: str, note: str
) -> None:
    shown = view(framework(task(0, "AttemptRunning")), crashing(status, policy))
    note = note and f"train: {note}; restartPolicy is {policy}: write Never"
    assert [(line.state, line.note, line.is_restarting) for line in shown.tasks] == [
        ("Running", note, bool(note))
    ]


def test_view_without_a_clock_has_the_same_note_at_each_restart() -> None:
    gang = framework(task(0, "AttemptRunning"))
    expected = "train restarts, exited with 3; restartPolicy is Always: write Never"
    for status in (BACK_OFF, container(3, restarts=7)):
        shown = view(gang, crashing(status, "Always"), now=None)
        assert notes(shown) == {"worker/0": expected}


def test_view_of_an_init_container_that_restarts_has_the_count_and_the_remedy() -> None:
    pods = crashing({**BACK_OFF, "name": "barrier"}, "Always", "initContainerStatuses")
    pods["gang-worker-0"]["status"]["phase"] = "Pending"
    assert notes(view(framework(task(0, "AttemptPreparing")), pods))["worker/0"] == (
        "barrier: CrashLoopBackOff, 6 restarts, exited with 3; restartPolicy is Always: write Never"
    )


def test_view_of_a_sidecar_that_restarts_has_no_remedy() -> None:
    pods = crashing({**BACK_OFF, "name": "side"}, "Never", "initContainerStatuses")
    pods["gang-worker-0"]["spec"]["initContainers"] = [{"name": "side", "restartPolicy": "Always"}]
    assert notes(view(framework(task(0, "AttemptRunning")), pods))["worker/0"] == (
        "side: CrashLoopBackOff, 6 restarts, exited with 3"
    )


def test_view_of_an_ending_framework_has_no_waiting_task() -> None:
    states = ["AttemptPreparing", "AttemptRunning", "AttemptCreationPending"]
    tasks = [task(index, state) for index, state in enumerate(states)]
    failed = task(3, "Completed", ended=completion(7))
    ending = framework(*tasks, failed, state="AttemptDeletionPending", ended=completion(-210))
    shown = view(ending, crashing(BACK_OFF, "Always"))
    lines = [(line.state, line.note) for line in shown.tasks]
    assert lines == [("Ending", "")] * 3 + [("Failed", "Phrase: diagnosed 7")]


RESUME = "waits until a user resumes it: set spec.suspend to false"


def test_suspended_framework_is_shown_as_such_and_says_what_it_waits_for() -> None:
    ended = task(0, "Completed", ended=completion(-220))
    shown = view(
        framework(ended, state="AttemptCompleted", ended=completion(-250), suspended="True")
    )
    assert (shown.state, shown.note, shown.end) == ("Suspended", RESUME, "")
    assert shown.is_suspended
    assert not any((shown.is_completed, shown.is_retrying, shown.is_blocked))
    assert [(line.state, line.note) for line in shown.tasks] == [
        ("Stopped", "ended with its Framework")
    ]


def test_framework_that_is_suspended_from_the_start_names_no_missing_pod() -> None:
    waiting = task(0, "AttemptCreationPending")
    shown = view(framework(waiting, state="AttemptCreationPending", suspended="True"))
    assert (shown.state, shown.note) == ("Suspended", RESUME)
    assert [(line.state, line.note) for line in shown.tasks] == [("Pending", "")]


def test_suspended_retry_keeps_the_cause_of_the_failure() -> None:
    shown = view(
        framework(state="AttemptCompleted", ended=completion(7), retry_delay=9, suspended="True")
    )
    assert shown.state == "Suspended"
    assert shown.note == f"Phrase: diagnosed 7; {RESUME}"


@pytest.mark.parametrize("suspended", ["False", None])
def test_framework_that_is_being_suspended_is_ending(suspended: str | None) -> None:
    running = task(0, "AttemptRunning", ended=completion(-220))
    shown = view(
        framework(
            running, state="AttemptDeletionPending", ended=completion(-250), suspended=suspended
        )
    )
    assert (shown.state, shown.note) == ("Ending", "suspended on request")
    assert not shown.is_suspended


def test_framework_whose_deadline_passed_has_failed_with_this_cause() -> None:
    ended = task(0, "Completed", ended=completion(-220))
    shown = view(framework(ended, state="Completed", ended=completion(-240)))
    assert (shown.state, shown.note) == ("Failed", "diagnosed -240")
    assert shown.end == "it was active for longer than its activeDeadlineSeconds"


def test_view_of_a_gang_that_trains_says_how_far_it_is() -> None:
    obj = framework(task(0, "AttemptRunning"), state="AttemptRunning")
    assert view(obj).training == ""
    progress = {"step": 40, "totalSteps": 1000, "stepsPerSecond": "2.5", "slowest": "worker/1"}
    obj["status"]["attemptStatus"]["progress"] = progress
    assert view(obj).training == "step 40 of 1000, 2.5 steps/s; slowest: worker/1"
    ended = framework(task(0, "AttemptRunning"), state="AttemptRunning", ended=completion(-220))
    ended["status"]["attemptStatus"]["progress"] = progress
    assert (view(ended).training, view(ended).has_ended) == ("step 40 of 1000", True)


def test_view_of_a_gang_that_restarted_in_place_names_the_process_that_failed_first() -> None:
    obj = framework(task(0, "AttemptRunning"), state="AttemptRunning")
    assert view(obj).epoch == ""
    failed = {"role": "worker", "index": 1, "podUIDFingerprint": "89abcdef", "code": 137}
    recovery = {"epoch": 3, "reason": "RestartedInPlace", "firstFailed": failed}
    obj["status"]["attemptStatus"]["recovery"] = recovery
    assert view(obj).epoch == (
        "epoch 3: the process of worker/1 was killed by SIGKILL (exit code 137); "
        "all processes start again in their Pods"
    )
