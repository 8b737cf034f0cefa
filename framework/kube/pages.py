"""The number of objects of the next page of a list, so that no page needs much memory. Pure.

The server limits a page by the number of objects only. An object may have 1.5 MiB in etcd, so 500
objects may have 750 MB. The algorithm:

1. The first page has at most 50 objects: their size is unknown.
2. Each further page has as many as fill 8 MiB at the mean size of the last page, but at most twice
   as many as the last page was asked for, and at most as many as the caller allows.
3. The client stops reading an answer at 16 MiB. It asks for the same page again, for a quarter of
   the objects, until it asked for a single object.

For example, 100,000 Pods of 4 kB come in pages of 50, 100, 200, 400, 500, 500, ...: 203 pages. Pods
of 1.4 MB come in pages of 12 or 3 objects, after one or two answers that were not read to their
end.
"""

FIRST_PAGE_SIZE = 50
WANTED_PAGE_BYTES = 8 * 2**20
# In JSON, the largest object that etcd stores takes less: a byte of it becomes 6 at most.
MAX_PAGE_BYTES = 16 * 2**20
# Pages that the lists of a client read at the same time, so that no number of lists takes more.
PAGES_AT_ONCE = 2
_GROWTH = 2
_CUT = 4


class PageLimit:
    """The ``limit`` of the next request of one list; ``value`` None asks for all objects."""

    def __init__(self, most: int | None) -> None:
        """Begin a list of pages of at most ``most`` objects; None: in one page, if it fits."""
        self._most = most
        self._first = FIRST_PAGE_SIZE if most is None else min(most, FIRST_PAGE_SIZE)
        self.value = None if most is None else self._first

    def note_page(self, count: int, size_bytes: int) -> None:
        """Take the number of objects and of bytes of the page that was asked for last."""
        if self.value is None:
            return
        fitting = WANTED_PAGE_BYTES * max(1, count) // max(1, size_bytes)
        grown = min(fitting, self.value * _GROWTH)
        self.value = max(1, grown if self._most is None else min(grown, self._most))

    def ask_all(self) -> None:
        """Request all objects in one page."""
        self.value = None

    def shrink(self) -> bool:
        """Request fewer objects than last time; return whether that is possible."""
        before = self.value
        self.value = self._first if before is None else max(1, before // _CUT)
        return self.value != before
