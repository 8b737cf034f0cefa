"""The step of a command whose code cannot be changed: from a file, or from its output.

With a pattern, output and errors of the command go through pipes. A thread for each copies them
unchanged, and then looks for the step in the newest lines. It never holds more than 64 KiB.
"""

import contextlib
import os
import threading
from typing import List, Optional, Tuple

from rendezvous.settings.progresspattern import StepPattern, TextStep, parse_content

_CHUNK_BYTES = 64 * 1024
_MAX_LINE_BYTES = 4096
_MAX_FILE_BYTES = 4096
# What the command has written last is passed on, but not what its daemons write later.
_DRAIN_SECONDS = 2.0


def read_step(path: str) -> Optional[TextStep]:
    """Read the step from the last line of a file; None if it has none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        os.lseek(descriptor, max(0, os.fstat(descriptor).st_size - _MAX_FILE_BYTES), os.SEEK_SET)
        content = os.read(descriptor, _MAX_FILE_BYTES)
    except OSError:
        return None  # a directory, a pipe, a device
    finally:
        os.close(descriptor)
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
        """Open pipes for output and errors; the descriptors are the caller's to close."""
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
        """Wait until what the command has written is passed on, for 2 s at most."""
        for thread in self._threads:
            thread.join(_DRAIN_SECONDS / 2)

    def _pump(self, reader: int, target: int) -> None:
        rest = b""
        with os.fdopen(reader, "rb", 0) as source:
            while True:
                chunk = source.read(_CHUNK_BYTES)
                if not chunk:
                    return
                _write(target, chunk)
                *lines, rest = (rest + chunk).replace(b"\r", b"\n").split(b"\n")
                rest = rest[:_MAX_LINE_BYTES]
                self._look([*lines, rest] if len(rest) == _MAX_LINE_BYTES else lines)

    def _look(self, lines: List[bytes]) -> None:
        """Take the step of the last line that has one."""
        for line in reversed(lines):
            found = self._pattern.find(line[:_MAX_LINE_BYTES].decode("utf-8", "replace"))
            if found is not None:
                self._found = found
                return


def _write(target: int, chunk: bytes) -> None:
    # If nobody reads the log, the command must not wait for it.
    with contextlib.suppress(OSError):
        while chunk:
            chunk = chunk[os.write(target, chunk) :]
