"""The signals that ask an agent for its end.

Called by the agents' programs. An agent that is PID 1 of its container would not even notice
SIGTERM without a handler.
"""

import signal
from types import FrameType
from typing import NoReturn, Optional

# A program that a signal ended has the signal's number and this as its exit code.
SIGNAL_EXIT_BASE = 128


class SignalledError(BaseException):
    """A signal asks for the end. No ``Exception``, so that nothing on the way swallows it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def raise_on_signals() -> None:
    """From now on SIGTERM and SIGINT raise ``SignalledError`` in the main thread, once."""
    signal.signal(signal.SIGTERM, _raise_signalled)
    signal.signal(signal.SIGINT, _raise_signalled)


def ignore_signals() -> None:
    """From now on SIGTERM and SIGINT do nothing."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _raise_signalled(number: int, _frame: Optional[FrameType]) -> NoReturn:
    ignore_signals()  # one is enough: a second would interrupt the way out
    raise SignalledError(number)
