"""Shared memory that processes leave behind: files in /dev/shm.

A killed process leaves its segments. The next process would find /dev/shm full, or read the old
segments. Files that existed before the process started, and files of other users, belong to other
containers of the Pod and stay. Files that a container of the same user makes while the process runs
look like those of the process, so they are removed, too.

If the agent is not PID 1, or is in the IPC namespace of the machine (hostIPC), /dev/shm belongs to
other programs, and nothing is removed.
"""

import contextlib
import os
import shutil
from typing import FrozenSet, Optional

_DIRECTORY = "/dev/shm"  # noqa: S108  (the directory of POSIX shared memory)
_NAMESPACE = "/proc/self/ns/ipc"
# The first IPC namespace of a kernel has this number (PROC_IPC_INIT_INO).
_OF_THE_MACHINE = "ipc:[4026531839]"


class SharedMemory:
    """The files that appear between ``remember`` and ``clean``."""

    def __init__(self, directory: str = _DIRECTORY) -> None:
        """Look at ``directory``."""
        self._directory = directory
        self._before: Optional[FrozenSet[str]] = None

    def remember(self) -> None:
        """Remember the files that exist before a process starts."""
        self._before = self._list()

    def clean(self) -> None:
        """Remove the own files that have appeared since ``remember``."""
        if self._before is None:
            return
        for name in self._list() - self._before:
            path = os.path.join(self._directory, name)
            with contextlib.suppress(OSError):
                if os.lstat(path).st_uid != os.geteuid():
                    continue
                if os.path.isdir(path) and not os.path.islink(path):
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    os.unlink(path)

    def _list(self) -> FrozenSet[str]:
        with contextlib.suppress(OSError):
            return frozenset(os.listdir(self._directory))
        return frozenset()


def find_shared_memory(namespace: str = _NAMESPACE) -> Optional[SharedMemory]:
    """Find the shared memory of this Pod; None if it may belong to other programs."""
    if os.getpid() != 1:
        return None
    try:
        is_of_pod = os.readlink(namespace) != _OF_THE_MACHINE
    except OSError:
        is_of_pod = False
    return SharedMemory() if is_of_pod else None
