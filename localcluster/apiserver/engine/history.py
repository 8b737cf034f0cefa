"""The log of writes, and the watches that read it.

Each open watch takes the changes of its type at once and keeps them until its client reads them.
The log is bounded: a watch from a version that it no longer has gets 410 and must list again.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from localcluster.apiserver.engine.selectors import Matcher
from localcluster.apiserver.model import errors
from localcluster.apiserver.model.errors import Object
from localcluster.apiserver.model.objects import ObjectKey
from localcluster.apiserver.model.registry import ResourceType, TypeKey

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Change:
    """One write, as the log keeps it; its objects are shared and never changed."""

    type_key: TypeKey
    object_key: ObjectKey
    before: Object | None
    after: Object | None
    resource_version: int


@dataclass(frozen=True)
class WatchEvent:
    """An event that a watch sends to its client."""

    type: str
    object: Object
    resource_version: int


class Watch:
    """One open watch; it holds events until ``pop`` takes them."""

    def __init__(
        self,
        rt: ResourceType,
        matcher: Matcher,
        limit: int,
        on_close: Callable[["Watch"], None],
        after: int = 0,
    ) -> None:
        """Made by ``History.open``; ``limit`` bounds the changes not yet taken."""
        self.rt = rt
        self.on_ready: Callable[[], None] | None = None
        self.initial_count = 0
        """Number of the first events that are the state at the start, not changes."""
        self.after = after
        """The version of the client; it may be a future one."""
        self._matches = matcher
        self._limit = limit
        self._pending: list[WatchEvent] = []
        self._overflowed = False
        self._on_close = on_close
        self.closed = False

    def pop(self) -> list[WatchEvent]:
        """Take all events since the last call; their objects must not be changed.

        Raises:
            StatusError: 410 if events were dropped, because the client was too slow.
        """
        if self._overflowed:
            message = "too old resource version: the watch fell too far behind"
            raise errors.expired(message)
        taken, self._pending = self._pending, []
        return taken

    def close(self) -> None:
        """End the watch; it collects no more events."""
        if not self.closed:
            self.closed = True
            self._pending = []
            self._on_close(self)

    def seed(self, state: Iterable[Object]) -> None:
        """Begin with the existing objects, as ADDED."""
        for obj in state:
            if self._matches(obj):
                version = int(obj["metadata"]["resourceVersion"])
                self._pending.append(WatchEvent(ADDED, obj, version))
        self.initial_count = len(self._pending)

    def offer(self, change: Change) -> None:
        """Collect a change of a selected object; one that enters or leaves is ADDED or DELETED."""
        if change.resource_version <= self.after:
            return
        event = self._select(change)
        if event is None or self._overflowed:
            return
        self._pending.append(event)
        if len(self._pending) > self._limit + self.initial_count:
            self._overflowed = True
            self._pending = []
        if self.on_ready is not None:
            self.on_ready()

    def _select(self, change: Change) -> WatchEvent | None:
        before, after, version = change.before, change.after, change.resource_version
        was = before is not None and self._matches(before)
        if after is not None and self._matches(after):
            return WatchEvent(MODIFIED if was else ADDED, after, version)
        if before is None or not was:
            return None
        gone = {**before, "metadata": {**before["metadata"], "resourceVersion": str(version)}}
        return WatchEvent(DELETED, gone, version)


class History:
    """The bounded log of writes and all open watches."""

    def __init__(self, limit: int) -> None:
        """Keep at most ``limit`` writes."""
        self._changes: deque[Change] = deque()
        self._limit = limit
        self._floor = 0
        self._watches: dict[TypeKey, list[Watch]] = {}

    def append(self, change: Change) -> None:
        """Log a write and offer it to the watches of its type."""
        self._changes.append(change)
        if len(self._changes) > self._limit:
            self._floor = self._changes.popleft().resource_version
        for watch in tuple(self._watches.get(change.type_key, ())):
            watch.offer(change)

    def since(self, resource_version: int, type_key: TypeKey | None = None) -> list[Change]:
        """Return the writes after a version, oldest first.

        Raises:
            StatusError: 410 if the log does not reach back so far.
        """
        if resource_version < self._floor:
            message = f"too old resource version: {resource_version} ({self._floor})"
            raise errors.expired(message)
        found: list[Change] = []
        for change in reversed(self._changes):
            if change.resource_version <= resource_version:
                break
            if type_key is None or change.type_key == type_key:
                found.append(change)
        found.reverse()
        return found

    def open(self, rt: ResourceType, matcher: Matcher, *, after: int = 0) -> Watch:
        """Open a watch that sees every change from now on, or from a later version on."""
        watch = Watch(rt, matcher, self._limit, self._forget, after)
        self._watches.setdefault(rt.key, []).append(watch)
        return watch

    def _forget(self, watch: Watch) -> None:
        self._watches[watch.rt.key].remove(watch)
