"""Signals that end a program, and SIGTERM and SIGINT as an exception.

The kernel ignores SIGTERM for PID 1 of a container if the process has no handler.
"""

import signal
from types import FrameType
from typing import NoReturn, Optional

# The exit code after signal N is this plus N, as for a shell.
SIGNAL_EXIT_BASE = 128
# With these, a user or the kubelet asks a program to end.
ENDING_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


class SignalledError(BaseException):
    """A signal asks the agent to end. Not an ``Exception``, so that no handler suppresses it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def raise_on_signals() -> None:
    """Make the first SIGTERM or SIGINT raise ``SignalledError`` in the main thread."""
    signal.signal(signal.SIGTERM, _raise_signalled)
    signal.signal(signal.SIGINT, _raise_signalled)


def ignore_signals() -> None:
    """Make SIGTERM and SIGINT do nothing."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _raise_signalled(number: int, _frame: Optional[FrameType]) -> NoReturn:
    ignore_signals()  # a second signal would interrupt the cleanup
    raise SignalledError(number)
