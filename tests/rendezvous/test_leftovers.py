"""A command that ended and left processes which cannot be killed now: they wait in the kernel."""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from framework.agent.clock import AgentClock
from framework.agent.report import LineReporter
from rendezvous.process.wrapper import Wrapper
from rendezvous.settings.options import Options

PID = 7


class StuckChildren:
    """The command has ended with 9; what it left is gone after some looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self.codes = {PID: 9}

    def start(self, _argv: list[str], _env: dict[str, str]) -> int:
        return PID

    def take_code(self, pid: int) -> int | None:
        return self.codes.pop(pid, None)

    def kill_leftovers(self) -> bool:
        self.looks -= 1
        return self.looks <= 0

    def reap(self) -> None:
        """Nothing."""

    def kill_session(self, _pid: int) -> None:
        """Nothing is left in the session."""


@pytest.mark.parametrize("looks", [1, 2, 3])
def test_end_is_followed_when_all_that_the_command_left_is_gone(looks: int) -> None:
    children: Any = StuckChildren(looks)
    setup: Any = SimpleNamespace(
        options=Options(),
        target=SimpleNamespace(identity=None),
        reporter=LineReporter("test", is_json=False),
        clock=AgentClock(),
    )
    wrapper = Wrapper(["train"], setup, children)
    left: list[tuple[int, int]] = []
    wrapper.follow_ends(lambda code: left.append((code, children.looks)))
    wrapper._start({})
    wrapper._wake()
    while not left:
        wrapper._turn()
    assert left == [(9, 0)]
    for descriptor in (wrapper._wakeup_read, wrapper._wakeup_write):
        os.close(descriptor)
