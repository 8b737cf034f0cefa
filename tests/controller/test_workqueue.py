import asyncio

import pytest
import uvloop

from controller.workqueue import WorkQueue


async def take(queue: WorkQueue) -> str:
    """Take the next key and work it off."""
    key = await queue.get()
    queue.done(key)
    return key


async def test_key_added_twice_comes_once() -> None:
    queue = WorkQueue()
    for key in ("a", "b", "a"):
        queue.add(key)
    assert [await take(queue), await take(queue)] == ["a", "b"]
    assert len(queue) == 0


async def test_key_added_while_worked_on_comes_again_when_done() -> None:
    queue = WorkQueue()
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    assert len(queue) == 0
    queue.done(key)
    assert await take(queue) == "a"


@pytest.mark.looptime
async def test_earlier_of_two_timers_counts() -> None:
    queue = WorkQueue()
    for seconds in (20.0, 5.0, 10.0):
        queue.add_after("a", seconds)
    await take(queue)
    assert asyncio.get_running_loop().time() == 5
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60):
            await queue.get()


@pytest.mark.looptime
async def test_forgotten_key_does_not_come() -> None:
    queue = WorkQueue()
    queue.add_after("a", 5)
    queue.forget("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60):
            await queue.get()


class _JumpingLoop(uvloop.Loop):
    """Its clock goes on between two looks: uvloop then makes a handle that is no timer."""

    ahead_seconds = 0.0

    def time(self) -> float:
        self.ahead_seconds += 0.001
        return super().time() + self.ahead_seconds


def test_timer_due_at_once_on_uvloop_can_be_replaced() -> None:
    async def add_twice() -> str:
        queue = WorkQueue()
        queue.add_after("a", 0.001)
        queue.add_after("a", 0.001)
        return await take(queue)

    with asyncio.Runner(loop_factory=_JumpingLoop) as runner:
        assert runner.run(add_twice()) == "a"
