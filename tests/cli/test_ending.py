"""What is kept of a Framework that was stopped: why it had not started."""

from cli.ending import keep_waits
from cli.progress import GangView, TaskLine
from framework.api.naming import TaskKey


def test_keep_waits_of_a_framework_without_tasks_says_that_it_has_none() -> None:
    before = GangView("gang", "Waiting", 0, "", ())
    after = GangView("gang", "Stopped", 0, "stopped on request", (), is_completed=True)

    assert keep_waits(before, after, "Ctrl-C").note == (
        "stopped by Ctrl-C; the gang never started: it has no Tasks"
    )


def stop(*before: TaskLine, note: str = "", is_blocked: bool = False) -> GangView:
    """Stop a Framework whose Tasks were at this point; give what is told of it."""
    running = GangView("gang", "Running", 0, note, before, is_blocked=is_blocked)
    tasks = tuple(TaskLine(line.key, "Stopped", 0, "ended with its Framework") for line in before)
    stopped = GangView("gang", "Stopped", 0, "stopped on request", tasks, is_completed=True)
    return keep_waits(running, stopped, "Ctrl-C")


def test_keep_waits_of_tasks_that_restarted_says_so() -> None:
    crash = "train: 6 restarts, exited with 3"
    restarting = TaskLine(
        TaskKey("worker", 1), "Running", 0, crash, is_running=True, is_restarting=True
    )
    shown = stop(TaskLine(TaskKey("worker", 0), "Running", 0, "", is_running=True), restarting)
    assert shown.note == f"stopped by Ctrl-C; 1 of 2 Tasks restarts; worker/1: {crash}"
    assert [line.note for line in shown.tasks] == ["ended with its Framework", crash]


def test_keep_waits_of_a_blocked_framework_says_by_what() -> None:
    waiting = TaskLine(TaskKey("worker", 0), "Pending", 0, "Pod cannot be created", is_waiting=True)
    shown = stop(waiting, note="blocked: exceeded quota: q", is_blocked=True)
    assert shown.note == (
        "stopped by Ctrl-C; the gang never started: 1 of 1 Tasks waits; blocked: exceeded quota: q"
    )
    assert [line.note for line in shown.tasks] == ["never started: Pod cannot be created"]


def test_keep_waits_of_a_gang_of_which_some_have_ended_does_not_say_that_it_never_started() -> None:
    ended = TaskLine(TaskKey("worker", 0), "Succeeded", 0, "", code=0)
    waiting = TaskLine(TaskKey("worker", 1), "Pending", 0, "why", is_waiting=True)
    assert stop(ended, waiting).note == ("stopped by Ctrl-C; 1 of 2 Tasks waits; worker/1: why")
