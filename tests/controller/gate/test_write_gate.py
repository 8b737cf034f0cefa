"""Who may not act sends nothing, whatever was asked of it before."""

import asyncio

import pytest

from controller.core.actions import GetObject, ObjectKind
from controller.core.decision import EventType, Publication
from controller.execute.executor import Executor
from controller.execute.writer import Writer
from controller.gate.write_gate import ALWAYS_OPEN, JointWriteGate
from controller.report.events import EventRecorder
from controller.serve.metrics import Metrics
from controller.store.entry import Entry
from controller.store.store import Store
from tests.support.builders import build_framework_wire, build_roster, build_status
from tests.support.fakes.storageclient import LoopClock, StorageClient, open_storage

pytestmark = pytest.mark.looptime

KEY = "default/gang"
ACTION = GetObject(ObjectKind.POD, "gang-worker-0", "test")


class Gate:
    """A gate to be opened and closed."""

    def __init__(self) -> None:
        self.is_open = True

    def may_write(self) -> bool:
        return self.is_open


class Bench:
    """The parts that send, behind one gate."""

    def __init__(self) -> None:
        clock, metrics = LoopClock(), Metrics()
        self.gate = Gate()
        self.answered: list[str] = []
        self.client = StorageClient(open_storage(clock))
        self.store = Store(on_change=lambda _: None, clock=clock)
        self.store.apply(ObjectKind.FRAMEWORK, build_framework_wire(name="gang"))
        self.executor = Executor(
            self.client,
            self.store,
            clock=clock,
            metrics=metrics,
            on_answer=self.answered.append,
            write_gate=self.gate,
        )
        self.writer = Writer(
            self.client,
            self.store,
            clock=clock,
            metrics=metrics,
            compression_min_bytes=None,
            write_gate=self.gate,
        )
        self.recorder = EventRecorder(self.client, clock, "test", write_gate=self.gate)

    @property
    def entry(self) -> Entry:
        entry = self.store.find(KEY)
        assert entry is not None
        return entry


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
    assert ALWAYS_OPEN.may_write()


async def test_executor_behind_a_closed_gate_drops_actions_and_says_so() -> None:
    bench = Bench()
    bench.gate.is_open = False
    async with asyncio.TaskGroup() as tasks:
        bench.executor.start(tasks)
        bench.executor.submit(KEY, [ACTION])
        await asyncio.sleep(1)
    assert bench.client.sent == []
    assert bench.answered == [KEY]
    bench.gate.is_open = True
    async with asyncio.TaskGroup() as tasks:
        bench.executor.start(tasks)
        bench.executor.submit("default/other", [])
    assert bench.client.sent == []


async def test_gate_closed_between_a_submit_and_its_task_holds_the_action_back() -> None:
    bench = Bench()
    async with asyncio.TaskGroup() as tasks:
        bench.executor.start(tasks)
        bench.executor.submit(KEY, [ACTION])
        assert ACTION.key in bench.entry.outcomes.in_flight
        bench.gate.is_open = False
    assert bench.client.sent == []
    assert bench.entry.outcomes.in_flight == set()
    assert bench.answered == [KEY]


async def test_writer_behind_a_closed_gate_writes_neither_status_nor_roster() -> None:
    bench = Bench()
    bench.gate.is_open = False
    assert not await bench.writer.write_status(bench.entry, build_status())
    publication = Publication("gang-attempt", "uid", "1", build_roster(), "")
    assert not await bench.writer.publish(bench.entry, publication)
    assert bench.client.sent == []


async def test_recorder_behind_a_closed_gate_drops_events() -> None:
    bench = Bench()
    involved = {"name": "gang", "namespace": "default", "uid": "u"}
    bench.recorder.emit(involved, EventType.NORMAL, "Test", "a test")
    bench.gate.is_open = False
    running = asyncio.create_task(bench.recorder.run(), name="events")
    await bench.recorder.flush()
    assert bench.client.sent == []
    bench.gate.is_open = True
    bench.recorder.emit(involved, EventType.NORMAL, "Test", "a test")
    await bench.recorder.flush()
    assert len(bench.client.sent) == 1
    running.cancel()
