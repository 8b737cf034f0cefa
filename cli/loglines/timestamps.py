"""The times that the API server writes in front of the lines of a log. Pure."""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from cli.loglines.containeroutput import MAX_LINE_BYTES

_STAMP = re.compile(
    rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ", re.ASCII
)
Moment = tuple[float, int]
"""Seconds since 1970, and the nanoseconds after them."""
_BEGINNING: Moment = (0.0, 0)


class TimedLine(NamedTuple):
    """A line of a log, or a part of a long one."""

    at: Moment
    """When it was written; for a line without a time, the time of the line before."""
    stamp: bytes
    """The time as the server wrote it, with the space after it; b"" without one."""
    text: bytes
    """The line as the container printed it, with its end."""


async def read_timed_lines(chunks: AsyncGenerator[bytes]) -> AsyncGenerator[list[TimedLine]]:
    """Split a log with times into lines; not more than a chunk and a line are in memory."""
    rest = b""
    at = _BEGINNING
    async with aclosing(chunks):
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            batch = []
            for raw in lines:
                batch.append(_read_line(raw + b"\n", at))
                at = batch[-1].at
            if len(rest) > MAX_LINE_BYTES:
                batch.append(_read_line(rest, at))
                at, rest = batch[-1].at, b""
            if batch:
                yield batch
    if rest:
        yield [_read_line(rest, at)]


def _read_line(raw: bytes, before: Moment) -> TimedLine:
    found = _STAMP.match(raw)
    if found is None:
        return TimedLine(before, b"", raw)
    second, fraction, zone = found.groups()
    seconds = _read_seconds(second, zone)
    if seconds is None:
        return TimedLine(before, b"", raw)
    at = (seconds, int((fraction or b"0").ljust(9, b"0")))
    return TimedLine(at, found.group(), raw[found.end() :])


@lru_cache(maxsize=64)
def _read_seconds(second: bytes, zone: bytes) -> float | None:
    """Return seconds since 1970; None for a time such as the 31st of February."""
    try:
        return datetime.fromisoformat((second + zone).decode()).timestamp()
    except (ValueError, OverflowError):
        return None
