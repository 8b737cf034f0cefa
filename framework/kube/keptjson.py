"""Bounds the JSON that a program keeps of objects, in all and for each namespace. Pure.

Every kept object holds a ``Kept``; its bytes are free again when the ``Kept`` is dropped. An object
for which there is no room is kept without its JSON, and read again when it is needed.

The share of a namespace is half of the sum of its own bytes and the free bytes. So some bytes stay
free for the next namespace, for any number of namespaces.

Example: of 64 MiB, the first namespace may keep 32 MiB, the second one 16, the third one 8.
"""

import sys
from collections import Counter

# A namespace may keep the sum of its own and the free bytes, divided by this number.
_SHARES = 2


class Kept:
    """Bytes that are kept, until this object is dropped."""

    __slots__ = ("_budget", "_namespace", "count")

    def __init__(self, budget: "KeptJson", namespace: str, count: int) -> None:
        """Count the bytes."""
        self._budget = budget
        self._namespace = namespace
        self.count = count
        budget.add(namespace, count)

    def __del__(self) -> None:
        """Release the bytes."""
        self._budget.add(self._namespace, -self.count)


class KeptJson:
    """Counts the kept bytes of JSON, by namespace."""

    def __init__(self, limit_bytes: int | None) -> None:
        """Keep at most ``limit_bytes``; None for no limit."""
        self.limit_bytes = limit_bytes
        self.total_bytes = 0
        self._by_namespace: Counter[str] = Counter()

    def find_room(self, namespace: str) -> int:
        """Find how many more bytes a namespace may keep; below 0 if it has more than its share."""
        if self.limit_bytes is None:
            return sys.maxsize
        own = self._by_namespace[namespace]
        left = self.limit_bytes - self.total_bytes
        return (own + left) // _SHARES - own

    def keep(self, namespace: str, count: int) -> Kept | None:
        """Keep ``count`` bytes for a namespace; None if it has no room for them."""
        return None if count > self.find_room(namespace) else Kept(self, namespace, count)

    def add(self, namespace: str, count: int) -> None:
        """Change the count of a namespace."""
        self.total_bytes += count
        self._by_namespace[namespace] += count
        if not self._by_namespace[namespace]:
            del self._by_namespace[namespace]


UNBOUNDED = KeptJson(None)
"""For programs whose memory has no limit."""
