"""The lock of the volume: the agents of one Pod write generations and records in turn."""

import contextlib
import fcntl
import os
from typing import Iterator

from framework.agent.clock import AgentClock

# A writer needs some milliseconds; a process that holds the lock for longer is no writer.
_LOCK_TRIES = 1000
_LOCK_PAUSE_SECONDS = 0.005


@contextlib.contextmanager
def lock_volume(directory: str) -> Iterator[None]:
    """Lock the directory, so that no other agent of the Pod writes meanwhile.

    A file system without locks gives no such protection.
    """
    descriptor = -1
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        _lock(descriptor)
    try:
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _lock(descriptor: int) -> None:
    clock = AgentClock()
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            clock.sleep(_LOCK_PAUSE_SECONDS)
        else:
            return
