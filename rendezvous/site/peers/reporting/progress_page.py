"""The page in which a training process keeps its progress, and which the agent of its Pod reads.

One file per process in ``progress`` of the volume, named by the id of the process, one page of
memory long. If another user has taken that name, it is named by the ids of process and user, with a
dot between them. ``steps`` writes it; the agent reads it through ``read_page``.

==========  =========================================================================
offset      content, little-endian
==========  =========================================================================
0           ``FIXED``: magic, rank, signal by which it writes its stacks (0: none), when the
            process was started (``START_FIELD`` of /proc/PID/stat; 0: not known)
64          ``STEP``: sequence, step, total, busy seconds, end of the pause, sequence
128         length and text of the name of the pause, 64 bytes
256         length and text of the metrics, a JSON object, 1024 bytes
==========  =========================================================================

A step is written by one copy of memory. Its sequence is written before and after the other values.
A reader that finds two different sequences has read a partial write, and reads again.

Pauses are in seconds of the monotonic clock, which all processes of a machine share. The files are
as private as the volume.

A program may write any bytes into its page. An impossible value is read as unknown.
"""

import json
import math
import os
import signal
import struct
from types import MappingProxyType
from typing import Any, Dict, Mapping, NamedTuple, Optional

PAGE_BYTES = 4096
DIRECTORY = "progress"
MAGIC = b"fbsteps1"
FIXED = struct.Struct("<8sqqq")
STEP_OFFSET = 64
STEP = struct.Struct("<qqqddq")
PAUSE_OFFSET = 128
PAUSE_BYTES = 64
METRICS_OFFSET = 256
METRICS_BYTES = 1024
MAX_METRICS = 16
MAX_STEP = 2**62
NONE = -1
# Not on systems without such signals, on which training code may be written.
STACKS_SIGNAL = int(getattr(signal, "SIGRTMAX", 3)) - 3
# Of the fields after the name of the process: clock ticks since the start of the machine.
START_FIELD = 19
_LENGTH = struct.Struct("<q")
_TRIES = 5


class Page(NamedTuple):
    """The report of a process."""

    pid: int
    """Its id."""
    rank: int
    """Its rank among all processes ($RANK); -1 if it has none."""
    signal: int
    """``STACKS_SIGNAL`` if it writes its stacks by it; 0 if its handler is another one."""
    step: Optional[int] = None
    """Its newest step; None before the first."""
    total: Optional[int] = None
    """How many steps there are; None if it is not known."""
    busy_seconds: float = 0.0
    """How long all its steps together took, without the wait for other ranks."""
    paused_until: float = 0.0
    """When its pause ends at the latest, in seconds of the monotonic clock."""
    pause: str = ""
    """The name of its pause."""
    metrics: Mapping[str, float] = MappingProxyType({})
    """The metrics that it has reported, at most 16."""
    started: int = 0
    """When it was started: ids are used again. 0 if it is not known."""
    name: str = ""
    """The name of its file."""


def find_stacks(path: str) -> str:
    """Find the file of the stacks of the process with this page."""
    return path + ".stacks"


def write_text(page: Any, offset: int, limit: int, text: bytes) -> None:
    """Write a text and its length; an empty one if it is longer than ``limit`` bytes."""
    text = text if len(text) <= limit else b""
    _LENGTH.pack_into(page, offset, 0)
    page[offset + _LENGTH.size : offset + _LENGTH.size + len(text)] = text
    _LENGTH.pack_into(page, offset, len(text))


def read_page(path: str) -> Optional[Page]:
    """Read a page; None if it is not a page, or changes during each read."""
    for _ in range(_TRIES):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            content = os.read(descriptor, PAGE_BYTES)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        if len(content) < PAGE_BYTES or not content.startswith(MAGIC):
            return None
        page = _parse(os.path.basename(path), content)
        if page is not None:
            return page
    return None


def _parse(name: str, content: bytes) -> Optional[Page]:
    _, rank, number, started = FIXED.unpack_from(content)
    first, step, total, busy, until, last = STEP.unpack_from(content, STEP_OFFSET)
    pid = name.partition(".")[0]
    if first != last or not pid.isdigit():
        return None
    return Page(
        pid=int(pid),
        rank=rank if 0 <= rank < MAX_STEP else NONE,
        signal=number if number == STACKS_SIGNAL else 0,
        step=step if 0 <= step < MAX_STEP else None,
        total=total if 0 <= total < MAX_STEP else None,
        busy_seconds=busy if 0.0 <= busy < MAX_STEP else 0.0,
        paused_until=until if math.isfinite(until) else 0.0,
        pause=_read_text(content, PAUSE_OFFSET, PAUSE_BYTES).decode("utf-8", "replace"),
        metrics=_parse_metrics(_read_text(content, METRICS_OFFSET, METRICS_BYTES)),
        started=started,
        name=name,
    )


def _read_text(content: bytes, offset: int, limit: int) -> bytes:
    (length,) = _LENGTH.unpack_from(content, offset)
    start = offset + _LENGTH.size
    return content[start : start + length] if 0 <= length <= limit else b""


def _parse_metrics(text: bytes) -> Dict[str, float]:
    """Parse metrics; {} if the text is a mixture of two writes."""
    try:
        found = json.loads(text.decode()) if text else {}
        pairs = [(str(name), float(value)) for name, value in found.items()]
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError):
        return {}
    return dict([pair for pair in pairs if math.isfinite(pair[1])][:MAX_METRICS])
