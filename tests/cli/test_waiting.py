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
    """Send signals to this process; a handled second signal would cancel the test."""
    with interrupt.caught():
        for number in numbers:
            os.kill(os.getpid(), number)
        await interrupt.requested.wait()
    return interrupt.exit_code


@pytest.mark.usefixtures("hangup_by_default")
async def test_hangup_ends_a_command_that_stops_with_its_terminal() -> None:
    interrupt = Interrupt(stops_on_hangup=True)
    assert await receive(interrupt, signal.SIGHUP) is ExitCode.HUNG_UP


@pytest.mark.usefixtures("nohup")
@pytest.mark.parametrize("stops_on_hangup", [True, False])
async def test_hangup_under_nohup_is_ignored(*, stops_on_hangup: bool) -> None:
    interrupt = Interrupt(stops_on_hangup=stops_on_hangup)
    assert await receive(interrupt, signal.SIGHUP, signal.SIGTERM) is ExitCode.TERMINATED
