"""Reads facts about a process from the kernel, by its id."""

from pathlib import Path


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
