"""The controller is killed at each write while a worker of a TrainingJob leaves its node, in turn.

Whether or not it had the answer, the worker leaves once, after its processes have ended, and the
end is the same.
"""

import asyncio

import pytest

from framework.kube.resources import EVENTS
from tests.controller.kinds.leaveworlds import PlacedJob, open_placed_job
from tests.controller.kinds.test_crash_matrix import Crashes
from tests.support.crashmoments import HEARD, PAUSE_SECONDS, at_each_moment
from tests.support.fakes.storageclient import Request

# At least as many as a worker takes to leave; a test asserts it.
WRITES = 14
BUSY_SECONDS = 10
READ_VERBS = {"get", "list"}


class LeavingCrashes(Crashes):
    """Kills the controller at one of its writes after the job runs, also at one of the engine."""

    is_counting = False

    def is_counted(self, request: Request) -> bool:
        is_write = request.verb not in READ_VERBS and request.resource is not EVENTS
        return self.is_counting and is_write


async def play(placed: PlacedJob, at: int, when: str) -> tuple[object, int]:
    """Cordon the node of worker 1; return what the world is like afterwards, and the writes."""
    crashes = LeavingCrashes(placed.jobs, at, when)
    crashes.start()
    await placed.run()
    launcher, first, second = map(placed.read_uid, ("launcher-0", "worker-0", "worker-1"))
    crashes.is_counting = True
    placed.agent.is_busy = True
    await placed.cordon("n2")
    await asyncio.sleep(BUSY_SECONDS)
    assert placed.read_uid("worker-1") == second
    assert placed.list_hosts() == [0]
    placed.agent.is_busy = False
    await placed.wait_for_new_pod("worker-1", second, seconds=PAUSE_SECONDS + 5)
    await asyncio.sleep(BUSY_SECONDS)
    crashes.is_counting = False
    assert (placed.read_uid("launcher-0"), placed.read_uid("worker-0")) == (launcher, first)
    status = placed.jobs.read_status()
    end = (
        placed.list_hosts(),
        placed.read_node("worker-1"),
        placed.read_retries(1),
        (status["phase"], status["restartCount"], status["currentWorkers"]),
        sorted(placed.jobs.list_owned()),
    )
    return end, crashes.writes


ENDS: list[object] = []


async def find_end() -> object:
    """Find the end with a controller that is never killed."""
    if not ENDS:
        async with open_placed_job() as placed:
            end, writes = await play(placed, 0, HEARD)
        assert WRITES - 2 <= writes <= WRITES
        ENDS.append(end)
    return ENDS[0]


@pytest.mark.looptime
@at_each_moment("write", range(1, WRITES + 1), share=4)
async def test_crash_while_a_worker_leaves_changes_neither_end_nor_count(
    write: int, when: str
) -> None:
    async with open_placed_job() as placed:
        end, _ = await play(placed, write, when)
    assert end == await find_end()


@pytest.mark.looptime
async def test_worker_that_leaves_takes_as_many_writes_as_the_matrix_has() -> None:
    end = await find_end()
    assert isinstance(end, tuple)
    assert end[:3] == ([0, 1], "spare", (1, 0, 1))
