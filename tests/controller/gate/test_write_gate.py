"""A controller that may not write sends nothing, whatever it had queued."""

import asyncio

import pytest

from controller.core.actions import GetObject, ObjectKind
from controller.core.decision import EventType, Publication
from controller.gate.write_gate import JointWriteGate
from tests.support.builders import build_roster, build_status
from tests.support.simulator.shell import KEY, Shell

pytestmark = pytest.mark.looptime

ACTION = GetObject(ObjectKind.POD, "gang-worker-0", "test")


class Gate:
    """A gate to be opened and closed."""

    def __init__(self) -> None:
        self.is_open = True

    def may_write(self) -> bool:
        return self.is_open


def open_gated() -> tuple[Shell, Gate]:
    """The parts that send, behind one gate."""
    gate = Gate()
    shell = Shell(write_gate=gate)
    shell.create_framework()
    shell.changed.clear()
    return shell, gate


@pytest.mark.parametrize(
    ("gates", "is_open"), [((), True), ((True,), True), ((True, False), False), ((False,), False)]
)
def test_joint_gate_is_open_while_all_gates_are(gates: tuple[bool, ...], *, is_open: bool) -> None:
    joined = []
    for is_gate_open in gates:
        gate = Gate()
        gate.is_open = is_gate_open
        joined.append(gate)
    assert JointWriteGate(*joined).may_write() is is_open


def test_without_a_gate_everything_may_be_sent() -> None:
    assert JointWriteGate().may_write()


async def test_executor_behind_a_closed_gate_drops_actions_and_reports_their_key() -> None:
    shell, gate = open_gated()
    gate.is_open = False
    async with asyncio.TaskGroup() as tasks:
        shell.executor.start(tasks)
        shell.executor.submit(KEY, [ACTION])
        await asyncio.sleep(1)
    assert shell.client.sent == []
    assert shell.changed == [KEY]
    gate.is_open = True
    async with asyncio.TaskGroup() as tasks:
        shell.executor.start(tasks)
        shell.executor.submit("default/other", [])
    assert shell.client.sent == []


async def test_gate_closed_between_a_submit_and_its_task_holds_the_action_back() -> None:
    shell, gate = open_gated()
    async with asyncio.TaskGroup() as tasks:
        shell.executor.start(tasks)
        shell.executor.submit(KEY, [ACTION])
        assert ACTION.key in shell.entry.outcomes.in_flight
        gate.is_open = False
    assert shell.client.sent == []
    assert shell.entry.outcomes.in_flight == set()
    assert shell.changed == [KEY]


async def test_writer_behind_a_closed_gate_writes_neither_status_nor_roster() -> None:
    shell, gate = open_gated()
    gate.is_open = False
    assert not await shell.writer.write_status(shell.entry, build_status())
    publication = Publication("gang-attempt", "uid", "1", build_roster(), "")
    assert not await shell.writer.publish(shell.entry, publication)
    assert shell.client.sent == []


async def test_recorder_behind_a_closed_gate_drops_events() -> None:
    shell, gate = open_gated()
    involved = {"name": "gang", "namespace": "default", "uid": "u"}
    shell.recorder.emit(involved, EventType.NORMAL, "Test", "a test")
    gate.is_open = False
    running = asyncio.create_task(shell.recorder.run(), name="events")
    await shell.recorder.flush()
    assert shell.client.sent == []
    gate.is_open = True
    shell.recorder.emit(involved, EventType.NORMAL, "Test", "a test")
    await shell.recorder.flush()
    assert len(shell.client.sent) == 1
    running.cancel()
