"""Streams watch events to one client, with bookmarks, until its timeout or its disconnection."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from localcluster.apiserver.engine.history import Watch
from localcluster.apiserver.model.errors import StatusError
from localcluster.apiserver.storage import Storage
from localcluster.apiserver.views.forms import Renderer, event_line

DEFAULT_TIMEOUT_SECONDS = 1800
"""How long a watch without timeoutSeconds stays open."""
BOOKMARK_SECONDS = 60
FINAL_BOOKMARK_SECONDS = 2
"""Time between the last bookmark of a watch and its end."""
SLOW_READER_SECONDS = 30
"""Maximum time without progress of a client; then its watch ends, and it must list again."""


Write = Callable[[bytes], Awaitable[None]]
"""Sends bytes of an HTTP answer; returns when the client has read most of them."""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """The options of the client."""

    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    bookmarks: bool = False
    marks_initial_end: bool = False
    """Whether to send a bookmark after the state at the start."""


class WatchStream:
    """One watch of one client."""

    def __init__(
        self,
        watch: Watch,
        renderer: Renderer,
        storage: Storage,
        options: WatchOptions,
    ) -> None:
        """Send the events of ``watch``, which is closed at the end of the stream."""
        self._watch = watch
        self._renderer = renderer
        self._storage = storage
        self._options = options
        self._ready = asyncio.Event()
        self._stopped = False
        watch.on_ready = self._ready.set

    def stop(self) -> None:
        """End the stream after the pending events, as a server that shuts down."""
        self._stopped = True
        self._ready.set()

    async def send(self, write: Write) -> None:
        """Write events until the timeout, the disconnection of the client or ``stop``."""
        try:
            await self._send(write)
        except ConnectionError:
            # A client that ends without closing its watch is usual and is not logged.
            return
        finally:
            self._watch.close()

    async def _send(self, write: Write) -> None:
        loop = asyncio.get_running_loop()
        end_at = loop.time() + self._options.timeout_seconds
        bookmarks = _BookmarkTimes(loop.time(), end_at, enabled=self._options.bookmarks)
        marks_end = self._options.marks_initial_end
        while True:
            # Checked before the events are taken, so that all pending events are sent.
            is_last = self._stopped
            self._ready.clear()
            lines, is_over = self._take_lines()
            # Read in the same step as the events, so that no event can be in between.
            if marks_end and not is_over:
                version = self._storage.resource_version
                lines.append(self._renderer.bookmark(version, ends_initial_events=True))
                marks_end = False
            is_reached = self._storage.resource_version >= self._watch.after
            if bookmarks.is_due(loop.time()) and not is_over and is_reached:
                lines.append(self._renderer.bookmark(self._storage.resource_version))
            if lines:
                async with asyncio.timeout(SLOW_READER_SECONDS):
                    await write(b"".join(lines))
            if is_over or is_last or loop.time() >= end_at:
                return
            await self._wait_until(min(end_at, bookmarks.next_at))

    def _take_lines(self) -> tuple[list[bytes], bool]:
        """Return the pending lines, and whether the last one is the error that closes the watch."""
        try:
            events = self._watch.pop()
        except StatusError as error:
            return [event_line("ERROR", error.to_status())], True
        lines = [event_line(e.type, self._renderer.render_object(e.object)) for e in events]
        return lines, False

    async def _wait_until(self, moment: float) -> None:
        try:
            async with asyncio.timeout_at(moment):
                await self._ready.wait()
        except TimeoutError:
            return


class _BookmarkTimes:
    """Times of bookmarks: each minute, and shortly before the end."""

    def __init__(self, now: float, end_at: float, *, enabled: bool) -> None:
        self._final_at = max(end_at - FINAL_BOOKMARK_SECONDS, now + (end_at - now) / 2)
        self._final_is_sent = False
        self._enabled = enabled
        self.next_at = min(now + BOOKMARK_SECONDS, self._final_at) if enabled else end_at

    def is_due(self, now: float) -> bool:
        """Return whether a bookmark is due now; if so, plan the next one."""
        if not self._enabled or now < self.next_at:
            return False
        self._final_is_sent = self._final_is_sent or now >= self._final_at
        later = now + BOOKMARK_SECONDS
        self.next_at = later if self._final_is_sent else min(later, self._final_at)
        return True
