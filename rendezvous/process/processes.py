"""What the kernel tells of processes. Called by ``children``, ``ending`` and ``signalling``."""

from typing import List


def read_stat(pid: int, root: str = "/proc") -> List[bytes]:
    """Read the fields of a process's ``stat`` after its name: state, parent, ...

    Returns:
        The fields; [] if there is no such process.
    """
    try:
        with open(f"{root}/{pid}/stat", "rb") as file:
            # The name is in parentheses and may hold anything.
            return file.read(4096).rpartition(b")")[2].split()
    except OSError:
        return []
