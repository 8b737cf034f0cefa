"""The number of objects of the next page of a list, so that no page needs much memory. Pure.

The server limits a page by the number of objects only. An object may have 1.5 MiB in etcd, so 500
objects may have 750 MB. The algorithm:

1. The first page has at most 50 objects: their size is unknown.
2. Each further page has the number of objects that fill 8 MiB at the mean size of the last page,
   but at most twice the number that was requested for the last page, and at most the maximum of
   the caller.
3. The client stops reading an answer at 16 MiB. It requests the same page again, with a quarter of
   the objects, down to a single object.

For example, 100,000 Pods of 4 kB come in pages of 50, 100, 200, 400, 500, 500, ...: 203 pages. Pods
of 1.4 MB come in pages of 12 or 3 objects, after one or two answers that were not read to their
end.

The server forgets a list after some minutes (410). Then the list begins again, once.
"""

FIRST_PAGE_SIZE = 50
WANTED_PAGE_BYTES = 8 * 2**20
# The largest object that etcd stores is shorter in JSON: a byte of it becomes at most 6.
MAX_PAGE_BYTES = 16 * 2**20
# Maximum of pages that all lists of a client read at the same time.
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

    def record_page(self, count: int, size_bytes: int) -> None:
        """Record the number of objects and of bytes of the page that was requested last."""
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


class PageCursor:
    """The position in a list that is read page by page."""

    def __init__(self, most: int | None) -> None:
        """Begin a list; ``most`` is the maximum of objects on a page, None for no maximum."""
        self.limit = PageLimit(most)
        self.is_at_start = True
        """Whether the next page is the first one, so that earlier pages are invalid."""
        self._token: str | None = None
        self._has_restarted = False

    def build_query(self) -> dict[str, str | int | None]:
        """Build the parameters of the request for the next page."""
        return {"limit": self.limit.value, "continue": self._token}

    def advance(self, token: object) -> bool:
        """Move behind a page with this ``continue``; return whether another page follows."""
        self._token = token if isinstance(token, str) and token else None
        self.is_at_start = False
        return self._token is not None

    def restart(self) -> bool:
        """Begin the list again, in one page; return False if that cannot help."""
        if self._has_restarted or self._token is None:
            return False
        self._token = None
        self.limit.ask_all()
        self.is_at_start = self._has_restarted = True
        return True
