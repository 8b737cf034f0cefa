"""A command that ended and left processes which cannot be killed now: they wait in the kernel."""

import os
import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from framework.agent.clock import AgentClock
from framework.agent.report import LineReporter
from rendezvous.core.command import Order, OrderKind
from rendezvous.process import children as module
from rendezvous.process.children import Children
from rendezvous.process.wrapper import Hooks, Wrapper
from rendezvous.settings.options import Options
from tests.support.fakes.agentclock import VirtualClock
from tests.support.waiting import wait_until

PID = 7


class StuckChildren:
    """The command has ended with 9; what it left is gone after some looks."""

    def __init__(self, looks: int, code: int = 9) -> None:
        self.looks = looks
        self.codes = {PID: code}

    def start(self, _argv: list[str], _env: dict[str, str], *_streams: None) -> int:
        return PID

    def take_code(self, pid: int) -> int | None:
        return self.codes.pop(pid, None)

    def kill_leftovers(self, *, with_piped: bool = False) -> bool:
        assert with_piped
        self.looks -= 1
        return self.looks <= 0

    def reap(self) -> None:
        """Nothing."""

    def kill_session(self, _pid: int) -> None:
        """Nothing is left in the session."""


def build_setup(clock: AgentClock) -> Any:
    return SimpleNamespace(
        options=Options(),
        target=SimpleNamespace(identity=None),
        reporter=LineReporter("test", is_json=False),
        clock=clock,
    )


def give(wrapper: Wrapper, kind: OrderKind, exit_code: int = 0) -> None:
    """Let the main thread carry out an order."""
    wrapper._unfinished[0] = threading.Event()
    wrapper._follow(Order(kind, {}, exit_code))


@pytest.mark.parametrize("looks", [1, 2, 3])
def test_end_is_reported_at_once_and_later_that_no_process_is_left(looks: int) -> None:
    children: Any = StuckChildren(looks)
    setup = build_setup(AgentClock())
    wrapper = Wrapper(["train"], setup, children)
    calls: list[tuple[object, int]] = []
    wrapper.hooks = Hooks(
        after_end=lambda code: calls.append((code, children.looks)),
        after_gone=lambda: calls.append(("gone", children.looks)),
    )
    give(wrapper, OrderKind.START)
    wrapper._wakeup.wake()
    while len(calls) < 2:
        wrapper._turn()
    assert calls == [(9, looks), ("gone", 0)]
    wrapper._wakeup.close()


def test_program_ends_though_a_killed_command_does_not() -> None:
    children: Any = StuckChildren(1)
    children.codes.clear()
    clock = VirtualClock()
    setup = build_setup(clock)
    wrapper = Wrapper(["train"], setup, children)
    give(wrapper, OrderKind.START)
    give(wrapper, OrderKind.FAIL, 202)
    wrapper._wakeup.wake()
    wrapper._turn()
    codes = [wrapper._memory.exit_code]
    clock.now += 10.0
    wrapper._wakeup.wake()
    wrapper._turn()
    assert [*codes, wrapper._memory.exit_code] == [None, 202]
    wrapper._wakeup.close()


def test_remote_commands_are_left_over_where_processes_restart_in_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    children = Children(AgentClock())
    command, remote = ["sleep", "1000"], ["sleep", "1001"]
    kept = children.start(command, dict(os.environ))
    piped = children.start_piped(remote, dict(os.environ), lambda: None)
    for descriptor in (piped.stdin, piped.stdout, piped.stderr):
        os.close(descriptor)
    left = {kept, piped.pid}
    monkeypatch.setattr(module, "_list_children", lambda: sorted(left - children._codes.keys()))
    assert children.kill_leftovers()
    assert children._codes == {}, "both are awaited"
    # A busy machine may need longer than one call takes to end the process.
    wait_until(lambda: children.kill_leftovers(with_piped=True))
    assert children._codes == {piped.pid: 128 + signal.SIGKILL}
    children.kill(kept)
    assert children.wait(kept, 60) == 128 + signal.SIGKILL


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (137, 202)])
def test_command_that_succeeds_before_it_is_killed_did_not_hang(code: int, expected: int) -> None:
    children: Any = StuckChildren(1)
    children.kill_leftovers = lambda: True
    setup = build_setup(VirtualClock())
    wrapper = Wrapper(["train"], setup, children)
    give(wrapper, OrderKind.START)
    children.codes = {}
    give(wrapper, OrderKind.FAIL, 202)
    children.codes = {PID: code}
    wrapper._follow_end()
    assert wrapper._memory.exit_code == expected
    wrapper._wakeup.close()


def test_own_exit_code_that_means_a_hang_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    setup = build_setup(VirtualClock())
    children: Any = StuckChildren(1, 202)
    wrapper = Wrapper(["train"], setup, children)
    give(wrapper, OrderKind.START)
    wrapper._follow_end()
    assert wrapper._memory.exit_code == 202
    assert "ended with 202, which is reported as a hang" in capsys.readouterr().err
    wrapper._wakeup.close()
