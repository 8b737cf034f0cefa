"""Keeps repeated messages from filling the log.

It is used for failures that are retried without end. The first message of a key is logged at once,
the following ones at growing intervals, each with the number of messages left out before it.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from framework.clock import Clock

_FIRST_INTERVAL_SECONDS = 1.0
_MAX_INTERVAL_SECONDS = 300.0
# Frameworks times kinds of failures; the oldest ones beyond this number are forgotten.
_REMEMBERED = 20_000


@dataclass(slots=True)
class _Row:
    """The messages of one key."""

    next_at: float
    interval_seconds: float = _FIRST_INTERVAL_SECONDS
    left_out: int = 0


class RepeatFilter:
    """Selects the messages that are logged."""

    def __init__(self, clock: Clock) -> None:
        """Start with nothing remembered."""
        self._clock = clock
        self._rows: OrderedDict[Hashable, _Row] = OrderedDict()

    def admit(self, key: Hashable) -> dict[str, object] | None:
        """Return the fields to log with a message of ``key``; None if it is left out."""
        now = self._clock.monotonic()
        row = self._rows.get(key)
        if row is None or now >= row.next_at + row.interval_seconds:
            # The first one, or the failure had been over for a while.
            left_out = row.left_out if row else 0
            self._remember(key, _Row(now + _FIRST_INTERVAL_SECONDS))
        elif now < row.next_at:
            row.left_out += 1
            return None
        else:
            left_out, row.left_out = row.left_out, 0
            row.interval_seconds = min(_MAX_INTERVAL_SECONDS, 2 * row.interval_seconds)
            row.next_at = now + row.interval_seconds
        return {"left_out": left_out} if left_out else {}

    def _remember(self, key: Hashable, row: _Row) -> None:
        self._rows[key] = row
        self._rows.move_to_end(key)
        if len(self._rows) > _REMEMBERED:
            self._rows.popitem(last=False)
