"""Shows progress: live on a terminal, a line for each change in a pipe; then a table.

Progress, the output of containers and the table are on standard output; notes and warnings are on
standard error.

This module only writes. ``layout``, ``transitions`` and ``table`` build what it writes.
"""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Self, TextIO

from rich.console import Console
from rich.text import Text

from cli.coloring import AUTO, choose_color, is_drawable, wants_color
from cli.running.frame import Frame
from cli.running.layout import Line, lay_out
from cli.running.table import add_restart_note, build_table
from cli.running.transitions import Transitions
from cli.running.views import GangView
from cli.terminal import print_error, silence
from framework.api.text import make_printable

_STYLES = {
    "Succeeded": "green",
    "Failed": "red",
    "Running": "cyan",
    "Waiting": "yellow",
    "Pending": "yellow",
    "Retrying": "yellow",
    "Suspended": "yellow",
}
_USUAL_SIZE = (80, 24)
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class _Console(Console):
    """A console whose reader may close the pipe, as ``head`` does."""

    def on_broken_pipe(self) -> None:
        """Continue without output: the exit code still shows the result."""
        self.quiet = True
        silence(self.file)


class Display:
    """Writes progress to a stream. Use it in a ``with`` block."""

    def __init__(
        self, stream: TextIO | None = None, *, color: str = AUTO, folds: bool = True
    ) -> None:
        """Write to ``stream``, standard output if None.

        Args:
            stream: a terminal is redrawn, anything else gets a line for each change.
            color: of the option ``--color``.
            folds: whether equal Tasks share a line.
        """
        file = stream or sys.stdout
        has_color = wants_color(color, file, os.environ)
        self._is_live = is_drawable(file, os.environ)
        # $FORCE_COLOR would make rich treat a pipe as a terminal.
        self._console = _Console(
            file=file,
            highlight=False,
            force_terminal=self._is_live or has_color,
            no_color=not has_color,
            color_system="standard" if has_color else None,
            legacy_windows=False,
        )
        self._frame: Frame | None = None
        self._folds = folds
        self._transitions = Transitions(folds=folds)
        self._lay_out: Callable[[tuple[int, int]], list[Line]] = lambda _: []
        self._spinner = 0

    @property
    def is_live(self) -> bool:
        """Return whether there is a terminal that can be redrawn."""
        return self._is_live

    def __enter__(self) -> Self:
        """Begin to draw, if the stream is a terminal."""
        if self.is_live:
            self._frame = Frame(self._console, self._read_size)
        return self

    def __exit__(self, *exc: object) -> None:
        """Remove the drawing from the terminal."""
        if self._frame is not None:
            self._frame.close()
            self._frame = None

    def update(self, gangs: Sequence[GangView], elapsed_seconds: float, alert: str | None) -> None:
        """Show the current state.

        Args:
            gangs: every Framework.
            elapsed_seconds: since the start.
            alert: why the Frameworks cannot be watched now; None if they are watched.
        """
        if self._frame is not None:
            self._lay_out = partial(lay_out, gangs, elapsed_seconds, alert)
            self._draw(self._frame)
            return
        for gang in gangs:
            self.show_replaced(gang, elapsed_seconds, names_framework=len(gangs) > 1)
        self._say_at(elapsed_seconds, self._transitions.observe_alert(alert))

    def show_replaced(
        self, gang: GangView, elapsed_seconds: float, *, names_framework: bool
    ) -> None:
        """Show in a pipe a state that a newer state has replaced.

        Args:
            gang: a Framework as it was.
            elapsed_seconds: since the start.
            names_framework: whether lines of Tasks name it, because there are several.
        """
        if self._frame is None:
            lines = self._transitions.observe(
                gang, elapsed_seconds, names_framework=names_framework
            )
            self._say_at(elapsed_seconds, lines)

    def turn_spinner(self) -> None:
        """Show that the program runs; also fits the display into a terminal of another size."""
        if self._frame is not None:
            self._spinner += 1
            self._draw(self._frame)

    def say(self, text: str) -> None:
        """Print a line that stays; a line end in it is escaped."""
        self._print(_build_text(text))

    def remark(self, text: str) -> None:
        """Print a line on standard error: a note, a warning, or why the run gives up."""
        try:
            with self._frame.removed() if self._frame is not None else nullcontext():
                print_error(text)
        except OSError:
            # A closed pipe or a full disk; the exit code still shows the result.
            silence(sys.stderr)

    def say_at(self, elapsed_seconds: float, text: str) -> None:
        """Print a line that stays, with the seconds since the start in front."""
        self.say(f"{elapsed_seconds:7.1f}s  {text}")

    def show_output(self, title: str, lines: Iterable[str]) -> None:
        """Print lines that a container of a Task has printed."""
        style = choose_color(title)
        self._print(
            *(Text.assemble(_build_text(f"[{title}] ", style), _build_text(x)) for x in lines)
        )

    def show_table(self, gangs: Sequence[GangView], elapsed_seconds: float) -> None:
        """Print the final table of each Framework."""
        width = self._read_size()[0] if self.is_live else None
        for gang in gangs:
            note = f": {gang.note}" if gang.note else ""
            training = f", {gang.training}" if gang.training else ""
            end = f" after {elapsed_seconds:.1f} s, attempt {gang.attempt}{training}{note}"
            head = Text.assemble(
                _build_text(f"Framework {gang.name}: "), _build_state(gang.state), _build_text(end)
            )
            self._print(head)
            for row in build_table(add_restart_note(gang), width=width, folds=self._folds):
                self._print(_build_text(row))

    def _say_at(self, elapsed_seconds: float, lines: Iterable[str]) -> None:
        for line in lines:
            self.say_at(elapsed_seconds, line)

    def _print(self, *texts: Text) -> None:
        """Print lines; if the disk of a log file is full, stop printing."""
        try:
            with self._frame.lifted() if self._frame is not None else nullcontext():
                for text in texts:
                    self._console.print(text, soft_wrap=True)
        except OSError as e:
            self._console.on_broken_pipe()
            # Standard error may well be the same file.
            with suppress(OSError):
                print_error(
                    f"warning: progress cannot be written: {e.strerror}; "
                    "the Frameworks are followed without output"
                )

    def _read_size(self) -> tuple[int, int]:
        """Read columns and lines of the terminal; variables of the user come first."""
        try:
            columns, lines = os.get_terminal_size(self._console.file.fileno())
        except (OSError, ValueError):
            columns, lines = 0, 0
        named = (os.environ.get("COLUMNS", ""), os.environ.get("LINES", ""))
        sizes = zip(named, (columns, lines), _USUAL_SIZE, strict=True)
        width, height = (
            int(name) if name.isdecimal() and int(name) else found or usual
            for name, found, usual in sizes
        )
        return width, height

    def _draw(self, frame: Frame) -> None:
        width, height = self._read_size()
        # The frame ends with an empty line.
        lines = self._lay_out((width, height - 1)) if height > 1 else ()
        frame.show([self._render(line) for line in lines])

    def _render(self, line: Line) -> Text:
        text = Text(line.text, style="red" if line.is_alert else "")
        if line.has_spinner and line.text.startswith("  "):
            text = Text(_SPINNER[self._spinner % len(_SPINNER)] + line.text[1:])
        if line.state:
            end = line.state_start + len(line.state)
            text.stylize(_STYLES.get(line.state, ""), line.state_start, end)
        return text


def _build_text(text: str, style: str = "") -> Text:
    """Build a text with control characters escaped, in which rich finds no markup."""
    return Text(make_printable(text, keep="\t"), style=style)


def _build_state(state: str) -> Text:
    return _build_text(state, _STYLES.get(state, ""))
