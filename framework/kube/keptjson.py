"""Bounds the JSON that a program keeps of objects, in all and for each namespace. Pure.

Every object that is kept holds a ``Kept``; its bytes are free again when the ``Kept`` is dropped.
An object for which there is no room is kept without its JSON, and read again when it is needed.

A namespace may keep half of what it has and what is left. So it leaves the other half to the next
one, and however many namespaces keep as much as they may, something is left.

Example: of 64 MiB, the first namespace may keep 32 MiB, the second one 16, the third one 8.
"""

import sys
from collections import Counter

# Of what a namespace keeps and what is left, it may have one of so many shares.
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
        """Give the bytes back."""
        self._budget.add(self._namespace, -self.count)


class KeptJson:
    """How many bytes of JSON are kept, by namespace."""

    def __init__(self, limit_bytes: int | None) -> None:
        """Keep at most ``limit_bytes``; None for no limit."""
        self.limit_bytes = limit_bytes
        self.total_bytes = 0
        self._by_namespace: Counter[str] = Counter()

    def find_room(self, namespace: str) -> int:
        """Find how many more bytes a namespace may keep, below 0 if it has more than its share."""
        if self.limit_bytes is None:
            return sys.maxsize
        own = self._by_namespace[namespace]
        left = self.limit_bytes - self.total_bytes
        return (own + left) // _SHARES - own

    def keep(self, namespace: str, count: int) -> Kept | None:
        """Keep so many bytes for a namespace; None if it may not keep as many more."""
        return None if count > self.find_room(namespace) else Kept(self, namespace, count)

    def add(self, namespace: str, count: int) -> None:
        """Change the count of a namespace."""
        self.total_bytes += count
        self._by_namespace[namespace] += count
        if not self._by_namespace[namespace]:
            del self._by_namespace[namespace]


UNBOUNDED = KeptJson(None)
"""For programs whose memory has no limit."""
