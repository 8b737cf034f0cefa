"""Notes when processes of this machine end, also those in namespaces below that of the caller.

Benchmarks and tests of the node use it: a process that is killed cannot note its own end.
"""

import contextlib
import os
import select
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from framework.clock import SystemClock

_SEARCH_SECONDS = 0.2


class ProcessEnds:
    """Watches all processes that were started with these arguments; use it as a context.

    The kernel reports the end of a process after it has freed its memory.
    """

    def __init__(self, *arguments: str) -> None:
        self._arguments = [argument.encode() for argument in arguments]
        self._open: dict[int, int] = {}
        self._poll = select.poll()
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        # By process id: wall times in seconds at which it was found, and at which it ended.
        self._found: dict[int, float] = {}
        self.ends: dict[int, float] = {}

    def __enter__(self) -> Self:
        """Start to watch."""
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Stop to watch."""
        self._is_stopped.set()
        self._thread.join()
        for pidfd in self._open:
            os.close(pidfd)

    def list_ends(self, begin: float) -> list[float]:
        """List the ends of the processes that ran at a time, in their order."""
        ends = self.ends.items()
        return sorted(at for pid, at in ends if self._found[pid] <= begin <= at)

    def _watch(self) -> None:
        while not self._is_stopped.is_set():
            self._search()
            deadline = time.monotonic() + _SEARCH_SECONDS
            while (left := deadline - time.monotonic()) > 0:
                for pidfd, _ in self._poll.poll(left * 1000):
                    self._note_end(pidfd)

    def _note_end(self, pidfd: int) -> None:
        self.ends[self._open.pop(pidfd)] = SystemClock().now().timestamp()
        self._poll.unregister(pidfd)
        os.close(pidfd)

    def _search(self) -> None:
        known = set(self._open.values()) | self.ends.keys()
        for path in Path("/proc").glob("[0-9]*"):
            pid = int(path.name)
            if pid in known:
                continue
            with contextlib.suppress(OSError):
                if (path / "cmdline").read_bytes().split(b"\0")[1:-1] == self._arguments:
                    pidfd = os.pidfd_open(pid)
                    self._open[pidfd] = pid
                    self._found[pid] = SystemClock().now().timestamp()
                    self._poll.register(pidfd, select.POLLIN)
