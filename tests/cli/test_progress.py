import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cli.progress import GangView, World, build_view, list_culprits
from framework.api import constants
from framework.api.naming import TaskKey
from framework.kube.resources import Object

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TIME = "2026-01-02T03:04:05Z"


def completion(code: int, kind: str = "Failed", phrase: str = "Phrase") -> Object:
    kind_wire = {"name": kind, "attributes": []}
    return {"code": code, "phrase": phrase, "type": kind_wire, "diagnostics": f"diagnosed {code}"}


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
    return {
        "index": index,
        "instanceUID": f"t{index}",
        "startTime": TIME,
        "runTime": None,
        "completionTime": None,
        "state": state,
        "transitionTime": TIME,
        "deletionPending": deletion_pending,
        "retryPolicyStatus": {
            "totalRetriedCount": attempt,
            "accountableRetriedCount": attempt,
            "retryDelaySec": retry_delay,
        },
        "attemptStatus": {
            "id": attempt,
            "startTime": TIME,
            "podName": f"gang-worker-{index}",
            "podIP": ip,
            "completionStatus": ended,
        },
    }


def framework(
    *tasks: Object,
    state: str = "AttemptPreparing",
    ended: Object | None = None,
    retry_delay: int | None = None,
) -> Object:
    return {
        "metadata": {"name": "gang", "namespace": "default", "uid": "u"},
        "status": {
            "startTime": TIME,
            "state": state,
            "transitionTime": TIME,
            "retryPolicyStatus": {
                "totalRetriedCount": 0,
                "accountableRetriedCount": 0,
                "retryDelaySec": retry_delay,
            },
            "attemptStatus": {
                "id": 0,
                "startTime": TIME,
                "completionStatus": ended,
                "taskRoleStatuses": [
                    {"name": "worker", "instanceUID": "r", "taskStatuses": list(tasks)}
                ],
            },
        },
    }


def pod(index: int, **status: Any) -> tuple[str, Object]:
    name = f"gang-worker-{index}"
    phase = status.pop("phase", "Pending")
    return name, {
        "metadata": {"name": name, "uid": f"p{index}"},
        "spec": {"nodeName": "local"},
        "status": {"phase": phase, **status},
    }


def view(
    obj: Object | None,
    pods: Mapping[str, Object] | None = None,
    *,
    configmap: Object | None = None,
    warnings: Mapping[str, str] | None = None,
    now: datetime = NOW,
) -> GangView:
    world = World("gang", "default", obj, configmap, pods, warnings)
    return build_view(world, now)


def notes(shown: GangView) -> dict[str, str]:
    return {str(line.key): line.note for line in shown.tasks}


IN_BARRIER = {
    "podIP": "127.64.0.1",
    "initContainerStatuses": [{"name": "barrier", "state": {"running": {}}}],
}
UNSCHEDULABLE = {
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/1 nodes are available",
        }
    ]
}


def test_view_before_the_controller_saw_it_says_so() -> None:
    shown = view({"metadata": {"name": "gang"}, "status": None})
    assert (shown.state, shown.note, shown.tasks) == (
        "New",
        "waits for a controller; if this lasts: does framework-controller run?",
        (),
    )


def test_view_of_an_unreadable_status_says_why() -> None:
    shown = view({"metadata": {"name": "gang"}, "status": {"state": 7}})
    assert shown.state == "Unreadable"
    assert "status.state" in shown.note


@pytest.mark.parametrize(
    ("state", "status", "note"),
    [
        ("AttemptCreationPending", None, "waits for its Pod to be created"),
        ("AttemptCreationRequested", None, "waits for its Pod"),
        ("AttemptPreparing", UNSCHEDULABLE, "Unschedulable: 0/1 nodes are available"),
        (
            "AttemptPreparing",
            {
                "podIP": "127.64.0.1",
                "containerStatuses": [
                    {
                        "name": "main",
                        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no pull"}},
                    }
                ],
            },
            "ImagePullBackOff: no pull",
        ),
        ("AttemptPreparing", {}, "Pod is Pending on local, without an address yet"),
        ("AttemptPreparing", {"podIP": "127.64.0.1"}, "its containers start"),
        ("AttemptPreparing", {"phase": "Running"}, ""),
        ("AttemptRunning", {"phase": "Running"}, ""),
    ],
    ids=[
        "pending", "requested", "unschedulable", "image", "no-address", "starting", "almost",
        "running",
    ],
)  # fmt: skip
def test_view_of_a_waiting_task_says_why(state: str, status: Object | None, note: str) -> None:
    pods = {} if status is None else dict([pod(0, **status)])
    assert notes(view(framework(task(0, state)), pods)) == {"worker/0": note}


def test_view_of_a_barrier_names_who_is_missing() -> None:
    gang = framework(
        task(0, "AttemptPreparing", ip="127.64.0.1"),
        task(1, "AttemptPreparing"),
        task(2, "Completed", ended=completion(0, "Succeeded")),
        task(3, "AttemptPreparing", deletion_pending=True),
    )
    shown = view(gang, dict([pod(0, **IN_BARRIER), pod(1, **UNSCHEDULABLE)]))
    assert notes(shown)["worker/0"] == "barrier: the gang of 3 lacks worker/1"


def test_view_of_a_barrier_with_progress_says_why_others_are_missing() -> None:
    missing = [{"role": "worker", "index": i, "reason": f"reason {i}"} for i in range(1, 6)]
    progress = json.dumps({"ready": 1, "total": 6, "missing": missing})
    configmap = {"metadata": {"annotations": {constants.PROGRESS_ANNOTATION: progress}}}
    gang = framework(task(0, "AttemptPreparing", ip="127.64.0.1"))
    shown = view(gang, dict([pod(0, **IN_BARRIER)]), configmap=configmap)
    assert notes(shown)["worker/0"] == (
        "barrier: the gang of 6 lacks worker/1 (reason 1), worker/2 (reason 2), "
        "worker/3 (reason 3) and 2 more"
    )


@pytest.mark.parametrize("progress", ["", "[]", "{", '{"missing": [{"role": "a"}]}', "null"])
def test_view_with_unreadable_progress_goes_on_without(progress: str) -> None:
    configmap = {"metadata": {"annotations": {constants.PROGRESS_ANNOTATION: progress}}}
    gang = framework(task(0, "AttemptPreparing", ip="127.64.0.1"))
    shown = view(gang, dict([pod(0, **IN_BARRIER)]), configmap=configmap)
    assert notes(shown)["worker/0"] == "barrier runs"


def test_view_with_a_warning_event_adds_it_once() -> None:
    gang = framework(task(0, "AttemptPreparing"), task(1, "AttemptPreparing"))
    pods = dict([pod(0), pod(1, **UNSCHEDULABLE)])
    warnings = {"p0": 'configmap "app" not found', "p1": "0/1 nodes are available"}
    assert notes(view(gang, pods, warnings=warnings)) == {
        "worker/0": 'Pod is Pending on local, without an address yet; configmap "app" not found',
        "worker/1": "Unschedulable: 0/1 nodes are available",
    }


def test_view_of_a_task_to_be_retried_counts_down() -> None:
    waiting = task(0, "AttemptCompleted", ended=completion(7), retry_delay=60)
    shown = view(framework(waiting), now=NOW + timedelta(seconds=18))
    assert notes(shown) == {"worker/0": "Phrase: diagnosed 7; next attempt in 42 s"}


def test_view_without_a_clock_names_the_time_of_the_next_attempt() -> None:
    waiting = task(0, "AttemptCompleted", ended=completion(7), retry_delay=60)
    shown = build_view(World("gang", "default", framework(waiting)))
    assert notes(shown) == {"worker/0": "Phrase: diagnosed 7; next attempt at 03:05:05 UTC"}


def test_view_of_tasks_that_end_with_their_framework_calls_them_stopped() -> None:
    ended = task(0, "Completed", ended=completion(-220))
    (line,) = view(framework(ended)).tasks
    assert (line.state, line.note, line.is_culprit) == (
        "Stopped",
        "ended with its Framework",
        False,
    )


def test_view_names_the_roles_without_a_failure_limit() -> None:
    gang = framework(task(0, "AttemptRunning"))
    limit = {"frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 1}}
    gang["spec"] = {"taskRoles": [{"name": "guarded", **limit}, {"name": "worker"}]}
    assert view(gang).unguarded_roles == {"worker"}


def test_view_of_a_framework_to_be_retried_counts_down() -> None:
    waiting = framework(state="AttemptCompleted", ended=completion(201), retry_delay=100)
    shown = view(waiting, now=NOW + timedelta(seconds=40))
    assert shown.note == "Phrase: diagnosed 201; next attempt in 60 s"
    assert not shown.is_completed


def test_view_of_a_failed_framework_tells_the_culprit_from_its_victims() -> None:
    trigger = {"message": "m", "taskRoleName": "worker", "taskIndex": 1}
    shown = view(
        framework(
            task(0, "Completed", ended=completion(-220)),
            task(1, "Completed", attempt=2, ended=completion(7)),
            task(2, "Completed", ended=completion(0, "Succeeded")),
            state="Completed",
            ended={**completion(7), "trigger": trigger},
        )
    )
    assert (shown.state, shown.is_completed, shown.is_succeeded) == ("Failed", True, False)
    assert shown.note == "decided by worker/1: Phrase: diagnosed 7"
    assert [(line.state, line.code, line.attempt) for line in shown.tasks] == [
        ("Stopped", -220, 0),
        ("Failed", 7, 2),
        ("Succeeded", 0, 0),
    ]
    assert [line.key for line in list_culprits(shown)] == [TaskKey("worker", 1)]


def test_view_of_a_succeeded_framework_has_nothing_to_say() -> None:
    done = framework(
        task(0, "Completed", ended=completion(0, "Succeeded")),
        state="Completed",
        ended=completion(0, "Succeeded"),
    )
    shown = view(done)
    assert (shown.state, shown.note, shown.is_succeeded) == ("Succeeded", "", True)
    assert notes(shown) == {"worker/0": ""}


def test_view_leaves_out_tasks_that_were_scaled_away() -> None:
    gone = task(1, "Completed", ended=completion(-230), deletion_pending=True)
    shown = view(framework(task(0, "AttemptRunning"), gone))
    assert list(notes(shown)) == ["worker/0"]


def test_view_with_a_long_reason_cuts_it() -> None:
    waiting = {**UNSCHEDULABLE["conditions"][0], "message": "why \n" * 200}
    pods = dict([pod(0, conditions=[waiting])])
    (note,) = notes(view(framework(task(0, "AttemptPreparing")), pods)).values()
    assert len(note) == 200
    assert "\n" not in note
