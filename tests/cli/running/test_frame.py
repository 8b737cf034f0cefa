"""The redrawn part of a terminal goes away at every end: on a pseudo-terminal."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.exitcodes import ExitCode
from cli.running.display import Display
from cli.running.views import GangView
from tests.cli.running.terminal import Screen
from tests.cli.running.test_layout import line
from tests.cli.test_sessions import ROOT, build_role, list_local, write
from tests.support.waiting import HANG_SECONDS

SPINNER = set("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
# Its standard input becomes the terminal of the session: a Ctrl-C there is a signal.
ON_TERMINAL = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from cli.main import main
main()
"""
TASKS = tuple(line(i, "Running") for i in range(4))
GANG = GangView("gang", "Running", 0, "the note of the gang is long enough to be wrapped", TASKS)


@dataclass
class PseudoTerminal:
    """A pseudo-terminal, and the screen that shows what was written to it."""

    master: int
    slave: int
    screen: Screen

    def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        if width != self.screen.width:
            self.screen.resize(width)

    def look(self) -> list[str]:
        """Read what was written, and return what a user sees."""
        os.set_blocking(self.master, False)
        try:
            while piece := os.read(self.master, 65536):
                self._take(piece)
        except (BlockingIOError, OSError):
            pass
        return self.screen.text

    def read_until(self, text: str) -> None:
        """Read until the screen has a text; fail if the program ends or hangs before."""
        while text not in "\n".join(self.screen.text):
            ready, _, _ = select.select([self.master], [], [], HANG_SECONDS)
            assert ready, self.screen.text
            self._take(os.read(self.master, 65536))

    def read_to_end(self) -> list[str]:
        """Read until no program has the terminal open."""
        os.close(self.slave)
        os.set_blocking(self.master, True)
        try:
            while piece := os.read(self.master, 65536):
                self._take(piece)
        except OSError:
            pass
        return self.screen.text

    def _take(self, piece: bytes) -> None:
        self.screen.feed(piece.decode(errors="replace"))


@contextmanager
def open_terminal(width: int, height: int) -> Iterator[PseudoTerminal]:
    master, slave = pty.openpty()
    terminal = PseudoTerminal(master, slave, Screen(width))
    terminal.resize(width, height)
    try:
        yield terminal
    finally:
        os.close(master)


pytestmark = pytest.mark.usefixtures("xterm")


@pytest.fixture
def xterm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (19, 5), (5, 3), (1, 1)])
def test_frame_is_removed_and_lines_stay(size: tuple[int, int]) -> None:
    with open_terminal(*size) as terminal, open(terminal.slave, "w", closefd=False) as stream:
        with Display(stream) as display:
            display.update([GANG], 1.0, None)
            display.turn_spinner()
            assert size[0] < 19 or "gang" in "".join(terminal.look())
            display.say("hello")
            display.update([GANG], 2.0, "away")
        assert "".join(terminal.look()) == "hello"
        assert terminal.screen.is_cursor_shown


def test_line_on_standard_error_stays_above_the_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_terminal(40, 10) as terminal, open(terminal.slave, "w", closefd=False) as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        with Display(stream) as display:
            display.update([GANG], 1.0, None)
            frame = terminal.look()
            display.remark("note: hello")
            assert terminal.look() == ["note: hello", *frame]
        assert terminal.look() == ["note: hello"]


@pytest.mark.parametrize("widths", [(80, 30), (80, 12), (30, 80), (200, 19, 100)])
def test_frame_is_removed_after_the_terminal_was_resized(widths: tuple[int, ...]) -> None:
    with open_terminal(widths[0], 40) as terminal:
        with open(terminal.slave, "w", closefd=False) as stream, Display(stream) as display:
            display.say("first")
            for width in widths:
                display.update([GANG], 1.0, None)
                terminal.look()
                terminal.resize(width, 40)
            display.update([GANG], 1.0, None)
            shown = terminal.look()
            assert len([row for row in shown if "attempt 0" in row and "gang" in row]) <= 1
            display.say("last")
        assert terminal.look() == ["first", "last"]


def test_typed_characters_do_not_move_the_frame() -> None:
    with open_terminal(40, 10) as terminal:
        with open(terminal.slave, "w", closefd=False) as stream, Display(stream) as display:
            display.update([GANG], 1.0, None)
            terminal.look()
            terminal.screen.feed("^C^C")
            display.update([GANG], 2.0, None)
        assert terminal.look() == []


def test_frame_is_removed_after_an_exception() -> None:
    with open_terminal(40, 10) as terminal:
        with open(terminal.slave, "w", closefd=False) as stream:
            display = Display(stream)
            with suppress(RuntimeError), display:
                display.update([GANG], 1.0, None)
                raise RuntimeError
        assert terminal.look() == []


@pytest.mark.slow
@pytest.mark.local
@pytest.mark.parametrize("width", [80, 18])
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_leaves_no_spinner(width: int, times: int, tmp_path: Path) -> None:
    file = write(tmp_path / "f.yaml", build_role("w", 2, "trap '' TERM; sleep 600 & wait; wait"))
    command = [sys.executable, "-c", ON_TERMINAL, *list_local(tmp_path / "state"), file]
    with open_terminal(width, 24) as terminal:
        program = subprocess.Popen(
            command,
            stdin=terminal.slave,
            stdout=terminal.slave,
            stderr=terminal.slave,
            cwd=ROOT,
            # Without it, COLUMNS and LINES of GNU readline, which pytest imports, are passed on.
            env=dict(os.environ),
            start_new_session=True,
        )
        with program:
            terminal.read_until("w/0-1")
            terminal.read_until("Running")
            for _ in range(times):
                os.write(terminal.master, b"\x03")
                if times > 1:
                    terminal.read_until("stopping")
            shown = "\n".join(terminal.read_to_end())
        assert program.returncode == ExitCode.INTERRUPTED, shown
    assert not SPINNER & set(shown), shown
    assert terminal.screen.is_cursor_shown
