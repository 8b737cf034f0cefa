"""Signals that ask a command to end."""

import os
import signal
from collections.abc import Iterator

import pytest

from cli.exitcodes import ExitCode
from cli.waiting import Interrupt


@pytest.fixture
def nohup() -> Iterator[None]:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, before)


async def receive(interrupt: Interrupt, *numbers: signal.Signals) -> ExitCode:
    """Send signals to this process; a second one that is heeded would cancel the test."""
    with interrupt.caught():
        for number in numbers:
            os.kill(os.getpid(), number)
        await interrupt.requested.wait()
    return interrupt.exit_code


@pytest.mark.usefixtures("hangup_by_default")
async def test_terminal_that_goes_away_ends_what_ends_with_the_program() -> None:
    interrupt = Interrupt(stops_on_hangup=True)
    assert await receive(interrupt, signal.SIGHUP) is ExitCode.HUNG_UP


@pytest.mark.usefixtures("nohup")
@pytest.mark.parametrize("stops_on_hangup", [True, False])
async def test_hangup_is_left_as_nohup_has_made_it(*, stops_on_hangup: bool) -> None:
    interrupt = Interrupt(stops_on_hangup=stops_on_hangup)
    assert await receive(interrupt, signal.SIGHUP, signal.SIGTERM) is ExitCode.TERMINATED
