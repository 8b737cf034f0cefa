"""The step of a command whose code cannot be changed: from a file, or from its output.

With a pattern, output and errors of the command go through pipes. A thread for each copies the
bytes unchanged, and then looks for the newest step. It never holds more than 68 KiB.

A program may write its progress bar into one endless line: it returns to the start of the line by
CR, by backspaces or by a sequence for the cursor. So each of these also ends a line here. In each
line the first step counts.

Steps of a line that has not ended yet count, too, except a step at its very end: of ``step 12``,
only ``step 1`` may have arrived. In such a line, a later step replaces the first one if it is
greater and its total is the same.
"""

import contextlib
import os
import re
import threading
from typing import List, Optional, Tuple

from rendezvous.settings.progresspattern import StepPattern, TextStep, parse_content

# Sequences of ECMA-48: to a column, up or down a line, erase.
_CURSOR = re.compile(rb"\x1b\[[0-9;]{0,16}[A-HJKSTf]")
_CHUNK_BYTES = 64 * 1024
_MAX_LINE_BYTES = 4096
_MAX_FILE_BYTES = 64 * 1024
# Long enough for the last output of the command; daemons that it has left may write for ever.
_DRAIN_SECONDS = 2.0


def read_step(path: str) -> Optional[TextStep]:
    """Read the step from the last line of a file with a step; None if no line has a step."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        begin = max(0, os.fstat(descriptor).st_size - _MAX_FILE_BYTES)
        os.lseek(descriptor, begin, os.SEEK_SET)
        content = os.read(descriptor, _MAX_FILE_BYTES)
    except OSError:
        return None  # a directory, a pipe, a device
    finally:
        os.close(descriptor)
    if begin:
        content = content.partition(b"\n")[2]  # the first line is not complete
    return parse_content(content.decode("utf-8", "replace"))


class OutputTap:
    """Pipes for the output of a command, in which a pattern finds the step."""

    def __init__(self, pattern: StepPattern) -> None:
        """Look for ``pattern``."""
        self._pattern = pattern
        self._found: Optional[TextStep] = None
        self._threads: List[threading.Thread] = []

    def read(self) -> Optional[TextStep]:
        """Return the newest step; None before the first."""
        return self._found

    def open(self) -> Tuple[int, int]:
        """Open pipes for output and errors. The caller closes the descriptors."""
        self._found = None
        self._threads = [each for each in self._threads if each.is_alive()]
        writers = []
        for target in (1, 2):
            reader, writer = os.pipe()
            thread = threading.Thread(target=self._pump, args=(reader, target), daemon=True)
            thread.start()
            self._threads.append(thread)
            writers.append(writer)
        return writers[0], writers[1]

    def drain(self) -> None:
        """Wait until the output of the command is copied, for 2 s at most."""
        for thread in self._threads:
            thread.join(_DRAIN_SECONDS / 2)

    def _pump(self, reader: int, target: int) -> None:
        line = Line(self._pattern)
        with os.fdopen(reader, "rb", 0) as source:
            while True:
                chunk = source.read(_CHUNK_BYTES)
                if not chunk:
                    return
                _write(target, chunk)
                self._found = line.take(chunk) or self._found


class Line:
    """The line of a stream that has not ended yet, at most its last 4 KiB."""

    def __init__(self, pattern: StepPattern) -> None:
        self._pattern = pattern
        self._rest = b""
        self._found: Optional[TextStep] = None

    def take(self, chunk: bytes) -> Optional[TextStep]:
        """Take the next bytes of the stream; return their newest step, None without a step."""
        content = (self._rest + chunk).replace(b"\r", b"\n").replace(b"\b", b"\n")
        if b"\x1b" in content:
            content = _CURSOR.sub(b"\n", content)
        ended, end, rest = content.rpartition(b"\n")
        if self._found is not None:
            ended = ended.partition(b"\n")[2]
        found = self._pattern.find_last(ended.decode("utf-8", "replace")) if end else None
        before = None if end else self._found
        self._found = self._pattern.find_open(rest.decode("utf-8", "replace"), before)
        self._rest = rest[-_MAX_LINE_BYTES:]
        return self._found if self._found != before else found


def _write(target: int, chunk: bytes) -> None:
    # If the log cannot be written, the command must still not block.
    with contextlib.suppress(OSError):
        while chunk:
            chunk = chunk[os.write(target, chunk) :]
