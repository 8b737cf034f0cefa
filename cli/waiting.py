"""Waiting for one of several events, and for the user's Ctrl-C."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from cli.exitcodes import ExitCode

_CODES = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
    signal.SIGHUP: ExitCode.HUNG_UP,
}


class Interrupt:
    """Ctrl-C, SIGTERM and SIGHUP: the first asks for a clean stop, the second ends at once.

    Attributes:
        requested: set by the first signal.
        exit_code: exit code of the program for this signal.
    """

    def __init__(self, *, stops_on_hangup: bool) -> None:
        """Start without a request.

        Args:
            stops_on_hangup: whether SIGHUP asks for a stop. Under ``nohup`` it never does.
        """
        self._numbers = {signal.SIGINT, signal.SIGTERM}
        if stops_on_hangup and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            self._numbers.add(signal.SIGHUP)
        self.requested = asyncio.Event()
        self.exit_code = ExitCode.INTERRUPTED

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Catch the signals in this block, which must be in the program's main task."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def take(number: signal.Signals) -> None:
            if self.requested.is_set() and task is not None:
                task.cancel()
            self.exit_code = _CODES[number]
            self.requested.set()

        for number in self._numbers:
            loop.add_signal_handler(number, take, number)
        try:
            yield
        finally:
            for number in self._numbers:
                loop.remove_signal_handler(number)


async def wait_any(*events: asyncio.Event, timeout_seconds: float | None = None) -> bool:
    """Wait until one of the events is set; return False if the time passed before."""
    waiting = [asyncio.create_task(event.wait(), name="wait-event") for event in events]
    try:
        done, _ = await asyncio.wait(
            waiting, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        return bool(done)
    finally:
        for task in waiting:
            task.cancel()
