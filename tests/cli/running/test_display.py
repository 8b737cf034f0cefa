import io
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cli.running.display import Display
from cli.running.table import format_rows
from cli.running.views import GangView, TaskLine
from framework.api.naming import TaskKey


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def line(index: int, state: str, note: str = "", attempt: int = 0) -> TaskLine:
    return TaskLine(TaskKey("worker", index), state, attempt, note, code=0)


def gang(*tasks: TaskLine, name: str = "gang", state: str = "Waiting") -> GangView:
    return GangView(name, state, 0, "", tasks)


def read_frame(written: str) -> list[str]:
    """Read the lines of a frame that was drawn once, without colours and cursor movements."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written).replace("\r", "")
    lines = [each.rstrip() for each in plain.split("\n")]
    begin = max(i for i, each in enumerate(lines) if each.startswith("away"))
    return [each for each in lines[begin:] if each]


Update = tuple[Sequence[GangView], float, str | None]


def one(task: TaskLine, state: str = "Waiting", seconds: float = 0.0) -> Update:
    return [gang(task, state=state)], seconds, None


@pytest.mark.parametrize(
    ("updates", "lines"),
    [
        (
            [
                one(line(0, "Waiting", "waits"), seconds=1.0),
                one(line(0, "Waiting", "waits"), seconds=2.0),
                one(line(0, "Running", attempt=1), seconds=3.25),
            ],
            [
                "1.0s  gang  Waiting",
                "1.0s  worker/0  Waiting: waits",
                "3.2s  worker/0  Running (attempt 1)",
            ],
        ),
        (
            [one(line(0, "Waiting", note), "Running") for note in ("", "starts", "")],
            ["0.0s  gang  Running", "0.0s  worker/0  Waiting: starts"],
        ),
        (
            [one(line(0, state), state) for state in ("Running", "Ending", "Stopped")],
            [
                "0.0s  gang  Running",
                "0.0s  worker/0  Running",
                "0.0s  gang  Ending",
                "0.0s  gang  Stopped",
                "0.0s  worker/0  Stopped",
            ],
        ),
        (
            [([gang(line(0, "A"), name="a"), gang(line(0, "B"), name="b")], 0.0, None)],
            ["0.0s  a  Waiting", "0.0s  a worker/0  A", "0.0s  b  Waiting", "0.0s  b worker/0  B"],
        ),
        (
            [([], 0.0, alert) for alert in (None, "refused", "refused", None)],
            ["0.0s  alert  refused", "0.0s  alert  connected again"],
        ),
    ],
    ids=["changes-only", "no-reason", "ends-with-its-gang", "several-frameworks", "alert"],
)
def test_update_in_a_pipe_prints_a_line_for_each_change(
    updates: list[Update], lines: list[str]
) -> None:
    stream = io.StringIO()
    with Display(stream) as display:
        for update in updates:
            display.update(*update)
    assert stream.getvalue().splitlines() == [f"    {each}" for each in lines]


def test_show_table_lists_own_failures_first() -> None:
    stream = io.StringIO()
    failure = TaskLine(TaskKey("worker", 1), "Failed", 0, "x", code=1, is_own_failure=True)
    Display(stream).show_table([gang(line(0, "Stopped"), failure)], 0.0)
    rows = [row.split()[0] for row in stream.getvalue().splitlines()[2:]]
    assert rows == ["worker/1", "worker/0"]


def test_show_table_aligns_the_tasks() -> None:
    stream = io.StringIO()
    display = Display(stream)
    done = gang(line(0, "Succeeded"), line(10, "Failed", "Phrase (7)", 12), state="Failed")
    display.show_table([done], 3.14)
    assert stream.getvalue().splitlines() == [
        "Framework gang: Failed after 3.1 s, attempt 0",
        "TASK       STATE      ATTEMPT  CODE  NOTE",
        "worker/0   Succeeded  0        0",
        "worker/10  Failed     12       0     Phrase (7)",
    ]


def test_show_table_notes_whose_process_failed_before_a_restart_in_place() -> None:
    stream = io.StringIO()
    tasks = line(0, "Succeeded"), line(1, "Succeeded"), line(2, "Failed", "exited with 1")
    for index in (1, 2):
        restart = (TaskKey("worker", index), "its process was killed")
        Display(stream).show_table([replace(gang(*tasks), restart=restart)], 3.14)
    assert [row.split(maxsplit=4)[4:] for row in stream.getvalue().splitlines()[2:5]] == [
        [],
        ["its process was killed"],
        ["exited with 1"],
    ]
    assert stream.getvalue().count("its process was killed") == 1


def test_show_table_with_markup_in_a_note_prints_it_as_it_is() -> None:
    stream = io.StringIO()
    Display(stream).show_table([gang(line(0, "Failed", "[bold]x[/bold] [1]"))], 0.0)
    assert "[bold]x[/bold] [1]" in stream.getvalue()


def test_update_on_a_terminal_draws_each_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with Display(stream) as display:
        assert display.is_live
        display.update([gang(line(0, "Running", "well"))], 1.0, "the server is away")
    shown = stream.getvalue()
    for text in ("gang", "worker/0", "Running", "well", "the server is away"):
        assert text in shown


def test_update_on_a_terminal_with_many_tasks_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    tasks = [line(i, "Running") for i in range(99)]
    with Display(stream) as display:
        display.update([gang(*tasks, line(99, "Waiting", "Unschedulable"))], 1.0, None)
    shown = stream.getvalue()
    assert "worker/99" in shown
    assert "Unschedulable" in shown
    assert "worker/7" not in shown
    assert "99" in shown


def test_update_on_a_small_terminal_keeps_to_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "8")
    stream = Terminal()
    tasks = [line(i, "Waiting", f"why {i} " * 20) for i in range(12)]
    failure = TaskLine(TaskKey("worker", 12), "Failed", 0, "cause", code=1, is_own_failure=True)
    shown_gang = GangView("gang", "Running", 0, "note " * 20, (*tasks, failure))
    with Display(stream) as display:
        display.update([shown_gang], 1.0, "away " * 20)
    frame = read_frame(stream.getvalue())
    assert len(frame) < 8
    assert max(map(len, frame)) <= 40
    assert "worker/12" in "".join(frame)
    assert frame[0].startswith("away")


def test_format_rows_pads_all_but_the_last_column() -> None:
    assert format_rows([("a", "b"), ("long", "")]) == ["a     b", "long"]


def test_notes_and_warnings_are_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    display = Display(stream)
    display.say("progress")
    display.remark("warning: a \x1b")
    assert (stream.getvalue(), capsys.readouterr().err) == ("progress\n", "warning: a \\x1b\n")


def test_standard_error_on_a_full_disk_does_not_end_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        display = Display(stream)
        display.remark("warning: a")
        display.say("progress")
    assert stream.getvalue() == "progress\n"


def test_display_on_a_full_disk_warns_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Path("/dev/full").open("w") as full:
        display = Display(full)
        display.say("one")
        display.show_table([gang(line(0, "Running"))], 0.0)
    assert capsys.readouterr().err == (
        "warning: progress cannot be written: No space left on device; "
        "the Frameworks are followed without output\n"
    )
