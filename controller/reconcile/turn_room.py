"""Bounds the memory of turns: only so many large Frameworks are decided and written at once.

1. The turn of a small Framework begins at once, and is not counted.
2. A namespace may have half of what it has and what is left, or one turn: however many large
   Frameworks it has, the other half is left to the next namespace.
3. Namespaces that wait take turns. One that has its share is passed over. If there is no room for
   the first one that has not, the others wait, too: else the largest might wait for ever.
4. A turn that is larger than the whole room begins while there is no other large one.
5. A worker never waits for room: it goes on with another key. When there is room, the key is
   queued again, and its room is kept until that turn has ended.

Example: room for 60 MiB. Of ten Frameworks of namespace a, of 3 MiB each (15 MiB in a turn), two
have a turn; then one of b has its turn at once. Small ones of a and b have theirs at any time.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable

from controller.queues.workqueue import split_namespace

SMALL_BYTES = 64 * 1024
"""Turns of smaller Frameworks are not counted."""
COPIES = 5
"""What a turn holds at most: read and decoded, body, what is not sent of it, answer."""
# A namespace may have one of so many shares of what it has and what is left.
_SHARES = 2


class TurnRoom:
    """The bytes of the turns of large Frameworks, by namespace."""

    def __init__(self, limit_bytes: int | None, on_room: Callable[[str], None]) -> None:
        """Have room for ``limit_bytes``, None for no limit.

        ``on_room`` is called with a key that has waited: it has room until ``leave``.
        """
        self._limit_bytes = limit_bytes
        self._on_room = on_room
        self._total_bytes = 0
        self._given: dict[str, int] = {}
        self._by_namespace: Counter[str] = Counter()
        # Only namespaces with keys that wait, in the order of their turns; the bytes by key.
        self._waiting: OrderedDict[str, OrderedDict[str, int]] = OrderedDict()

    def enter(self, key: str, object_bytes: int) -> bool:
        """Return whether the turn of a key may begin; else it waits until it is queued again."""
        if self._limit_bytes is None or key in self._given:
            return True
        if object_bytes < SMALL_BYTES:
            self._drop_waiting(key)
            return True
        self._waiting.setdefault(split_namespace(key), OrderedDict())[key] = COPIES * object_bytes
        return key in self._give(entering=key)

    def leave(self, key: str) -> None:
        """Give the room of a turn back, which has ended or is not to be: no error without one."""
        count = self._given.pop(key, 0)
        if count:
            self._take(split_namespace(key), -count)
            self._give()

    def _give(self, *, entering: str = "") -> set[str]:
        """Give room to keys that wait; queue them, but for the one that enters."""
        given = set()
        while (namespace := self._find_next()) is not None:
            waiting = self._waiting[namespace]
            key, count = waiting.popitem(last=False)
            if waiting:
                self._waiting.move_to_end(namespace)
            else:
                del self._waiting[namespace]
            self._given[key] = count
            self._take(namespace, count)
            given.add(key)
        for key in given - {entering}:
            self._on_room(key)
        return given

    def _find_next(self) -> str | None:
        """Find the namespace whose first key has room now; None if there is none."""
        left = (self._limit_bytes or 0) - self._total_bytes
        for namespace, waiting in self._waiting.items():
            count = next(iter(waiting.values()))
            own = self._by_namespace.get(namespace, 0)
            if own and own + count > (own + left) // _SHARES:
                continue
            return namespace if count <= left or not self._total_bytes else None
        return None

    def _take(self, namespace: str, count: int) -> None:
        self._total_bytes += count
        self._by_namespace[namespace] += count
        if not self._by_namespace[namespace]:
            del self._by_namespace[namespace]

    def _drop_waiting(self, key: str) -> None:
        namespace = split_namespace(key)
        waiting = self._waiting.get(namespace)
        if waiting is not None and waiting.pop(key, None) is not None and not waiting:
            del self._waiting[namespace]
