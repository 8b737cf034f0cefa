"""Merges logs by the times of their lines.

Each log is in the order of its own times, so the earliest line is among the first lines that are
left of each log. Memory holds one piece of each log.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing

from cli.loglines.timestamps import TimedLine

_Lines = AsyncGenerator[list[TimedLine]]


async def merge_logs(logs: Sequence[_Lines]) -> AsyncGenerator[tuple[int, TimedLine]]:
    """Yield the lines of all logs in the order of their times, with the number of their log.

    Lines of the same time are in the order of the logs. A log that ends is left out from then on.
    """
    async with AsyncExitStack() as stack:
        for log in logs:
            await stack.enter_async_context(aclosing(log))
        async with asyncio.TaskGroup() as tasks:
            first = [tasks.create_task(_read(log), name="first-lines") for log in logs]
        left = [task.result() for task in first]
        heap = [(lines[0].at, number) for number, lines in enumerate(left) if lines]
        heapq.heapify(heap)
        while heap:
            _, number = heap[0]
            yield number, left[number].popleft()
            if not left[number]:
                left[number] = await _read(logs[number])
            if left[number]:
                heapq.heapreplace(heap, (left[number][0].at, number))
            else:
                heapq.heappop(heap)


async def _read(log: _Lines) -> deque[TimedLine]:
    return deque(await anext(log, []))
