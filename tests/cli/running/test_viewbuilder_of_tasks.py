"""The view of Tasks: why each one waits, restarts or has ended."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from cli.running.views import TaskPhase
from framework.api import constants
from framework.kube.resources import Object
from tests.cli.running.views import (
    NOW,
    SUCCESS,
    TIME,
    completion,
    framework,
    notes,
    pod,
    task,
    view,
)

IN_BARRIER: dict[str, Any] = {
    "podIP": "127.64.0.1",
    "initContainerStatuses": [{"name": "barrier", "state": {"running": {}}}],
}
NO_NODE = "0/1 nodes are available"
NOT_SCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
UNSCHEDULABLE: dict[str, Any] = {"conditions": [{**NOT_SCHEDULED, "message": NO_NODE}]}
NO_IMAGE = {"waiting": {"reason": "ImagePullBackOff", "message": "no pull"}}
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


def build_readiness(text: str) -> Object:
    return {"metadata": {"annotations": {constants.READINESS_ANNOTATION: text}}}


def build_missing(*reasons: str, start: int = 0, ready: int = 0) -> Object:
    missing = [{"role": "worker", "index": i, "reason": r} for i, r in enumerate(reasons, start)]
    total = ready + len(missing)
    return build_readiness(json.dumps({"ready": ready, "total": total, "missing": missing}))


def test_view_of_a_barrier_with_readiness_has_the_reasons_of_missing_tasks() -> None:
    configmap = build_missing(*(f"reason {i}" for i in range(1, 6)), start=1, ready=1)
    gang = framework(task(0, "AttemptPreparing", ip="127.64.0.1"))
    shown = view(gang, pod(0, **IN_BARRIER), configmap=configmap)
    assert notes(shown)["worker/0"] == (
        "barrier: the gang of 6 lacks worker/1 (reason 1), worker/2 (reason 2), "
        "worker/3 (reason 3) and 2 more"
    )


@pytest.mark.parametrize("readiness", ["", "[]", "{", '{"missing": [{"role": "a"}]}', "null"])
def test_view_with_unreadable_readiness_ignores_it(readiness: str) -> None:
    gang = framework(task(0, "AttemptPreparing", ip="127.64.0.1"))
    shown = view(gang, pod(0, **IN_BARRIER), configmap=build_readiness(readiness))
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


def test_view_of_tasks_whose_pods_run_on_says_so() -> None:
    ended = task(0, "Completed", ended=completion(-221))
    (line,) = view(framework(ended)).tasks
    assert (line.state, line.note) == ("LeftRunning", "left running at the end of its Framework")
    assert not line.is_own_failure


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
    assert [
        (line.state, line.note, line.phase is TaskPhase.RESTARTING) for line in shown.tasks
    ] == [("Running", note, bool(note))]


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
