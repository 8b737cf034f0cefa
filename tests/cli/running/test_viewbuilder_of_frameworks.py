"""The view of a Framework: new, blocked, suspended, to be retried, ended."""

from datetime import timedelta

import pytest

from cli.running.viewbuilder import build_view
from cli.running.views import FrameworkObjects, GangPhase, TaskPhase
from framework.api.naming import TaskKey
from framework.kube.resources import Object
from tests.cli.running.views import NOW, SUCCESS, completion, framework, notes, task, view

NEW_NOTE = "waits for a controller: check that framework-controller runs"


@pytest.mark.parametrize(("is_local", "note"), [(False, NEW_NOTE), (True, "")])
def test_view_of_a_new_framework_asks_for_a_check_of_the_controller_unless_it_is_local(
    note: str, *, is_local: bool
) -> None:
    objects = FrameworkObjects("gang", "default", {"metadata": {"name": "gang"}, "status": None})
    shown = build_view(objects, expects_controller=is_local)
    assert (shown.state, shown.note, shown.tasks) == ("New", note, ())


def test_view_of_an_unreadable_status_names_the_field() -> None:
    shown = view({"metadata": {"name": "gang"}, "status": {"state": 7}})
    assert shown.state == "Unreadable"
    assert "status.state" in shown.note


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
    assert [line.key for line in shown.list_own_failures()] == [TaskKey("worker", 1)]


def test_view_of_a_succeeded_framework_has_no_notes() -> None:
    done = task(0, "Completed", ended=SUCCESS)
    shown = view(framework(done, state="Completed", ended=SUCCESS))
    assert (shown.state, shown.note, shown.is_succeeded) == ("Succeeded", "", True)
    assert notes(shown) == {"worker/0": ""}


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
    assert [line.phase for line in shown.tasks] == [TaskPhase.RETRYING]
    again = framework(state="AttemptCompleted", ended=completion(3), retry_delay=20)
    assert (view(again).phase, shown.phase) == (GangPhase.RETRYING, GangPhase.ACTIVE)


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


RESUME = "waits until a user resumes it: set spec.suspend to false"


def test_suspended_framework_is_shown_as_such_and_says_what_it_waits_for() -> None:
    ended = task(0, "Completed", ended=completion(-220))
    shown = view(
        framework(ended, state="AttemptCompleted", ended=completion(-250), suspended="True")
    )
    assert (shown.state, shown.note, shown.end) == ("Suspended", RESUME, "")
    assert (shown.phase, shown.is_blocked) == (GangPhase.SUSPENDED, False)
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
    assert shown.phase is GangPhase.ENDING


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
    assert (view(ended).training, view(ended).phase) == ("step 40 of 1000", GangPhase.ENDING)


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
    assert view(obj).restart == (
        TaskKey("worker", 1),
        "its process was killed by SIGKILL (exit code 137); all restarted in place (epoch 3)",
    )
    recovery["reason"] = "BudgetUsedUp"
    assert view(obj).restart is None
