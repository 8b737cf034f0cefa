"""The work queue: has each key at most once, gives it to one worker at a time, and has timers.

Each part that sees a change of a Framework adds its key; the workers take the keys. The names are
those of client-go's workqueue.

Keys wait in one queue per namespace, and the namespaces take turns (round robin), so that a
namespace with thousands of keys delays a key of another namespace by one turn of each namespace
that waits. Every operation is O(1).

1. ``get`` takes the first key of the namespace whose turn it is.
2. The namespace goes to the end of the turns if it has more keys and fewer of its keys are being
   worked on than its limit allows.
3. A namespace at its limit gets its next turn when ``done`` is called for one of its keys.

Example: a1, a2, a3 and b1 wait, in this order. The workers take a1, b1, a2, a3; with a limit of
one and no call of ``done`` they take a1 and b1 and wait.
"""

import asyncio
import contextlib
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator

_LEAST_SECONDS = 0.001


class WorkQueue:
    """Keys waiting to be decided. For one event loop."""

    def __init__(self, find_limit: Callable[[str], int] | None = None) -> None:
        """Start empty.

        Args:
            find_limit: returns how many keys of a namespace may be worked on at the same time, at
                least one. Called for each turn. None for no limit.
        """
        self._find_limit = find_limit
        # Namespaces without a waiting key are in neither mapping.
        self._waiting: dict[str, deque[str]] = {}
        self._turns: OrderedDict[str, None] = OrderedDict()
        self._length = 0
        self._dirty: set[str] = set()
        self._processing: set[str] = set()
        self._busy: Counter[str] = Counter()
        # The time of each timer is kept here, because uvloop's handles do not always have it.
        self._timers: dict[str, tuple[float, asyncio.Handle]] = {}
        # One future for each waiting worker, so that a turn wakes one worker only.
        self._getters: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """Count the keys that wait now."""
        return self._length

    def add(self, key: str) -> None:
        """Queue a key; a key that is being worked on is queued again afterwards."""
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._push(key)

    def add_after(self, key: str, seconds: float) -> None:
        """Queue a key in ``seconds``; an earlier timer of the key stays."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        # A timer may fire one tick early. Without a least time, its key would be queued in a loop.
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
        while not self._turns:
            await self._wait_for_turn()
        namespace, _ = self._turns.popitem(last=False)
        waiting = self._waiting[namespace]
        key = waiting.popleft()
        if not waiting:
            del self._waiting[namespace]
        self._length -= 1
        self._dirty.discard(key)
        self._processing.add(key)
        self._busy[namespace] += 1
        self._give_turn(namespace)
        return key

    def done(self, key: str) -> None:
        """Record that a key taken by ``get`` was processed."""
        self._processing.discard(key)
        namespace = split_namespace(key)
        self._busy[namespace] -= 1
        if not self._busy[namespace]:
            del self._busy[namespace]
        if key in self._dirty:
            self._push(key)
        else:
            self._give_turn(namespace)

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
        namespace = split_namespace(key)
        self._waiting.setdefault(namespace, deque()).append(key)
        self._length += 1
        self._give_turn(namespace)

    def _give_turn(self, namespace: str) -> None:
        """Let a namespace take its turn if it has a key and is below its limit."""
        if namespace not in self._waiting:
            return
        limit = self._find_limit(namespace) if self._find_limit else None
        is_below = limit is None or self._busy[namespace] < limit
        if is_below and namespace not in self._turns:
            self._turns[namespace] = None
            self._wake_getter()

    async def _wait_for_turn(self) -> None:
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            with contextlib.suppress(ValueError):
                self._getters.remove(getter)
            if self._turns:
                # This worker was woken and cancelled at the same time: wake another one.
                self._wake_getter()
            raise

    def _wake_getter(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return


def split_namespace(key: str) -> str:
    """Return the namespace of a key ``namespace/name``, "" if it has none."""
    return key.rpartition("/")[0]


def interleave_namespaces(keys: Iterable[str]) -> Iterator[str]:
    """Yield keys so that namespaces take turns; the keys of one namespace stay in order."""
    by_namespace: dict[str, deque[str]] = {}
    for key in keys:
        by_namespace.setdefault(split_namespace(key), deque()).append(key)
    turns = deque(by_namespace.values())
    while turns:
        waiting = turns.popleft()
        yield waiting.popleft()
        if waiting:
            turns.append(waiting)
