"""Shared memory that processes leave behind: files in /dev/shm.

A process that is killed leaves its segments, which the next one would find full or would not fit
beside. Files that were there before the process started belong to other containers of the Pod.
Where the agent is not PID 1, /dev/shm may be that of other programs: nothing is removed.
"""

import contextlib
import os
import shutil
from typing import FrozenSet

_DIRECTORY = "/dev/shm"  # noqa: S108  (the directory of POSIX shared memory)


class SharedMemory:
    """The files that appear between ``remember`` and ``clean``."""

    def __init__(self, directory: str = _DIRECTORY) -> None:
        """Look at ``directory``."""
        self._directory = directory
        self._before = self._list()

    def remember(self) -> None:
        """Note the files that are there before a process starts."""
        self._before = self._list()

    def clean(self) -> None:
        """Remove the files that have appeared since."""
        for name in self._list() - self._before:
            path = os.path.join(self._directory, name)
            with contextlib.suppress(OSError):
                if os.path.isdir(path) and not os.path.islink(path):
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    os.unlink(path)

    def _list(self) -> FrozenSet[str]:
        with contextlib.suppress(OSError):
            return frozenset(os.listdir(self._directory))
        return frozenset()
