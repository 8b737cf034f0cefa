"""The note of a Framework that was stopped keeps the reason why it had not started."""

from dataclasses import replace

import pytest

from cli.running.conclusion import choose_log_seconds, describe_left_pods
from cli.running.ending import keep_waits
from cli.running.runlogs import ALL_ENDED_SECONDS, FINISH_SECONDS
from cli.running.views import GangPhase, GangView, TaskLine, TaskPhase
from framework.api.naming import TaskKey


def stop(*before: TaskLine, note: str = "", is_blocked: bool = False, attempt: int = 0) -> GangView:
    """Stop a Framework with these Tasks; return its last view."""
    running = GangView("gang", "Running", attempt, note, before, is_blocked=is_blocked)
    tasks = tuple(
        replace(line, note=line.diagnostics, phase=TaskPhase.ENDED)
        if line.is_own_failure
        else TaskLine(line.key, "Stopped", line.attempt, "ended with its Framework")
        for line in before
    )
    stopped = GangView("gang", "Stopped", 0, "stopped on request", tasks, phase=GangPhase.FAILED)
    return keep_waits(running, stopped, "Ctrl-C")


def test_keep_waits_of_tasks_that_restarted_names_them() -> None:
    crash = "train: 6 restarts, exited with 3"
    restarting = TaskLine(TaskKey("worker", 1), "Running", 0, crash, phase=TaskPhase.RESTARTING)
    shown = stop(
        TaskLine(TaskKey("worker", 0), "Running", 0, "", phase=TaskPhase.RUNNING), restarting
    )
    assert shown.note == f"stopped by Ctrl-C; 1 of 2 Tasks restarts; worker/1: {crash}"
    assert [line.note for line in shown.tasks] == ["ended with its Framework", crash]


def test_keep_waits_of_a_blocked_framework_has_the_message() -> None:
    waiting = TaskLine(
        TaskKey("worker", 0), "Pending", 0, "Pod cannot be created", phase=TaskPhase.WAITING
    )
    shown = stop(waiting, note="blocked: exceeded quota: q", is_blocked=True)
    assert shown.note == (
        "stopped by Ctrl-C; the gang never started: 1 of 1 Tasks waits; blocked: exceeded quota: q"
    )
    assert [line.note for line in shown.tasks] == ["never started: Pod cannot be created"]


def test_keep_waits_of_a_gang_with_ended_tasks_has_started() -> None:
    ended = TaskLine(TaskKey("worker", 0), "Succeeded", 0, "", code=0)
    waiting = TaskLine(TaskKey("worker", 1), "Pending", 0, "why", phase=TaskPhase.WAITING)
    assert stop(ended, waiting).note == ("stopped by Ctrl-C; 1 of 2 Tasks waits; worker/1: why")


def fail(index: int, *, is_retrying: bool) -> TaskLine:
    """Build a Task whose second attempt failed."""
    state, suffix = ("Retrying", "; next attempt in 20 s") if is_retrying else ("Failed", "")
    phase = TaskPhase.RETRYING if is_retrying else TaskPhase.ENDED
    line = TaskLine(TaskKey("worker", index), state, 1, f"main exited with 3{suffix}", code=3)
    return replace(line, diagnostics="main exited with 3", is_own_failure=True, phase=phase)


def test_keep_waits_of_a_task_between_two_attempts_does_not_name_the_next_attempt() -> None:
    running = TaskLine(TaskKey("worker", 1), "Running", 0, "", phase=TaskPhase.RUNNING)
    note = "blocked: worker/0: its last 4 attempts ended within 10 s each, so the next one starts"
    shown = stop(fail(0, is_retrying=True), running, note=note)
    assert shown.note == (
        "stopped by Ctrl-C; 1 of 2 Tasks was to be retried; worker/0: main exited with 3"
    )


def test_keep_waits_of_a_framework_between_two_attempts_names_the_task_that_failed() -> None:
    ended = TaskLine(TaskKey("worker", 0), "Stopped", 0, "ended with its Framework", code=-220)
    note = "main exited with 3; next attempt in 20 s"
    tasks = (ended, fail(1, is_retrying=False))
    before = GangView("gang", "Retrying", 2, note, tasks, phase=GangPhase.RETRYING)
    after = replace(before, state="Stopped", note="stopped on request", phase=GangPhase.FAILED)
    assert keep_waits(before, after, "--timeout").note == (
        "stopped by --timeout; the Framework was to be retried; worker/1: main exited with 3"
    )


def test_keep_waits_of_a_later_attempt_does_not_say_that_the_gang_never_started() -> None:
    waiting = TaskLine(TaskKey("worker", 0), "Pending", 0, "why", phase=TaskPhase.WAITING)
    shown = stop(waiting, attempt=2)
    assert shown.note == (
        "stopped by Ctrl-C; attempt 2 never started: 1 of 1 Tasks waits; worker/0: why"
    )
    assert [line.note for line in shown.tasks] == ["never started: why"]


def test_keep_waits_of_a_task_that_ran_before_does_not_say_that_it_never_started() -> None:
    shown = stop(TaskLine(TaskKey("worker", 0), "Pending", 1, "why", phase=TaskPhase.WAITING))
    assert shown.note == "stopped by Ctrl-C; 1 of 1 Tasks waits; worker/0: why"
    assert [line.note for line in shown.tasks] == ["attempt 1 never started: why"]


@pytest.mark.parametrize(
    ("state", "attempt", "note"),
    [
        ("Waiting", 0, "the gang never started: it has no Tasks"),
        # Its Tasks are not listed yet.
        ("Pending", 1, "attempt 1 never started: it waits for its ConfigMap to be created"),
    ],
)
def test_keep_waits_of_a_framework_without_tasks_has_the_reason(
    state: str, attempt: int, note: str
) -> None:
    before = GangView("gang", state, attempt, "", ())
    after = GangView("gang", "Stopped", attempt, "stopped on request", (), phase=GangPhase.FAILED)
    assert keep_waits(before, after, "Ctrl-C").note == f"stopped by Ctrl-C; {note}"


@pytest.mark.parametrize(
    ("state", "note"),
    [
        ("New", "the gang never started: the controller had not seen it yet"),
        ("Waiting", "the gang never started: its Tasks were not created yet"),
    ],
)
def test_keep_waits_of_tasks_that_are_listed_after_the_stop_does_not_deny_them(
    state: str, note: str
) -> None:
    before = GangView("gang", state, 0, "", ())
    task = TaskLine(TaskKey("worker", 0), "Stopped", 0, "ended with its Framework", code=-220)
    after = GangView("gang", "Stopped", 0, "stopped on request", (task,), phase=GangPhase.FAILED)
    assert keep_waits(before, after, "Ctrl-C").note == f"stopped by Ctrl-C; {note}"


def test_keep_waits_of_a_suspended_framework_says_that_it_was_suspended() -> None:
    ended = TaskLine(TaskKey("worker", 0), "Stopped", 0, "ended with its Framework", code=-220)
    before = GangView("gang", "Suspended", 0, "waits", (ended,), phase=GangPhase.SUSPENDED)
    after = replace(before, state="Stopped", attempt=1, phase=GangPhase.FAILED)
    assert keep_waits(before, after, "Ctrl-C").note == "stopped by Ctrl-C; it was suspended"


@pytest.mark.parametrize(
    ("state", "has_ended", "seconds"),
    [
        ("Stopped", True, ALL_ENDED_SECONDS),
        ("Stopped", False, FINISH_SECONDS),
        ("LeftRunning", True, FINISH_SECONDS),
    ],
)
def test_logs_of_pods_that_run_on_are_not_waited_for(
    state: str, seconds: float, *, has_ended: bool
) -> None:
    line = TaskLine(TaskKey("worker", 0), state, 0, "")
    view = GangView("gang", "Succeeded", 0, "", (line,))
    assert choose_log_seconds([view], has_ended=has_ended) == seconds


@pytest.mark.parametrize(
    ("states", "note"),
    [
        (["Succeeded", "Stopped"], ""),
        (
            ["Succeeded", "LeftRunning"],
            "note: gang: the Pod of 1 Task is left running; to delete it: framework stop gang",
        ),
        (
            ["LeftRunning", "LeftRunning"],
            "note: gang: the Pods of 2 Tasks are left running; to delete them: framework stop gang",
        ),
    ],
)
def test_note_about_pods_left_running_names_the_command_that_deletes_them(
    states: list[str], note: str
) -> None:
    lines = tuple(TaskLine(TaskKey("worker", i), state, 0, "") for i, state in enumerate(states))
    view = GangView("gang", "Succeeded", 0, "", lines)
    assert describe_left_pods(view, "default") == note


def test_note_about_pods_left_running_names_another_namespace() -> None:
    view = GangView("gang", "Succeeded", 0, "", (TaskLine(TaskKey("w", 0), "LeftRunning", 0, ""),))
    note = describe_left_pods(view, "team")
    assert note.endswith("framework stop gang -n team")
