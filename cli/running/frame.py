"""The part of a terminal that is drawn again and again, below the lines that stay.

The frame is removed and drawn again at each change. Its last line is empty: there the terminal
echoes ``^C``, which then moves nothing. rich's ``Live`` remembers the height of what it drew, which
is wrong once the terminal has become narrower and has wrapped the lines; this class counts them
again for the present width.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.cells import cell_len
from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text


class Frame:
    """Lines at the bottom of a terminal."""

    def __init__(self, console: Console, read_size: Callable[[], tuple[int, int]]) -> None:
        """Draw nothing yet.

        Args:
            console: writes to the terminal.
            read_size: reads the present columns and lines of the terminal.
        """
        self._console = console
        self._read_size = read_size
        self._drawn: tuple[int, ...] = ()
        """The widths of the lines on the terminal."""
        self._lines: Sequence[Text] = ()

    def show(self, lines: Sequence[Text]) -> None:
        """Replace the drawn lines by these; each must fit into the terminal."""
        self._lines = lines
        with self._redrawn():
            pass

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Print above the frame in this block."""
        with self._redrawn():
            yield

    @contextmanager
    def removed(self) -> Iterator[None]:
        """Remove the frame while another stream writes to the terminal in this block."""
        lines = self._lines
        self.show(())
        try:
            yield
        finally:
            self.show(lines)

    def close(self) -> None:
        """Remove the frame and show the cursor."""
        self._lines = ()
        with self._redrawn():
            self._console.control(Control.show_cursor(show=True))

    @contextmanager
    def _redrawn(self) -> Iterator[None]:
        # One write for all of it: the terminal shows no half of a frame.
        with self._console:
            self._erase()
            yield
            if self._lines:
                self._console.control(Control.show_cursor(show=False))
            for line in self._lines:
                self._console.print(line, soft_wrap=True)
            self._drawn = tuple(cell_len(line.plain) for line in self._lines)

    def _erase(self) -> None:
        if not self._drawn:
            return
        width, height = self._read_size()
        rows = sum(max(1, -(-cells // max(1, width))) for cells in self._drawn)
        # The cursor is in the empty line below; what left the screen cannot be reached.
        up = ((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2))
        self._console.control(
            Control(
                ControlType.CARRIAGE_RETURN,
                (ControlType.ERASE_IN_LINE, 2),
                *(up * min(rows, max(1, height) - 1)),
            )
        )
        self._drawn = ()
