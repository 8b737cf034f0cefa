import asyncio

import pytest
import uvloop

from controller.queues.workqueue import WorkQueue, interleave_namespaces
from tests.support.waiting import HANG_SECONDS


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


async def test_namespaces_take_turns_however_many_keys_one_has() -> None:
    queue = WorkQueue()
    for number in range(10_000):
        queue.add(f"hot/{number}")
    queue.add("calm/x")
    assert "calm/x" in [await take(queue) for _ in range(2)]
    assert len(queue) == 9_999


async def test_keys_of_one_namespace_come_in_order() -> None:
    queue = WorkQueue()
    keys = ["a/1", "a/2", "b/1", "a/3"]
    for key in keys:
        queue.add(key)
    assert [await take(queue) for _ in keys] == ["a/1", "b/1", "a/2", "a/3"]


@pytest.mark.looptime
async def test_namespace_at_its_limit_waits_while_others_go_on() -> None:
    queue = WorkQueue(lambda _: 2)
    for key in ("hot/1", "hot/2", "hot/3", "calm/1"):
        queue.add(key)
    assert [await queue.get() for _ in range(3)] == ["hot/1", "calm/1", "hot/2"]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60):
            await queue.get()
    queue.done("hot/1")
    assert await queue.get() == "hot/3"


async def test_each_waiting_worker_gets_a_key_and_a_cancelled_one_loses_none() -> None:
    queue = WorkQueue()
    workers = [asyncio.create_task(queue.get()) for _ in range(4)]
    await asyncio.sleep(0)
    for key in ("a/1", "a/2", "b/1"):
        queue.add(key)
    workers[0].cancel()
    done, waiting = await asyncio.wait(workers, timeout=HANG_SECONDS)
    assert {task.result() for task in done if not task.cancelled()} == {"a/1", "a/2", "b/1"}
    assert not waiting


@pytest.mark.looptime
async def test_key_that_came_again_while_worked_on_gets_a_turn_at_the_limit() -> None:
    queue = WorkQueue(lambda _: 1)
    queue.add("hot/1")
    key = await queue.get()
    queue.add("hot/1")
    queue.add("hot/2")
    queue.done(key)
    assert [await take(queue), await take(queue)] == ["hot/2", "hot/1"]
    assert len(queue) == 0


def test_interleaved_keys_let_each_namespace_begin_early() -> None:
    keys = sorted([f"a/{number}" for number in range(1000)] + ["z/1", "z/2"])
    ordered = list(interleave_namespaces(keys))
    assert ordered[:4] == ["a/0", "z/1", "a/1", "z/2"]
    assert sorted(ordered) == keys
