"""The lines of `framework run` in a pipe, and its last table, for many Tasks."""

from collections.abc import Iterable
from dataclasses import replace

from cli.running.table import build_table
from cli.running.transitions import Transitions
from cli.running.views import GangPhase, GangView, TaskLine
from tests.cli.running.test_layout import line


def gang(tasks: Iterable[TaskLine], state: str = "Running") -> GangView:
    return GangView("gang", state, 0, "", tuple(tasks))


def observe_one(transitions: Transitions, view: GangView, seconds: float = 0.0) -> list[str]:
    return transitions.observe(view, seconds, names_framework=False)


def observe(*views: GangView, folds: bool = True) -> list[str]:
    transitions = Transitions(folds=folds)
    lines = [
        line for view in views for line in transitions.observe(view, 0.0, names_framework=False)
    ]
    return [text for text in lines if not text.startswith("gang")]


def test_tasks_that_change_alike_are_one_line() -> None:
    assert observe(gang(line(i, "Running") for i in range(512))) == [
        "worker/0-511  Running (512 Tasks)"
    ]


def test_few_tasks_have_a_line_each() -> None:
    lines = observe(gang(line(i, "Running", attempt=1) for i in range(4)))
    assert lines == [f"worker/{i}  Running (attempt 1)" for i in range(4)]


def test_all_gives_each_task_a_line() -> None:
    assert len(observe(gang(line(i, "Running") for i in range(512)), folds=False)) == 512


def test_only_the_tasks_that_changed_are_reported() -> None:
    before = gang(line(i, "Running") for i in range(100))
    after = gang(line(i, "Running" if i % 10 else "Succeeded") for i in range(100))
    assert observe(before, after) == [
        "worker/0-99  Running (100 Tasks)",
        "worker/0,10,20,30,…  Succeeded (10 Tasks)",
    ]


def test_states_and_notes_are_not_mixed() -> None:
    tasks = [line(i, "Waiting", "barrier: lacks worker/9" if i % 2 else "pulls") for i in range(10)]
    assert observe(gang([*tasks, line(0, "Running", role="ps")])) == [
        "worker/0,2,4,6,…  Waiting (5 Tasks): pulls",
        "worker/1,3,5,7,…  Waiting (5 Tasks): barrier: lacks worker/9",
        "ps/0  Running",
    ]


def test_failed_tasks_are_always_named() -> None:
    lines = observe(gang(line(i, "Failed", "exited with 7") for i in range(0, 60, 2)))
    assert lines[:20] == [f"worker/{i}  Failed: exited with 7" for i in range(0, 40, 2)]
    assert lines[20:] == ["worker/40,42,44,46,48,50,52,54,56,58  Failed (10 Tasks): exited with 7"]


def test_same_views_give_the_same_lines() -> None:
    views = [gang(line(i, "Running" if i < n else "Waiting") for i in range(50)) for n in range(50)]
    assert observe(*views) == observe(*[view for view in views for _ in range(3)])


def test_each_epoch_has_a_line_with_the_process_that_failed_first() -> None:
    epochs = ["", "epoch 1: x", "epoch 1: x", "epoch 2: y"]
    views = [replace(gang([]), epoch=epoch) for epoch in epochs]
    views += [replace(gang([]), epoch=epoch, attempt=1) for epoch in epochs[:3]]
    transitions = Transitions()
    lines = [
        line for view in views for line in transitions.observe(view, 0.0, names_framework=False)
    ]
    assert [text for text in lines if "epoch" in text] == [
        "gang  epoch 1: x",
        "gang  epoch 2: y",
        "gang  epoch 1: x",
    ]


def test_table_of_many_tasks_is_folded_but_for_failed_ones() -> None:
    tasks = [line(i, "Stopped", "ended with its Framework") for i in range(1000)]
    tasks[7], tasks[9] = line(7, "Failed", "exited with 7"), line(9, "Failed", "exited with 7")
    assert build_table(tasks) == [
        "TASK                 STATE    ATTEMPT  CODE  NOTE",
        "worker/7             Failed   0        1     exited with 7",
        "worker/9             Failed   0        1     exited with 7",
        "worker/0-6,8,10-999  Stopped  0              ended with its Framework",
    ]
    assert len(build_table(tasks, folds=False)) == 1001


def test_table_without_tasks_is_a_sentence() -> None:
    assert build_table([]) == ["There are no Tasks."]


def test_table_on_a_terminal_wraps_long_notes() -> None:
    tasks = [line(0, "Failed", "one two three four five six seven eight nine ten")]
    assert build_table(tasks, width=70) == [
        "TASK      STATE   ATTEMPT  CODE  NOTE",
        "worker/0  Failed  0        1     one two three four five six seven",
        "                                 eight nine ten",
    ]
    assert build_table(tasks, width=40)[1:] == [
        "worker/0  Failed  0        1",
        "    one two three four five six seven",
        "    eight nine ten",
    ]


def test_training_has_a_line_in_15_seconds_and_one_at_its_end() -> None:
    transitions = Transitions()
    views = [
        replace(
            gang([]),
            training=f"step {second}",
            phase=GangPhase.FAILED if second == 99 else GangPhase.ACTIVE,
        )
        for second in range(100)
    ]
    lines = [
        each for i, view in enumerate(views) for each in observe_one(transitions, view, float(i))
    ]
    lines += observe_one(transitions, views[-1], 1000.0)
    steps = [line for line in lines if "step" in line]
    assert steps == [f"gang  step {step}" for step in (*range(0, 99, 15), 99)]


def test_training_that_stands_still_is_not_repeated() -> None:
    transitions = Transitions()
    now = replace(gang([]), training="step 1")
    lines = [observe_one(transitions, now, 60.0 * i) for i in range(3)]
    assert [len(each) for each in lines] == [2, 0, 0]
