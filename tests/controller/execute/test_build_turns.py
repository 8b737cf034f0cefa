"""The event loop runs between two builds of large Pods."""

import asyncio

import pytest

from controller.execute.build_turns import LARGE_BODY_BYTES, BuildTurns


@pytest.mark.parametrize(("size", "most"), [(LARGE_BODY_BYTES, 1), (LARGE_BODY_BYTES - 1, 32)])
async def test_in_one_step_of_the_loop_one_large_pod_is_built(size: int, most: int) -> None:
    turns, built = BuildTurns(), list[int]()
    steps = 0

    async def build() -> None:
        await turns.wait(size)
        built.append(steps)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(32):
            tasks.create_task(build())
        while len(built) < 32:
            await asyncio.sleep(0)
            steps += 1
    assert max(built.count(step) for step in built) == most


async def test_build_that_is_cancelled_in_its_turn_leaves_the_turn_to_the_next() -> None:
    turns = BuildTurns()
    cancelled = asyncio.create_task(turns.wait(LARGE_BODY_BYTES))
    following = asyncio.create_task(turns.wait(LARGE_BODY_BYTES))
    await asyncio.sleep(0)
    cancelled.cancel()
    await following
    assert cancelled.cancelled()
