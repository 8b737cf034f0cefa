"""The work queue: each key at most once, never worked on twice at a time, with timers.

Called by everyone who learns that a Framework changed; worked off by the workers. The words are
those of client-go's workqueue.
"""

import asyncio
from collections import deque

_LEAST_SECONDS = 0.001


class WorkQueue:
    """Keys waiting to be decided. For one event loop."""

    def __init__(self) -> None:
        """Start empty."""
        self._ready: deque[str] = deque()
        self._dirty: set[str] = set()
        self._processing: set[str] = set()
        # When each is due is kept here: uvloop's handles do not always know.
        self._timers: dict[str, tuple[float, asyncio.Handle]] = {}
        self._has_ready = asyncio.Event()

    def __len__(self) -> int:
        """Count the keys that wait now."""
        return len(self._ready)

    def add(self, key: str) -> None:
        """Let a key be worked on; one that is being worked on comes again afterwards."""
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._push(key)

    def add_after(self, key: str, seconds: float) -> None:
        """Let a key be worked on in ``seconds``; an earlier timer of the key stays."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        # A timer may fire a tick of the clock early: what is nearly due would spin until it is.
        due = loop.time() + max(seconds, _LEAST_SECONDS)
        timer = self._timers.get(key)
        if timer is not None:
            due_before, handle = timer
            if due_before <= due:
                return
            handle.cancel()
        self._timers[key] = (due, loop.call_at(due, self._fire, key))

    async def get(self) -> str:
        """Take the next key; ``done`` must follow."""
        while not self._ready:
            self._has_ready.clear()
            await self._has_ready.wait()
        key = self._ready.popleft()
        self._dirty.discard(key)
        self._processing.add(key)
        return key

    def done(self, key: str) -> None:
        """Say that a key taken by ``get`` is worked off."""
        self._processing.discard(key)
        if key in self._dirty:
            self._push(key)

    def forget(self, key: str) -> None:
        """Drop a key's timer."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            _, handle = timer
            handle.cancel()

    def _fire(self, key: str) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _push(self, key: str) -> None:
        self._ready.append(key)
        self._has_ready.set()
