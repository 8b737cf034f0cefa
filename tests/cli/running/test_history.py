"""Failed attempts are remembered after the next attempt has begun."""

import tracemalloc
from dataclasses import replace

from cli.running.history import AttemptHistory
from cli.running.views import GangView, TaskLine
from framework.api.naming import TaskKey

WORKER = TaskKey("worker", 1)


def build_view(attempt: int = 0, *tasks: TaskLine, note: str = "", end: str = "") -> GangView:
    return GangView("gang", "Running", attempt, note, tasks, end)


def fail(attempt: int, end: str = "exited with 7") -> TaskLine:
    return TaskLine(WORKER, "Retrying", attempt, f"{end}; next now", 7, end, is_own_failure=True)


def run(attempt: int, note: str = "") -> TaskLine:
    return TaskLine(WORKER, "Running", attempt, note)


def test_failed_attempt_is_reported_once() -> None:
    history = AttemptHistory()
    assert history.observe(build_view(0, fail(0))) == [
        "worker/1 failed in attempt 0: exited with 7"
    ]
    assert history.observe(build_view(0, fail(0))) == []
    assert history.observe(build_view(0, run(1))) == []
    assert history.observe(build_view(0, fail(1, "exited with 8"))) == [
        "worker/1 failed in attempt 1: exited with 8"
    ]


def test_notes_name_the_last_two_earlier_attempts() -> None:
    history = AttemptHistory()
    for attempt in range(4):
        history.observe(build_view(0, fail(attempt, f"exited with {attempt}")))
    (line,) = history.annotate(build_view(0, run(4, "its note"))).tasks
    assert line.note == (
        "its note; 2 more failed; attempt 2: exited with 2; attempt 3: exited with 3"
    )


def test_memory_does_not_grow_with_the_number_of_attempts() -> None:
    history = AttemptHistory()
    tracemalloc.start()
    try:
        for attempt in range(2000):
            history.observe(build_view(0, fail(attempt, f"{attempt} " + "x" * 1000)))
        size_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size_bytes < 100_000
    (line,) = history.annotate(build_view(0, fail(1999))).tasks
    assert "; 1997 more failed; attempt 1997: 1997 xxx" in line.note


def test_attempt_that_the_note_describes_is_not_repeated() -> None:
    history = AttemptHistory()
    view = build_view(0, fail(0))
    history.observe(view)
    assert history.annotate(view) == view


def test_attempts_of_the_framework_are_remembered_with_those_of_its_tasks() -> None:
    history = AttemptHistory()
    ended = build_view(0, fail(0), end="worker/1 exited with 7")
    assert history.observe(ended) == [
        "the Framework failed in attempt 0: worker/1 exited with 7",
        "worker/1 failed in attempt 0: exited with 7",
    ]
    history.observe(build_view(1, fail(0)))
    annotated = history.annotate(build_view(1, run(1), note="runs"))
    assert annotated.note == "runs; attempt 0: worker/1 exited with 7"
    assert annotated.tasks[0].note == "attempt 0: exited with 7; attempt 1/0: exited with 7"


def test_task_that_ended_with_its_gang_has_no_history() -> None:
    history = AttemptHistory()
    assert history.observe(build_view(0, replace(fail(0), is_own_failure=False))) == []
