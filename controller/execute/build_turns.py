"""Turns of large builds: the event loop runs between two of them.

A build of a Pod of 1.4 MB takes milliseconds, and dozens of requests may be taken in one step of
the event loop. Without turns, they would be built one after another, while no probe is answered and
no other namespace has its turn.
"""

import asyncio

# Smaller builds need no turn: dozens of them take milliseconds.
LARGE_BODY_BYTES = 32 * 1024


class BuildTurns:
    """Gives one large build a turn in each step of the event loop."""

    def __init__(self) -> None:
        """Prepare; no build waits."""
        self._lock = asyncio.Lock()

    async def wait(self, body_bytes: int) -> None:
        """Wait for the turn of a build; a small one has it at once."""
        if body_bytes < LARGE_BODY_BYTES:
            return
        async with self._lock:
            await asyncio.sleep(0)
