"""Limits the memory of turns: how many large Frameworks are decided and written at the same time.

1. The turn of a small Framework begins at once, and is not counted.
2. A namespace may have half of the sum of its own room and the room left, or one turn. So it leaves
   the other half to the next namespace, for any number of large Frameworks.
3. Namespaces that wait take turns. A namespace that has its share is skipped. If the first
   namespace below its share needs more room than is left, the others wait, too: otherwise the
   largest Framework might wait for ever.
4. A turn that needs more than the whole room begins when no other large turn runs.
5. A worker never waits for room: it continues with another key. When there is room, the key is
   queued again, and its room is kept until that turn has ended.

Example: room for 60 MiB. Of ten Frameworks of namespace a, of 3 MiB each (15 MiB in a turn), two
have a turn. Then a Framework of namespace b has its turn at once. Small Frameworks of both
namespaces have theirs at any time.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable

from controller.queues.workqueue import split_namespace

SMALL_BYTES = 64 * 1024
"""Turns of smaller Frameworks are not counted."""
COPIES = 5
"""Copies in one turn: the JSON that was read, the decoded object, the body of the request, the part
of it that is not sent yet, and the answer."""
# A namespace may have 1/_SHARES of the sum of its own room and the room left.
_SHARES = 2


class TurnRoom:
    """The bytes of the turns of large Frameworks, by namespace."""

    def __init__(self, limit_bytes: int | None, on_room: Callable[[str], None]) -> None:
        """Start with all room left.

        Args:
            limit_bytes: the whole room; None for no limit.
            on_room: called with a key that has waited; the key has room until ``leave``.
        """
        self._limit_bytes = limit_bytes
        self._on_room = on_room
        self._total_bytes = 0
        self._given: dict[str, int] = {}
        self._by_namespace: Counter[str] = Counter()
        # Namespaces with waiting keys, in the order of their turns; for each, the bytes by key.
        self._waiting: OrderedDict[str, OrderedDict[str, int]] = OrderedDict()

    def enter(self, key: str, object_bytes: int) -> bool:
        """Return whether the turn of a key may begin; if not, the key is queued again later."""
        if self._limit_bytes is None or key in self._given:
            return True
        if object_bytes < SMALL_BYTES:
            self._drop_waiting(key)
            return True
        self._waiting.setdefault(split_namespace(key), OrderedDict())[key] = COPIES * object_bytes
        return key in self._give(entering=key)

    def leave(self, key: str) -> None:
        """Release the room of a key. Does nothing if it has none."""
        count = self._given.pop(key, 0)
        if count:
            self._take(split_namespace(key), -count)
            self._give()

    def _give(self, *, entering: str = "") -> set[str]:
        """Give room to waiting keys, and queue them, except ``entering``."""
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
