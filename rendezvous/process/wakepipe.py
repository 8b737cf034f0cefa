"""A pipe that wakes a thread which polls: at a signal, or when another thread calls ``wake``."""

import contextlib
import os
import signal
from types import FrameType
from typing import Iterable, Optional

_READ_BYTES = 4096


class WakePipe:
    """The pipe. Poll ``fileno``, then ``read``."""

    def __init__(self) -> None:
        """Open it. Neither end blocks: if it is full, the thread wakes up anyway."""
        self._read_end, self._write_end = os.pipe()
        for descriptor in (self._read_end, self._write_end):
            os.set_blocking(descriptor, False)

    def catch(self, signals: Iterable[int]) -> None:
        """Write the numbers of these signals into the pipe; only the main thread may call this."""
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in signals:
            signal.signal(number, _handle_signal)

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._read_end

    def wake(self) -> None:
        """Wake the thread."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._write_end, b"\0")

    def read(self) -> bytes:
        """Empty the pipe; return the numbers of signals, and 0 for a call of ``wake``."""
        with contextlib.suppress(BlockingIOError):
            return os.read(self._read_end, _READ_BYTES)
        return b""

    def close(self) -> None:
        """Close both ends."""
        os.close(self._read_end)
        os.close(self._write_end)


def _handle_signal(_number: int, _frame: Optional[FrameType]) -> None:
    """Do nothing: the number of the signal is in the pipe."""
