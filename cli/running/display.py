"""Shows progress: live on a terminal, a line for each change in a pipe; then a table.

This module only writes. ``cli.running.progress`` computes the texts.
"""

import contextlib
import os
import sys
import zlib
from collections.abc import Iterable, Sequence
from typing import IO, Any, Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from cli.running.progress import GangView, TaskLine
from cli.terminal import print_error
from framework.api.text import make_printable

_STYLES = {
    "Succeeded": "green",
    "Failed": "red",
    "Running": "cyan",
    "Waiting": "yellow",
    "Pending": "yellow",
    "Retrying": "yellow",
}
# Colours of the names of Tasks in front of their output.
_OUTPUT_STYLES = ("cyan", "magenta", "blue", "green", "yellow", "bright_cyan", "bright_magenta")
# States that without a note add nothing to the line of the gang.
_PLAIN_STATES = frozenset({"Waiting", "Ending"})
_HEADER = ("TASK", "STATE", "ATTEMPT", "CODE", "NOTE")
# Above so many Tasks a terminal shows a count for each state, and the Tasks that need a look.
_MANY_TASKS = 40
_SHOWN_OF_MANY = 10


class _Console(Console):
    """A console whose reader may close the pipe, as ``head`` does."""

    def on_broken_pipe(self) -> None:
        """Continue without output: the exit code still shows the result."""
        self.quiet = True
        silence(self.file)


class Display:
    """Writes progress to a stream. Use it in a ``with`` block."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Write to ``stream``, standard output if None."""
        self._console = _Console(file=stream or sys.stdout, highlight=False)
        self._live: Live | None = None
        self._spinners: dict[str, Spinner] = {}
        self._last: dict[tuple[str, str], tuple[str, ...]] = {}
        self._is_many = False

    @property
    def is_live(self) -> bool:
        """Return whether there is a terminal that can be redrawn."""
        return self._console.is_terminal

    def __enter__(self) -> Self:
        """Take over the terminal, if it is one."""
        if self.is_live:
            self._live = Live(console=self._console, refresh_per_second=8, transient=True)
            self._live.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        """Give the terminal back."""
        if self._live is not None:
            self._live.__exit__(None, None, None)
            self._live = None

    def update(self, gangs: Sequence[GangView], elapsed_seconds: float, alert: str | None) -> None:
        """Show the current state.

        Args:
            gangs: every Framework.
            elapsed_seconds: since the start.
            alert: why the Frameworks cannot be watched now; None if they are watched.
        """
        self._is_many = len(gangs) > 1
        if self._live is not None:
            self._live.update(self._render_live(gangs, elapsed_seconds, alert))
            return
        for gang in gangs:
            self._print_changes(gang, elapsed_seconds)
        self._print_change("", "alert", (alert or "",), elapsed_seconds, alert or "connected again")

    def say(self, text: str) -> None:
        """Print a line that stays; a line end in it is shown, not obeyed."""
        self._print(_build_text(text))

    def show_output(self, title: str, line: str) -> None:
        """Print a line that a container of a Task has printed."""
        style = _OUTPUT_STYLES[zlib.crc32(title.encode()) % len(_OUTPUT_STYLES)]
        self._print(Text.assemble(_build_text(f"[{title}] ", style), _build_text(line)))

    def show_table(self, gangs: Sequence[GangView], elapsed_seconds: float) -> None:
        """Print the final table of each Framework."""
        for gang in gangs:
            note = f": {gang.note}" if gang.note else ""
            head = Text.assemble(
                _build_text(f"Framework {gang.name}: "),
                _build_state(gang.state),
                _build_text(f" after {elapsed_seconds:.1f} s, attempt {gang.attempt}{note}"),
            )
            self._print(head)
            for row in format_rows([_HEADER, *map(_build_row, _sort_tasks(gang.tasks))]):
                self._print(_build_text(row))

    def _print(self, text: Text) -> None:
        """Print a line; if the disk of a log file is full, stop printing."""
        try:
            self._console.print(text, soft_wrap=True)
        except OSError as e:
            self._console.on_broken_pipe()
            # Standard error may well be the same file.
            with contextlib.suppress(OSError):
                print_error(
                    f"warning: progress cannot be written: {e.strerror}; "
                    "the Frameworks are followed without output"
                )

    def _render_live(
        self, gangs: Sequence[GangView], elapsed_seconds: float, alert: str | None
    ) -> RenderableType:
        width, height = self._console.size
        parts: list[RenderableType] = []
        if alert:
            parts.append(_build_line(alert, width, style="red"))
        # One line for each title, and one that rich keeps for the cursor.
        rows = max(1, (height - len(parts) - 1) // max(1, len(gangs)) - 1)
        for gang in gangs:
            note = f"  {gang.note}" if gang.note else ""
            title = f"{gang.name}  {gang.state}  attempt {gang.attempt}  {elapsed_seconds:.0f} s"
            spinner = self._spinners.setdefault(gang.name, Spinner("dots"))
            spinner.update(text=_build_line(title + note, width - 2))
            parts += [spinner, _render_tasks(gang, rows)]
        return Group(*parts)

    def _print_changes(self, gang: GangView, elapsed_seconds: float) -> None:
        row = (gang.state, str(gang.attempt), gang.note)
        text = _describe(gang.state, gang.attempt, gang.note)
        self._print_change(gang.name, "", row, elapsed_seconds, text)
        for line in gang.tasks:
            if line.state in _PLAIN_STATES and not line.note:
                continue
            row = (line.state, str(line.attempt), line.note)
            text = _describe(line.state, line.attempt, line.note)
            self._print_change(gang.name, str(line.key), row, elapsed_seconds, text)

    def _print_change(
        self, gang: str, task: str, row: tuple[str, ...], elapsed_seconds: float, text: str
    ) -> None:
        known = self._last.get((gang, task))
        if known == row or (known is None and not any(row)):
            return
        self._last[gang, task] = row
        subject = task or gang
        if task and self._is_many:
            subject = f"{gang} {task}".strip()
        self.say(f"{elapsed_seconds:7.1f}s  {subject}  {text}")


def silence(stream: IO[Any]) -> None:
    """Discard everything that is written to a stream from now on, without an error at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _describe(state: str, attempt: int, note: str) -> str:
    text = f"{state} (attempt {attempt})" if attempt else state
    return f"{text}: {note}" if note else text


def _build_row(line: TaskLine) -> tuple[str, ...]:
    code = "" if line.code is None else str(line.code)
    row = (str(line.key), line.state, str(line.attempt), code, line.note)
    return tuple(make_printable(cell) for cell in row)


def _sort_tasks(tasks: Iterable[TaskLine]) -> list[TaskLine]:
    """Put first what failed by itself."""
    return sorted(tasks, key=lambda line: not line.is_own_failure)


def _build_text(text: str, style: str = "") -> Text:
    """Build a text with control characters escaped, in which rich finds no markup."""
    return Text(make_printable(text, keep="\t"), style=style)


def _build_state(state: str) -> Text:
    return _build_text(state, _STYLES.get(state, ""))


def _build_line(text: str, width: int, *, style: str = "") -> Text:
    """Build a line that is cut where the terminal ends: a wrapped one would tear the frame."""
    line = _build_text(text, style)
    line.no_wrap = True
    line.truncate(max(1, width), overflow="ellipsis")
    return line


def _render_tasks(gang: GangView, rows: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2), show_header=False)
    # Shorten the note and not the name of the Task.
    name_width = max((len(str(line.key)) for line in gang.tasks), default=1)
    table.add_column(no_wrap=True, min_width=name_width)
    table.add_column(no_wrap=True, min_width=max(map(len, _STYLES)))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    left = rows
    shown = _sort_tasks(gang.tasks)
    if len(shown) > min(_MANY_TASKS, rows):
        for (role, name), count in list(_count_states(gang.tasks).items())[:rows]:
            table.add_row(_build_text(role), _build_state(name), str(count), "")
            left -= 1
        shown = [line for line in shown if line.note][: min(_SHOWN_OF_MANY, left)]
    for line in shown:
        attempt = f"attempt {line.attempt}" if line.attempt else ""
        key, state, note = _build_text(str(line.key)), _build_state(line.state), line.note
        table.add_row(key, state, attempt, _build_text(note))
    return table


def _count_states(tasks: Iterable[TaskLine]) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    for line in tasks:
        key = (line.key.role, line.state)
        counts[key] = counts.get(key, 0) + 1
    return counts


def format_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align the columns of a table with two spaces between them."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
