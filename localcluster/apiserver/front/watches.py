"""Streams watch events to one client, with bookmarks, until its timeout or its disconnection."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from localcluster.apiserver.engine.history import Watch
from localcluster.apiserver.model.errors import StatusError
from localcluster.apiserver.storage import Storage
from localcluster.apiserver.views.forms import Renderer, event_line

DEFAULT_TIMEOUT_SECONDS = 1800
"""How long a watch without timeoutSeconds stays open."""
BOOKMARK_SECONDS = 60
FINAL_BOOKMARK_SECONDS = 2
"""So long before its end a watch gets its last bookmark."""
SLOW_READER_SECONDS = 30
"""A client that takes nothing for so long loses its watch and must list again."""


class LineWriter(Protocol):
    """Where the lines go: an HTTP answer."""

    async def write(self, data: bytes) -> None:
        """Send ``data``; returns when the client has taken most of it."""
        ...


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What the client requested."""

    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    bookmarks: bool = False
    marks_initial_end: bool = False
    """Send a bookmark when the state at the start has been sent."""


class WatchStream:
    """One watch of one client."""

    def __init__(
        self,
        watch: Watch,
        renderer: Renderer,
        storage: Storage,
        options: WatchOptions,
    ) -> None:
        """Send what ``watch`` brings; it is closed when the stream ends."""
        self._watch = watch
        self._renderer = renderer
        self._storage = storage
        self._options = options
        self._ready = asyncio.Event()
        self._stopped = False
        watch.on_ready = self._ready.set

    def stop(self) -> None:
        """End the stream after what is pending, as a server that shuts down does."""
        self._stopped = True
        self._ready.set()

    async def send(self, writer: LineWriter) -> None:
        """Write events until the time is up, the client is gone or the stream is stopped."""
        try:
            await self._send(writer)
        except ConnectionError:
            # A client that ends without closing its watch is usual and is not logged.
            return
        finally:
            self._watch.close()

    async def _send(self, writer: LineWriter) -> None:
        loop = asyncio.get_running_loop()
        end_at = loop.time() + self._options.timeout_seconds
        bookmarks = _BookmarkTimes(loop.time(), end_at, enabled=self._options.bookmarks)
        marks_end = self._options.marks_initial_end
        while True:
            # Asked before the events are taken: those that are pending are then sent for sure.
            is_last = self._stopped
            self._ready.clear()
            lines, is_over = self._take_lines()
            # The version is read in the same step as the events: none can be in between.
            if marks_end and not is_over:
                version = self._storage.resource_version
                lines.append(self._renderer.bookmark(version, ends_initial_events=True))
                marks_end = False
            is_reached = self._storage.resource_version >= self._watch.after
            if bookmarks.is_due(loop.time()) and not is_over and is_reached:
                lines.append(self._renderer.bookmark(self._storage.resource_version))
            if lines:
                async with asyncio.timeout(SLOW_READER_SECONDS):
                    await writer.write(b"".join(lines))
            if is_over or is_last or loop.time() >= end_at:
                return
            await self._wait_until(min(end_at, bookmarks.next_at))

    def _take_lines(self) -> tuple[list[bytes], bool]:
        """Return what is pending, and whether it ends with the error that closes the watch."""
        try:
            events = self._watch.pop_shared()
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
    """When the next bookmark is due: every minute, and shortly before the end."""

    def __init__(self, now: float, end_at: float, *, enabled: bool) -> None:
        self._final_at = max(end_at - FINAL_BOOKMARK_SECONDS, now + (end_at - now) / 2)
        self._final_is_sent = False
        self._enabled = enabled
        self.next_at = min(now + BOOKMARK_SECONDS, self._final_at) if enabled else end_at

    def is_due(self, now: float) -> bool:
        """Return whether one is due now; if so the next one is planned."""
        if not self._enabled or now < self.next_at:
            return False
        self._final_is_sent = self._final_is_sent or now >= self._final_at
        later = now + BOOKMARK_SECONDS
        self.next_at = later if self._final_is_sent else min(later, self._final_at)
        return True
