"""Open files of processes, and the limit of them for this process."""

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path


def count_open_files(pid: int | None = None) -> int:
    """Count the open files of a process; by default of this one."""
    return len(list(Path(f"/proc/{os.getpid() if pid is None else pid}/fd").iterdir()))


@contextlib.contextmanager
def limit_open_files(count: int) -> Iterator[None]:
    """Let this process have so many files open, or as many as the machine allows if less."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = count if hard == resource.RLIM_INFINITY else min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
