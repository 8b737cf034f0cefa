"""Reads facts about a process from the kernel, by its id; ends a process with its parent."""

import ctypes
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent() -> None:
    """Let the kernel, if it is Linux, kill this process with its parent.

    It may run between fork and exec.
    """
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def read_stat(pid: int) -> list[str]:
    """Read the fields of ``/proc/PID/stat`` that follow the name: state, parent, ...

    Raises:
        FileNotFoundError, ProcessLookupError: there is no such process.
    """
    # The name may have spaces and brackets.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def read_peak_bytes(pid: int) -> int:
    """Read the peak memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(peak) * 1024


def is_running(pid: int) -> bool:
    """Return whether the process exists and has not ended; a zombie has ended."""
    try:
        return read_stat(pid)[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False
