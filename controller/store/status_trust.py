"""Decides whether the stored status of a Framework is trusted more than the known one.

1. While another controller leads, every stored status is trusted.
2. This controller becomes the leader: the stored statuses are trusted for another minute, because a
   status write of the former leader may still be on its way.
3. From its first write of a status on, a Framework has a status of this process. The stored one is
   not trusted any more.
"""

import math
from collections.abc import Callable

from controller.store.entry import Entry

# A status write of the former leader may arrive until this long after we began to act.
_LATE_WRITE_SECONDS = 60.0


class StatusTrust:
    """The time until which stored statuses are trusted."""

    def __init__(self, read_clock: Callable[[], float]) -> None:
        """Trust no stored status."""
        self._read_clock = read_clock
        self._trusted_until = -math.inf

    def follow(self) -> None:
        """Trust every status that is stored: another controller leads."""
        self._trusted_until = math.inf

    def expect_late_writes(self) -> None:
        """Begin to act: a status write of the former leader may still be on its way."""
        self._trusted_until = self._read_clock() + _LATE_WRITE_SECONDS

    def is_stored_trusted(self, entry: Entry) -> bool:
        """Return whether the stored status of a Framework replaces the known one."""
        return not entry.observed.is_status_ours and self._read_clock() < self._trusted_until
